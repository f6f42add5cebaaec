// COCO compressed strings: known vectors, round trips, every refusal, and a comparison of the kernels with
// plain code.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "base/strings.h"
#include "codec/rle/rle_kernels.h"
#include "each_target.h"
#include "shardkit/rle.h"
#include "support/effort.h"

namespace shardkit {
namespace {

class RleCoco : public testing::OnEachTarget {};
SHARDKIT_ON_EACH_TARGET(RleCoco);

using Runs = std::vector<uint32_t>;

std::string TextOf(const Runs& runs) {
  std::string text;
  AppendCocoText(runs, &text);
  return text;
}

// A number at a time, a group at a time.
std::string PlainTextOf(const Runs& runs) {
  std::string text;
  for (size_t i = 0; i < runs.size(); ++i) {
    int64_t value = runs[i];
    if (i > 2) value -= runs[i - 2];
    for (bool more = true; more;) {
      const int64_t group = value & 31;
      value >>= 5;
      // Ends when the remaining bits are only copies of this group's sign bit.
      more = value != ((group & 16) != 0 ? -1 : 0);
      text += static_cast<char>(48 + (more ? 32 : 0) + group);
    }
  }
  return text;
}

// Both implementations must agree on the runs, and on whether the text is valid.
absl::Status Parse(std::string_view text, Runs* runs) {
  Runs portable;
  const absl::Status portable_status = codec::RunsFromCocoTextPortable(text, &portable);
  runs->clear();
  const std::unique_ptr<char[]> exact(new char[text.size()]);
  std::copy(text.begin(), text.end(), exact.get());
  const absl::Status status = RunsFromCocoText({exact.get(), text.size()}, runs);
  EXPECT_EQ(status, portable_status);
  if (status.ok()) {
    EXPECT_EQ(*runs, portable);
  } else {
    EXPECT_TRUE(runs->empty());
  }
  return status;
}

void ExpectParseError(std::string_view text, std::string_view message) {
  Runs runs;
  const absl::Status status = Parse(text, &runs);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(status.message()), message);
}

// From pycocotools.mask.frPyObjects.
TEST_P(RleCoco, KnownVectors) {
  const std::pair<Runs, std::string> vectors[] = {
      {{}, ""},
      {{6}, "6"},
      {{0, 6}, "06"},
      {{0, 5, 300, 5, 295}, "05\\90K"},
      {{15, 16, 31, 32, 1023, 1024, 0, 100000}, "?`0o0`0Po0Po0QPOPeP3"},
      {{1500, 20, 1480, 22, 1478, 22, 1478}, "l^1d0X^12N00"},
      {{0, 1, 4294967294}, "01nooooo3"},
  };
  for (const auto& [runs, text] : vectors) {
    EXPECT_EQ(TextOf(runs), text);
    EXPECT_EQ(PlainTextOf(runs), text);
    Runs parsed;
    ASSERT_TRUE(Parse(text, &parsed).ok());
    EXPECT_EQ(parsed, runs);
  }
}

TEST_P(RleCoco, AppendsAndKeepsWhatStandsThere) {
  Runs runs{7, 7, 7, 7};
  ASSERT_TRUE(RunsFromCocoText("123", &runs).ok());
  EXPECT_EQ(runs, (Runs{7, 7, 7, 7, 1, 2, 3}));
  EXPECT_FALSE(RunsFromCocoText("12P", &runs).ok());
  EXPECT_EQ(runs, (Runs{7, 7, 7, 7, 1, 2, 3}));
  std::string text = "text:";
  AppendCocoText(Runs{1, 2}, &text);
  EXPECT_EQ(text, "text:12");
}

TEST_P(RleCoco, RoundTripsOfEveryMagnitude) {
  std::mt19937_64 random(3);
  for (int round = 0; round < test::Thinned(3000); ++round) {
    Runs runs(random() % 200);
    const unsigned bits = 1 + random() % 32;
    const bool smooth = random() % 2 == 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      const uint32_t noise = static_cast<uint32_t>(random()) >> (32 - bits);
      runs[i] = smooth && i > 2 ? runs[i - 2] + noise % 7 : noise;
      if (random() % 64 == 0) runs[i] = static_cast<uint32_t>(random());
    }
    const std::string text = TextOf(runs);
    ASSERT_EQ(text, PlainTextOf(runs));
    Runs parsed;
    ASSERT_TRUE(Parse(text, &parsed).ok());
    ASSERT_EQ(parsed, runs);
  }
}

// Short and long numbers at every place of vectors and of batches.
TEST_P(RleCoco, EveryCount) {
  for (size_t count = 0; count < 600; count += count < 80 || (count > 250 && count < 262) ? 1 : 31) {
    for (const uint32_t odd : {0u, 15u, 16u, 1000u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      Runs runs(count, 7);
      if (count > 0) runs[count / 2] = odd;
      if (count > 9) runs[count - 9] = odd;
      const std::string text = TextOf(runs);
      ASSERT_EQ(text, PlainTextOf(runs));
      Runs parsed;
      ASSERT_TRUE(Parse(text, &parsed).ok());
      ASSERT_EQ(parsed, runs);
    }
  }
}

TEST_P(RleCoco, LongerThanNeededIsRead) {
  Runs runs;
  ASSERT_TRUE(Parse("QP0"
                    "1",
                    &runs)
                  .ok());  // 1 in three groups
  EXPECT_EQ(runs, (Runs{1, 1}));
  ASSERT_TRUE(Parse("QPPPPPPPPPP0", &runs).ok());
  EXPECT_EQ(runs, (Runs{1}));
}

TEST_P(RleCoco, Refusals) {
  ExpectParseError("12/", "COCO RLE text: character code 47 at position 2 is outside '0' to 'o'");
  ExpectParseError("12p", "COCO RLE text: character code 112 at position 2 is outside '0' to 'o'");
  ExpectParseError("1\xff", "COCO RLE text: character code 255 at position 1 is outside '0' to 'o'");
  ExpectParseError("1Q\n", "COCO RLE text: character code 10 at position 2 is outside '0' to 'o'");
  ExpectParseError("12P", "COCO RLE text: the number at position 2 is cut short by the end");
  ExpectParseError("1PPPPP", "COCO RLE text: the number at position 1 is cut short by the end");
  ExpectParseError("O", "COCO RLE text: run 0 at position 0 is -1, outside 0 to 4294967295");
  ExpectParseError("123M", "COCO RLE text: run 3 at position 3 is -1, outside 0 to 4294967295");
  ExpectParseError("PPPPPP4", "COCO RLE text: run 0 at position 0 is 4294967296, outside 0 to 4294967295");
  ExpectParseError("QPPPPPPPPPPP0", "COCO RLE text: the number at position 0 has more than 12 characters");
  for (int length : {32, 33, 40, 64, 71, 72, 200}) {
    const std::string good(static_cast<size_t>(length), '0');
    for (int i = 0; i < length; ++i) {
      std::string bad = good;
      bad[static_cast<size_t>(i)] = '\x7f';
      ExpectParseError(bad, StrCat("COCO RLE text: character code 127 at position ", i, " is outside '0' to 'o'"));
    }
    ExpectParseError(good + "PP", StrCat("COCO RLE text: the number at position ", length, " is cut short by the end"));
  }
}

TEST_P(RleCoco, RandomTextNeverDisagrees) {
  std::mt19937_64 random(4);
  for (int round = 0; round < test::Thinned(20000); ++round) {
    std::string text(random() % 120, '0');
    const unsigned continued = random() % 100;
    for (char& c : text) {
      c = static_cast<char>(48 + random() % 32);
      if (random() % 100 < continued) c = static_cast<char>(c + 32);
      if (random() % 500 == 0) c = static_cast<char>(random());
    }
    // Runs that only grow, so that many texts are valid.
    if (round % 2 == 0) {
      for (char& c : text) c = static_cast<char>(c & ~16) < '0' ? c : static_cast<char>(((c - 48) & ~16) + 48);
    }
    Runs runs;
    if (Parse(text, &runs).ok()) {
      Runs again;
      ASSERT_TRUE(Parse(TextOf(runs), &again).ok());
      ASSERT_EQ(again, runs);
    }
  }
}

TEST_P(RleCoco, TruncationAtEveryLength) {
  Runs runs;
  for (uint32_t i = 0; i < 60; ++i) runs.push_back(i * i * i * 31 % 40000);
  const std::string text = TextOf(runs);
  for (size_t length = 0; length <= text.size(); ++length) {
    Runs parsed;
    if (Parse(std::string_view(text).substr(0, length), &parsed).ok()) {
      ASSERT_TRUE(std::equal(parsed.begin(), parsed.end(), runs.begin()));
    }
  }
}

}  // namespace
}  // namespace shardkit
