// Loaders that are opened and destroyed leave nothing behind.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <random>
#include <thread>

#include "loader/loader_support.h"
#include "loader/process_status.h"

namespace shardkit::test {
namespace {

class LifeCycleTest : public testing::Test {
 protected:
  // 400 samples with blobs of 4 KiB.
  void SetUp() override {
    std::vector<Values> rows;
    for (int i = 0; i < 400; ++i) rows.push_back({"k" + std::to_string(i), std::string(4096, static_cast<char>(i))});
    WriteRows(*files_, "/data", {KeyColumn(), Blob()}, rows, SmallShards(100, 10));
  }

  static Column Blob() { return {.name = "blob", .type = Type::kBytes}; }

  static LoaderOptions Options() {
    LoaderOptions options;
    options.plan = {.seed = 1, .batch_size = 16, .shuffle_buffer_bytes = 200 << 10};
    options.epochs = 0;
    options.memory_bytes = 2 << 20;
    options.decode_threads = 2;
    options.read_threads = 2;
    return options;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(LifeCycleTest, WaitingEndsWithABatchTheEndOrTheTime) {
  using std::chrono::milliseconds;
  LoaderOptions options = Options();
  options.epochs = 1;
  std::atomic<bool> hold = true;
  options.batch_function = [&](Batch&) {
    while (hold) std::this_thread::yield();
    return absl::OkStatus();
  };
  const auto loader = OpenLoader(*files_, options);
  EXPECT_FALSE(loader->WaitFor(milliseconds(20)));
  hold = false;
  uint64_t samples = 0;
  while (true) {
    while (!loader->WaitFor(milliseconds(1))) continue;
    const auto batch = loader->Next();
    ASSERT_TRUE(batch.ok());
    if (*batch == nullptr) break;
    samples += (*batch)->size();
  }
  EXPECT_EQ(samples, 400u);
  EXPECT_TRUE(loader->WaitFor(milliseconds(0)));
  EXPECT_GE(loader->Report().first_batch_seconds, 0.02);
}

TEST_F(LifeCycleTest, AThousandCyclesLeaveMemoryAndThreadsAsTheyWere) {
  std::mt19937_64 random(4);
  const auto cycle = [&] {
    LoaderOptions options = Options();
    options.decode_threads = static_cast<int>(random() % 4);
    options.read_threads = static_cast<int>(random() % 4);
    const auto loader = OpenLoader(*files_, options);
    std::shared_ptr<const Batch> held;
    for (uint64_t i = random() % 6; i > 0; --i) held = *loader->Next();
    if (random() % 4 == 0) loader->Cancel();
  };
  for (int i = 0; i < 100; ++i) cycle();  // things that are allocated only once
  malloc_trim(0);
  const uint64_t threads = ProcessStatus::Read("Threads");
  [[maybe_unused]] const uint64_t memory = ProcessStatus::Read("VmRSS");
  for (int i = 0; i < 1000; ++i) cycle();
  malloc_trim(0);
  EXPECT_EQ(ProcessStatus::Read("Threads"), threads);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // A leak of one block of 40 KiB per cycle would be ten times this.
  EXPECT_LE(ProcessStatus::Read("VmRSS"), memory + (4 << 20));
#endif
}

// Destroyed while user functions, which stand for decoders, are running and blocks are being read. The functions are
// counted: the loader must wait for those that have begun, and begin no more.
TEST_F(LifeCycleTest, DestroyingWaitsForWorkBegunAndBeginsNoMore) {
  std::atomic<int> begun = 0, ended = 0;
  LoaderColumn column{.name = "blob", .decode = ColumnDecode::kFunction};
  column.shape = {1};
  column.function = [&](const FunctionInput&, AugmentationRandom&, std::span<uint8_t>) {
    ++begun;
    std::this_thread::yield();
    ++ended;
    return absl::OkStatus();
  };
  for (int round = 0; round < 100; ++round) {
    LoaderOptions options = Options();
    options.columns = {column};
    auto loader = OpenLoader(*files_, options);
    while (begun == 0) std::this_thread::yield();
    loader.reset();
    const int at_end = begun;
    EXPECT_EQ(ended, at_end);
    std::this_thread::yield();
    EXPECT_EQ(begun, at_end);
    begun = ended = 0;
  }
}

TEST_F(LifeCycleTest, CancelWakesAWaitingConsumer) {
  std::atomic<bool> go = false;
  LoaderColumn column{.name = "blob", .decode = ColumnDecode::kFunction};
  column.shape = {1};
  column.function = [&](const FunctionInput&, AugmentationRandom&, std::span<uint8_t>) {
    while (!go) std::this_thread::yield();
    return absl::OkStatus();
  };
  LoaderOptions options = Options();
  options.columns = {column};
  const auto loader = OpenLoader(*files_, options);
  absl::Status status;
  std::thread consumer([&] { status = loader->Next().status(); });
  loader->Cancel();
  consumer.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  go = true;
}

// A consumer that keeps every batch still gets all of them: the oldest batch is always given memory.
TEST_F(LifeCycleTest, AConsumerMayKeepMoreThanTheMemory) {
  LoaderOptions options = Options();
  options.epochs = 4;
  std::vector<std::shared_ptr<const Batch>> held;
  const auto loader = OpenLoader(*files_, options);
  for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next()) held.push_back(batch);
  EXPECT_EQ(held.size(), 100u);
  uint64_t bytes = 0;
  for (const auto& batch : held) {
    bytes += batch->memory();
    for (size_t i = 0; i < batch->size(); ++i) {
      const BatchColumn& column = batch->column(0);
      ASSERT_EQ(column.values[column.offsets[i]], static_cast<uint8_t>(batch->samples()[i].ordinal));
      ASSERT_EQ(column.values[column.offsets[i + 1] - 1], static_cast<uint8_t>(batch->samples()[i].ordinal));
    }
  }
  EXPECT_GT(bytes, 2 * options.memory_bytes);
}

TEST_F(LifeCycleTest, BatchesComeBackFromOtherThreads) {
  LoaderOptions options = Options();
  options.epochs = 8;
  std::mutex mutex;
  std::vector<std::shared_ptr<const Batch>> passed;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) {
      std::vector<std::shared_ptr<const Batch>> mine;
      std::lock_guard lock(mutex);
      mine.swap(passed);
    }
  });
  size_t count = 0;
  {
    const auto loader = OpenLoader(*files_, options);
    for (auto batch = *loader->Next(); batch != nullptr; batch = *loader->Next(), ++count) {
      std::lock_guard lock(mutex);
      passed.push_back(std::move(batch));
    }
  }
  done = true;
  other.join();
  EXPECT_EQ(count, 200u);
}

}  // namespace
}  // namespace shardkit::test
