// Keeping the whole samples of damaged blocks.
#include <algorithm>
#include <set>

#include "shardkit/shard.h"
#include "shardkit/validate.h"
#include "unit/dataset/check/repair_support.h"

namespace shardkit::test {
namespace {

struct Outcome {
  RepairReport report;
  std::vector<ShardRow> rows;
  std::set<uint64_t> lost;
};

Outcome KeepSamples(const Original& original, std::string_view damaged) {
  Outcome outcome;
  const auto files = NewFiles(original);
  WriteWhole(*files, "/d/damaged.shard", damaged);
  const auto report = RepairShard(*files, "/d/damaged.shard", "/out.shard", {.keep_samples = true});
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return outcome;
  outcome.report = *report;
  for (const RepairLoss& loss : report->losses) {
    for (uint64_t i = 0; i < loss.sample_count; ++i) outcome.lost.insert(loss.first_sample + i);
  }
  if (!report->written) return outcome;
  const auto valid = Validate(*files, "/out.shard", {});
  EXPECT_TRUE(valid.ok() && valid->ok()) << (valid.ok() ? valid->problems[0].message
                                                        : std::string(valid.status().message()));
  outcome.rows = ReadRows(*files, "/out.shard");
  return outcome;
}

std::vector<ShardRow> Without(const Original& original, const std::set<uint64_t>& lost) {
  std::vector<ShardRow> rows;
  for (uint64_t i = 0; i < original.rows.size(); ++i) {
    if (!lost.contains(i)) rows.push_back(original.rows[i]);
  }
  return rows;
}

// For every flipped bit: at most the samples with damaged bytes are lost, and all others are unchanged.
TEST(RepairKeepSamples, LosesTheDamagedValueAlone) {
  const Original& original = Kinds()[0];
  uint64_t single = 0;
  for (uint64_t at = original.blocks[0].offset; at < original.blocks[1].offset + original.blocks[1].length; at += 5) {
    SCOPED_TRACE(at);
    std::string damaged = original.bytes;
    damaged[at] ^= 16;
    const Outcome outcome = KeepSamples(original, damaged);
    EXPECT_EQ(outcome.rows, Without(original, outcome.lost));
    EXPECT_EQ(outcome.report.samples_lost, outcome.lost.size());
    EXPECT_LE(outcome.lost.size(), 4u);
    if (outcome.lost.size() == 1) {
      ++single;
      EXPECT_EQ(outcome.report.losses[0].columns, std::vector<std::string>{"blob"});
      EXPECT_EQ(outcome.report.losses[0].keys, std::vector<std::string>{StrCat("sample/", *outcome.lost.begin())});
      EXPECT_EQ(outcome.report.blocks_lost, 0u);
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(single, 5u);
}

TEST(RepairKeepSamples, NeighboursAreOneLoss) {
  const Original original =
      MakeOriginal("blobs", {{.name = "data", .type = Type::kBytes}}, 6, 0,
                   {.max_block_samples = 6, .alignment = 64, .storage = {{"data", Storage::kBlob}}});
  // Six empty values: only their checksums are stored.
  const uint64_t values = original.blocks[0].offset + original.blocks[0].front_length;
  std::string damaged = original.bytes;
  for (const uint64_t sample : {1, 2, 3, 5}) damaged[values + 8 * sample] ^= 1;
  const Outcome outcome = KeepSamples(original, damaged);
  EXPECT_EQ(outcome.lost, (std::set<uint64_t>{1, 2, 3, 5}));
  EXPECT_EQ(outcome.rows, Without(original, outcome.lost));
  ASSERT_EQ(outcome.report.losses.size(), 2u);
  EXPECT_EQ(outcome.report.losses[0].sample_count, 3u);
}

// The samples of a damaged page are lost, and those of the pages around it are kept.
TEST(RepairKeepSamples, LosesADamagedPage) {
  const Original original = MakeOriginal("pages", {{.name = "data", .type = Type::kBytes, .nullable = true}}, 400, 900,
                                         {.block_size = 1 << 20, .alignment = 64});
  ASSERT_EQ(original.blocks.size(), 1u);
  ASSERT_TRUE(original.schema[0].is_paged());
  const uint64_t values = original.blocks[0].offset + original.blocks[0].front_length;
  std::string damaged = original.bytes;
  damaged[values + 70000] ^= 1;  // in the second page
  const Outcome outcome = KeepSamples(original, damaged);
  EXPECT_EQ(outcome.rows, Without(original, outcome.lost));
  EXPECT_GT(outcome.lost.size(), 50u);
  EXPECT_LT(outcome.lost.size(), 300u);
  EXPECT_FALSE(outcome.lost.contains(0));
  EXPECT_FALSE(outcome.lost.contains(399));
  for (const uint64_t sample : outcome.lost) EXPECT_TRUE(original.rows[sample][0].has_value());
}

TEST(RepairKeepSamples, OfABlockThatTheFileEndsIn) {
  const Original& original = Kinds()[3];
  const BlockInfo& last = original.blocks.back();
  const std::string damaged = original.bytes.substr(0, last.offset + last.length - 64);
  const Outcome outcome = KeepSamples(original, damaged);
  EXPECT_EQ(outcome.lost, (std::set<uint64_t>{3}));
  EXPECT_EQ(outcome.rows, Without(original, outcome.lost));
}

TEST(RepairKeepSamples, WithADictionary) {
  const Original& original = Kinds().back();
  const Outcome outcome = KeepSamples(original, original.bytes);
  EXPECT_EQ(outcome.rows, original.rows);
  std::string damaged = original.bytes;
  damaged[original.blocks[1].offset + original.blocks[1].front_length - 70] ^=
      1;  // an inline column: nothing of it can be kept
  const Outcome lost = KeepSamples(original, damaged);
  EXPECT_EQ(lost.lost, (std::set<uint64_t>{6, 7, 8, 9, 10, 11}));
}

}  // namespace
}  // namespace shardkit::test
