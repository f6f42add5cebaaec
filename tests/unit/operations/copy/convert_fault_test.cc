// Conversions in which one call to the file system fails, or all calls from one on; and power cuts.
#include "support/fault_filesystem.h"
#include "support/unsynced_filesystem.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

constexpr uint64_t kFaultSamples = 10;

Samples FaultSamples() {
  Samples samples;
  for (uint64_t i = 0; i < kFaultSamples; ++i) {
    samples.push_back(
        {{"key", "k" + std::to_string(i)}, {"text", std::string(i * 50 % 333, 't')}, {"n", Bytes(uint32_t(i))}});
  }
  return samples;
}

void PrepareInput(FileSystem& files) {
  WriteShards(files, "/in", {KeyColumn(), MakeColumn("text", Type::kUtf8), MakeColumn("n", Type::kU32)}, FaultSamples(),
              SmallShards(6, 2));
}

struct Case {
  Container to;
  std::string input;  // below "/": "in", or made of it
  std::string compression;
  std::string manifest;
};

std::vector<Case> Cases() {
  return {{Container::kMds, "/in", "", "index.json"},           {Container::kMds, "/in", "zstd:3", "index.json"},
          {Container::kWebDataset, "/in", "", "shardkit.json"}, {Container::kShard, "/mds", "", "dataset.json"},
          {Container::kShard, "/tars", "", "dataset.json"},     {Container::kMds, "/tars", "", "index.json"},
          {Container::kWebDataset, "/mds", "", "shardkit.json"}};
}

ConvertOptions Options(const Case& which, bool resume, bool keep) {
  ConvertOptions options = SmallOptions(which.to);
  options.mds.compression = which.compression;
  options.mds.hashes = {"xxh64"};
  options.pack.dataset.resume = resume;
  options.pack.keep_on_cancel = keep;
  return options;
}

const Tree& InputTree(const std::string& input) {
  static std::map<std::string, Tree> trees;
  Tree& tree = trees[input];
  if (tree.empty()) {
    const auto files = NewMemoryFileSystem();
    PrepareInput(*files);
    if (input == "/mds") {
      EXPECT_TRUE(ConvertTo(*files, "/in", "/mds", Container::kMds).ok());
    }
    if (input == "/tars") {
      EXPECT_TRUE(ConvertTo(*files, "/in", "/tars", Container::kWebDataset).ok());
    }
    tree = ReadTree(*files, input);
  }
  return tree;
}

std::unique_ptr<FileSystem> NewInput(const Case& which) {
  auto files = NewMemoryFileSystem();
  WriteTree(*files, which.input, InputTree(which.input));
  return files;
}

absl::Status RunOnce(FileSystem& files, const Case& which, bool resume = false, bool keep = false) {
  return ConvertTo(files, which.input, "/out", Options(which, resume, keep));
}

Tree Expected(const Case& which) {
  const auto files = NewInput(which);
  EXPECT_TRUE(RunOnce(*files, which).ok());
  EXPECT_EQ(ScanRows(*files, "/out").size(), kFaultSamples);
  return ReadTree(*files, "/out");
}

bool IsComplete(FileSystem& files, const Case& which) { return Exists(files, "/out/" + which.manifest); }

// There is either no dataset, or a whole one. Even a reader that needs no manifest, like the reader of tars, finds
// nothing that only looks like a dataset, except finished shards that were kept.
void CheckNothingOrWhole(FileSystem& files, const Case& which, const Tree& expected) {
  Tree left = ReadTree(files, "/out");
  if (IsComplete(files, which)) {
    std::erase_if(left, [&](const auto& entry) {
      return entry.first.starts_with(".shardkit/") && !expected.contains(entry.first);
    });
    EXPECT_TRUE(left == expected) << Describe(left);
    return;
  }
  for (const auto& [name, bytes] : left) {
    if (name.starts_with(".shardkit/") || name.ends_with(".tmp") || name.ends_with(".partial")) continue;
    const auto same = expected.find(name);
    if (name == "dataset.segment" || name == "shardkit.json") continue;
    EXPECT_TRUE(same != expected.end() && same->second == bytes) << name;
  }
}

void CheckLaterRun(FileSystem& files, const Case& which, bool resume, const Tree& expected) {
  const bool complete = IsComplete(files, which);
  const absl::Status status = RunOnce(files, which, resume, resume);
  if (complete && !resume) {
    EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
    return;
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ReadTree(files, "/out") == expected) << Describe(ReadTree(files, "/out"));
}

// The same bytes, of which none is flushed.
TEST(ConvertTest, WithoutSync) {
  for (const Case& which : Cases()) {
    const auto files = NewInput(which);
    FaultFileSystem counting(files.get());
    ConvertOptions options = Options(which, false, false);
    options.pack.dataset.sync = false;
    ASSERT_TRUE(ConvertTo(counting, which.input, "/out", options).ok());
    for (const FileSystemCall& call : counting.calls()) {
      EXPECT_EQ(call.operation.find("sync"), std::string::npos) << call.operation << " " << call.path;
    }
    EXPECT_TRUE(ReadTree(*files, "/out") == Expected(which));
  }
}

class ConvertFaultTest : public testing::TestWithParam<size_t> {};

TEST_P(ConvertFaultTest, EveryCall) {
  const Case which = Cases()[GetParam()];
  const Tree expected = Expected(which);
  const std::vector<Fault> faults_to_try = {
      {.status = absl::InternalError("injected fault")},
      {.status = absl::ResourceExhaustedError("no space"), .short_write = true},
      {.status = absl::UnavailableError("gone"), .all_following = true, .short_write = true}};
  for (const Fault& fault : faults_to_try) {
    for (const bool keep : {false, true}) {
      for (uint64_t number = 1;; number += TestStep()) {
        ASSERT_LT(number, 10000u);
        const auto files = NewInput(which);
        FaultFileSystem faults(files.get());
        faults.FailCall(number, fault);
        const absl::Status status = RunOnce(faults, which, false, keep);
        const auto failed = faults.failed_call();
        if (!failed) {
          EXPECT_TRUE(status.ok()) << status;
          break;
        }
        SCOPED_TRACE("call " + std::to_string(number) + ": " + failed->operation + " " + failed->path +
                     (keep ? ", kept" : ""));
        // A Shardkit dataset can be read without its index.
        const bool can_do_without = failed->path == "/in/dataset.segment";
        EXPECT_TRUE(!status.ok() || can_do_without);
        if (!status.ok()) {
          EXPECT_EQ(status.code(), fault.status.code()) << status;
          // When all calls fail, another thread's failure may be reported.
          const std::string named = can_do_without || fault.all_following ? "/" : failed->path;
          EXPECT_NE(Message(status).find(named), std::string::npos) << status;
        }
        CheckNothingOrWhole(*files, which, expected);
        if (!keep && !fault.all_following && !IsComplete(*files, which)) {
          EXPECT_FALSE(Exists(*files, "/out")) << Describe(ReadTree(*files, "/out"));
        }
        if (status.ok()) continue;
        CheckLaterRun(*files, which, /*resume=*/number % 2 == 0, expected);
        if (HasFailure()) return;
      }
    }
  }
}

// An error of the file system is not the fault of the present sample, whatever its code: no sample is silently lost.
TEST_P(ConvertFaultTest, EveryCallWhileBadSamplesAreSkipped) {
  const Case which = Cases()[GetParam()];
  for (uint64_t number = 1;; number += TestStep()) {
    ASSERT_LT(number, 10000u);
    const auto files = NewInput(which);
    FaultFileSystem faults(files.get());
    faults.FailCall(number, {.status = absl::InvalidArgumentError("injected fault")});
    ConvertOptions options = Options(which, false, false);
    options.pack.skip_errors = true;
    const auto report = Convert(faults, which.input, "/out", options);
    const auto failed = faults.failed_call();
    if (!failed) return;
    SCOPED_TRACE("call " + std::to_string(number) + ": " + failed->operation + " " + failed->path);
    if (!report.ok()) continue;
    EXPECT_FALSE(failed->path.starts_with("/out"));
    EXPECT_EQ(report->manifest.sample_count + report->skipped.size(), kFaultSamples);
    EXPECT_EQ(ScanRows(*files, "/out").size(), report->manifest.sample_count);
    if (HasFailure()) return;
  }
}

TEST_P(ConvertFaultTest, EveryPowerCut) {
  const Case which = Cases()[GetParam()];
  const Tree expected = Expected(which);
  for (uint64_t number = 1;; number += TestStep()) {
    ASSERT_LT(number, 10000u);
    UnsyncedFileSystem disk;
    WriteTree(disk, which.input, InputTree(which.input));
    disk.SyncEverything();
    FaultFileSystem faults(&disk);
    faults.FailCall(number, {.status = absl::UnavailableError("power cut"), .all_following = true});
    const absl::Status status = RunOnce(faults, which);
    const bool finished = !faults.failed_call();
    for (uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE("call " + std::to_string(number) + ", seed " + std::to_string(seed));
      const auto left = seed == 0 ? disk.Crash() : disk.Crash(number * 1000 + seed);
      if (finished) {
        EXPECT_TRUE(IsComplete(*left, which));  // a dataset reported as finished is durable
      }
      if (IsComplete(*left, which)) CheckNothingOrWhole(*left, which, expected);
      CheckLaterRun(*left, which, /*resume=*/true, expected);
      if (HasFailure()) return;
    }
    if (finished) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvertFaultTest, testing::Range<size_t>(0, Cases().size()));

}  // namespace
}  // namespace shardkit::test
