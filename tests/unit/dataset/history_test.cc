// Generations of a dataset: what each did, and reading earlier ones.
#include "shardkit/history.h"
#include "shardkit/change.h"

#include "base/strings.h"
#include "dataset/dataset_files.h"
#include "dataset/dataset_support.h"

namespace shardkit::test {
namespace {

class HistoryTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteDataset(*files_, "/data", Samples(0, 20), SmallShards(9, 4)).ok()); }

  // Samples `begin` to `end` of those that all tests use.
  static std::vector<OwnedSample> Samples(size_t begin, size_t end) {
    static const std::vector<OwnedSample> all = MakeSamples(120);
    return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  void Append(size_t begin, size_t end) {
    DatasetWriterOptions options = SmallShards(9, 4);
    options.append = true;
    const auto summary = WriteDataset(*files_, "/data", Samples(begin, end), options);
    ASSERT_TRUE(summary.ok()) << summary.status();
  }

  std::string History() {
    const auto history = ReadHistory(*files_, "/data");
    if (!history.ok()) return Message(history.status());
    std::string text;
    for (const DatasetGeneration& each : *history) {
      text += StrCat(each.generation, " ", DescribeOperation(each.operation), ": ", each.samples, "/", each.shards, "/",
                     each.segments, each.readable ? "\n" : " gone\n");
    }
    return text;
  }

  absl::StatusOr<std::unique_ptr<DatasetReader>> OpenAt(uint64_t generation) {
    DatasetOptions options;
    options.generation = generation;
    return DatasetReader::Open(*files_, "/data", options);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(HistoryTest, SaysWhatEachGenerationDidAndReadsIt) {
  Append(20, 30);
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  Append(30, 31);
  EXPECT_EQ(History(),
            "1 create: 20/3/1\n"
            "2 append samples=10 shards=2: 30/5/2\n"
            "3 compact: 30/5/1\n"
            "4 append samples=1 shards=1: 31/6/2\n");
  const std::map<uint64_t, size_t> samples = {{1, 20}, {2, 30}, {3, 30}, {4, 31}};
  for (const auto& [generation, count] : samples) {
    SCOPED_TRACE(generation);
    const auto dataset = OpenAt(generation);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->summary().generation, generation);
    EXPECT_EQ(ScanRows(**dataset), RowsOf(Samples(0, count)));
    // Those of the last two are sure to be there.
    EXPECT_EQ((*dataset)->index_problem().empty(), generation >= 3) << (*dataset)->index_problem();
  }
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
}

TEST_F(HistoryTest, AnEarlierGenerationIsTheManifestThatWas) {
  const std::string first = ReadAll(*files_, "/data/dataset.json");
  Append(20, 30);
  EXPECT_EQ(ReadAll(*files_, "/data/dataset-1.json"), first);
  // Also where the manifest is made again: here for metadata that no shard has.
  Manifest manifest = *ReadManifest(*files_, "/data");
  manifest.metadata["note"] = "of somebody";
  WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  EXPECT_EQ(ReadAll(*files_, "/data/dataset-2.json"), FormatManifest(manifest));
  EXPECT_EQ(History(), "1 create: 20/3/1\n2 append samples=10 shards=2: 30/5/2\n3 index: 30/5/1\n");
}

TEST_F(HistoryTest, KeepsSixtyFour) {
  for (size_t i = 0; i < 70; ++i) Append(20 + i, 21 + i);
  const auto history = ReadHistory(*files_, "/data");
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->size(), kMostKeptManifests + 1);
  EXPECT_EQ(history->front().generation, 7u);
  EXPECT_EQ(DescribeOperation(history->front().operation), "append samples=1 shards=1");
  EXPECT_EQ(history->back().generation, 71u);
  EXPECT_FALSE(Exists(*files_, "/data/dataset-6.json"));
  const absl::Status gone = OpenAt(6).status();
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_NE(Message(gone).find("/data: generation 6 is not kept; shardctl history /data lists"), std::string::npos);
  const auto oldest = OpenAt(7);
  ASSERT_TRUE(oldest.ok()) << oldest.status();
  EXPECT_EQ(ScanRows(**oldest), RowsOf(Samples(0, 26)));
}

TEST_F(HistoryTest, RefusesWhatIsNotThere) {
  EXPECT_TRUE(absl::IsNotFound(OpenAt(2).status())) << OpenAt(2).status();
  EXPECT_NE(Message(OpenAt(2).status()).find("has no generation 2: the newest is 1"), std::string::npos);
  Append(20, 30);
  WriteFile(*files_, "/data/dataset-1.json", ReadAll(*files_, "/data/dataset.json"));
  EXPECT_TRUE(absl::IsDataLoss(OpenAt(1).status())) << OpenAt(1).status();
  WriteFile(*files_, "/data/dataset-1.json", "{}");
  EXPECT_TRUE(absl::IsDataLoss(OpenAt(1).status())) << OpenAt(1).status();
  EXPECT_TRUE(absl::IsDataLoss(ReadHistory(*files_, "/data").status()));
  ASSERT_TRUE(files_->RemoveFile("/data/dataset-1.json").ok());
  EXPECT_EQ(History(), "2 append samples=10 shards=2: 30/5/2\n");
  EXPECT_TRUE(absl::IsNotFound(ReadHistory(*files_, "/none").status()));
  DatasetOptions options;
  options.generation = 1;
  const absl::Status shard = DatasetReader::Open(*files_, "/data/00000000.shard", options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(shard)) << shard;
  EXPECT_TRUE(absl::IsNotFound(DatasetReader::Open(*files_, "/none", options).status()));
}

TEST_F(HistoryTest, AGenerationWhoseSegmentsAreGoneSaysSo) {
  ListShardsApart(*files_, "/data");
  Append(20, 30);
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
  // With few shards the manifest lists them itself again.
  EXPECT_EQ(History(), "1 create: 20/3/1 gone\n2 append samples=10 shards=2: 30/5/2\n");
  EXPECT_TRUE(absl::IsNotFound(OpenAt(1).status())) << OpenAt(1).status();
}

TEST_F(HistoryTest, WhatAnInterruptedChangeHasKeptIsRemoved) {
  const Tree tree = ReadTree(*files_, "/data");
  for (const std::string name : {"dataset-1.json", "dataset-1.json.tmp", "dataset-2.json"}) {
    WriteFile(*files_, "/data/" + name, "left");
  }
  WriteFile(*files_, "/data/.shardkit/change", "");
  Append(20, 20);
  EXPECT_TRUE(ReadTree(*files_, "/data") == tree) << Describe(ReadTree(*files_, "/data"));
}

TEST(KeptManifestTest, Names) {
  EXPECT_EQ(dataset::KeptManifestName(7), "dataset-7.json");
  EXPECT_EQ(dataset::GenerationOfKeptManifest("dataset-7.json"), std::optional<uint64_t>(7));
  EXPECT_EQ(dataset::GenerationOfKeptManifest("dataset-7.json.tmp"), std::optional<uint64_t>(7));
  for (const std::string_view other : {"dataset.json", "dataset-.json", "dataset-07.json", "dataset-7.segment",
                                       "dataset-7-1.json", "dataset-x.json", "dataset-99999999999999999999999.json"}) {
    EXPECT_EQ(dataset::GenerationOfKeptManifest(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace shardkit::test
