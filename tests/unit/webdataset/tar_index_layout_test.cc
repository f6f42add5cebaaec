#include "format/foreign/tar_index_layout.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"

namespace shardkit::format {
namespace {

// Three samples in two pages: the first two, and one that is larger than 4 MiB.
TarIndex Example() {
  TarIndex index;
  index.tar_length = 6 << 20;
  index.identity = 0x1122334455667788;
  index.columns = {"jpg", "/."};
  index.keys = "a/0d/1e";
  index.key_ends = {0, 3, 6, 7};
  index.value_ends = {0, 2, 3, 4};
  index.values = {{512, 5, 0}, {1536, 0, 1}, {2560, 600, 1}, {4096, 5 << 20, 0}};
  index.checksums = {1, 2, 3, 4};
  index.blocks = {{128 + 7 + 80, 0, 0, 512}, {128 + 7 + 80 + 3 * 32 + 2 * 8 + 6, 2, 3, 4096}};
  index.blocks.push_back({index.blocks[1].page_offset + 32 + 8 + 1, 3, 4, (5 << 20) + 4096});
  return index;
}

constexpr size_t kDirectory = 128 + 7;
constexpr size_t kPages = kDirectory + 80;

// Encodes what nothing checks before, with the right checksums.
std::string Encode(TarIndex index) {
  index.blocks.clear();
  return EncodeTarIndex(index);
}

// Repairs the checksums after damage of a file with Example's directory.
std::string Repaired(std::string bytes) {
  const auto at = [&](size_t place) { return LoadLittle<uint64_t>(bytes.data() + place); };
  const auto hash = [&](size_t begin, size_t end) {
    return Hash64(std::string_view(bytes).substr(begin, end - begin));
  };
  if (bytes.size() < kPages) return bytes;
  const size_t ends[] = {at(kDirectory), at(kDirectory + 40), at(72)};
  for (size_t page = 0; page < 2; ++page) {
    if (ends[page] > ends[page + 1] || ends[page + 1] > bytes.size()) continue;
    StoreLittle(bytes.data() + kDirectory + 40 * page + 32, hash(ends[page], ends[page + 1]));
  }
  StoreLittle<uint64_t>(bytes.data() + 80, bytes.size());
  if (at(64) >= 128 && at(64) <= bytes.size()) StoreLittle(bytes.data() + 88, hash(128, at(64)));
  StoreLittle(bytes.data() + 120, hash(0, 120));
  return bytes;
}

std::string MessageOf(const std::string& bytes) {
  const auto index = DecodeTarIndex(bytes);
  return index.ok() ? "" : std::string(ToStd(index.status().message()));
}

TEST(TarIndexLayout, RoundTrip) {
  auto decoded = DecodeTarIndex(Encode(Example()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  for (TarBlock& block : decoded->blocks) block.page_checksum = 0;
  EXPECT_EQ(*decoded, Example());

  decoded = DecodeTarIndex(EncodeTarIndex(TarIndex()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  TarIndex empty;
  empty.blocks = {{.page_offset = 128}};
  EXPECT_EQ(*decoded, empty);
}

// The bytes that interop.md describes.
TEST(TarIndexLayout, IsAsDescribed) {
  const std::string bytes = Encode(Example());
  const auto number = [&](size_t at) { return LoadLittle<uint64_t>(bytes.data() + at); };
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x89TIX\r\n\x1a\n\x01\0\0\0", 12));
  EXPECT_EQ(LoadLittle<uint32_t>(bytes.data() + 12), 2u);
  const size_t second = kPages + 3 * 32 + 2 * 8 + 6, keys = second + 32 + 8 + 1;
  const std::vector<uint64_t> fields = {6 << 20, 0x1122334455667788, 3, 4, 2, (5 << 20) + 4096, kPages,
                                        keys,    bytes.size()};
  for (size_t i = 0; i < fields.size(); ++i) EXPECT_EQ(number(16 + 8 * i), fields[i]) << i;
  EXPECT_EQ(bytes.substr(128, 7), std::string("\3jpg\2/."));
  EXPECT_EQ(number(kDirectory), kPages);
  EXPECT_EQ(number(kDirectory + 40), second);
  EXPECT_EQ(number(kDirectory + 40 + 8), 2u);
  EXPECT_EQ(number(kDirectory + 40 + 16), 3u);
  EXPECT_EQ(number(kDirectory + 40 + 24), 4096u);
  EXPECT_EQ(number(kDirectory + 40 + 32), Hash64(bytes.substr(second, keys - second)));
  EXPECT_EQ(number(kPages + 2 * 32), 2560u);
  EXPECT_EQ(number(kPages + 2 * 32 + 16), 3u);
  EXPECT_EQ(bytes.substr(kPages + 3 * 32, 16), std::string("\3\0\0\0\2\0\0\0\6\0\0\0\3\0\0\0", 16));
  EXPECT_EQ(bytes.substr(second - 6, 6), "a/0d/1");
  EXPECT_EQ(bytes.substr(keys, 8), std::string("\x89TBL\r\n\x1a\n"));
}

TEST(TarIndexLayout, FrontAndPagesAreReadByThemselves) {
  const std::string bytes = Encode(Example());
  const auto length = TarIndexFrontLength(bytes.substr(0, 128), bytes.size());
  ASSERT_TRUE(length.ok()) << length.status();
  EXPECT_EQ(*length, kPages);
  const auto front = DecodeTarIndexFront(bytes.substr(0, kPages), bytes.size());
  ASSERT_TRUE(front.ok()) << front.status();
  EXPECT_EQ(front->sample_count(), 0u);
  const uint64_t begin = front->blocks[1].page_offset;
  const std::string page = bytes.substr(begin, front->blocks[2].page_offset - begin);
  const auto samples = DecodeTarPage(*front, 1, page);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(samples->keys, "e");
  EXPECT_EQ(samples->values, (std::vector<TarValue>{{4096, 5 << 20, 0}}));
  EXPECT_EQ(samples->checksums, std::vector<uint64_t>{4});
  EXPECT_TRUE(absl::IsDataLoss(DecodeTarPage(*front, 0, page).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeTarPage(*front, 1, page.substr(1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeTarIndexFront(bytes.substr(0, kPages - 1), bytes.size()).status()));
}

TEST(TarIndexLayout, BlocksAreAsLargeAsTheyMayBe) {
  const auto samples_of_blocks = [](const TarIndex& index) {
    std::vector<uint64_t> counts;
    const std::vector<TarBlock> blocks = FormTarBlocks(index);
    for (size_t i = 0; i + 1 < blocks.size(); ++i) {
      counts.push_back(blocks[i + 1].first_sample - blocks[i].first_sample);
    }
    return counts;
  };
  // `step` bytes from one to the next, each with one value and a key of `key` bytes.
  const auto samples = [](uint64_t count, uint64_t step, uint64_t key) {
    TarIndex index;
    index.columns = {"x"};
    for (uint64_t i = 0; i < count; ++i) {
      index.keys += std::string(key - 1, 'k') + static_cast<char>('0' + i % 10);
      index.key_ends.push_back(index.keys.size());
      index.value_ends.push_back(i + 1);
      index.values.push_back({512 + step * i, step - 512, 0});
    }
    index.checksums.resize(count);
    index.tar_length = 1 << 30;
    return index;
  };
  using Counts = std::vector<uint64_t>;
  EXPECT_EQ(samples_of_blocks(samples(5, 1 << 20, 1)), (Counts{4, 1}));
  EXPECT_EQ(samples_of_blocks(samples(3, 5 << 20, 1)), (Counts{1, 1, 1}));
  EXPECT_EQ(samples_of_blocks(samples(8194, 512, 1)), (Counts{8192, 2}));
  EXPECT_EQ(samples_of_blocks(samples(300, 512, 32768)), (Counts{128, 128, 44}));
  TarIndex wide = samples(600, 512, 1);
  for (int i = 1; i < 4095; ++i) wide.columns.push_back("y" + std::to_string(i));
  EXPECT_EQ(samples_of_blocks(wide), (Counts{256, 256, 88}));
  for (const TarIndex& index : {samples(8194, 512, 1), samples(300, 512, 32768), wide}) {
    EXPECT_EQ(MessageOf(EncodeTarIndex(index)), "");
  }
}

TEST(TarIndexLayout, EveryTruncationIsRefused) {
  const std::string bytes = Encode(Example());
  const uint64_t keys = Example().blocks.back().page_offset;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeTarIndex(bytes.substr(0, length)).status())) << length;
    // Of the keys, their table finds it.
    if (length < keys) {
      EXPECT_NE(MessageOf(Repaired(bytes.substr(0, length))), "") << length;
    }
  }
  EXPECT_NE(MessageOf(bytes + '\0'), "");
}

TEST(TarIndexLayout, EveryFlippedBitIsRefused) {
  const std::string bytes = Encode(Example());
  const uint64_t keys = Example().blocks.back().page_offset;
  for (size_t bit = 0; bit < 8 * keys; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(absl::IsDataLoss(DecodeTarIndex(damaged).status())) << bit;
    (void)DecodeTarIndex(Repaired(damaged));  // refused, or another valid index; the sanitizers watch
  }
}

TEST(TarIndexLayout, EveryRuleOfPagesIsChecked) {
  const std::function<void(TarIndex&)> breaks[] = {
      [](TarIndex& index) { index.values[0].offset = 513; },
      [](TarIndex& index) { index.values[0].offset = 0; },
      [](TarIndex& index) { index.values[1].offset = 1024; },     // no room for a header
      [](TarIndex& index) { index.values[2].length = 6 << 20; },  // past the next block
      [](TarIndex& index) { index.values[2].length = 1025; },     // no room for the header of the next block
      [](TarIndex& index) { index.values[3].length = 6 << 20; },  // past the end
      [](TarIndex& index) { index.values[3].length = UINT64_MAX; },
      [](TarIndex& index) { index.values[2].offset = UINT64_MAX - 511; },
      [](TarIndex& index) { std::swap(index.values[0], index.values[2]); },
      [](TarIndex& index) { index.values[0].column = 2; },
      [](TarIndex& index) { index.values[0].column = 1; },  // twice in a sample
      [](TarIndex& index) { index.columns[0] = "/."; },
      [](TarIndex& index) { index.columns[0] = "key"; },
      [](TarIndex& index) { index.columns[0] = ""; },
      [](TarIndex& index) { index.columns[0] = "\xff"; },
      [](TarIndex& index) { index.keys = "a/0a/0e"; },
      [](TarIndex& index) { index.keys[0] = '\xff'; },
      [](TarIndex& index) {
        index.key_ends = {0, 0, 6, 7};
      },
      [](TarIndex& index) {
        index.value_ends = {0, 0, 3, 4};
      },
      [](TarIndex& index) {
        index.value_ends = {0, 3, 3, 4};
      },
      [](TarIndex& index) { index.tar_length = 5 << 20; },
      [](TarIndex& index) { index.tar_length = UINT64_MAX; },
  };
  size_t number = 0;
  for (const auto& damage : breaks) {
    TarIndex index = Example();
    damage(index);
    const auto decoded = DecodeTarIndex(Encode(index));
    EXPECT_TRUE(absl::IsDataLoss(decoded.status())) << number << ": " << decoded.status();
    ++number;
  }
}

// What no index of a tar can be encoded to say: fields of the header, the directory and the tables of pages, in turn.
TEST(TarIndexLayout, CountsAreNotBelieved) {
  const std::string bytes = Encode(Example());
  ASSERT_EQ(Repaired(bytes), bytes);
  const uint64_t second = Example().blocks[1].page_offset;
  std::vector<std::pair<size_t, size_t>> fields = {{12, 4}};  // place and bytes
  for (size_t at = 32; at < 80; at += 8) fields.emplace_back(at, 8);
  for (size_t entry = 0; entry < 2; ++entry) {
    for (size_t at = 0; at < 32; at += 8) fields.emplace_back(kDirectory + 40 * entry + at, 8);
  }
  // Where the first key ends there are other places for it that may be.
  for (size_t at = kPages + 3 * 32 + 4; at < second - 6; at += 4) fields.emplace_back(at, 4);
  for (const auto& [at, length] : fields) {
    const uint64_t mask = length == 4 ? UINT32_MAX : UINT64_MAX;
    uint64_t now = 0;
    std::memcpy(&now, bytes.data() + at, length);
    for (uint64_t count : {now + 1, now - 1, now + 512, uint64_t{1} << 25, uint64_t{1} << 40, uint64_t{1} << 59,
                           UINT64_MAX, UINT64_MAX - 511, uint64_t{0}}) {
      count &= mask;
      if (count == now) continue;
      std::string damaged = bytes;
      std::memcpy(damaged.data() + at, &count, length);
      EXPECT_NE(MessageOf(Repaired(damaged)), "") << at << " " << count;
    }
  }
  std::string later = bytes;
  StoreLittle<uint16_t>(later.data() + 8, 2);
  EXPECT_TRUE(absl::IsUnimplemented(DecodeTarIndex(Repaired(later)).status()));
  for (size_t at = 96; at < 120; ++at) {
    std::string reserved = bytes;
    reserved[at] = 1;
    EXPECT_NE(MessageOf(Repaired(reserved)), "") << at;
  }
}

}  // namespace
}  // namespace shardkit::format
