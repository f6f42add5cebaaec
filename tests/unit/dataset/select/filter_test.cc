// Datasets of selected samples: the right ones, whole, the same for any number of threads, and nothing after a failure.
#include "shardkit/copy.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "base/hash.h"
#include "support/effort.h"
#include "support/fault_filesystem.h"
#include "unit/dataset/select/select_support.h"

namespace shardkit::test {
namespace {

// Keys "k1000000", …; the label of sample i, if it has one, is i.
std::unique_ptr<FileSystem> NewInput(size_t count = 60) {
  auto files = NewMemoryFileSystem();
  DatasetWriterOptions options = SmallShards(20, 4);
  options.shard.metadata["about"] = "a test";
  const auto summary = WriteDataset(*files, "/in", MakeSamples(count), options);
  EXPECT_TRUE(summary.ok()) << summary.status();
  return files;
}

FilterOptions Options(int threads = 1) {
  FilterOptions options;
  options.pack.dataset = SmallShards(0, 3);
  options.pack.dataset.shard_size = 500;
  options.pack.dataset.threads = threads;
  return options;
}

SampleSelection Where(const std::string& text) {
  SampleSelection selection;
  selection.where = text;
  return selection;
}

std::set<std::string> KeysIn(FileSystem& files, const std::string& path) {
  std::set<std::string> keys;
  for (const Row& row : ScanRows(files, path)) keys.insert(row.at("key"));
  return keys;
}

std::set<std::string> KeysOf(FileSystem& files, const SampleSelection& selection) {
  EXPECT_TRUE(!Exists(files, "/out") || RemoveTree(files, "/out").ok());
  const auto report = Filter(files, "/in", "/out", selection, Options());
  EXPECT_TRUE(report.ok()) << report.status();
  return KeysIn(files, "/out");
}

TEST(FilterTest, TakesWhatItShould) {
  const auto files = NewInput();
  const std::vector<Row> all = RowsOf(MakeSamples(60));
  std::vector<Row> expected;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 3 == 1 && i >= 20) expected.push_back(all[i]);
  }
  for (const int threads : {1, 2, 5}) {
    const std::string out = "/out" + std::to_string(threads);
    const auto report = Filter(*files, "/in", out, Where("label >= 20"), Options(threads));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(ScanRows(*files, out), expected);
    EXPECT_TRUE(ReadTree(*files, out) == ReadTree(*files, "/out1"));
    EXPECT_EQ(ValidateText(*files, out), "");
    EXPECT_EQ(report->pack.manifest.sample_count, expected.size());
    EXPECT_EQ(report->selection.selected, expected.size());
    EXPECT_EQ(report->selection.samples, 60u);
    EXPECT_EQ(report->selection.blocks, 15u);
    EXPECT_EQ(report->selection.blocks_skipped, 5u);
    EXPECT_EQ(report->selection.blocks_read, 10u);
    EXPECT_GT(report->pack.manifest.shards.size(), 1u);
  }
  const auto in = ReadManifest(*files, "/in"), out = ReadManifest(*files, "/out1");
  ASSERT_TRUE(in.ok() && out.ok());
  EXPECT_EQ(in->schema, out->schema);
  EXPECT_EQ(out->metadata.at("about"), "a test");
}

TEST(FilterTest, AllOfWhatIsGivenHolds) {
  const auto files = NewInput();
  SampleSelection selection;
  selection.ranges = {{10, 20}, {15, 25}, {58, UINT64_MAX}, {7, 7}};
  EXPECT_EQ(KeysOf(*files, selection).size(), 17u);
  selection.where = "label is not null";
  EXPECT_EQ(KeysOf(*files, selection).size(), 6u);
  selection.keys = {"k1000058", "k1000010", "k1000011", "none", "k1000010"};
  EXPECT_EQ(KeysOf(*files, selection), (std::set<std::string>{"k1000010", "k1000058"}));
  const auto report = CountSamples(*files, "/in", selection);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->selected, 2u);
  EXPECT_EQ(report->keys_missing, 2u);  // one is in the dataset, but not selected
  selection.keys->clear();
  EXPECT_EQ(KeysOf(*files, selection).size(), 0u);
  EXPECT_EQ(ValidateText(*files, "/out"), "");
}

TEST(FilterTest, AShareStaysWhenSamplesAreAppended) {
  const auto files = NewInput(1000);
  SampleSelection selection;
  selection.share = 0.2;
  selection.seed = 1;
  const std::set<std::string> some = KeysOf(*files, selection);
  EXPECT_NEAR(static_cast<double>(some.size()), 200, 40);
  std::set<std::string> by_rule;
  for (const OwnedSample& sample : MakeSamples(1000)) {
    if (static_cast<double>(SeededHash64(sample.key, 1)) < 0.2 * 0x1p64) by_rule.insert(sample.key);
  }
  EXPECT_EQ(some, by_rule);
  // As the reference implementation has it: xxhash.xxh3_64_intdigest("k1000000", 1).
  EXPECT_EQ(SeededHash64("k1000000", 1), 8534342365429970653u);
  selection.share = 0.5;
  const std::set<std::string> more = KeysOf(*files, selection);
  EXPECT_TRUE(std::ranges::includes(more, some));
  selection.seed = 2;
  EXPECT_NE(KeysOf(*files, selection), more);
  selection.share = 1;
  EXPECT_EQ(KeysOf(*files, selection).size(), 1000u);
}

TEST(FilterTest, RefusesWhatMakesNoSense) {
  const auto files = NewInput();
  const auto message = [&](const SampleSelection& selection) {
    const auto report = Filter(*files, "/in", "/out", selection, Options());
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_FALSE(Exists(*files, "/out"));
    return Message(report.status());
  };
  EXPECT_EQ(message(Where("label")),
            "/in: predicate: at character 1, `label`: a predicate is a condition, not column \"label\" of type i32");
  SampleSelection selection;
  for (const double share : {0.0, -1.0, 1.5, 1e-12, std::nan("")}) {
    selection.share = share;
    EXPECT_EQ(message(selection), "sample: a share lies between 0.0000001% and 100%");
  }
  FilterOptions options = Options();
  options.pack.skip_errors = true;
  EXPECT_TRUE(absl::IsInvalidArgument(Filter(*files, "/in", "/out", {}, options).status()));
}

TEST(FilterTest, NeedsKeysOnlyWhereTheyDecide) {
  const auto files = NewMemoryFileSystem();
  auto writer = DatasetWriter::Create(*files, "/in", MakeSchema({LabelColumn()}), SmallShards(4, 2));
  ASSERT_TRUE(writer.ok());
  for (int32_t i = 0; i < 9; ++i) {
    const std::string label = Bytes(i);
    const std::optional<Value> row[] = {Value(label)};
    ASSERT_TRUE((*writer)->Append(row).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto report = Filter(*files, "/in", "/out", Where("label > 6"), Options());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->pack.samples, 2u);
  SampleSelection selection;
  selection.share = 0.5;
  // Samples without keys go by their numbers.
  const auto half = FindSamples(*files, "/in", selection);
  ASSERT_TRUE(half.ok()) << half.status();
  std::vector<uint64_t> expected;
  for (uint64_t i = 0; i < 9; ++i) {
    if (SeededHash64("00000000000" + std::to_string(i), 0) < uint64_t{1} << 63) expected.push_back(i);
  }
  EXPECT_EQ(half->ordinals, expected);
  EXPECT_TRUE(!expected.empty() && expected.size() < 9);
  selection = {};
  selection.keys = {"000000000007", "7", "000000000009"};
  const auto named = FindSamples(*files, "/in", selection);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->ordinals, (std::vector<uint64_t>{7}));
  EXPECT_EQ(named->report.keys_missing, 2u);
  const auto dataset = DatasetReader::Open(*files, "/in");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  EXPECT_EQ(*(*dataset)->FindKey("000000000008", &buffer), 8u);
  for (const std::string_view key : {"8", "000000000009", "", "00000000000x", "0000000000008"}) {
    EXPECT_EQ(*(*dataset)->FindKey(key, &buffer), std::nullopt) << key;
  }
}

TEST(FilterTest, ReadsNoBlockWithoutSelectedSamples) {
  const auto files = NewInput();
  const auto dataset = DatasetReader::Open(*files, "/in");
  ASSERT_TRUE(dataset.ok());
  const auto shard = (*dataset)->OpenShard(0);
  ASSERT_TRUE(shard.ok());
  const BlockInfo block = (*shard)->blocks()[0];
  std::string bytes = ReadAll(*files, "/in/00000000.shard");
  std::ranges::fill(std::span(bytes).subspan(block.offset, block.length), 'x');
  ASSERT_TRUE(files->RemoveFile("/in/00000000.shard").ok());
  WriteFile(*files, "/in/00000000.shard", bytes);
  EXPECT_TRUE(Filter(*files, "/in", "/out", Where("label > 3"), Options()).ok());
  EXPECT_TRUE(absl::IsDataLoss(Filter(*files, "/in", "/all", Where("label > 0"), Options()).status()));
  EXPECT_FALSE(Exists(*files, "/all"));
}

// Whichever thread finds it first, the error is that of the first shard.
TEST(FilterTest, TheFirstDamageIsReported) {
  for (int round = 0; round < 20; ++round) {
    const auto files = NewInput();
    for (const std::string shard : {"/in/00000001.shard", "/in/00000002.shard"}) {
      const auto opened = ShardReader::Open(*files, shard);
      ASSERT_TRUE(opened.ok());
      const BlockInfo block = (*opened)->blocks()[shard.find('1') != std::string::npos ? 4 : 0];
      std::string bytes = ReadAll(*files, shard);
      std::ranges::fill(std::span(bytes).subspan(block.offset, block.length), 'x');
      ASSERT_TRUE(files->RemoveFile(shard).ok());
      WriteFile(*files, shard, bytes);
    }
    SampleSelection selection = Where("text is not null");
    const auto report = CountSamples(*files, "/in", selection, {{.threads = 3}});
    ASSERT_TRUE(absl::IsDataLoss(report.status())) << report.status();
    EXPECT_EQ(Message(report.status()).find("/in/00000001.shard"), 0u) << report.status();
  }
}

TEST(FilterTest, WidenedColumnsAreAbsentBefore) {
  const auto files = NewMemoryFileSystem();
  DatasetWriterOptions options = SmallShards(0, 4);
  ASSERT_TRUE(WriteDataset(*files, "/in", {{"a", {{&TextColumn(), "x"}}}}, options).ok());
  options.append = true;
  const std::string label = Bytes(int32_t{5});
  ASSERT_TRUE(WriteDataset(*files, "/in", {{"b", {{&LabelColumn(), label}}}}, options).ok());
  EXPECT_EQ(KeysOf(*files, Where("label = 5")), (std::set<std::string>{"b"}));
  EXPECT_EQ(KeysOf(*files, Where("label is null")), (std::set<std::string>{"a"}));
  const auto report = CountSamples(*files, "/in", Where("label = 5"));
  EXPECT_EQ(report->blocks_skipped, 1u);
}

TEST(FilterTest, OtherContainers) {
  const auto files = NewInput();
  ConvertOptions convert;
  convert.to = Container::kMds;
  convert.columns = {"key", "image"};
  ASSERT_TRUE(Convert(*files, "/in", "/mds", convert).ok());
  const auto report = Filter(*files, "/mds", "/out", Where("key ~ '*5' and len(image) > 50"), Options());
  ASSERT_TRUE(report.ok()) << report.status();
  std::set<std::string> expected;
  for (const OwnedSample& sample : MakeSamples(60)) {
    if (sample.key.ends_with('5') && sample.fields[0].second.size() > 50) expected.insert(sample.key);
  }
  EXPECT_EQ(KeysIn(*files, "/out"), expected);
}

TEST(FilterTest, IsCancelled) {
  const auto files = NewInput();
  Cancellation cancellation;
  FilterOptions options = Options();
  options.pack.dataset.cancellation = &cancellation;
  options.pack.progress = [&](const PackProgress& now) {
    EXPECT_EQ(now.total_samples, 13u);
    cancellation.Cancel();
  };
  EXPECT_TRUE(absl::IsCancelled(Filter(*files, "/in", "/out", Where("label > 20"), options).status()));
  EXPECT_FALSE(Exists(*files, "/out"));
  EXPECT_TRUE(absl::IsCancelled(Filter(*files, "/in", "/out", Where("label > 20"), options).status()));
}

TEST(SplitTest, NoKeyIsInTwoParts) {
  const auto files = NewInput(1000);
  const std::vector<SplitPart> parts = {{"train", 0.8}, {"val", 0.1}, {"test", 0.1}};
  for (const int threads : {1, 3}) {
    const std::string out = "/out" + std::to_string(threads);
    const auto report = Split(*files, "/in", out, parts, 7, Options(threads));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->selection.selected, 1000u);
    EXPECT_TRUE(ReadTree(*files, out) == ReadTree(*files, "/out1"));
  }
  size_t sum = 0;
  std::set<std::string> together;
  for (const SplitPart& part : parts) {
    const std::set<std::string> keys = KeysIn(*files, "/out1/" + part.name);
    EXPECT_NEAR(static_cast<double>(keys.size()), 1000 * part.share, 60) << part.name;
    sum += keys.size();
    together.insert(keys.begin(), keys.end());
  }
  EXPECT_EQ(sum, 1000u);
  EXPECT_EQ(together.size(), 1000u);
}

TEST(SplitTest, RefusesWhatMakesNoSense) {
  const auto files = NewInput();
  const auto message = [&](const std::vector<SplitPart>& parts) {
    const auto report = Split(*files, "/in", "/out", parts, 0, Options());
    EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << report.status();
    EXPECT_FALSE(Exists(*files, "/out"));
    return Message(report.status());
  };
  EXPECT_EQ(message({}), "no part is named");
  EXPECT_EQ(message({{"a", 0.5}, {"a", 0.1}}), "part \"a\": is named twice");
  EXPECT_EQ(message({{"..", 0.5}}), "part \"..\": is no name of a directory");
  EXPECT_EQ(message({{"a/b", 0.5}}), "part \"a/b\": is no name of a directory");
  EXPECT_EQ(message({{"a", 0.6}, {"b", 0.5}}), "part \"b\": the shares exceed 100% together");
  EXPECT_EQ(message({{"a", 0}}), "part \"a\": a share lies between 0.0000001% and 100%");
  ASSERT_TRUE(Split(*files, "/in", "/out", {{"b", 0.5}}, 0, Options()).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Split(*files, "/in", "/out", {{"a", 0.5}, {"b", 0.5}}, 0, Options()).status()));
  EXPECT_FALSE(Exists(*files, "/out/a"));
}

// One of the calls to the file system fails, each in turn. Nothing is left, and the next run makes the same.
void CheckEveryCall(const std::function<absl::Status(FileSystem&)>& run) {
  const auto whole = NewInput(12);
  ASSERT_TRUE(run(*whole).ok());
  const Tree expected = ReadTree(*whole, "/");
  for (uint64_t number = 1;; number += TestStep()) {
    ASSERT_LT(number, 10000u);
    const auto files = NewInput(12);
    const Tree before = ReadTree(*files, "/");
    FaultFileSystem faults(files.get());
    faults.FailCall(number, {.status = absl::InternalError("injected fault")});
    const absl::Status status = run(faults);
    const auto failed = faults.failed_call();
    if (!failed) return;
    SCOPED_TRACE("call " + std::to_string(number) + ": " + failed->operation + " " + failed->path);
    if (status.ok()) {
      EXPECT_TRUE(ReadTree(*files, "/") == expected) << Describe(ReadTree(*files, "/"));
    } else if (!failed->operation.starts_with("remove") && !Exists(*files, JoinPath(failed->path, kManifestName)) &&
               !Exists(*files, JoinPath(failed->path, "../dataset.json"))) {
      // Where the directory of a manifest, or the folder of its job, cannot be flushed, the dataset is whole, though
      // nobody knows for how long.
      EXPECT_EQ(Describe(ReadTree(*files, "/")), Describe(before)) << status;
      EXPECT_TRUE(run(*files).ok());
      EXPECT_TRUE(ReadTree(*files, "/") == expected) << Describe(ReadTree(*files, "/"));
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(FilterFaultTest, Filter) {
  CheckEveryCall([](FileSystem& files) {
    SampleSelection selection = Where("label > 2");
    selection.keys = {"k1000004", "k1000010"};
    return Filter(files, "/in", "/out", selection, Options()).status();
  });
}

TEST(FilterFaultTest, Split) {
  CheckEveryCall([](FileSystem& files) {
    return Split(files, "/in", "/out", {{"train", 0.5}, {"val", 0.5}}, 3, Options()).status();
  });
}

}  // namespace
}  // namespace shardkit::test
