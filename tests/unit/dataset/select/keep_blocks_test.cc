// Blocks that are copied as they are stored: the same bytes, and everything said of them is what encoding would say.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/named_hash.h"
#include "base/strings.h"
#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "support/effort.h"
#include "support/fault_filesystem.h"
#include "unit/dataset/select/select_support.h"

namespace shardkit::test {
namespace {

Column Named(std::string name, Type type, Codec codec, bool nullable = false) {
  Column column{.name = std::move(name), .type = type, .nullable = nullable};
  column.SetCodec(codec);
  return column;
}

// Every way to store values.
Schema AllKinds() {
  std::vector<Column> columns = {KeyColumn(), ImageColumn(), TextColumn(), LabelColumn()};
  columns.push_back(Named("score", Type::kF64, Codec::kZstd));
  columns.push_back(Named("vector", Type::kNdarray, Codec::kZstd));
  columns.back().dtype = Type::kF32;
  columns.back().shape = {3};
  columns.push_back(Named("maybe", Type::kNdarray, Codec::kNone, true));
  columns.back().dtype = Type::kU8;
  columns.back().shape = {2};
  columns.push_back(Named("small", Type::kBytes, Codec::kNone, true));  // in pages
  return MakeSchema(std::move(columns));
}

void WriteAllKinds(FileSystem& files, const std::string& path, size_t count, DatasetWriterOptions options) {
  const Schema schema = AllKinds();
  options.shard.storage = {{"image", Storage::kBlob}};
  auto writer = DatasetWriter::Create(files, path, schema, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (size_t i = 0; i < count; ++i) {
    const std::string key = StrCat("key ", i), image = "\xff\xd8\xff" + std::string(30 + i, 'i'), text(i * 7 % 50, 't');
    const std::string label = Bytes(static_cast<int32_t>(i)), small(1 + i % 4, 's');
    const std::string score = Bytes(i % 8 < 4 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(i) / 4);
    const std::string vector = Bytes(float(i)) + Bytes(float(1)) + Bytes(float(2)), maybe = "ab";
    std::vector<std::optional<Value>> row = {Value(key),   Value(image), Value(text),
                                             Value(label), Value(score), Value(vector)};
    row.push_back(i % 5 == 0 ? std::nullopt : std::optional<Value>(Value(maybe)));
    row.push_back(i % 6 == 0 ? std::nullopt : std::optional<Value>(Value(small)));
    if (i % 3 == 0) row[2] = std::nullopt;
    if (i % 9 > 5) row[1] = row[3] = std::nullopt;
    ASSERT_TRUE((*writer)->Append(row).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
}

std::vector<uint32_t> BlockSizes(FileSystem& files, const std::string& path) {
  std::vector<uint32_t> sizes;
  const auto dataset = DatasetReader::Open(files, path);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE((*dataset)
                  ->ForEachBlock([&](const DatasetBlock& block) {
                    sizes.push_back(block.sample_count);
                    return absl::OkStatus();
                  })
                  .ok());
  return sizes;
}

// What the shards say of themselves is what reading them says, and the indexes are those that they give.
void CheckWhole(FileSystem& files, const std::string& path) {
  EXPECT_EQ(ValidateText(files, path), "");
  Tree before = ReadDataset(files, path);
  ASSERT_TRUE(RebuildIndex(files, path).ok());
  EXPECT_TRUE(ReadDataset(files, path) == before);
}

class KeepBlocksTest : public testing::Test {
 protected:
  void SetUp() override { WriteAllKinds(*files_, "/in", 60, InputOptions()); }

  static FilterOptions Options(int threads = 1) {
    FilterOptions options;
    options.pack.dataset.shard = InputOptions().shard;
    options.pack.dataset.shard.max_block_samples = 65536;
    options.pack.dataset.shard_size = 3000;
    options.pack.dataset.threads = threads;
    return options;
  }
  static DatasetWriterOptions InputOptions() { return SmallShards(20, 4); }
  static ConvertOptions Conversion() {
    ConvertOptions options;
    options.pack.dataset.shard = Options().pack.dataset.shard;
    return options;
  }
  static SampleSelection Ranges(std::vector<std::pair<uint64_t, uint64_t>> ranges) {
    SampleSelection selection;
    selection.ranges = std::move(ranges);
    return selection;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(KeepBlocksTest, PartialBlocksEndWhereWholeOnesBegin) {
  const SampleSelection selection = Ranges({{0, 9}, {10, 13}, {14, 31}, {33, 34}, {37, 60}});
  FilterOptions again = Options();
  again.keep_blocks = false;
  again.pack.dataset.shard_size = 1 << 20;
  ASSERT_TRUE(Filter(*files_, "/in", "/again", selection, again).ok());
  EXPECT_EQ(BlockSizes(*files_, "/again"), (std::vector<uint32_t>{53}));
  const std::vector<Row> expected = ScanRows(*files_, "/again");
  for (const uint64_t shard_size : {uint64_t{1} << 20, uint64_t{3000}}) {
    for (const int threads : {1, 2, 5}) {
      const std::string out = StrCat("/out", shard_size, "-", threads);
      FilterOptions options = Options(threads);
      options.pack.dataset.shard_size = shard_size;
      const auto report = Filter(*files_, "/in", out, selection, options);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->pack.samples, 53u);
      EXPECT_EQ(ScanRows(*files_, out), expected);
      EXPECT_TRUE(ReadTree(*files_, out) == ReadTree(*files_, StrCat("/out", shard_size, "-1")));
      CheckWhole(*files_, out);
    }
  }
  EXPECT_GT(ReadManifest(*files_, "/out3000-1")->shards.size(), 3u);
  EXPECT_EQ(BlockSizes(*files_, "/out1048576-1"),
            (std::vector<uint32_t>{4, 4, 1 + 2 + 1 + 2, 4, 4, 4, 3 + 1 + 3, 4, 4, 4, 4, 4}));
}

TEST_F(KeepBlocksTest, BytesAndStatisticsAreThoseOfTheInput) {
  ConvertOptions options = Conversion();
  options.pack.dataset.shard_size = 1 << 20;
  const auto report = Convert(*files_, "/in", "/out", options);
  ASSERT_TRUE(report.ok()) << report.status();
  options.keep_blocks = false;
  options.pack.dataset.shard = InputOptions().shard;
  options.pack.dataset.shard.storage = {{"image", Storage::kBlob}};
  const auto again = Convert(*files_, "/in", "/again", options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(report->input_bytes, again->input_bytes);
  EXPECT_EQ(report->samples, again->samples);
  // Encoding is deterministic, and so what is copied is what is encoded.
  EXPECT_TRUE(ReadDataset(*files_, "/out") == ReadDataset(*files_, "/again"));
}

TEST_F(KeepBlocksTest, ShardsMayEndWithinABlock) {
  FilterOptions options = Options();
  options.pack.dataset.shard_samples = 10;
  const auto report = Filter(*files_, "/in", "/out", Ranges({{0, 60}}), options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->pack.manifest.shards.size(), 6u);
  EXPECT_EQ(BlockSizes(*files_, "/out"), (std::vector<uint32_t>{4, 4, 2, 2, 4, 4, 4, 4, 2, 2, 4, 4, 4, 4, 2, 2, 4, 4}));
  EXPECT_EQ(ScanRows(*files_, "/out"), ScanRows(*files_, "/in"));
  CheckWhole(*files_, "/out");
}

TEST_F(KeepBlocksTest, OtherwiseStoredColumnsAreEncodedAnew) {
  const auto sizes = [&](const ConvertOptions& options) {
    const auto report = Convert(*files_, "/in", "/out", options);
    EXPECT_TRUE(report.ok()) << report.status();
    const std::vector<uint32_t> found = BlockSizes(*files_, "/out");
    EXPECT_EQ(ValidateText(*files_, "/out"), "");
    EXPECT_TRUE(RemoveTree(*files_, "/out").ok());
    return found;
  };
  const std::vector<uint32_t> kept(15, 4), again = {60};
  ConvertOptions options = Conversion();
  EXPECT_EQ(sizes(options), kept);
  options.pack.dataset.codecs = {{"text", Codec::kNone}};
  EXPECT_EQ(sizes(options), again);
  options.pack.dataset.codecs = {{"text", Codec::kZstd}};
  EXPECT_EQ(sizes(options), kept);
  options.pack.dataset.shard.zstd_levels = {{"text", 9}};
  EXPECT_EQ(sizes(options), again);
  options = Conversion();
  options.pack.dataset.shard.storage = {{"small", Storage::kPaged}};
  EXPECT_EQ(sizes(options), again);
  options = Conversion();
  options.columns = {"key", "image", "text"};
  EXPECT_EQ(sizes(options), again);
  options = Conversion();
  options.pack.dataset.shard.alignment = 4096;
  EXPECT_EQ(sizes(options), again);
  options = Conversion();
  options.key_column = "";
  EXPECT_EQ(sizes(options), again);
}

TEST_F(KeepBlocksTest, OnlyShardsWithAllColumnsOfTheDataset) {
  ASSERT_TRUE(WriteDataset(*files_, "/mixed", MakeSamples(8), SmallShards(0, 2)).ok());
  DatasetWriterOptions options = SmallShards(0, 2);
  options.append = true;
  const Column more = Named("more", Type::kUtf8, Codec::kZstd, true);
  std::vector<OwnedSample> samples;
  for (const std::string key : {"a", "b", "c", "d"}) {
    samples.push_back({key, {{&more, "x"}, {&ImageColumn(), "\xff\xd8\xff"}}});
  }
  ASSERT_TRUE(WriteDataset(*files_, "/mixed", samples, options).ok());
  const auto report = Convert(*files_, "/mixed", "/out", Conversion());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ScanRows(*files_, "/out"), ScanRows(*files_, "/mixed"));
  EXPECT_EQ(ValidateText(*files_, "/out"), "");
}

// Columns of one kind, in another order, and then with exchanged names: in one shard they are called as now, but in the
// other order.
TEST_F(KeepBlocksTest, ValuesGoByTheNamesThatTheirColumnsHaveNow) {
  const Column a = Named("a", Type::kUtf8, Codec::kZstd), b = Named("b", Type::kUtf8, Codec::kZstd);
  const auto write = [&](const std::string& path, const Column& first, const Column& second) {
    std::vector<OwnedSample> samples;
    for (const std::string number : {"0", "1", "2", "3"}) {
      samples.push_back({path + number, {{&first, first.name + number}, {&second, second.name + number}}});
    }
    ASSERT_TRUE(WriteDataset(*files_, path, samples, InputOptions()).ok());
  };
  write("/one", a, b);
  write("/two", b, a);
  ASSERT_TRUE(MergeDatasets(*files_, {"/one", "/two"}, "/both").ok());
  for (const std::string out : {"/as-written", "/renamed"}) {
    ASSERT_TRUE(Convert(*files_, "/both", out, Conversion()).ok());
    EXPECT_EQ(ScanRows(*files_, out), ScanRows(*files_, "/both"));
    if (out == "/as-written") ASSERT_TRUE(RenameColumns(*files_, "/both", {{"a", "b"}, {"b", "a"}}).ok());
  }
  const std::vector<Row> expected = ScanRows(*files_, "/both");
  CompactOptions fold;
  fold.fold = true;
  ASSERT_TRUE(CompactDataset(*files_, "/both", fold).ok());
  EXPECT_EQ(ScanRows(*files_, "/both"), expected);
}

TEST_F(KeepBlocksTest, DictionariesAreNotCopied) {
  DatasetWriterOptions options = SmallShards(0, 64);
  options.shard.dictionaries = {{"text", 4096}};
  std::vector<OwnedSample> samples = MakeSamples(2000);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].fields = {{&TextColumn(), StrCat("some text that is nearly the same each time ", i, " and ", i * i)}};
  }
  ASSERT_TRUE(WriteDataset(*files_, "/dictionary", samples, options).ok());
  const auto dataset = DatasetReader::Open(*files_, "/dictionary");
  ASSERT_FALSE((*dataset)->OpenShard(0).value()->dictionary_columns().empty());
  ASSERT_TRUE(Convert(*files_, "/dictionary", "/out", Conversion()).ok());
  EXPECT_EQ(ScanRows(*files_, "/out"), RowsOf(samples));
  EXPECT_EQ(ValidateText(*files_, "/out"), "");
}

TEST_F(KeepBlocksTest, DamageIsFoundAndNamed) {
  const auto opened = ShardReader::Open(*files_, "/in/00000001.shard");
  ASSERT_TRUE(opened.ok());
  const BlockInfo block = (*opened)->blocks()[2];
  const std::string bytes = ReadAll(*files_, "/in/00000001.shard");
  for (uint64_t at = block.offset + 8; at < block.offset + block.length; at += 61 * TestStep()) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    WriteFile(*files_, "/in/00000001.shard", damaged);
    ConvertOptions options = Conversion();
    const absl::Status status = Convert(*files_, "/in", "/out", options).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << " " << status;
    EXPECT_NE(Message(status).find("/in/00000001.shard: block 2 (samples 8 to 11)"), std::string::npos) << status;
    options.keep_blocks = false;
    EXPECT_EQ(Message(Convert(*files_, "/in", "/out", options).status()), Message(status));
    options.keep_blocks = true;
    options.pack.skip_errors = true;
    const auto report = Convert(*files_, "/in", "/out", options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_LE(report->skipped.size(), 4u);
    EXPECT_GE(report->skipped.size(), 1u);
    EXPECT_EQ(ValidateText(*files_, "/out"), "");
    ASSERT_TRUE(RemoveTree(*files_, "/out").ok());
  }
}

TEST_F(KeepBlocksTest, ResumedAndInTasksItIsTheSame) {
  const auto options = [](int threads) {
    ConvertOptions made = Conversion();
    made.pack.dataset.shard_size = 2500;
    made.pack.dataset.shard_samples = 14;
    made.pack.dataset.threads = threads;
    made.pack.dataset.job = "a job";
    return made;
  };
  ASSERT_TRUE(Convert(*files_, "/in", "/whole", options(1)).ok());
  const Tree expected = ReadDataset(*files_, "/whole");
  for (uint64_t stop = 1; stop < 60; stop += 3) {
    Cancellation cancellation;
    ConvertOptions first = options(2);
    first.pack.keep_on_cancel = true;
    first.pack.dataset.cancellation = &cancellation;
    first.pack.progress = [&](const PackProgress& now) {
      if (now.samples >= stop) cancellation.Cancel();
    };
    const absl::Status status = Convert(*files_, "/in", "/out", first).status();
    ASSERT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    ConvertOptions second = options(3);
    second.pack.dataset.resume = true;
    const auto resumed = Convert(*files_, "/in", "/out", second);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_TRUE(ReadDataset(*files_, "/out") == expected) << stop;
    ASSERT_TRUE(RemoveTree(*files_, "/out").ok());
  }
  for (uint64_t task = 0; task < 3; ++task) {
    const auto report = ConvertTask(*files_, "/in", "/tasks", options(2), 2 - task, 3);
    ASSERT_TRUE(report.ok()) << report.status();
  }
  ASSERT_TRUE(FinishConvert(*files_, "/in", "/tasks", options(1)).ok());
  EXPECT_TRUE(ReadDataset(*files_, "/tasks") == expected);
}

TEST_F(KeepBlocksTest, AlsoWhenMergingAndAppending) {
  ASSERT_TRUE(Filter(*files_, "/in", "/a", Ranges({{0, 24}}), Options()).ok());
  ASSERT_TRUE(Filter(*files_, "/in", "/b", Ranges({{24, 60}}), Options()).ok());
  MergeOptions merge;
  merge.copy = true;
  merge.pack = Options().pack;
  ASSERT_TRUE(MergeDatasets(*files_, {"/a", "/b"}, "/merged", merge).ok());
  EXPECT_EQ(BlockSizes(*files_, "/merged"), std::vector<uint32_t>(15, 4));
  EXPECT_EQ(ScanRows(*files_, "/merged"), ScanRows(*files_, "/in"));
  CheckWhole(*files_, "/merged");
  ConvertOptions append = Conversion();
  append.pack.dataset.append = true;
  for (const ExistingKeys keys : {ExistingKeys::kRefuse, ExistingKeys::kAdd}) {
    append.pack.dataset.existing_keys = keys;
    ASSERT_TRUE(Filter(*files_, "/in", "/appended", Ranges({{0, 24}}), Options()).ok());
    ASSERT_TRUE(Convert(*files_, "/b", "/appended", append).ok());
    EXPECT_EQ(ScanRows(*files_, "/appended"), ScanRows(*files_, "/in"));
    EXPECT_EQ(ValidateText(*files_, "/appended"), "");
    ASSERT_TRUE(RemoveTree(*files_, "/appended").ok());
  }
}

TEST_F(KeepBlocksTest, TheHashOfTheFileIsRight) {
  if (!NamedHash::Create("sha256").ok()) GTEST_SKIP();
  FilterOptions options = Options();
  options.pack.dataset.sha256 = true;
  ASSERT_TRUE(Filter(*files_, "/in", "/out", Ranges({{0, 30}}), options).ok());
  EXPECT_EQ(ValidateText(*files_, "/out"), "");
}

// One of the calls to the file system fails, each in turn: nothing is left, or all of it is there.
TEST_F(KeepBlocksTest, EveryCallFails) {
  const auto run = [](FileSystem& files) {
    FilterOptions options = Options();
    return Filter(files, "/in", "/out", Ranges({{0, 9}, {12, 30}}), options).status();
  };
  const Tree before = ReadTree(*files_, "/");
  ASSERT_TRUE(run(*files_).ok());
  const Tree expected = ReadTree(*files_, "/out");
  for (uint64_t number = 1;; number += TestStep()) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, "/", before);
    FaultFileSystem faults(files.get());
    faults.FailCall(number, {.status = absl::InternalError("injected fault")});
    const absl::Status status = run(faults);
    if (!faults.failed_call()) return;
    SCOPED_TRACE(StrCat("call ", number, ": ", faults.failed_call()->operation, " ", faults.failed_call()->path));
    if (Exists(*files, "/out/dataset.json")) {
      EXPECT_EQ(ScanRows(*files, "/out"), ScanRows(*files_, "/out"));
      EXPECT_EQ(ValidateText(*files, "/out"), "");
    } else {
      EXPECT_FALSE(status.ok());
      EXPECT_TRUE(run(*files).ok());
      EXPECT_TRUE(ReadTree(*files, "/out") == expected);
    }
    if (HasFailure()) return;
  }
}

TEST(MergeTest, ADatasetIsNotCopiedTwice) {
  const auto files = NewMemoryFileSystem();
  const Column text = TextColumn();
  auto writer = DatasetWriter::Create(*files, "/keyless", MakeSchema({text}), {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(std::vector<std::optional<Value>>{Value("a")}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  ConvertOptions mds;
  mds.to = Container::kMds;
  ASSERT_TRUE(Convert(*files, "/keyless", "/mds", mds).ok());
  MergeOptions options;
  options.copy = true;
  for (const std::vector<std::string>& twice : {std::vector<std::string>{"/keyless", "/keyless"}, {"/mds", "/mds/"}}) {
    const absl::Status refused = MergeDatasets(*files, twice, "/merged", options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_NE(Message(refused).find("give each dataset once"), std::string::npos) << refused;
    EXPECT_FALSE(Exists(*files, "/merged"));
  }
  options.keep_repeated_keys = true;
  const auto merged = MergeDatasets(*files, {"/keyless", "/keyless"}, "/merged", options);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->sample_count, 2u);
}

}  // namespace
}  // namespace shardkit::test
