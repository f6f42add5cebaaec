// Other shards, and random order: all samples, once, the same whatever the threads, the memory and the interruptions.
#include "shardkit/copy.h"

#include <algorithm>

#include "base/endian.h"
#include "base/hash.h"
#include "base/strings.h"
#include "support/effort.h"
#include "support/fault_filesystem.h"
#include "unit/dataset/select/select_support.h"

namespace shardkit::test {
namespace {

constexpr size_t kSamples = 200;

std::unique_ptr<FileSystem> NewReshardInput() {
  auto files = NewMemoryFileSystem();
  DatasetWriterOptions options = SmallShards(60, 7);
  options.shard.metadata["about"] = "a test";
  EXPECT_TRUE(WriteDataset(*files, "/in", MakeSamples(kSamples), options).ok());
  return files;
}

ReshardOptions Shuffle(uint64_t seed, uint64_t memory = 1 << 20, int threads = 1) {
  ReshardOptions options;
  options.shuffle = seed;
  options.shuffle_memory = memory;
  options.pack.dataset = SmallShards(0, 5);
  options.pack.dataset.shard_size = 1500;
  options.pack.dataset.threads = threads;
  return options;
}

// The rows in the order that the documentation gives.
std::vector<Row> Expected(uint64_t seed) {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < kSamples; ++i) {
    char bytes[8];
    StoreLittle(bytes, uint64_t{i});
    order.emplace_back(SeededHash64({bytes, 8}, seed), i);
  }
  std::ranges::sort(order);
  const std::vector<Row> rows = RowsOf(MakeSamples(kSamples));
  std::vector<Row> shuffled;
  for (const auto& [hash, ordinal] : order) shuffled.push_back(rows[ordinal]);
  return shuffled;
}

TEST(ReshardTest, OtherShardsAndBlocks) {
  const auto files = NewReshardInput();
  ReshardOptions options;
  options.pack.dataset.shard.alignment = 64;
  options.pack.dataset.shard_size = 4000;
  const auto kept = Reshard(*files, "/in", "/kept", options);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const auto before = ReadManifest(*files, "/in");
  EXPECT_EQ(kept->manifest.block_count, before->block_count);
  EXPECT_NE(kept->manifest.shards.size(), before->shards.size());
  EXPECT_EQ(ScanRows(*files, "/kept"), RowsOf(MakeSamples(kSamples)));
  EXPECT_EQ(ValidateText(*files, "/kept"), "");
  EXPECT_EQ(kept->manifest.metadata.at("about"), "a test");
  options.pack.dataset.shard.block_size = 1000;
  const auto again = Reshard(*files, "/in", "/again", options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(again->manifest.block_count, before->block_count);
  EXPECT_EQ(ScanRows(*files, "/again"), RowsOf(MakeSamples(kSamples)));
}

TEST(ReshardTest, ShuffledOnceForGood) {
  const auto files = NewReshardInput();
  for (const uint64_t seed : {0, 1}) {
    Tree expected;
    for (const uint64_t memory : {uint64_t{1} << 30, uint64_t{9000}, uint64_t{600}}) {
      for (const int threads : {1, 3}) {
        const auto report = Reshard(*files, "/in", "/out", Shuffle(seed, memory, threads));
        ASSERT_TRUE(report.ok()) << report.status();
        EXPECT_EQ(report->samples, kSamples);
        EXPECT_GT(report->manifest.shards.size(), 3u);
        if (expected.empty()) {
          EXPECT_EQ(ScanRows(*files, "/out"), Expected(seed));
          EXPECT_EQ(ValidateText(*files, "/out"), "");
          expected = ReadTree(*files, "/out");
        }
        EXPECT_TRUE(ReadTree(*files, "/out") == expected) << Describe(ReadTree(*files, "/out"));
        ASSERT_TRUE(RemoveTree(*files, "/out").ok());
      }
    }
  }
}

TEST(ReshardTest, OtherContainersAndScratch) {
  const auto files = NewReshardInput();
  ConvertOptions convert;
  convert.to = Container::kWebDataset;
  ASSERT_TRUE(Convert(*files, "/in", "/tars", convert).ok());
  ASSERT_TRUE(files->CreateDirectory("/scratch").ok());
  ReshardOptions options = Shuffle(4, 5000);
  options.scratch = "/scratch";
  const auto report = Reshard(*files, "/tars", "/out", options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ScanRows(*files, "/out"), Expected(4));
  EXPECT_TRUE(ReadTree(*files, "/scratch").empty());
}

TEST(ReshardTest, RefusesWhatMakesNoSense) {
  const auto files = NewReshardInput();
  ReshardOptions options = Shuffle(1);
  EXPECT_TRUE(absl::IsInvalidArgument(Reshard(*files, "/in", "s3://bucket/out", options).status()));
  options.pack.skip_errors = true;
  EXPECT_TRUE(absl::IsInvalidArgument(Reshard(*files, "/in", "/out", options).status()));
  options = Shuffle(1);
  options.scratch = "/no-scratch";
  EXPECT_TRUE(absl::IsNotFound(Reshard(*files, "/in", "/out", options).status()));
  options.scratch = "/in/dataset.json";
  EXPECT_TRUE(absl::IsInvalidArgument(Reshard(*files, "/in", "/out", options).status()));
  options.shuffle.reset();
  EXPECT_TRUE(absl::IsInvalidArgument(Reshard(*files, "/in", "/out", options).status()));
  options = Shuffle(1);
  options.keep_blocks = true;
  EXPECT_TRUE(absl::IsInvalidArgument(Reshard(*files, "/in", "/out", options).status()));
  EXPECT_FALSE(Exists(*files, "/out"));
}

TEST(ReshardTest, CancelledAndResumed) {
  const auto files = NewReshardInput();
  ASSERT_TRUE(Reshard(*files, "/in", "/whole", Shuffle(3)).ok());
  const Tree expected = ReadTree(*files, "/whole");
  for (const uint64_t memory : {uint64_t{1} << 20, uint64_t{2000}}) {
    for (uint64_t stop = 1; stop <= kSamples; stop += 23) {
      Cancellation cancellation;
      ReshardOptions options = Shuffle(3, memory, 2);
      options.pack.dataset.cancellation = &cancellation;
      options.pack.progress = [&](const PackProgress& now) {
        if (now.samples >= stop) cancellation.Cancel();
      };
      EXPECT_TRUE(absl::IsCancelled(Reshard(*files, "/in", "/out", options).status()));
      EXPECT_FALSE(Exists(*files, "/out")) << Describe(ReadTree(*files, "/out"));
      Cancellation again;
      options.pack.dataset.cancellation = &again;
      options.pack.keep_on_cancel = true;
      options.pack.progress = [&](const PackProgress& now) {
        if (now.samples >= stop) again.Cancel();
      };
      EXPECT_TRUE(absl::IsCancelled(Reshard(*files, "/in", "/out", options).status()));
      for (const auto& [name, bytes] : ReadTree(*files, "/out")) EXPECT_EQ(name.find(".tmp"), name.npos) << name;
      ReshardOptions rest = Shuffle(3, memory / 2, 1);
      rest.pack.dataset.resume = true;
      const auto resumed = Reshard(*files, "/in", "/out", rest);
      ASSERT_TRUE(resumed.ok()) << resumed.status();
      EXPECT_TRUE(ReadTree(*files, "/out") == expected) << Describe(ReadTree(*files, "/out"));
      ASSERT_TRUE(RemoveTree(*files, "/out").ok());
    }
  }
  // Another order is another job.
  Cancellation cancellation;
  ReshardOptions options = Shuffle(3);
  options.pack.dataset.cancellation = &cancellation;
  options.pack.keep_on_cancel = true;
  options.pack.progress = [&](const PackProgress& now) {
    if (now.samples >= 100) cancellation.Cancel();
  };
  EXPECT_TRUE(absl::IsCancelled(Reshard(*files, "/in", "/out", options).status()));
  ReshardOptions other = Shuffle(4);
  other.pack.dataset.resume = true;
  EXPECT_TRUE(absl::IsFailedPrecondition(Reshard(*files, "/in", "/out", other).status()));
}

// One of the calls to the file system fails, each in turn: nothing is left, or all of it is there.
TEST(ReshardTest, EveryCallFails) {
  const auto run = [](FileSystem& files) { return Reshard(files, "/in", "/out", Shuffle(2, 9000)).status(); };
  const auto whole = NewReshardInput();
  const Tree before = ReadTree(*whole, "/");
  ASSERT_TRUE(run(*whole).ok());
  const Tree expected = ReadTree(*whole, "/out");
  for (uint64_t number = 1;; number += TestStep()) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, "/", before);
    FaultFileSystem faults(files.get());
    faults.FailCall(number, {.status = absl::InternalError("injected fault")});
    const absl::Status status = run(faults);
    const auto failed = faults.failed_call();
    if (!failed) return;
    SCOPED_TRACE(StrCat("call ", number, ": ", failed->operation, " ", failed->path));
    if (Exists(*files, "/out/dataset.json")) {
      EXPECT_EQ(ScanRows(*files, "/out"), Expected(2));
    } else {
      EXPECT_FALSE(status.ok());
      EXPECT_TRUE(ReadTree(*files, "/") == before || failed->operation.starts_with("remove") ||
                  failed->operation.find("sync") != std::string::npos)
          << Describe(ReadTree(*files, "/out"));
      EXPECT_TRUE(run(*files).ok());
      EXPECT_TRUE(ReadTree(*files, "/out") == expected);
    }
    if (HasFailure()) return;
  }
}

// What lies in a temporary file is not what was written.
TEST(ReshardTest, DamagedTemporaryFilesAreFound) {
  const auto files = NewReshardInput();
  ReshardOptions options = Shuffle(2, 9000);
  options.spreading = [&](uint64_t done, uint64_t total) {
    if (done != total) return;
    for (const auto& [name, bytes] : ReadTree(*files, "/out")) {
      if (name.find("~") == name.npos || bytes.size() < 30) continue;
      std::string damaged = bytes;
      damaged[25] = static_cast<char>(damaged[25] ^ 1);
      WriteFile(*files, "/out/" + name, damaged);
    }
  };
  const absl::Status status = Reshard(*files, "/in", "/out", options).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("the temporary file is not as it was written"), std::string::npos) << status;
  EXPECT_FALSE(Exists(*files, "/out"));
}

}  // namespace
}  // namespace shardkit::test
