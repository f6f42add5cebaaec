// Samples that cannot be read or cannot be stored in the container are skipped on request.
#include <numeric>

#include "support/fault_filesystem.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

std::vector<uint64_t> Positions(const std::vector<SkippedSample>& skipped) {
  std::vector<uint64_t> positions;
  for (const SkippedSample& sample : skipped) positions.push_back(sample.position);
  return positions;
}

ConvertOptions SkipOptions(Container to) {
  ConvertOptions options = SmallOptions(to, 3);
  options.pack.skip_errors = true;
  options.pack.keep_on_cancel = true;
  return options;
}

// Ten samples; "x" is absent in those of `absent`. Damage in a page of small values takes its neighbours with it.
void WriteWithAbsent(FileSystem& files, const std::vector<uint64_t>& absent, Storage storage = Storage::kPaged) {
  Samples samples;
  for (uint64_t i = 0; i < 10; ++i) {
    samples.push_back({{"key", "k" + std::to_string(i)}});
    if (std::ranges::find(absent, i) == absent.end()) samples.back()["x"] = "value " + std::to_string(i);
  }
  DatasetWriterOptions options = SmallShards(0, 4);
  options.shard.storage["x"] = storage;
  WriteShards(files, "/in", {KeyColumn(), MakeColumn("x", Type::kBytes, true)}, samples, options);
}

// MDS cannot store an absent value. A tar cannot store a sample without values.
TEST(SkipTest, BadSamplesAreListed) {
  for (const Container to : {Container::kMds, Container::kWebDataset}) {
    SCOPED_TRACE(ContainerName(to));
    const auto files = NewMemoryFileSystem();
    WriteWithAbsent(*files, {0, 4, 5, 9});
    ConvertOptions options = SkipOptions(to);
    const auto report = Convert(*files, "/in", "/out", options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(Positions(report->skipped), (std::vector<uint64_t>{0, 4, 5, 9}));
    EXPECT_EQ(report->skipped[1].key, "k4");
    EXPECT_EQ(report->samples, 6u);
    EXPECT_EQ(ScanRows(*files, "/out").size(), 6u);
    options.pack.skip_errors = false;
    const absl::Status status = ConvertTo(*files, "/in", "/fails", options);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_FALSE(Exists(*files, "/fails/index.json") || Exists(*files, "/fails/shardkit.json"));
  }
}

// A sample is listed once, whenever the run ends and however often it is resumed.
TEST(SkipTest, BadSamplesAreListedOnceAcrossInterruptions) {
  for (const Container to : {Container::kShard, Container::kMds, Container::kWebDataset}) {
    for (uint64_t step = 1; step < 100; step += 3) {
      SCOPED_TRACE(std::string(ContainerName(to)) + ", each run dies after calls " + std::to_string(step));
      const auto files = NewMemoryFileSystem();
      WriteWithAbsent(*files, {0, 3, 4, 6, 7, 9});
      if (to == Container::kShard) {
        // A value in the middle cannot be read.
        std::string shard = ReadAll(*files, "/in/00000000.shard");
        const size_t place = shard.find("value 5");
        ASSERT_NE(place, shard.npos);
        shard[place] ^= 1;
        WriteFile(*files, "/in/00000000.shard", shard);
      }
      ConvertOptions options = SkipOptions(to);
      options.pack.dataset.shard_samples = options.mds.shard_samples = options.webdataset.shard_samples = 1;
      absl::StatusOr<PackReport> report;
      for (uint64_t runs = 0; runs < 200; ++runs) {
        FaultFileSystem faults(files.get());
        // Later runs get farther, so that the last one ends.
        faults.FailCall(step + 4 * runs, {.status = absl::UnavailableError("gone"), .all_following = true});
        options.pack.dataset.resume = runs > 0;
        report = Convert(faults, "/in", "/out", options);
        if (report.ok()) break;
        if (!absl::IsUnavailable(report.status())) break;
      }
      ASSERT_TRUE(report.ok()) << report.status();
      if (report->skipped.empty()) continue;  // the last run found a finished dataset
      const std::vector<uint64_t> expected =
          to == Container::kShard ? std::vector<uint64_t>{5} : std::vector<uint64_t>{0, 3, 4, 6, 7, 9};
      EXPECT_EQ(Positions(report->skipped), expected);
      EXPECT_EQ(ScanRows(*files, "/out").size(), 10 - expected.size());
      if (HasFailure()) return;
    }
  }
}

TEST(SkipTest, DamagedValueOfTheInput) {
  for (const Container to : {Container::kShard, Container::kMds, Container::kWebDataset}) {
    SCOPED_TRACE(ContainerName(to));
    const auto files = NewMemoryFileSystem();
    WriteWithAbsent(*files, {}, Storage::kBlob);
    std::string shard = ReadAll(*files, "/in/00000000.shard");
    const size_t place = shard.find("value 6");
    ASSERT_NE(place, shard.npos);
    shard[place + 2] ^= 4;
    WriteFile(*files, "/in/00000000.shard", shard);
    const absl::Status status = ConvertTo(*files, "/in", "/out", SmallOptions(to));
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(Message(status).find("/in"), std::string::npos) << status;
    EXPECT_FALSE(Exists(*files, "/out")) << Describe(ReadTree(*files, "/out"));
    const auto report = Convert(*files, "/in", "/out", SkipOptions(to));
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(Positions(report->skipped), (std::vector<uint64_t>{6}));
    EXPECT_EQ(report->skipped[0].key, "k6");
    const std::vector<Row> rows = ScanRows(*files, "/out");
    ASSERT_EQ(rows.size(), 9u);
    EXPECT_EQ(rows[6].at("key"), "k7");
  }
}

// For damage in any byte of a shard: the samples kept are unchanged, and the rest is listed, by key if it is known.
TEST(SkipTest, EveryByteOfAShard) {
  const auto files = NewMemoryFileSystem();
  Samples samples;
  for (uint64_t i = 0; i < 12; ++i) {
    const std::string number = std::to_string(i);
    samples.push_back(
        {{"key", "k" + number}, {"blob", "value " + number}, {"n", Bytes<int64_t>(static_cast<int64_t>(i))}});
    if (i % 3 != 0) samples.back()["text"] = "text of sample " + number + ", which is compressed with those beside it";
  }
  const std::vector<Column> columns = {KeyColumn(), MakeColumn("blob", Type::kBytes), MakeColumn("n", Type::kI64),
                                       MakeColumn("text", Type::kUtf8, true)};
  DatasetWriterOptions options = SmallShards(0, 4);
  options.codecs["text"] = Codec::kZstd;
  options.codecs["key"] = Codec::kZstd;
  options.shard.storage["blob"] = Storage::kBlob;
  WriteShards(*files, "/in", columns, samples, options);
  const std::vector<Row> before = ScanRows(*files, "/in");
  const std::string whole = ReadAll(*files, "/in/00000000.shard");
  uint64_t alone = 0, blocks = 0, named = 0;
  for (size_t place = 0; place < whole.size(); place += TestStep()) {
    SCOPED_TRACE(place);
    std::string shard = whole;
    shard[place] = static_cast<char>(shard[place] ^ 0x24);
    WriteFile(*files, "/in/00000000.shard", shard);
    ConvertOptions to_shard = SkipOptions(Container::kShard);
    to_shard.pack.keep_on_cancel = false;
    const auto report = Convert(*files, "/in", "/out", to_shard);
    ASSERT_TRUE(report.ok()) << report.status();
    std::vector<Row> expected = before;
    for (auto lost = report->skipped.rbegin(); lost != report->skipped.rend(); ++lost) {
      ASSERT_LT(lost->position, expected.size());
      EXPECT_TRUE(lost->key.empty() || lost->key == "k" + std::to_string(lost->position)) << lost->key;
      EXPECT_NE(lost->reason.find("/in/00000000.shard"), std::string::npos) << lost->reason;
      named += lost->key.empty() ? 0 : 1;
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(lost->position));
    }
    EXPECT_EQ(ScanRows(*files, "/out"), expected);
    alone += report->skipped.size() == 1 ? 1 : 0;
    blocks += report->skipped.size() == 4 ? 1 : 0;
    ASSERT_TRUE(RemoveTree(*files, "/out").ok());
    if (HasFailure()) return;
  }
  // The 8 to 9 bytes of each value and its checksum; heads, compressed chunks and headers.
  EXPECT_GE(alone * TestStep(), 12 * 15u);
  EXPECT_GE(blocks, 3u);
  EXPECT_GT(named, blocks);
}

TEST(SkipTest, DryRunFindsWhatCannotBeRead) {
  const auto files = NewMemoryFileSystem();
  WriteWithAbsent(*files, {2});
  const Tree before = ReadTree(*files, "/");
  ConvertOptions options = SkipOptions(Container::kMds);
  const auto report = DryRunConvert(*files, "/in", options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Positions(report->skipped), (std::vector<uint64_t>{2}));
  EXPECT_EQ(report->samples, 9u);
  options.pack.skip_errors = false;
  EXPECT_TRUE(absl::IsInvalidArgument(DryRunConvert(*files, "/in", options).status()));
  EXPECT_TRUE(ReadTree(*files, "/") == before);
}

}  // namespace
}  // namespace shardkit::test
