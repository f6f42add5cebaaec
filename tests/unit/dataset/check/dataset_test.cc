// Repairing datasets, and completing a dataset whose shard was repaired.
#include <set>

#include "dataset/dataset_support.h"
#include "shardkit/repair.h"

namespace shardkit::test {
namespace {

const std::vector<OwnedSample>& Samples() {
  static const std::vector<OwnedSample> samples = MakeSamples(30);
  return samples;
}

// Three shards of ten samples in blocks of two.
std::unique_ptr<FileSystem> NewDataset() {
  auto files = NewMemoryFileSystem();
  DatasetWriterOptions options = SmallShards(10, 2);
  options.shard.metadata = {{"colour", "blue"}};
  options.shard.alignment = 512;
  const auto summary = WriteDataset(*files, "/in", Samples(), options);
  EXPECT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->manifest.shards.size(), 3u);
  return files;
}

std::vector<Row> RowsWithout(const std::set<size_t>& lost) {
  std::vector<Row> rows = RowsOf(Samples()), kept;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!lost.contains(i)) kept.push_back(rows[i]);
  }
  return kept;
}

void Overwrite(FileSystem& files, const std::string& path, uint64_t at, uint64_t length) {
  std::string bytes = ReadAll(files, path);
  ASSERT_LE(at + length, bytes.size());
  bytes.replace(at, length, length, '\xee');
  WriteFile(files, path, bytes);
}

// The last line of a block, which belongs to a chunk.
uint64_t PlaceInBlock(FileSystem& files, const std::string& path, size_t block) {
  const auto shard = ShardReader::Open(files, path);
  EXPECT_TRUE(shard.ok()) << shard.status();
  return (*shard)->blocks()[block].offset + (*shard)->blocks()[block].length - 64;
}

TEST(RepairDataset, AWholeOneIsTakenAsItIs) {
  const auto files = NewDataset();
  const auto report = RepairDataset(*files, "/in", "/out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->written && report->lossless());
  EXPECT_EQ(report->samples_recovered(), 30u);
  EXPECT_EQ(ReadTree(*files, "/out"), ReadDataset(*files, "/in"));
}

TEST(RepairDataset, DamagedShardsAreRepairedAndMissingOnesLost) {
  const auto files = NewDataset();
  Overwrite(*files, "/in/00000000.shard", PlaceInBlock(*files, "/in/00000000.shard", 3), 64);
  ASSERT_TRUE(files->RemoveFile("/in/00000001.shard").ok());
  // Without its header, which the manifest replaces.
  Overwrite(*files, "/in/00000002.shard", 0, 64);
  const auto report = RepairDataset(*files, "/in", "/out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->written);
  EXPECT_FALSE(report->lossless());
  EXPECT_EQ(report->samples_lost(), 12u);
  ASSERT_EQ(report->shards.size(), 3u);
  ASSERT_EQ(report->shards[0].losses.size(), 1u);
  EXPECT_EQ(report->shards[0].losses[0].first_sample, 6u);
  EXPECT_EQ(report->shards[0].losses[0].first_block, 3u);
  EXPECT_EQ(report->shards[1].samples_lost, 10u);
  EXPECT_TRUE(report->shards[2].lossless());
  EXPECT_EQ(ValidateText(*files, "/out"), "");
  EXPECT_EQ(ScanRows(*files, "/out"), RowsWithout({6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(report->manifest.metadata.at("colour"), "blue");
  EXPECT_EQ(report->manifest.shards.size(), 2u);
}

TEST(RepairDataset, AShardThatReplacesADamagedOneIsIndexedAgain) {
  const auto files = NewDataset();
  const std::string path = "/in/00000001.shard";
  Overwrite(*files, path, PlaceInBlock(*files, path, 0), 8);
  const auto report = RepairShard(*files, path, "/in/fixed");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples_lost, 2u);
  ASSERT_TRUE(files->Rename("/in/fixed", path).ok());
  EXPECT_NE(ValidateText(*files, "/in"), "");
  const auto manifest = RebuildIndex(*files, "/in");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(ValidateText(*files, "/in"), "");
  EXPECT_EQ(ScanRows(*files, "/in"), RowsWithout({10, 11}));
}

// The leftovers of a killed pack: a finished shard, an unfinished one, and no manifest.
TEST(RepairDataset, OfAPackThatDidNotFinish) {
  const auto files = NewDataset();
  const uint64_t cut = PlaceInBlock(*files, "/in/00000001.shard", 2) + 10;
  WriteFile(*files, "/in/00000001.shard.tmp", ReadAll(*files, "/in/00000001.shard").substr(0, cut));
  for (const std::string name : {"00000001.shard", "00000002.shard", "dataset.json", "dataset.segment"}) {
    ASSERT_TRUE(files->RemoveFile(JoinPath("/in", name)).ok());
  }
  const auto report = RepairDataset(*files, "/in", "/out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->written);
  ASSERT_EQ(report->shards.size(), 2u);
  EXPECT_FALSE(report->shards[1].end_known);
  EXPECT_FALSE(report->lossless());
  EXPECT_FALSE(report->notes.empty());
  EXPECT_EQ(ValidateText(*files, "/out"), "");
  std::vector<Row> rows = RowsOf(Samples());
  rows.resize(14);
  EXPECT_EQ(ScanRows(*files, "/out"), rows);
}

TEST(RepairDataset, ADamagedManifestIsMadeAnew) {
  const auto files = NewDataset();
  Overwrite(*files, "/in/dataset.json", 40, 4);
  const auto report = RepairDataset(*files, "/in", "/out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->lossless());
  EXPECT_EQ(ScanRows(*files, "/out"), RowsOf(Samples()));
}

TEST(RepairDataset, OfWhichNothingIsLeft) {
  const auto files = NewDataset();
  for (const std::string name : {"00000000.shard", "00000001.shard", "00000002.shard"}) {
    WriteFile(*files, JoinPath("/in", name), std::string(5000, 'x'));
  }
  const auto report = RepairDataset(*files, "/in", "/out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->written);
  EXPECT_EQ(report->samples_lost(), 30u);
  EXPECT_FALSE(Exists(*files, "/out"));
}

TEST(RepairDataset, NeedsADatasetAndAnEmptyPlace) {
  const auto files = NewDataset();
  ASSERT_TRUE(files->CreateDirectory("/empty").ok());
  EXPECT_TRUE(absl::IsNotFound(RepairDataset(*files, "/empty", "/out").status()));
  EXPECT_FALSE(Exists(*files, "/out"));
  EXPECT_TRUE(absl::IsAlreadyExists(RepairDataset(*files, "/in", "/in").status()));
  EXPECT_EQ(ValidateText(*files, "/in"), "");
}

// Padding that is not zero. No block needs it.
TEST(RepairDataset, DamageBetweenBlocksIsMended) {
  const auto files = NewDataset();
  const auto shard = ShardReader::Open(*files, "/in/00000001.shard");
  ASSERT_TRUE(shard.ok());
  const BlockInfo block = (*shard)->blocks()[1];
  ASSERT_GT((*shard)->blocks()[2].offset, block.offset + block.length);
  Overwrite(*files, "/in/00000001.shard", block.offset + block.length, 1);
  const auto report = RepairDataset(*files, "/in", "/out");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->lossless());
  EXPECT_FALSE(report->shards[1].problems.empty());
  EXPECT_EQ(ScanRows(*files, "/out"), RowsOf(Samples()));
  EXPECT_EQ(ValidateText(*files, "/out"), "");
}

}  // namespace
}  // namespace shardkit::test
