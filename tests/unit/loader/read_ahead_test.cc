// How far the loader reads ahead, and what it keeps for later windows.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "loader/engine/batch_task.h"
#include "loader/engine/block_table.h"
#include "loader/loader_support.h"
#include "shardctl/latency_filesystem.h"
#include "support/counting_filesystem.h"

namespace shardkit::test {
namespace {

class ReadAheadTest : public testing::Test {
 protected:
  // Blobs of 64 KiB that nothing compresses, 16 in a block.
  void Write(uint64_t samples) {
    std::mt19937_64 random(1);
    std::vector<Values> rows;
    for (uint64_t i = 0; i < samples; ++i) {
      std::string blob(64 << 10, '\0');
      for (size_t at = 0; at < blob.size(); at += 8) {
        const uint64_t number = random();
        std::memcpy(blob.data() + at, &number, 8);
      }
      rows.push_back({"k" + std::to_string(i), std::move(blob)});
    }
    WriteRows(*files_, "/data", {KeyColumn(), {.name = "blob", .type = Type::kBytes}}, rows, SmallShards(256, 16));
  }

  static LoaderOptions Options() {
    LoaderOptions options;
    options.plan.batch_size = 16;
    options.plan.seed = 5;
    return options;
  }

  // The report after all batches, each of which is let go before the next.
  LoaderReport Run(const LoaderOptions& options) {
    const auto loader = OpenLoader(*files_, options);
    uint64_t samples = 0;
    while (true) {
      const auto batch = loader->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || *batch == nullptr) break;
      samples += (*batch)->size();
    }
    EXPECT_EQ(samples, loader->plan().samples_per_epoch() * options.epochs);
    return loader->Report();
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(ReadAheadTest, InOrderAFewBlocksAreEnough) {
  Write(1600);  // 100 MiB
  LoaderOptions options = Options();
  options.plan.order = SampleOrder::kSequential;
  options.read_threads = 1;
  const LoaderReport report = Run(options);
  EXPECT_EQ(report.blocks_read, 100u);
  EXPECT_LE(report.peak_block_memory, 24 * kMiB);  // of the budget's 480
}

TEST_F(ReadAheadTest, ShuffledTheBufferAndALanesWindowAreEnough) {
  Write(1600);
  LoaderOptions options = Options();
  options.plan.shuffle_buffer_bytes = 32 * kMiB;
  options.read_threads = 1;
  const LoaderReport report = Run(options);
  EXPECT_LE(report.peak_block_memory, 32 * kMiB + 32 * kMiB / 2 + 24 * kMiB);
}

TEST_F(ReadAheadTest, ASmallDatasetIsReadOnce) {
  Write(320);  // 20 MiB
  for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kSequential, SampleOrder::kWindow}) {
    LoaderOptions options = Options();
    options.plan.order = order;
    options.epochs = 6;
    LoaderReport report = Run(options);
    EXPECT_EQ(report.blocks_read, 20u) << static_cast<int>(order);
    EXPECT_LE(report.peak_block_memory, 24 * kMiB) << static_cast<int>(order);

    // A budget that cannot hold it leaves less to keep, and the same samples.
    options.memory_bytes = 8 * kMiB;
    options.read.mode = ReadMode::kBuffered;  // otherwise the values stay in the files and take no memory
    options.plan.shuffle_buffer_bytes = 3 * kMiB;
    report = Run(options);
    EXPECT_GT(report.blocks_read, 40u) << static_cast<int>(order);
    EXPECT_LE(report.peak_block_memory, 8 * kMiB) << static_cast<int>(order);
  }
}

// Behind a network many requests are under way at once, from the first block on, and only as many as hide its latency.
TEST_F(ReadAheadTest, SlowFilesAreAskedForManyBlocksAtOnce) {
  Write(1600);
  shardctl::LatencyOptions latency;
  latency.latency = std::chrono::milliseconds(5);
  const auto slow = shardctl::NewLatencyFileSystem(*files_, latency);
  for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled}) {
    LoaderOptions options = Options();
    options.plan.order = order;
    options.plan.shuffle_buffer_bytes = 32 * kMiB;
    const auto loader = OpenLoader(*slow, options);
    uint64_t samples = 0;
    while (true) {
      const auto batch = loader->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (*batch == nullptr) break;
      samples += (*batch)->size();
    }
    EXPECT_EQ(samples, 1600u);
    const LoaderReport report = loader->Report();
    EXPECT_EQ(report.blocks_read, 100u);
    EXPECT_LE(report.round_trips, 28u) << static_cast<int>(order);  // of more than 100 one after the other
  }
}

// Reads of shards end when they are cancelled, and in no other way.
class HangingFileSystem final : public ForwardingReadableFileSystem {
 public:
  using ForwardingReadableFileSystem::ForwardingReads;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = base().OpenForReading(path, mode, size);
    if (!file.ok() || !path.ends_with(".shard")) return file;
    return std::make_unique<File>(*std::move(file));
  }

 private:
  class File final : public ForwardingFile {
   public:
    using ForwardingFile::ForwardingFile;
    std::optional<std::string_view> Mapped() const override { return std::nullopt; }
    absl::Status ReadAt(uint64_t /*offset*/, std::span<char> /*buffer*/) const override { return Hang(); }
    absl::Status ReadBatch(std::span<const ReadRequest> /*requests*/) const override { return Hang(); }
    void CancelReads() const override { cancelled_.Cancel(); }

   private:
    absl::Status Hang() const {
      while (!cancelled_.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return absl::CancelledError("cancelled");
    }

    mutable Cancellation cancelled_;
  };
};

TEST_F(ReadAheadTest, ALoaderEndsWhileItsReadsHang) {
  Write(320);
  HangingFileSystem hanging(*files_);
  const auto loader = OpenLoader(hanging, Options());
  EXPECT_FALSE(loader->WaitFor(std::chrono::milliseconds(20)));
}

TEST_F(ReadAheadTest, OpeningTakesTwoRoundTrips) {
  Write(320);
  LoaderOptions options = Options();
  const auto plan = PlanDatasets(*files_, std::vector<LoaderDataset>{{.path = "/data"}}, options.plan);
  ASSERT_TRUE(plan.ok()) << plan.status();
  options.cursor = (*plan)->Begin(1);  // the end, so that no block is read
  CountingFileSystem counting(files_.get());
  const auto loader = OpenLoader(counting, options);
  EXPECT_LE(counting.round_trips(), 2u);  // the manifest, and the index: above 128 KiB its root, and then its pages
  EXPECT_LE(loader->Report().round_trips, 2u);
  EXPECT_EQ(loader->Report().blocks_read, 0u);
}

TEST_F(ReadAheadTest, TheFirstBatchTakesTwoRoundTripsAfterOpening) {
  Write(320);
  shardctl::LatencyOptions latency;
  latency.latency = std::chrono::milliseconds(150);  // longer than threads wait for a busy processor
  const auto slow = shardctl::NewLatencyFileSystem(*files_, latency);
  const auto loader = OpenLoader(*slow, Options());
  ASSERT_TRUE(loader->Next().ok());
  EXPECT_LE(loader->Report().round_trips, 4u);  // two to open; the ends of all shards; all blocks
}

// Holds back the first reads of blocks until it is told to go on.
class HoldingFileSystem final : public ForwardingReadableFileSystem {
 public:
  HoldingFileSystem(ReadableFileSystem& base, uint64_t held) : ForwardingReads(base), held_(held) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = base().OpenForReading(path, mode, size);
    if (!file.ok() || !path.ends_with(".shard")) return file;
    return std::make_unique<File>(*std::move(file), this);
  }

  void GoOn() { go_on_.Cancel(); }
  uint64_t begun() const { return begun_; }

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<RandomAccessFile> base, HoldingFileSystem* holding)
        : ForwardingFile(std::move(base)), holding_(*holding) {}
    std::optional<std::string_view> Mapped() const override { return std::nullopt; }
    absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
      if (buffer.size() > 64 << 10 && holding_.begun_++ < holding_.held_) {
        while (!holding_.go_on_.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return ForwardingFile::ReadAt(offset, buffer);
    }

   private:
    HoldingFileSystem& holding_;
  };

  const uint64_t held_;
  std::atomic<uint64_t> begun_ = 0;
  Cancellation go_on_;
};

// Until the first block has been read, blocks count with more memory than these take, and the budget is full.
TEST_F(ReadAheadTest, OtherBlocksAreReadBeforeTheFirstBatchIsMade) {
  Write(1600);
  HoldingFileSystem holding(*files_, 1);
  LoaderOptions options = Options();
  options.plan.shuffle_buffer_bytes = 32 * kMiB;
  options.memory_bytes = 96 * kMiB;
  options.read_threads = 8;
  const auto loader = OpenLoader(holding, options);
  const uint64_t of_first_batch = options.plan.batch_size;  // at most
  for (int i = 0; i < 5000 && loader->Report().blocks_read <= of_first_batch; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(loader->Report().blocks_read, of_first_batch);
  holding.GoOn();
  EXPECT_TRUE(loader->Next().ok());
}

TEST_F(ReadAheadTest, NoOtherBlockIsAskedForBeforeSomeOfTheFirstBatchHaveCome) {
  Write(1600);
  HoldingFileSystem holding(*files_, UINT64_MAX);
  LoaderOptions options = Options();
  options.plan.shuffle_buffer_bytes = 32 * kMiB;
  options.read_threads = 32;
  const auto loader = OpenLoader(holding, options);
  while (holding.begun() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LE(holding.begun(), options.plan.batch_size);
  holding.GoOn();
  EXPECT_TRUE(loader->Next().ok());
}

TEST_F(ReadAheadTest, ReadingRestsWhileTheFirstBatchIsMadeWhereReadsDoNotWait) {
  loader::BatchTask task;
  const auto first = [&](bool reads_wait) { return loader::FirstBatchFirst(task, reads_wait); };
  for (int i = 0; i < 4; ++i) {
    task.blocks.push_back(std::make_shared<loader::BlockEntry>());
    task.blocks.back()->state = loader::BlockState::kReading;
  }
  task.missing = 4;
  EXPECT_TRUE(first(true) && first(false));
  task.blocks[1]->state = loader::BlockState::kWanted;  // to be read itself
  EXPECT_FALSE(first(true) || first(false));
  task.blocks[1]->state = loader::BlockState::kReading;
  task.missing = 2;
  EXPECT_FALSE(first(true) || first(false));
  task.missing = 0;
  task.blocks[2] = nullptr;  // no longer needed
  EXPECT_FALSE(first(true));
  EXPECT_TRUE(first(false));
  task.done = true;
  EXPECT_FALSE(first(false));
  task.done = false;
  task.sequence = 1;
  EXPECT_FALSE(first(false));
}

TEST_F(ReadAheadTest, OtherRanksSamplesDoNotMakeItReadTwice) {
  Write(320);
  LoaderOptions options = Options();
  options.epochs = 4;
  options.rank = 1;
  options.world_size = 3;  // shares lanes with others: uses of a block are not known
  const auto loader = OpenLoader(*files_, options);
  while (true) {
    const auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (*batch == nullptr) break;
  }
  EXPECT_LE(loader->Report().blocks_read, 20u);
}

}  // namespace
}  // namespace shardkit::test
