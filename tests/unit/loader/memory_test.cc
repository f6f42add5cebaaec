// The memory of the whole process while a loader runs over data many times larger than its budget.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "loader/loader_support.h"
#include "loader/process_status.h"

namespace shardkit::test {
namespace {

constexpr uint64_t kLargest = 64 * kMiB;
constexpr uint64_t kBudget = 192 * kMiB;
constexpr uint64_t kSlack = 64 * kMiB;
constexpr uint64_t kProcess = 16 * kMiB;  // of the slack: a fresh process; tests before this may have left more

// Bytes of a sample's blob: from 1 byte to 8 MiB, evenly over all magnitudes, and some of 64 MiB.
uint64_t LengthOf(uint64_t ordinal) {
  if (ordinal % 200 == 0) return 1;
  if (ordinal % 200 == 100) return kLargest;
  std::mt19937_64 random(ordinal);
  return static_cast<uint64_t>(std::exp2(23 * std::uniform_real_distribution<>()(random)));
}

class LoaderMemoryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return;
#endif
    std::string pattern = (std::filesystem::temp_directory_path() / "shardkit-loader-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = new std::string(pattern);
    const Schema schema = MakeSchema({KeyColumn(), BlobColumn()});
    DatasetWriterOptions options;
    options.sync = false;
    options.shard_size = 256 * kMiB;
    auto writer = DatasetWriter::Create(*PosixFileSystem(), Path(), schema, options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::string content(kLargest, '\0');
    std::mt19937_64 random(1);
    for (size_t i = 0; i + 8 <= content.size(); i += 8) {
      const uint64_t number = random();
      std::memcpy(content.data() + i, &number, 8);
    }
    uint64_t bytes = 0;
    for (samples_ = 0; bytes < 10 * kBudget; ++samples_) {
      const std::string key = std::to_string(samples_);
      const std::string_view blob = std::string_view(content).substr(0, LengthOf(samples_));
      ASSERT_TRUE((*writer)->Append({key, {{&BlobColumn(), blob}}}, samples_ + 1).ok());
      bytes += blob.size();
    }
    const auto summary = (*writer)->Finish();
    ASSERT_TRUE(summary.ok()) << summary.status();
  }

  static void TearDownTestSuite() {
    if (directory_ == nullptr) return;
    std::error_code error;
    std::filesystem::remove_all(*directory_, error);
    delete directory_;
    directory_ = nullptr;
  }

  void SetUp() override {
    if (directory_ == nullptr) GTEST_SKIP() << "sanitizers have memory of their own";
    if (!ProcessStatus::CanResetPeak()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written here";
  }

  static std::string Path() { return *directory_ + "/data"; }
  static const Column& BlobColumn() {
    static const Column column{.name = "blob", .type = Type::kBytes};
    return column;
  }

  // Reads an epoch and expects the peak to stay within bounds. Checks the length and the last bytes of every blob.
  static void Run(const LoaderOptions& options) {
    malloc_trim(0);
    ASSERT_TRUE(ProcessStatus::ResetPeak());
    const uint64_t before = ProcessStatus::Read("VmRSS");
    uint64_t seen = 0;
    LoaderReport report;
    {
      const auto loader = OpenLoader(*PosixFileSystem(), options, Path());
      ASSERT_NE(loader, nullptr);
      std::shared_ptr<const Batch> batch;
      while (true) {
        auto next = loader->Next();
        ASSERT_TRUE(next.ok()) << next.status();
        batch = *std::move(next);
        if (batch == nullptr) break;
        const BatchColumn& column = *batch->Find("blob");
        for (size_t i = 0; i < batch->size(); ++i, ++seen) {
          ASSERT_EQ(column.offsets[i + 1] - column.offsets[i], LengthOf(batch->samples()[i].ordinal));
        }
      }
      report = loader->Report();
    }
    EXPECT_EQ(seen, samples_);
    const uint64_t peak = ProcessStatus::Read("VmHWM");
    std::printf(
        "step %lu peak %lu MiB, before %lu MiB, budget %lu MiB; blocks %lu MiB, batches %lu MiB, blocks read again %lu "
        "of %lu\n",
        LargestStep(options) / kMiB, peak / kMiB, before / kMiB, options.memory_bytes / kMiB,
        report.peak_block_memory / kMiB, report.peak_batch_memory / kMiB, report.blocks_read_again, report.blocks_read);
    // Of a memory map the kernel also maps pages beside those that are read: they count, though they take no memory.
    const uint64_t process = options.read.mode == ReadMode::kMapped ? 0 : kProcess;
    EXPECT_LE(peak - before, options.memory_bytes + kSlack - process);
  }

  // The least memory for a step: its blocks, its batch, and the previous batch, which the consumer still holds.
  static uint64_t LargestStep(const LoaderOptions& options) {
    const auto plan = PlanDatasets(*PosixFileSystem(), std::vector<LoaderDataset>{{.path = Path()}}, options.plan);
    EXPECT_TRUE(plan.ok()) << plan.status();
    const auto order = (*plan)->Epoch(0);
    uint64_t largest = 0, before = 0;
    for (uint64_t step = 0; step < (*plan)->StepsFrom(0); ++step) {
      std::map<uint32_t, uint64_t> blocks;
      uint64_t batch = 0, held = 0;
      const Step range = (*plan)->StepAt(0, step);
      for (uint64_t position = range.begin; position < range.end; ++position) {
        const PlannedSample sample = order->At(position);
        batch += LengthOf(sample.ordinal);
        blocks[sample.block] = (*plan)->datasets()[0].blocks[sample.block].bytes;
      }
      for (const auto& [block, bytes] : blocks) held += bytes;
      largest = std::max(largest, before + batch + held);
      before = batch;
    }
    return largest;
  }

  static LoaderOptions Options() {
    LoaderOptions options;
    options.memory_bytes = kBudget;
    options.plan.batch_size = 8;
    options.plan.seed = 4;  // an order whose largest step fits in the budget
    options.plan.shuffle_buffer_bytes = 64 * kMiB;
    options.decode_threads = options.read_threads = 4;
    return options;
  }

  static inline std::string* directory_ = nullptr;
  static inline uint64_t samples_ = 0;
};

TEST_F(LoaderMemoryTest, PeakStaysInTheBudgetShuffled) { Run(Options()); }

TEST_F(LoaderMemoryTest, PeakStaysInTheBudgetSequential) {
  LoaderOptions options = Options();
  options.plan.order = SampleOrder::kSequential;
  Run(options);
}

TEST_F(LoaderMemoryTest, PeakStaysInTheBudgetMapped) {
  LoaderOptions options = Options();
  options.read.mode = ReadMode::kMapped;
  Run(options);
}

}  // namespace
}  // namespace shardkit::test
