// Rewriting datasets that have lost samples, and purging them.
#include <chrono>
#include <cmath>

#include "base/endian.h"
#include "base/hash.h"
#include "dataset/view_support.h"
#include "shardkit/change.h"
#include "shardkit/history.h"
#include "shardkit/job.h"

namespace shardkit::test {
namespace {

using CompactTest = ViewTest;

TEST_F(CompactTest, EarlierGenerationsKeepTheirListsOfRemovedSamples) {
  Remove({39});
  const std::vector<Row> second = rows_;
  Remove({1, 2, 3});
  Append(40, 45);
  Remove({7});
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Append(45, 50);
  const auto history = ReadHistory(*files_, "/data");
  ASSERT_TRUE(history.ok()) << history.status();
  for (const DatasetGeneration& each : *history) EXPECT_TRUE(each.readable) << each.generation;
  EXPECT_EQ(DescribeOperation((*history)[1].operation), "remove samples=1");
  EXPECT_EQ(DescribeOperation((*history)[2].operation), "remove samples=3");
  const auto dataset = DatasetReader::Open(*files_, "/data", {.generation = 2});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(ScanRows(**dataset), second);
  Check();
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.purge = true}).ok());
  for (const auto& [name, content] : ReadTree(*files_, "/data")) EXPECT_FALSE(name.ends_with(".removed")) << name;
  Check();
}

TEST_F(CompactTest, AListOfRemovedSamplesGoesWithTheLastManifestThatNamesIt) {
  Remove({39});  // generation 2
  Remove({0});
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& [name, bytes] : ReadTree(*files_, "/data")) {
      if (name.ends_with(".removed")) found.push_back(name);
    }
    return found;
  };
  size_t next = 40;
  for (; ReadManifest(*files_, "/data")->generation < 2 + kMostKeptManifests; ++next) Append(next, next + 1);
  EXPECT_EQ(names(), (std::vector<std::string>{"dataset-2.removed", "dataset-3.removed"}));
  EXPECT_TRUE(DatasetReader::Open(*files_, "/data", {.generation = 2}).ok());
  Append(next, next + 1);
  EXPECT_EQ(names(), std::vector<std::string>{"dataset-3.removed"});
  EXPECT_TRUE(absl::IsNotFound(DatasetReader::Open(*files_, "/data", {.generation = 2}).status()));
  Check();
}

TEST_F(CompactTest, NamesOfShardsAreNotGivenTwice) {
  Remove({27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39});  // the last two shards
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  EXPECT_GT(ReadManifest(*files_, "/data")->next_shard, 5u);
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Append(40, 50);
  Check();
  EXPECT_EQ(ScanRows(**DatasetReader::Open(*files_, "/data", {.generation = 1})), RowsOf(Samples(0, 40)));
}

// Whether a file of the dataset has these bytes anywhere.
std::string FileWith(const Tree& tree, std::string_view bytes) {
  for (const auto& [name, content] : tree) {
    if (content.find(bytes) != content.npos) return name;
  }
  return "";
}

TEST_F(CompactTest, CompactingDropsWhatWasRemoved) {
  const Tree before = ReadTree(*files_, "/data");
  // A whole shard, most of another, and one sample of a third.
  Remove({0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 20});
  const auto report = CompactDataset(*files_, "/data", {.least_lost = 0.4});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->shards_rewritten, 2u);
  EXPECT_EQ(report->samples_dropped, 14u);
  Check();
  const Manifest manifest = *ReadManifest(*files_, "/data");
  EXPECT_EQ(manifest.sample_count, 26u);
  EXPECT_EQ(manifest.removed->samples, 1u);
  EXPECT_EQ(manifest.shards.size(), 4u);
  EXPECT_EQ(manifest.shards[0].name, "00000006.shard");
  EXPECT_EQ(manifest.shards[1].name, "00000002.shard");
  // An earlier generation is there, whatever happens to the newest.
  Append(40, 50);
  Check();
  EXPECT_EQ(ScanRows(**DatasetReader::Open(*files_, "/data", {.generation = 1})), RowsOf(Samples(0, 40)));
  const auto again = CompactDataset(*files_, "/data", {.least_lost = 0.4});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shards_rewritten, 0u);  // the segments are joined
  EXPECT_EQ(ReadManifest(*files_, "/data")->segments.size(), 1u);
  Check();
}

TEST_F(CompactTest, AShardThatHasLostJustTheShareAskedForIsRewritten) {
  UseLargeBlocks(8, 8, 8);
  Remove({1, 6});
  const auto less = CompactDataset(*files_, "/data", {.least_lost = 0.26});
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_EQ(less->shards_rewritten, 0u);
  const auto just = CompactDataset(*files_, "/data", {.least_lost = 0.25});
  ASSERT_TRUE(just.ok()) << just.status();
  EXPECT_EQ(just->shards_rewritten, 1u);
  Check();
}

TEST_F(CompactTest, NothingIsCompactedWhereNothingWasRemoved) {
  const Tree before = ReadTree(*files_, "/data");
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  EXPECT_EQ(ReadTree(*files_, "/data"), before);
  for (const double share : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CompactDataset(*files_, "/data", {.least_lost = share}).status()));
  }
}

TEST_F(CompactTest, TheResultDoesNotDependOnThreads) {
  AddColumn(Score(), ScoreOf);
  Remove({0, 9, 10, 18, 30, 31, 38});
  WriteTree(*files_, "/other", ReadTree(*files_, "/data"));
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.least_lost = 0.01}).ok());
  ASSERT_TRUE(CompactDataset(*files_, "/other", {{.threads = 7}, 0.01}).ok());
  EXPECT_EQ(ReadTree(*files_, "/data"), ReadTree(*files_, "/other"));
  Check();
}

TEST_F(CompactTest, NoByteOfARemovedSampleIsLeft) {
  // With dictionaries, and with the sample's values in a column file, too.
  DatasetWriterOptions options = SmallShards(20, 4);
  options.shard.dictionaries = {{"text", 4096}, {"key", 4096}};
  ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
  std::vector<OwnedSample> samples;
  const Column text = TextColumn(), image = ImageColumn();
  for (size_t i = 0; i < 60; ++i) {
    std::string words = "common words before";
    for (int k = 0; k < 8; ++k) words += i == 17 ? " UNFORGETTABLE" : " ordinary" + std::to_string(k + i % 5);
    samples.push_back({"key/" + std::string(i == 17 ? "UNFORGETTABLE" : std::to_string(1000 + i)),
                       {{&text, words}, {&image, std::string(40, 'i') + (i == 17 ? "UNFORGETTABLE" : "")}}});
  }
  ASSERT_TRUE(WriteDataset(*files_, "/data", samples, options).ok());
  rows_ = RowsOf(samples);
  Column none = Text("note");
  none.SetCodec(Codec::kNone);
  AddColumn(none, [](uint64_t i) { return std::optional(i == 17 ? "UNFORGETTABLE" : "note"); });
  EXPECT_NE(FileWith(ReadTree(*files_, "/data"), "UNFORGETTABLE"), "");
  Remove({17});
  const auto report = CompactDataset(*files_, "/data", {.purge = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->shards_rewritten, 3u);  // one has it, and the others have the values of the column file
  EXPECT_GT(report->files_deleted, 4u);
  Check();
  const Tree tree = ReadTree(*files_, "/data");
  EXPECT_EQ(FileWith(tree, "UNFORGETTABLE"), "");
  // Nor its hash in a table of the keys, or a piece of it in a dictionary.
  const uint64_t hash = Hash64("key/UNFORGETTABLE");
  EXPECT_EQ(FileWith(tree, {reinterpret_cast<const char*>(&hash), 8}), "");
  EXPECT_EQ(FileWith(tree, "FORGET"), "");
  for (const auto& [name, content] : tree) EXPECT_EQ(name.find("dataset-1"), name.npos) << name;
  // Nothing is left to be done.
  const auto again = CompactDataset(*files_, "/data", {.purge = true});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->files_deleted, 0u);
  EXPECT_EQ(ReadTree(*files_, "/data"), tree);
}

TEST_F(CompactTest, TheGracePeriodCanBeCancelled) {
  Remove({1});
  Cancellation cancellation;
  cancellation.Cancel();
  // Cancelled before it publishes anything.
  const auto cancelled = CompactDataset(
      *files_, "/data", {{.cancellation = &cancellation}, 0.2, /*fold=*/false, /*purge=*/true, std::chrono::hours(1)});
  EXPECT_TRUE(absl::IsCancelled(cancelled.status())) << cancelled.status();
  EXPECT_EQ(ReadManifest(*files_, "/data")->generation, 2u);
  Check();
}

TEST_F(CompactTest, WholeBlocksAreCopiedAsTheyAre) {
  ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
  DatasetWriterOptions options = SmallShards(20, 4);
  options.shard.zstd_levels = {{"text", 19}};  // encoding them again gives other bytes
  const Column text = TextColumn(), image = ImageColumn();
  std::vector<OwnedSample> samples;
  std::mt19937 numbers(1);
  for (size_t i = 0; i < 20; ++i) {
    std::string words;
    while (words.size() < 20'000) words += "word" + std::to_string(numbers() % 3000) + " ";
    samples.push_back({std::to_string(i), {{&text, words}, {&image, std::string(100 + i, 'i')}}});
  }
  ASSERT_TRUE(WriteDataset(*files_, "/data", samples, options).ok());
  rows_ = RowsOf(samples);
  const auto chunks_of = [&](const std::string& path) {
    const std::string bytes = ReadAll(*files_, path);
    const auto shard = ShardReader::Open(*files_, path);
    EXPECT_TRUE(shard.ok()) << shard.status();
    std::vector<std::string> chunks;
    for (const BlockInfo& block : (*shard)->blocks()) {
      const size_t header = LoadLittle<uint32_t>(bytes.data() + block.offset + 8);
      chunks.push_back(bytes.substr(block.offset + header, block.length - header));
    }
    return chunks;
  };
  const std::vector<std::string> before = chunks_of("/data/00000000.shard");
  ASSERT_EQ(before.size(), 5u);
  Remove({0, 1, 2, 3, 9});
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.least_lost = 0.01}).ok());
  Check();
  const std::vector<std::string> after = chunks_of("/data/00000001.shard");
  ASSERT_EQ(after.size(), 4u);
  EXPECT_EQ(after[0], before[1]);
  EXPECT_NE(after[1], before[2]);
  EXPECT_EQ(after[2], before[3]);
  EXPECT_EQ(after[3], before[4]);
}

// Folders of others stay, whatever they are called.
TEST_F(CompactTest, PurgingFindsShardsOfOtherNames) {
  Manifest manifest = *ReadManifest(*files_, "/data");
  ASSERT_TRUE(files_->Rename("/data/" + manifest.shards[0].name, "/data/first.shard").ok());
  manifest.shards[0].name = "first.shard";
  WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  Remove({1});
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.least_lost = 0.01}).ok());
  Append(40, 45);
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  EXPECT_EQ(ReadManifest(*files_, "/data")->replaced, std::vector<std::string>{"first.shard"});
  // As after many generations: no manifest that lists it is left.
  for (const auto& [name, content] : ReadTree(*files_, "/data")) {
    if (name.starts_with("dataset-") && name.ends_with(".json")) {
      ASSERT_TRUE(files_->RemoveFile("/data/" + name).ok());
    }
  }
  EXPECT_EQ(ReadTree(*files_, "/data").count("first.shard"), 1u);
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.purge = true}).ok());
  EXPECT_EQ(ReadTree(*files_, "/data").count("first.shard"), 0u);
  Check();
}

TEST_F(CompactTest, PurgingLeavesForeignFiles) {
  ASSERT_TRUE(files_->CreateDirectory("/data/dataset-2.columns.d").ok());
  WriteFile(*files_, "/data/dataset-2.columns.d/recipe", "flour");
  WriteFile(*files_, "/data/README", "text");
  WriteFile(*files_, "/data/dataset-99.segment/note", "text");
  Remove({1});
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.purge = true}).ok());
  EXPECT_EQ(ReadAll(*files_, "/data/dataset-2.columns.d/recipe"), "flour");
  EXPECT_EQ(ReadAll(*files_, "/data/README"), "text");
  Check();
}

}  // namespace
}  // namespace shardkit::test
