// Conversions that were interrupted or cancelled, or had bad samples.
#include <atomic>
#include <functional>

#include "shardkit/filesystem.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

constexpr uint64_t kSamples = 23;

std::vector<Column> InputColumns() {
  return {KeyColumn(), MakeColumn("text", Type::kUtf8), MakeColumn("label", Type::kI32)};
}

Samples InputSamples() {
  Samples samples;
  for (uint64_t i = 0; i < kSamples; ++i) {
    samples.push_back({{"key", "k" + std::to_string(100 + i)},
                       {"text", std::string(10 + i * 7 % 50, 'a')},
                       {"label", Bytes(static_cast<int32_t>(i))}});
  }
  return samples;
}

std::unique_ptr<FileSystem> NewInput() {
  auto files = NewMemoryFileSystem();
  WriteShards(*files, "/in", InputColumns(), InputSamples(), SmallShards(10, 3));
  return files;
}

ConvertOptions Options(Container to, bool resume, bool keep) {
  ConvertOptions options = SmallOptions(to, 4);
  options.mds.compression = "zstd";
  options.mds.hashes = {"sha1", "xxh64"};
  options.pack.dataset.resume = resume;
  options.pack.keep_on_cancel = keep;
  return options;
}

bool IsShard(std::string_view name) {
  return name.ends_with(".shard") || name.ends_with(".mds.zstd") || name.ends_with(".tar");
}

uint64_t ShardsIn(FileSystem& files, const std::string& directory) {
  uint64_t count = 0;
  for (const auto& [name, bytes] : ReadTree(files, directory)) count += IsShard(name);
  return count;
}

// Does not create the shard after the first `shards`. Threads write shards while the input is read, so no number of a
// call says which one that is.
class NoMoreShards final : public ForwardingFileSystem {
 public:
  NoMoreShards(FileSystem& base, uint64_t shards) : ForwardingFileSystem(base), shards_(shards) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (path.ends_with(".tmp") && IsShard(std::string_view(path).substr(0, path.size() - 4))) {
      if (created_.fetch_add(1) >= shards_) return absl::InternalError(path + ": no more shards");
    }
    return ForwardingFileSystem::Create(path);
  }

 private:
  const uint64_t shards_;
  std::atomic<uint64_t> created_ = 0;
};

// Converts until `shards` shards are finished. The next shard fails.
void Interrupt(FileSystem& files, const ConvertOptions& options, uint64_t shards) {
  NoMoreShards faults(files, shards);
  ASSERT_FALSE(ConvertTo(faults, "/in", "/out", options).ok());
}

class ConvertResumeTest : public testing::TestWithParam<Container> {};

TEST_P(ConvertResumeTest, AfterEachShard) {
  Tree expected;
  {
    const auto files = NewInput();
    ASSERT_TRUE(ConvertTo(*files, "/in", "/out", Options(GetParam(), false, false)).ok());
    expected = ReadTree(*files, "/out");
  }
  for (uint64_t shards = 0; shards < 6; ++shards) {
    SCOPED_TRACE("after shard " + std::to_string(shards));
    const auto files = NewInput();
    Interrupt(*files, Options(GetParam(), false, true), shards);
    if (HasFatalFailure()) return;
    EXPECT_EQ(ShardsIn(*files, "/out"), shards);
    const auto report = Convert(*files, "/in", "/out", Options(GetParam(), true, true));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->samples, kSamples - 4 * shards);
    EXPECT_EQ(report->manifest.sample_count, kSamples);
    EXPECT_TRUE(ReadTree(*files, "/out") == expected) << Describe(ReadTree(*files, "/out"));
  }
}

using Change = std::function<void(ConvertOptions&)>;

// Changes that make it another job.
std::vector<Change> Changes() {
  return {
      [](ConvertOptions& options) { options.lossy = true; },
      [](ConvertOptions& options) { options.pack.skip_errors = true; },
      [](ConvertOptions& options) { options.columns = {"text"}; },
      [](ConvertOptions& options) { options.key_column = "text"; },
      [](ConvertOptions& options) { options.pack.dataset.job = "another"; },
      [](ConvertOptions& options) {
        options.pack.dataset.shard_samples = options.mds.shard_samples = options.webdataset.shard_samples = 5;
      },
      [](ConvertOptions& options) {
        options.pack.dataset.shard_size = options.mds.shard_size = options.webdataset.shard_size = 9999;
      },
  };
}

TEST_P(ConvertResumeTest, OtherOptionsAreRefused) {
  const std::vector<Change> changes = Changes();
  const auto files = NewInput();
  Interrupt(*files, Options(GetParam(), false, true), 2);
  const Tree left = ReadTree(*files, "/out");
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE("change " + std::to_string(i));
    ConvertOptions options = Options(GetParam(), true, true);
    changes[i](options);
    const absl::Status status = ConvertTo(*files, "/in", "/out", options);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(Message(status).find("/out: was begun with other input or options"), std::string::npos) << status;
    EXPECT_TRUE(ReadTree(*files, "/out") == left) << Describe(ReadTree(*files, "/out"));
  }
  // Another input of the same number of samples.
  Samples samples = InputSamples();
  samples[0]["text"] = "other";
  WriteShards(*files, "/other", InputColumns(), samples, SmallShards(10, 3));
  EXPECT_TRUE(absl::IsFailedPrecondition(ConvertTo(*files, "/other", "/out", Options(GetParam(), true, true))));
  EXPECT_TRUE(ConvertTo(*files, "/in", "/out", Options(GetParam(), true, true)).ok());
}

TEST_P(ConvertResumeTest, OptionsOfTheContainerCountToo) {
  if (GetParam() == Container::kShard) GTEST_SKIP() << "covered by the tests of its writer";
  const auto files = NewInput();
  Interrupt(*files, Options(GetParam(), false, true), 2);
  for (const std::string what : {"compression", "hashes", "encodings", "index"}) {
    ConvertOptions options = Options(GetParam(), true, true);
    if (what == "compression") options.mds.compression = "zstd:9";
    if (what == "hashes") options.mds.hashes = {"md5"};
    if (what == "encodings") options.mds.encodings = {{"text", "str_int"}};
    if (what == "index") options.webdataset.index = false;
    if ((what == "index") != (GetParam() == Container::kWebDataset)) continue;
    EXPECT_TRUE(absl::IsFailedPrecondition(ConvertTo(*files, "/in", "/out", options))) << what;
  }
}

TEST_P(ConvertResumeTest, AFinishedOneIsLeftAsItIs) {
  const auto files = NewInput();
  ASSERT_TRUE(ConvertTo(*files, "/in", "/out", Options(GetParam(), false, false)).ok());
  const Tree before = ReadTree(*files, "/out");
  const auto again = Convert(*files, "/in", "/out", Options(GetParam(), true, true));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->samples, 0u);
  EXPECT_EQ(again->manifest.sample_count, kSamples);
  EXPECT_TRUE(ReadTree(*files, "/out") == before);
  const absl::Status refused = ConvertTo(*files, "/in", "/out", Options(GetParam(), false, false));
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_TRUE(ReadTree(*files, "/out") == before);
}

TEST_P(ConvertResumeTest, AFinishedOneOfAnotherJobIsRefused) {
  const auto files = NewInput();
  ASSERT_TRUE(ConvertTo(*files, "/in", "/out", Options(GetParam(), false, false)).ok());
  const Tree before = ReadTree(*files, "/out");
  std::vector<Change> changes = Changes();
  changes.push_back([](ConvertOptions& options) {
    options.pack.dataset.shard.block_size = 1000;
    options.mds.compression = "zstd:9";
    options.webdataset.index = false;
  });
  const auto expect_refused = [&](const std::string& input, const ConvertOptions& options) {
    const Tree left = ReadTree(*files, "/out");
    const absl::Status status = ConvertTo(*files, input, "/out", options);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(Message(status).find("/out: holds a dataset that another job has made"), std::string::npos) << status;
    EXPECT_TRUE(ReadTree(*files, "/out") == left) << Describe(ReadTree(*files, "/out"));
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE("change " + std::to_string(i));
    ConvertOptions options = Options(GetParam(), true, true);
    changes[i](options);
    expect_refused("/in", options);
  }
  Samples samples = InputSamples();
  samples[0]["text"] = "other";
  WriteShards(*files, "/other", InputColumns(), samples, SmallShards(10, 3));
  expect_refused("/other", Options(GetParam(), true, true));
  EXPECT_TRUE(ReadTree(*files, "/out") == before);
  // A dataset without a record of its job.
  ASSERT_TRUE(files->RemoveFile("/out/.shardkit/job.json").ok());
  expect_refused("/in", Options(GetParam(), true, true));
}

absl::StatusOr<std::unique_ptr<DatasetWriter>> CreateWriter(FileSystem& files, const std::string& directory,
                                                            const Schema& schema, Container container, bool resume) {
  const auto set = [&](auto options) {
    options.resume = resume;
    options.shard_samples = 2;
    return options;
  };
  if (container == Container::kMds) return CreateMdsWriter(files, directory, schema, set(MdsWriterOptions()));
  if (container == Container::kWebDataset)
    return CreateWebDatasetWriter(files, directory, schema, set(WebDatasetWriterOptions()));
  return DatasetWriter::Create(files, directory, schema, set(DatasetWriterOptions()));
}

// Rows equal samples with names. Positions continue when none are given.
TEST_P(ConvertResumeTest, RowsAreSamples) {
  const auto files = NewMemoryFileSystem();
  const bool absent = GetParam() != Container::kMds;  // which has no absent values
  const Schema schema = MakeSchema({MakeColumn("a", Type::kUtf8), KeyColumn(), MakeColumn("b", Type::kUtf8, absent)});
  const auto row = [](std::string_view a, std::string_view key, std::optional<Value> b) {
    return std::vector<std::optional<Value>>{Value(a), Value(key), b};
  };
  Samples samples;
  for (uint64_t i = 0; i < 19; ++i) {
    samples.push_back({{"a", "a" + std::to_string(i)}, {"key", "k" + std::to_string(i)}});
    if (i % 3 != 0 || !absent) samples.back()["b"] = "b";
  }
  ASSERT_TRUE(WriteSamples(CreateWriter(*files, "/named", schema, GetParam(), false), samples).ok());
  uint64_t begin = 0;
  for (const uint64_t end : {15, 19}) {
    auto writer = CreateWriter(*files, "/rows", schema, GetParam(), true);
    ASSERT_TRUE(writer.ok()) << writer.status();
    begin = (*writer)->resume_position();
    EXPECT_EQ(begin % 2, 0u);
    // Rows that break the rules are refused, and the writer continues.
    const std::vector<std::optional<Value>> wrong[] = {{}, {Value("a"), Value("k")}, {Value("a"), {}, {}}};
    for (const auto& values : wrong) EXPECT_TRUE(absl::IsInvalidArgument((*writer)->Append(values)));
    for (uint64_t i = begin; i < end; ++i) {
      const auto b = samples[i].find("b");
      const absl::Status status = (*writer)->Append(row(
          samples[i]["a"], samples[i]["key"], b == samples[i].end() ? std::nullopt : std::optional<Value>(Value("b"))));
      ASSERT_TRUE(status.ok()) << status;
    }
    if (end == 15) {
      ASSERT_TRUE((*writer)->Suspend().ok());
    } else {
      ASSERT_TRUE((*writer)->Finish().ok());
    }
  }
  EXPECT_GT(begin, 0u);
  EXPECT_TRUE(ReadTree(*files, "/rows") == ReadTree(*files, "/named")) << Describe(ReadTree(*files, "/rows"));
}

TEST_P(ConvertResumeTest, AFinishedOneTakesNoSamples) {
  const auto files = NewMemoryFileSystem();
  const Schema schema = MakeSchema({KeyColumn(), MakeColumn("text", Type::kUtf8)});
  const auto create = [&](bool resume) { return CreateWriter(*files, "/out", schema, GetParam(), resume); };
  ASSERT_TRUE(WriteSamples(create(false), {{{"key", "a"}, {"text", "b"}}}).ok());
  const Tree before = ReadTree(*files, "/out");
  const auto writer = create(true);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ((*writer)->resume_position(), UINT64_MAX);
  Sample sample{"c", {}};
  sample.fields.push_back({&schema[1], Value("d")});
  const absl::Status status = (*writer)->Append(sample, 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  const auto summary = (*writer)->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->manifest.sample_count, 1u);
  EXPECT_TRUE(ReadTree(*files, "/out") == before);
}

TEST_P(ConvertResumeTest, CancellingLeavesNothingOrFinishedShards) {
  for (const bool keep : {false, true}) {
    const auto files = NewInput();
    Cancellation cancellation;
    ConvertOptions options = Options(GetParam(), false, keep);
    options.pack.dataset.cancellation = &cancellation;
    options.pack.progress = [&](const PackProgress& progress) {
      if (progress.samples >= 15) cancellation.Cancel();
    };
    const absl::Status status = ConvertTo(*files, "/in", "/out", options);
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    if (!keep) {
      EXPECT_FALSE(Exists(*files, "/out")) << Describe(ReadTree(*files, "/out"));
      continue;
    }
    EXPECT_GE(ShardsIn(*files, "/out"), 1u);
    for (const auto& [name, bytes] : ReadTree(*files, "/out")) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    const absl::Status resumed = ConvertTo(*files, "/in", "/out", Options(GetParam(), true, true));
    EXPECT_TRUE(resumed.ok()) << resumed;
  }
}

// A shard that was lost after its record was written is made again.
TEST_P(ConvertResumeTest, ShardsThatWereCutShortAreMadeAgain) {
  const auto files = NewInput();
  Interrupt(*files, Options(GetParam(), false, true), 3);
  std::string second;
  for (const auto& [name, bytes] : ReadTree(*files, "/out")) {
    if (IsShard(name) && second.empty() && name.find('1') != name.npos) second = name;
  }
  WriteFile(*files, "/out/" + second, ReadAll(*files, "/out/" + second).substr(1));
  const auto report = Convert(*files, "/in", "/out", Options(GetParam(), true, true));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples, kSamples - 4);
  EXPECT_TRUE(ScanRows(*files, "/out").size() == kSamples);
}

INSTANTIATE_TEST_SUITE_P(Containers, ConvertResumeTest,
                         testing::Values(Container::kShard, Container::kMds, Container::kWebDataset),
                         [](const auto& test) { return std::string(ContainerName(test.param)); });

}  // namespace
}  // namespace shardkit::test
