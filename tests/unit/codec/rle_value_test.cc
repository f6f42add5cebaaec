// The binary form of a list of masks: layout, round trips, refusals, damage.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "base/endian.h"
#include "base/strings.h"
#include "codec/rle/rle_kernels.h"
#include "each_target.h"
#include "rle_model.h"
#include "shardkit/rle.h"
#include "support/effort.h"

namespace shardkit {
namespace {

class RleValue : public testing::OnEachTarget {};
SHARDKIT_ON_EACH_TARGET(RleValue);

std::string ValueOf(const RleList& masks) {
  std::string value;
  EXPECT_TRUE(AppendRleValue(masks, &value).ok());
  return value;
}

// The kernels and the portable code must agree.
absl::Status Parse(std::string_view value, RleList* masks) {
  const std::unique_ptr<char[]> exact(new char[value.size()]);
  std::copy(value.begin(), value.end(), exact.get());
  const std::string_view bytes(exact.get(), value.size());
  RleList portable;
  const absl::Status portable_status = codec::ParseRleValue(bytes, false, &portable);
  const absl::Status status = ParseRleValue(bytes, masks);
  EXPECT_EQ(status, portable_status);
  EXPECT_EQ(*masks, portable);
  if (!status.ok()) {
    EXPECT_EQ(*masks, RleList());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  }
  return status;
}

void ExpectValueError(std::string_view value, std::string_view message) {
  RleList masks;
  const absl::Status status = Parse(value, &masks);
  EXPECT_EQ(std::string(status.message()), message);
}

// A value by hand: masks of {height, width, run count}, then the payload.
std::string Handmade(std::vector<std::array<uint32_t, 3>> masks, uint8_t transform, std::string_view payload) {
  std::string value;
  AppendLittle(value, static_cast<uint32_t>(masks.size()));
  value += static_cast<char>(transform);
  value.append(3, '\0');
  for (size_t field = 0; field < 3; ++field) {
    for (const auto& mask : masks) AppendLittle(value, mask[field]);
  }
  value += payload;
  return value;
}

// A number at a time, a group at a time.
std::string PlainLebOf(const RleView& mask, bool edge) {
  std::string bytes;
  for (size_t i = 0; i < mask.runs.size(); ++i) {
    uint64_t value = mask.runs[i];
    if (edge) {
      const int64_t predicted = i < 2 ? 0 : int64_t{mask.height} - int64_t{mask.runs[i - 1]};
      const int64_t difference = static_cast<int64_t>(value) - predicted;
      value = (static_cast<uint64_t>(difference) << 1) ^ static_cast<uint64_t>(difference >> 63);
    }
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string LebOf(const RleView& mask, bool edge, bool small) {
  std::vector<uint8_t> bytes(mask.runs.size() * codec::kMaxLebBytes + codec::kKernelSlack);
  const uint8_t* const end = codec::WriteLeb(mask, 0, mask.runs.size(), edge, small, bytes.data());
  return {bytes.begin(), bytes.begin() + (end - bytes.data())};
}

RleList RandomList(std::mt19937_64& random, size_t count, uint32_t max_side) {
  RleList masks;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t height = static_cast<uint32_t>(random() % max_side);
    const uint32_t width = static_cast<uint32_t>(random() % max_side);
    masks.Append(testing::RunsOf(testing::RandomModel(height, width, random)));
  }
  return masks;
}

TEST_P(RleValue, Layout) {
  EXPECT_EQ(ValueOf(RleList()), std::string("\0\0\0\0\1\0\0\0", 8));

  RleList masks;
  masks.Append(Rle{3, 4, {0, 2, 3, 1, 4, 2}});  // predicted 0 0 1 0 2 -1, differences 0 2 2 1 2 3
  masks.Append(Rle{20, 15, {300}});
  const std::string edge = Handmade({{3, 4, 6}, {20, 15, 1}}, 1, std::string("\0\4\4\2\4\6\xd8\4", 8));
  const std::string plain = Handmade({{3, 4, 6}, {20, 15, 1}}, 0, std::string("\0\2\3\1\4\2\xac\2", 8));
  for (const std::string& value : {edge, plain}) {
    RleList parsed;
    ASSERT_TRUE(Parse(value, &parsed).ok());
    EXPECT_EQ(parsed, masks);
    EXPECT_EQ(RleValueCount(value).value(), 2u);
  }
  EXPECT_EQ(ValueOf(masks), edge);  // as many different bytes either way
}

TEST_P(RleValue, SmoothMasksTakeEdgeAndNoisyOnesPlain) {
  // An outline that moves by a few pixels from column to column, like those of drawn objects.
  std::mt19937_64 random(5);
  RleList smooth;
  Rle rle{1000, 2000, {}};
  uint32_t top = 400, length = 200, before = 0;
  for (uint32_t x = 0; x < rle.width; ++x) {
    top += static_cast<uint32_t>(random() % 5) - 2;
    length += static_cast<uint32_t>(random() % 5) - 2;
    rle.runs.insert(rle.runs.end(), {before + top, length});
    before = 1000 - top - length;
  }
  rle.runs.push_back(before);
  smooth.Append(rle);
  EXPECT_EQ(ValueOf(smooth)[4], 1);

  RleList noisy;
  Rle noise{1, 0, {}};
  for (int i = 0; i < 1000; ++i) {
    noise.runs.push_back(static_cast<uint32_t>(random() % 50));
    noise.width += noise.runs.back();
  }
  noisy.Append(noise);
  EXPECT_EQ(ValueOf(noisy)[4], 0);
}

TEST_P(RleValue, RoundTrips) {
  std::mt19937_64 random(6);
  for (int round = 0; round < test::Thinned(200); ++round) {
    const RleList masks = RandomList(random, random() % 20, 1 + static_cast<uint32_t>(random() % 90));
    RleList parsed;
    ASSERT_TRUE(Parse(ValueOf(masks), &parsed).ok());
    ASSERT_EQ(parsed, masks);
  }
}

TEST_P(RleValue, RunsOfEveryMagnitude) {
  std::mt19937_64 random(7);
  for (int round = 0; round < test::Thinned(500); ++round) {
    RleList masks;
    Rle rle{1, 1, {}};
    uint64_t left = kMaxMaskPixels;
    const unsigned bits = 1 + random() % 32;
    for (size_t i = random() % 100; i != 0; --i) {
      const uint64_t run = static_cast<uint32_t>(random()) >> (32 - 1 - random() % bits);
      rle.runs.push_back(static_cast<uint32_t>(std::min(run, left)));
      left -= rle.runs.back();
    }
    (round % 2 == 0 ? rle.width : rle.height) = static_cast<uint32_t>(kMaxMaskPixels - left);
    masks.Append(rle);
    masks.Append(Rle{1, 1, {1}});
    RleList parsed;
    ASSERT_TRUE(Parse(ValueOf(masks), &parsed).ok());
    ASSERT_EQ(parsed, masks);

    const bool small = rle.height <= codec::kMaxSmallHeight && std::ranges::max(masks.runs) <= codec::kMaxSmallRun;
    for (const bool edge : {false, true}) {
      ASSERT_EQ(LebOf(rle, edge, false), PlainLebOf(rle, edge));
      if (small) {
        ASSERT_EQ(LebOf(rle, edge, true), PlainLebOf(rle, edge));
      }
    }
  }
}

// Numbers of each length at every place of vectors and of batches.
TEST_P(RleValue, EveryCount) {
  for (size_t count = 0; count < 1100; count += count < 80 || (count > 505 && count < 520) ? 1 : 61) {
    for (const uint32_t odd : {0u, 127u, 128u, 0x3fffu, 0x4000u, 0x1fffffu, 0x200000u}) {
      Rle rle{3, 0, std::vector<uint32_t>(count, 2)};
      if (count > 0) rle.runs[count / 2] = odd;
      if (count > 9) rle.runs[count - 9] = odd;
      uint64_t sum = 0;
      for (const uint32_t run : rle.runs) sum += run;
      if (sum % 3 != 0) {
        rle.runs.back() += static_cast<uint32_t>(3 - sum % 3);
        sum += 3 - sum % 3;
      }
      rle.width = static_cast<uint32_t>(sum / 3);
      RleList masks;
      masks.Append(rle);
      for (const bool edge : {false, true}) {
        const std::string payload = LebOf(rle, edge, true);
        ASSERT_EQ(payload, PlainLebOf(rle, edge)) << count;
        RleList parsed;
        ASSERT_TRUE(Parse(Handmade({{3, rle.width, static_cast<uint32_t>(count)}}, edge, payload), &parsed).ok());
        ASSERT_EQ(parsed, masks);
      }
    }
  }
}

// Both transforms, also the one that the encoder would not choose.
TEST_P(RleValue, EitherTransformParses) {
  std::mt19937_64 random(8);
  for (int round = 0; round < test::Thinned(100); ++round) {
    const RleList masks = RandomList(random, 5, 80);
    for (const bool edge : {false, true}) {
      std::string payload;
      std::vector<std::array<uint32_t, 3>> heads;
      for (size_t i = 0; i < masks.size(); ++i) {
        const auto runs = masks[i].runs;
        heads.push_back({masks.heights[i], masks.widths[i], static_cast<uint32_t>(runs.size())});
        payload += PlainLebOf(masks[i], edge);
      }
      RleList parsed;
      ASSERT_TRUE(Parse(Handmade(heads, edge, payload), &parsed).ok());
      ASSERT_EQ(parsed, masks);
    }
  }
}

// Runs that are correct only modulo 2^32, and so is their sum.
TEST_P(RleValue, EdgeRunsThatWrap) {
  const auto refused = [](uint32_t height, const std::vector<uint32_t>& runs, size_t run) {
    std::string payload;
    size_t position = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (i == run) position = payload.size();
      const uint32_t difference = i < 2 ? runs[i] : runs[i] + runs[i - 1] - height;
      uint32_t number = (difference << 1) ^ (0 - (difference >> 31));
      for (; number >= 0x80; number >>= 7) payload += static_cast<char>(number | 0x80);
      payload += static_cast<char>(number);
    }
    const uint32_t width = static_cast<uint32_t>(kMaxMaskPixels / height);
    ExpectValueError(
        Handmade({{height, width, static_cast<uint32_t>(runs.size())}}, 1, payload),
        StrCat("rle value: mask 0, run ", run, " at payload byte ", position, " is outside 0 to 4294967295"));
  };
  for (const uint32_t height : {1u, 3u, 65537u}) {
    for (size_t count = 1; count < 40; ++count) {
      for (size_t negative = 0; negative < count; ++negative) {
        std::vector<uint32_t> runs(count);
        runs[negative] = 0xffffffff;  // -1
        refused(height, runs, negative);
      }
    }
  }
  std::vector<uint32_t> above{63};  // the third is 2^32, and every second after it
  for (int i = 0; i < 32; ++i) above.insert(above.end(), {(1 << 27) - 2, 0});
  refused(0xffffffff, above, 2);
}

// Heights and numbers around the limits of the kernels.
TEST_P(RleValue, EdgeNumbersOfEveryMagnitude) {
  std::mt19937_64 random(10);
  const auto below_power = [&](unsigned bits) { return static_cast<uint32_t>(random() >> (63 - random() % bits)); };
  int accepted = 0, refused = 0;
  for (int round = 0; round < 50000; ++round) {
    const uint32_t height = below_power(32) | 1;
    const unsigned bits = random() % 8 == 0 ? 32 : 28;
    const size_t count = 2 + random() % 30;
    std::vector<uint32_t> runs;
    std::string payload;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t predicted = i < 2 ? 0 : height - runs[i - 1];
      uint32_t number = below_power(bits);
      runs.push_back(predicted + ((number >> 1) ^ (0 - (number & 1))));
      if (i + 1 == count) {
        runs[i] = static_cast<uint32_t>(height - sum % height);  // makes whole columns
        const uint32_t difference = runs[i] - predicted;
        number = (difference << 1) ^ (0 - (difference >> 31));
      }
      sum += runs[i];
      for (; number >= 0x80; number >>= 7) payload += static_cast<char>(number | 0x80);
      payload += static_cast<char>(number);
    }
    if (sum > kMaxMaskPixels) continue;
    RleList masks;
    const uint32_t width = static_cast<uint32_t>(sum / height);
    const bool ok = Parse(Handmade({{height, width, static_cast<uint32_t>(count)}}, 1, payload), &masks).ok();
    if (ok) {
      EXPECT_EQ(masks.runs, runs);
    }
    ++(ok ? accepted : refused);
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 500);
}

TEST_P(RleValue, Refusals) {
  const std::string good = Handmade({{2, 3, 2}}, 0, "\1\5");
  RleList masks;
  ASSERT_TRUE(Parse(good, &masks).ok());
  ExpectValueError("", "rle value: 0 bytes are too few for the head of 8");
  ExpectValueError(good.substr(0, 7), "rle value: 7 bytes are too few for the head of 8");
  ExpectValueError(good.substr(0, 19), "rle value: 19 bytes are too few for the sizes of 1 masks");
  ExpectValueError(std::string("\xff\xff\xff\xff\0\0\0\0", 8),
                   "rle value: 8 bytes are too few for the sizes of 4294967295 masks");
  ExpectValueError(Handmade({{2, 3, 2}}, 2, "\1\5"), "rle value: unknown transform 2 at byte 4");
  for (size_t i : {5, 6, 7}) {
    std::string bad = good;
    bad[i] = 1;
    ExpectValueError(bad, "rle value: the reserved bytes 5 to 7 are not zero");
    EXPECT_EQ(RleValueCount(bad).status().code(), absl::StatusCode::kDataLoss);
  }
  ExpectValueError(Handmade({{0, 0, 0}, {65536, 65536, 1}}, 0, "\1"),
                   "rle value: mask 1 of 65536 x 65536 pixels is above the limit of 4294967295 pixels");
  ExpectValueError(Handmade({{2, 3, 2}, {2, 3, 0xffffffff}, {2, 3, 1}}, 0, "\1\5"),
                   "rle value: masks 0 to 1 have 4294967297 runs, but only 2 bytes follow");
  ExpectValueError(Handmade({{2, 3, 2}}, 0, "\1\4"), "rle value: the runs of mask 0 sum to 5 instead of 2 x 3 = 6");
  ExpectValueError(Handmade({{2, 3, 2}}, 1, "\2\xc"), "rle value: the runs of mask 0 sum to 7 instead of 2 x 3 = 6");
  ExpectValueError(Handmade({{2, 3, 2}}, 0, std::string("\1\5\0", 3)), "rle value: 1 bytes follow the last run");
  ExpectValueError(Handmade({{2, 3, 2}}, 0, "\1\x85"),
                   "rle value: mask 0, run 1: no canonical LEB128 number at payload byte 1");
  ExpectValueError(Handmade({{2, 3, 2}}, 0, std::string("\1\x85\0", 3)),
                   "rle value: mask 0, run 1: no canonical LEB128 number at payload byte 1");
  ExpectValueError(Handmade({{2, 3, 2}}, 0, std::string("\x80\x80\x80\x80\x10\5", 6)),
                   "rle value: mask 0, run 0 at payload byte 0 is outside 0 to 4294967295");
  ExpectValueError(Handmade({{2, 3, 3}}, 1, std::string("\2\6\0", 3)),  // 1, 3, and 2 - 3
                   "rle value: mask 0, run 2 at payload byte 2 is outside 0 to 4294967295");
  ExpectValueError(Handmade({{0x80000000, 1, 3}}, 1, std::string("\0\0\xfe\xff\xff\xff\x0f", 7)),  // 0, 0, 2^32 - 1
                   "rle value: the runs of mask 0 sum to 4294967295 instead of 2147483648 x 1 = 2147483648");
  ExpectValueError(Handmade({{0x80000000, 1, 3}}, 1, std::string("\0\0\x80\x80\x80\x80\x10", 7)),  // 0, 0, 2^32
                   "rle value: mask 0, run 2 at payload byte 2 is outside 0 to 4294967295");
  ExpectValueError(Handmade({{2, 3, 1}}, 1, "\1"),
                   "rle value: mask 0, run 0 at payload byte 0 is outside 0 to 4294967295");
}

TEST_P(RleValue, ListsThatDoNotFitTogether) {
  std::string out = "kept";
  RleList masks;
  masks.Append(Rle{2, 3, {1, 5}});
  masks.Append(Rle{2, 3, {1, 4}});
  absl::Status status = AppendRleValue(masks, &out);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "mask 1: the runs of a mask of 2 x 3 pixels sum to 5 instead of 6");
  masks.runs.back() = 5;
  EXPECT_TRUE(AppendRleValue(masks, &out).ok());
  EXPECT_EQ(out.substr(0, 4), "kept");

  for (int i = 0; i < 5; ++i) {
    RleList bad = masks;
    if (i == 0) bad.widths.pop_back();
    if (i == 1) bad.run_begin.pop_back();
    if (i == 2) bad.run_begin.back() = 3;
    if (i == 3) bad.run_begin[1] = 9;
    if (i == 4) bad.run_begin[0] = 1;
    EXPECT_EQ(AppendRleValue(bad, &out).code(), absl::StatusCode::kInvalidArgument) << i;
  }
}

// Damage is refused or gives a list of valid masks. Nothing crashes, and both implementations agree.
TEST_P(RleValue, TruncationAndSingleByteChanges) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 6; ++round) {
    const std::string value = ValueOf(RandomList(random, 4, 40));
    RleList masks;
    for (size_t length = 0; length < value.size(); ++length) {
      ASSERT_FALSE(Parse(std::string_view(value).substr(0, length), &masks).ok());
    }
    for (size_t i = 0; i < value.size(); ++i) {
      for (int change = 1; change < 256; change = change * 2 + (round % 2)) {
        std::string bad = value;
        bad[i] = static_cast<char>(bad[i] ^ change);
        if (!Parse(bad, &masks).ok()) continue;
        for (size_t j = 0; j < masks.size(); ++j) ASSERT_TRUE(ValidateRle(masks[j]).ok());
      }
    }
  }
}

}  // namespace
}  // namespace shardkit
