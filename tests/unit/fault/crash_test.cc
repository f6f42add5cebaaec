// Power cuts: whatever part of the unsynced data survives, no incomplete dataset looks complete, and a later run
// finishes with the same bytes.
#include <set>

#include "base/named_hash.h"
#include "dataset/read/segments.h"
#include "fault/fault_support.h"
#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "support/unsynced_filesystem.h"

namespace shardkit::test {
namespace {

// Every call from a given one on fails, as if the machine had just lost power. The state of the disk is then that
// before the call.
std::unique_ptr<UnsyncedFileSystem> StateAfterCall(uint64_t number,
                                                   const std::function<void(UnsyncedFileSystem&)>& prepare,
                                                   const std::function<absl::Status(FileSystem&)>& operate,
                                                   bool* beyond_end) {
  auto disk = std::make_unique<UnsyncedFileSystem>();
  prepare(*disk);
  disk->SyncEverything();
  FaultFileSystem faults(disk.get());
  faults.FailCall(number, {.status = absl::UnavailableError("power cut"), .all_following = true});
  const absl::Status status = operate(faults);
  *beyond_end = !faults.failed_call();
  if (*beyond_end) {
    EXPECT_TRUE(status.ok()) << status;
  }
  return disk;
}

// Calls `check` after a crash at call 1, 2, …, with every seed.
void CrashAfterEveryCall(const std::function<void(UnsyncedFileSystem&)>& prepare,
                         const std::function<absl::Status(FileSystem&)>& operate, uint64_t seeds,
                         const std::function<void(FileSystem&, bool finished)>& check) {
  for (uint64_t number = 1;; number += TestStep()) {
    bool finished = false;
    const auto disk = StateAfterCall(number, prepare, operate, &finished);
    for (uint64_t seed = 0; seed <= seeds; ++seed) {
      SCOPED_TRACE("call " + std::to_string(number) + ", seed " + std::to_string(seed));
      const auto left = seed == 0 ? disk->Crash() : disk->Crash(number * 1000 + seed);
      check(*left, finished);
      if (testing::Test::HasFailure()) return;
    }
    if (finished) return;
    ASSERT_LT(number, 100000u);
  }
}

void PrepareInput(UnsyncedFileSystem& files) { WriteTree(files, "/in", InputTree()); }

absl::Status PackOnce(FileSystem& files, bool resume) {
  return PackFiles(files, {"/in"}, "/out", SmallPack(resume, resume)).status();
}

TEST(CrashTest, OfAFreshPackIsResumed) {
  size_t taken_up = 0;
  CrashAfterEveryCall(
      PrepareInput, [](FileSystem& files) { return PackOnce(files, false); }, 4,
      [&](FileSystem& left, bool finished) {
        EXPECT_TRUE(NothingOrWhole(left, "/out"));
        if (finished) {
          EXPECT_TRUE(Exists(left, "/out/dataset.json"));  // a dataset reported as finished is durable
        }
        FaultFileSystem counting(&left);
        const absl::Status status = PackOnce(counting, true);
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(ReadTree(left, "/out") == ExpectedDataset()) << Describe(ReadTree(left, "/out"));
        std::set<std::string> created;
        for (const FileSystemCall& call : counting.calls()) {
          if (call.operation == "create") created.insert(call.path);
        }
        taken_up += !created.contains("/out/00000000.shard.tmp");
      });
  EXPECT_GT(taken_up, 20u / TestStep());  // resuming does save work
}

// The finished shards keep the hashes that their records have.
TEST(CrashTest, OfAPackWithSha256IsResumed) {
  if (!NamedHash::Create("sha256").ok()) GTEST_SKIP() << "no OpenSSL";
  const auto pack = [](FileSystem& files, bool resume) {
    PackOptions options = SmallPack(resume, resume);
    options.dataset.sha256 = true;
    return PackFiles(files, {"/in"}, "/out", options).status();
  };
  const auto whole = NewInput();
  ASSERT_TRUE(pack(*whole, false).ok());
  const Tree expected = ReadTree(*whole, "/out");
  ASSERT_NE(expected.at("dataset.json").find("sha256"), std::string::npos);
  CrashAfterEveryCall(
      PrepareInput, [&](FileSystem& files) { return pack(files, true); }, 2,
      [&](FileSystem& left, bool) {
        EXPECT_TRUE(NothingOrWhole(left, "/out"));
        const absl::Status status = pack(left, true);
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(ReadTree(left, "/out") == expected) << Describe(ReadTree(left, "/out"));
      });
  CrashAfterEveryCall([&](UnsyncedFileSystem& files) { WriteTree(files, "/out", expected); },
                      [](FileSystem& files) { return RebuildIndex(files, "/out").status(); }, 2,
                      [&](FileSystem& left, bool) {
                        EXPECT_TRUE(NothingOrWhole(left, "/out"));
                        const auto again = RebuildIndex(left, "/out");
                        EXPECT_TRUE(again.ok()) << again.status();
                        EXPECT_TRUE(ReadTree(left, "/out") == expected);
                      });
}

TEST(CrashTest, OfAFreshPackIsStartedOver) {
  CrashAfterEveryCall(
      PrepareInput, [](FileSystem& files) { return PackOnce(files, false); }, 2,
      [](FileSystem& left, bool) {
        const bool complete = Exists(left, "/out/dataset.json");
        const absl::Status status = PackOnce(left, false);
        if (complete) {
          EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
          return;
        }
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(ReadTree(left, "/out") == ExpectedDataset());
      });
}

// The output lies in directories that are made for it. They must be as durable as their contents.
TEST(CrashTest, AFinishedDatasetIsThereWithItsDirectories) {
  UnsyncedFileSystem disk;
  PrepareInput(disk);
  disk.SyncEverything();
  ASSERT_TRUE(PackFiles(disk, {"/in"}, "/new/deep/out", SmallPack()).ok());
  const auto left = disk.Crash();
  EXPECT_TRUE(ReadTree(*left, "/new/deep/out") == ExpectedDataset()) << Describe(ReadTree(*left, "/new"));
}

// Of those that have reported success, nothing may be left to do.
TEST(CrashTest, NothingOfFinishedTasksIsLeft) {
  UnsyncedFileSystem disk;
  PrepareInput(disk);
  disk.SyncEverything();
  ASSERT_TRUE(PlanPack(disk, "files", {"/in"}, {.file_system = &disk}, "/out", SmallPack()).ok());
  ASSERT_TRUE(PackTask(disk, "/out", {.task = 0, .tasks = 1}).ok());
  ASSERT_TRUE(FinishPack(disk, "/out").ok());
  const auto left = disk.Crash();
  EXPECT_TRUE(ReadTree(*left, "/out") == ExpectedDataset()) << Describe(ReadTree(*left, "/out"));
}

// A run that ends, with its finished shards kept, when it begins the third one.
void PackTwoShards(UnsyncedFileSystem& files) {
  PrepareInput(files);
  FaultFileSystem faults(&files);
  uint64_t number = 0;
  {
    UnsyncedFileSystem probe;
    PrepareInput(probe);
    FaultFileSystem count(&probe);
    EXPECT_TRUE(PackOnce(count, true).ok());
    for (const FileSystemCall& call : count.calls()) {
      if (call.operation == "create" && call.path == "/out/00000002.shard.tmp") number = call.number;
    }
  }
  faults.FailCall(number, {});
  EXPECT_FALSE(PackOnce(faults, true).ok());
}

// However much is lost of what was not synced.
TEST(CrashTest, AFinishedShardIsNotPackedAgain) {
  UnsyncedFileSystem disk;
  PackTwoShards(disk);
  const auto left = disk.Crash();
  WriteTree(*left, "/in", InputTree());
  FaultFileSystem counting(left.get());
  const absl::Status status = PackOnce(counting, true);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ReadTree(*left, "/out") == ExpectedDataset()) << Describe(ReadTree(*left, "/out"));
  for (const FileSystemCall& call : counting.calls()) {
    EXPECT_FALSE(call.operation == "create" && call.path == "/out/00000000.shard.tmp");
  }
}

TEST(CrashTest, OfAResumedPack) {
  CrashAfterEveryCall(
      PackTwoShards, [](FileSystem& files) { return PackOnce(files, true); }, 3,
      [](FileSystem& left, bool) {
        EXPECT_TRUE(NothingOrWhole(left, "/out"));
        EXPECT_TRUE(Exists(left, "/out/00000001.shard"));
        const absl::Status status = PackOnce(left, true);
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(ReadTree(left, "/out") == ExpectedDataset());
      });
}

// Plans, packs and finishes, where that has not been done.
absl::Status PackInTasks(FileSystem& files) {
  const absl::Status planned = PlanPack(files, "files", {"/in"}, {.file_system = &files}, "/out", SmallPack()).status();
  if (!planned.ok() && !absl::IsAlreadyExists(planned)) return planned;
  for (const uint64_t task : {2, 0, 1}) {
    const absl::Status packed = PackTask(files, "/out", {.task = task, .tasks = 3}).status();
    if (!packed.ok()) return packed;
  }
  return FinishPack(files, "/out").status();
}

TEST(CrashTest, OfPackingInTasks) {
  CrashAfterEveryCall(PrepareInput, PackInTasks, 3, [](FileSystem& left, bool finished) {
    EXPECT_TRUE(NothingOrWhole(left, "/out"));
    if (finished) {
      EXPECT_TRUE(ReadTree(left, "/out") == ExpectedDataset()) << Describe(ReadTree(left, "/out"));
    }
    const absl::Status again = PackInTasks(left);
    EXPECT_TRUE(again.ok()) << again;
    EXPECT_TRUE(ReadTree(left, "/out") == ExpectedDataset()) << Describe(ReadTree(left, "/out"));
  });
}

TEST(CrashTest, OfAnAbort) {
  const auto operate = [](FileSystem& files) -> absl::Status {
    auto writer = DatasetWriter::Create(files, "/out", MakeSchema({KeyColumn(), ImageColumn()}), SmallShards(6, 3));
    if (!writer.ok()) return writer.status();
    const auto samples = MakeSamples(20);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (absl::Status status = (*writer)->Append(samples[i].View(), i + 1); !status.ok()) return status;
    }
    return (*writer)->Abort();
  };
  CrashAfterEveryCall(PrepareInput, operate, 3, [](FileSystem& left, bool) {
    EXPECT_FALSE(Exists(left, "/out/dataset.json"));
    const absl::Status status = PackOnce(left, false);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(ReadTree(left, "/out") == ExpectedDataset());
  });
}

TEST(CrashTest, OfAMerge) {
  const auto prepare = [](UnsyncedFileSystem& files) {
    PrepareInput(files);
    for (const std::string part : {"0", "1", "2"}) {
      EXPECT_TRUE(PackFiles(files, {"/in/d" + part}, "/part" + part, SmallPack()).ok());
    }
  };
  const auto merge = [](FileSystem& files) {
    return MergeDatasets(files, {"/part0", "/part1", "/part2"}, "/out").status();
  };
  CrashAfterEveryCall(prepare, merge, 4, [&](FileSystem& left, bool finished) {
    EXPECT_TRUE(NothingOrWhole(left, "/out"));
    EXPECT_EQ(ValidateText(left, "/part0"), "");
    if (finished) {
      EXPECT_TRUE(Exists(left, "/out/dataset.json"));
    }
    if (Exists(left, "/out/dataset.json")) return;
    const absl::Status again = merge(left);
    EXPECT_TRUE(again.ok()) << again;
    EXPECT_EQ(ScanRows(left, "/out").size(), kInputSamples);
  });
}

TEST(CrashTest, OfARebuild) {
  for (const bool manifest_there : {true, false}) {
    const auto prepare = [&](UnsyncedFileSystem& files) {
      WriteTree(files, "/out", ExpectedDataset());
      if (!manifest_there) {
        EXPECT_TRUE(files.RemoveFile("/out/dataset.json").ok());
      }
    };
    CrashAfterEveryCall(
        prepare, [](FileSystem& files) { return RebuildIndex(files, "/out").status(); }, 4,
        [&](FileSystem& left, bool finished) {
          EXPECT_TRUE(NothingOrWhole(left, "/out"));
          if (manifest_there || finished) {
            EXPECT_TRUE(Exists(left, "/out/dataset.json"));
          }
          const auto again = RebuildIndex(left, "/out");
          EXPECT_TRUE(again.ok()) << again.status();
          EXPECT_TRUE(ReadTree(left, "/out") == ExpectedDataset());
        });
  }
}

// Over the number of shards from which on they stand in lists. Only where something becomes durable, as so many files
// take their time.
TEST(CrashTest, OfAnAppendThatNeedsListsAndOfJoining) {
  const auto append = [](FileSystem& files, size_t count) -> absl::Status {
    DatasetWriterOptions options = SmallShards(1, 1);
    options.append = Exists(files, "/data/dataset.json");
    options.existing_keys = ExistingKeys::kAdd;
    auto writer = DatasetWriter::Create(files, "/data", MakeSchema({KeyColumn()}), options);
    if (!writer.ok()) return writer.status();
    for (size_t i = 0; i < count; ++i) {
      const OwnedSample sample{std::to_string(i), {}};
      if (const absl::Status status = (*writer)->Append(sample.View()); !status.ok()) return status;
    }
    return (*writer)->Finish().status();
  };
  const auto memory = NewMemoryFileSystem();
  ASSERT_TRUE(append(*memory, kMostShardsInManifest).ok());
  const Tree few = ReadTree(*memory, "/");
  ASSERT_TRUE(append(*memory, 1).ok());
  const Tree many = ReadTree(*memory, "/");
  ASSERT_TRUE(many.contains("data/dataset.segment") && many.contains("data/dataset-2.segment"));
  struct Change {
    const Tree* before;
    std::function<absl::Status(FileSystem&)> operate;
    size_t shards;
  };
  for (const Change& change : {Change{&few, [&](FileSystem& files) { return append(files, 1); }, kMostShardsInManifest},
                               Change{&many, [](FileSystem& files) { return CompactDataset(files, "/data").status(); },
                                      kMostShardsInManifest + 1}}) {
    const auto prepare = [&](UnsyncedFileSystem& files) { WriteTree(files, "/", *change.before); };
    std::set<uint64_t> numbers;
    {
      UnsyncedFileSystem probe;
      prepare(probe);
      FaultFileSystem counting(&probe);
      ASSERT_TRUE(change.operate(counting).ok());
      for (const FileSystemCall& call : counting.calls()) {
        const bool durable = call.operation.find("sync") != std::string::npos || call.operation == "rename";
        if (durable) numbers.insert({call.number, call.number + 1});
      }
    }
    ASSERT_GT(numbers.size(), 10u);
    for (uint64_t place = 0; const uint64_t number : numbers) {
      if (place++ % TestStep() != 0) continue;
      bool finished = false;
      const auto disk = StateAfterCall(number, prepare, change.operate, &finished);
      for (const uint64_t seed : {0, 1}) {
        SCOPED_TRACE("call " + std::to_string(number) + ", seed " + std::to_string(seed));
        const auto left = seed == 0 ? disk->Crash() : disk->Crash(number);
        const auto opened = DatasetReader::Open(*left, "/data");
        ASSERT_TRUE(opened.ok()) << opened.status();
        EXPECT_EQ((*opened)->index_problem(), "");
        const auto manifest = (*opened)->ReadManifest();
        ASSERT_TRUE(manifest.ok()) << manifest.status();
        const bool published = ReadAll(*left, "/data/dataset.json") != change.before->at("data/dataset.json");
        EXPECT_TRUE(published || !finished);
        if (!published) {
          EXPECT_EQ(manifest->shards.size(), change.shards);
          ASSERT_TRUE(change.operate(*left).ok());
        }
        EXPECT_EQ(ReadManifest(*left, "/data")->shards.size(), kMostShardsInManifest + 1);
      }
    }
  }
}

}  // namespace
}  // namespace shardkit::test
