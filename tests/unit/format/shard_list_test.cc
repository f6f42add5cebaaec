// Pages of lists of shards: one encoding for the same shards, and nothing else is taken for one.
#include "format/shard_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shardkit::format {
namespace {

// Shards with names, and some digests, of the given lengths.
struct Shards {
  explicit Shards(const std::vector<size_t>& name_lengths, uint32_t seed = 1) {
    std::mt19937_64 random(seed);
    uint64_t first = random() % 1000;
    for (const size_t length : name_lengths) names.emplace_back(length, static_cast<char>('a' + names.size() % 26));
    for (const std::string& name : names) {
      ShardEntry& entry = entries.emplace_back();
      entry = {.first_sample = first, .samples = random() % 5, .bytes = random() >> 2};
      if (entry.samples > 0) entry.blocks = 1 + random() % entry.samples;
      for (uint8_t& byte : entry.content_hash) byte = static_cast<uint8_t>(random());
      if (random() % 2 == 0)
        std::ranges::generate(entry.sha256.emplace(), [&] { return static_cast<uint8_t>(random()); });
      entry.name = name;
      first += entry.samples;
    }
  }
  std::vector<std::string> names;
  std::vector<ShardEntry> entries;
};

void ExpectSame(const std::vector<ShardEntry>& found, const std::vector<ShardEntry>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first_sample, expected[i].first_sample);
    EXPECT_EQ(found[i].samples, expected[i].samples);
    EXPECT_EQ(found[i].bytes, expected[i].bytes);
    EXPECT_EQ(found[i].blocks, expected[i].blocks);
    EXPECT_EQ(found[i].content_hash, expected[i].content_hash);
    EXPECT_EQ(found[i].sha256, expected[i].sha256);
    EXPECT_EQ(found[i].name, expected[i].name);
  }
}

TEST(ShardPage, IsWhatTheSpecificationSays) {
  ShardEntry entry{.first_sample = 1, .samples = 2, .bytes = 3, .blocks = 4, .name = "ab"};
  entry.content_hash[15] = 5;
  entry.sha256.emplace()[31] = 6;
  std::string expected;
  const auto number = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) expected += static_cast<char>(value >> 8 * i);
  };
  for (const uint64_t head : {1, 0}) number(head, 4);
  for (const uint64_t field : {1, 2, 3, 4}) number(field, 8);
  expected += std::string(15, '\0') + '\5';
  number(64, 4);
  number(2, 2);
  number(1, 2);
  expected += "ab" + std::string(31, '\0') + '\6' + std::string(6, '\0');
  EXPECT_EQ(EncodeShardPage({&entry, 1}), expected);
}

TEST(ShardPage, HoldsItsShards) {
  for (uint32_t seed = 1; seed < 60; ++seed) {
    std::vector<size_t> lengths(seed == 1 ? kShardsOfPage : seed % 7 + 1, seed);
    if (seed == 2) lengths = {kMaxShardNameBytes, 1};
    const Shards shards(lengths, seed);
    const std::string page = EncodeShardPage(shards.entries);
    EXPECT_EQ(page.size() % 8, 0u);
    const auto found = DecodeShardPage(page);
    ASSERT_TRUE(found.ok()) << found.status();
    ExpectSame(*found, shards.entries);
  }
}

TEST(ShardPage, OfAnotherLengthIsRefused) {
  const std::string page = EncodeShardPage(Shards({3, 8, 14}).entries);
  for (size_t length = 0; length < page.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeShardPage(page.substr(0, length)).status())) << length;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeShardPage(page + std::string(8, '\0')).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeShardPage(std::string(8, '\0')).status()));
}

// A bit that may be another is one of a number or a text, and the page is the only one of what it now says.
TEST(ShardPage, HasOneEncoding) {
  for (const Shards& shards : {Shards({3, 8, 14}), Shards({1}, 2), Shards({8, 8}, 3)}) {
    const std::string page = EncodeShardPage(shards.entries);
    size_t accepted = 0;
    for (size_t bit = 0; bit < 8 * page.size(); ++bit) {
      std::string flipped = page;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      const auto found = DecodeShardPage(flipped);
      if (!found.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(found.status())) << found.status();
        continue;
      }
      ++accepted;
      EXPECT_EQ(EncodeShardPage(*found), flipped) << "bit " << bit;
    }
    EXPECT_GT(accepted, 0u);
  }
}

// Else a reader that goes from block to block would pass samples over without a word.
TEST(ShardPage, EachBlockHasASample) {
  for (const auto& [samples, blocks] : {std::pair{3, 0}, {0, 1}, {3, 4}, {3, 3}, {0, 0}, {3, 1}}) {
    const ShardEntry entry{
        .samples = static_cast<uint64_t>(samples), .blocks = static_cast<uint64_t>(blocks), .name = "a"};
    const auto found = DecodeShardPage(EncodeShardPage({&entry, 1}));
    EXPECT_EQ(found.ok(), CountsAllowed(entry.samples, entry.blocks)) << found.status();
    EXPECT_EQ(found.ok(), blocks <= samples && (blocks > 0) == (samples > 0));
  }
}

TEST(ShardPage, WithTooManyShardsIsRefused) {
  const Shards shards(std::vector<size_t>(kShardsOfPage + 1, 4));
  EXPECT_TRUE(absl::IsDataLoss(DecodeShardPage(EncodeShardPage(shards.entries)).status()));
  const Shards long_name({kMaxShardNameBytes + 1});
  EXPECT_TRUE(absl::IsDataLoss(DecodeShardPage(EncodeShardPage(long_name.entries)).status()));
}

TEST(ShardListTotals, OfAnotherLengthAreRefused) {
  const ShardListTotals totals{.shards = 1, .samples = 2, .blocks = 3, .bytes = 4};
  const std::string payload = EncodeShardListTotals(totals);
  EXPECT_EQ(*DecodeShardListTotals(payload), totals);
  for (size_t length = 0; length < payload.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeShardListTotals(payload.substr(0, length)).status()));
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeShardListTotals(payload + std::string(8, '\0')).status()));
}

}  // namespace
}  // namespace shardkit::format
