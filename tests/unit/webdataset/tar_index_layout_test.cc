#include "format/foreign/tar_index_layout.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"

namespace shardkit::format {
namespace {

TarIndex Example() {
  TarIndex index;
  index.tar_length = 10240;
  index.identity = 0x1122334455667788;
  index.columns = {"jpg", "/."};
  index.keys = "a/0d/1";
  index.key_ends = {0, 3, 6};
  index.value_ends = {0, 2, 3};
  index.values = {{512, 5, 0}, {1536, 0, 1}, {2048, 600, 1}};
  index.checksums = {1, 2, 3};
  return index;
}

// Repairs the checksums after damage.
std::string Repaired(std::string bytes) {
  StoreLittle<uint64_t>(bytes.data() + 56, bytes.size());
  StoreLittle<uint64_t>(bytes.data() + 64, Hash64(std::string_view(bytes).substr(128)));
  StoreLittle<uint64_t>(bytes.data() + 120, Hash64(std::string_view(bytes).substr(0, 120)));
  return bytes;
}

std::string MessageOf(const std::string& bytes) {
  const auto index = DecodeTarIndex(bytes);
  return index.ok() ? "" : std::string(ToStd(index.status().message()));
}

TEST(TarIndexLayout, RoundTrip) {
  for (const TarIndex& index : {Example(), TarIndex()}) {
    const auto decoded = DecodeTarIndex(EncodeTarIndex(index));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, index);
  }
}

// The bytes that interop.md describes.
TEST(TarIndexLayout, IsAsDescribed) {
  const std::string bytes = EncodeTarIndex(Example());
  EXPECT_EQ(bytes.size(), 128u + 3 * 32 + 2 * 16 + (1 + 3) + (1 + 2) + 6);
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x89TIX\r\n\x1a\n\x01\0\0\0", 12));
  EXPECT_EQ(LoadLittle<uint32_t>(bytes.data() + 12), 2u);
  EXPECT_EQ(LoadLittle<uint64_t>(bytes.data() + 16), 10240u);
  EXPECT_EQ(LoadLittle<uint64_t>(bytes.data() + 128 + 2 * 32), 2048u);
  EXPECT_EQ(LoadLittle<uint64_t>(bytes.data() + 128 + 2 * 32 + 16), 3u);
  EXPECT_EQ(bytes.substr(bytes.size() - 13), std::string("\3jpg\2/.a/0d/1"));
}

TEST(TarIndexLayout, EveryTruncationIsRefused) {
  const std::string bytes = EncodeTarIndex(Example());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeTarIndex(bytes.substr(0, length)).status())) << length;
    if (length >= 128) {
      EXPECT_NE(MessageOf(Repaired(bytes.substr(0, length))), "") << length;
    }
  }
  EXPECT_NE(MessageOf(bytes + '\0'), "");
  EXPECT_NE(MessageOf(Repaired(bytes + '\0')), "");
}

TEST(TarIndexLayout, EveryFlippedBitIsRefused) {
  const std::string bytes = EncodeTarIndex(Example());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(absl::IsDataLoss(DecodeTarIndex(damaged).status())) << bit;
    (void)DecodeTarIndex(Repaired(damaged));  // refused, or another valid index; the sanitizers watch
  }
}

TEST(TarIndexLayout, EveryRuleIsChecked) {
  const std::function<void(TarIndex&)> breaks[] = {
      [](TarIndex& index) { index.values[0].offset = 513; },
      [](TarIndex& index) { index.values[0].offset = 0; },
      [](TarIndex& index) { index.values[1].offset = 1024; },   // no room for a header
      [](TarIndex& index) { index.values[2].length = 10240; },  // past the end
      [](TarIndex& index) { index.values[2].length = UINT64_MAX; },
      [](TarIndex& index) { index.values[2].offset = UINT64_MAX - 511; },
      [](TarIndex& index) { std::swap(index.values[0], index.values[2]); },
      [](TarIndex& index) { index.values[0].column = 2; },
      [](TarIndex& index) { index.values[0].column = 1; },  // twice in a sample, and no sample has column 0
      [](TarIndex& index) { index.columns[0] = "/."; },
      [](TarIndex& index) { index.columns[0] = "key"; },
      [](TarIndex& index) { index.columns[0] = ""; },
      [](TarIndex& index) { index.columns[0] = "\xff"; },
      [](TarIndex& index) { index.columns.push_back("txt"); },
      [](TarIndex& index) { index.keys = "a/0a/0"; },
      [](TarIndex& index) { index.keys[0] = '\xff'; },
      [](TarIndex& index) { index.keys += "x"; },
      [](TarIndex& index) {
        index.key_ends = {0, 0, 6};
      },
      [](TarIndex& index) {
        index.key_ends = {0, 6, 3};
      },
      [](TarIndex& index) {
        index.key_ends = {0, 3, 7};
      },
      [](TarIndex& index) {
        index.value_ends = {0, 0, 3};
      },
      [](TarIndex& index) {
        index.value_ends = {0, 2, 2};
      },
      [](TarIndex& index) {
        index.value_ends = {0, 2, 4};
      },
      [](TarIndex& index) { index.tar_length = 2047; },
      [](TarIndex& index) { index.tar_length = UINT64_MAX; },
  };
  size_t number = 0;
  for (const auto& damage : breaks) {
    TarIndex index = Example();
    damage(index);
    const auto decoded = DecodeTarIndex(EncodeTarIndex(index));
    EXPECT_TRUE(absl::IsDataLoss(decoded.status())) << number << ": " << decoded.status();
    ++number;
  }
}

TEST(TarIndexLayout, CountsAreNotBelieved) {
  const std::string bytes = EncodeTarIndex(Example());
  for (const size_t field : {size_t{12}, size_t{32}, size_t{40}, size_t{48}}) {
    for (const uint64_t count : {uint64_t{1} << 25, uint64_t{1} << 40, uint64_t{1} << 59, UINT64_MAX}) {
      std::string damaged = bytes;
      if (field == 12) {
        StoreLittle(damaged.data() + field, static_cast<uint32_t>(count >> 8));
      } else {
        StoreLittle(damaged.data() + field, count);
      }
      EXPECT_NE(MessageOf(Repaired(damaged)), "") << field << " " << count;
    }
  }
  std::string later = bytes;
  StoreLittle<uint16_t>(later.data() + 8, 2);
  EXPECT_TRUE(absl::IsUnimplemented(DecodeTarIndex(Repaired(later)).status()));
  std::string reserved = bytes;
  reserved[100] = 1;
  EXPECT_NE(MessageOf(Repaired(reserved)), "");
}

}  // namespace
}  // namespace shardkit::format
