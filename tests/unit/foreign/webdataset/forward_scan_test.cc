// Reading a compressed tar in order decompresses it once, with any number of threads.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "dataset/read/forward_read_queue.h"
#include "loader/loader_support.h"
#include "shardkit/validate.h"
#include "support/fault_filesystem.h"
#include "unit/foreign/webdataset/tar_maker.h"

#include <atomic>
#include <thread>

namespace shardkit::test {
namespace {

constexpr int kSamples = 40;

class ForwardScanTest : public testing::Test {
 protected:
  // Two tars of several blocks each, with bytes that do not compress much.
  void SetUp() override {
    ASSERT_TRUE(files_->CreateDirectory("/data").ok());
    uint64_t state = 1;
    for (const std::string name : {"a", "b"}) {
      std::vector<TarMember> members;
      for (int i = 0; i < kSamples; ++i) {
        std::string value(600000, '\0');
        for (size_t at = 0; at < value.size(); at += 50) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          value[at] = static_cast<char>(state >> 56);
        }
        members.push_back({StrCat(name, i, ".bin"), std::move(value)});
      }
      WriteFile(*files_, StrCat("/data/", name, ".tar.zst"), WriteTar(members, "ustar", "zstd"));
    }
  }

  // How often the tars are read while `use` runs.
  template <typename Use>
  uint64_t CountReads(const Use& use) {
    FaultFileSystem counting(files_.get());
    use(counting);
    uint64_t reads = 0;
    for (const FileSystemCall& call : counting.calls()) reads += call.operation == "read" ? 1 : 0;
    return reads;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(ForwardScanTest, Scanning) {
  const auto scan = [&](int threads) {
    return CountReads([&](FileSystem& files) {
      const auto dataset = DatasetReader::Open(files, "/data");
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      const auto blocks = (*dataset)->ReadBlockDirectory();
      ASSERT_TRUE(blocks.ok());
      EXPECT_GT(blocks->size(), 8u);
      EXPECT_TRUE(blocks->front().forward_only);
      const auto rows = ScanRows(**dataset, {.threads = threads, .blocks_ahead = 2 * threads});
      ASSERT_EQ(rows.size(), 2u * kSamples);
      EXPECT_EQ(rows[kSamples + 3].at("key"), "b3");
    });
  };
  const uint64_t once = scan(0);
  for (int turn = 0; turn < 3; ++turn) {
    for (const int threads : {1, 3, 8}) EXPECT_EQ(scan(threads), once) << threads;
  }
}

TEST_F(ForwardScanTest, Validating) {
  const auto validate = [&](int threads) {
    return CountReads([&](FileSystem& files) {
      const auto report = Validate(files, "/data", {{.threads = threads}, /*deep=*/true});
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_TRUE(report->ok());
      EXPECT_EQ(report->samples, 2u * kSamples);
    });
  };
  const uint64_t once = validate(1);
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(validate(8), once);
}

TEST_F(ForwardScanTest, Loading) {
  const auto load = [&](int threads) {
    return CountReads([&](FileSystem& files) {
      LoaderOptions options;
      options.plan.order = SampleOrder::kSequential;
      options.plan.batch_size = 4;
      options.memory_bytes = 128 << 20;
      options.read_threads = threads;
      options.decode_threads = 2;
      options.epochs = 1;
      options.columns = {{.name = "bin"}};
      const auto loader = Loader::Open(files, {{.path = "/data"}}, options);
      ASSERT_TRUE(loader.ok()) << loader.status();
      size_t samples = 0;
      while (true) {
        const auto batch = (*loader)->Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        if (*batch == nullptr) break;
        samples += (*batch)->size();
      }
      EXPECT_EQ(samples, 2u * kSamples);
    });
  };
  const uint64_t once = load(1);
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(load(8), once);
}

// After a scan that ends early, or fails in the middle, no thread is left waiting.
TEST_F(ForwardScanTest, EndingEarly) {
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok());
  for (int held = 0; held < 4; ++held) {
    const auto scanner = (*dataset)->Scan({.threads = 4, .blocks_ahead = 6});
    ASSERT_TRUE(scanner.ok());
    for (int i = 0; i < held; ++i) EXPECT_TRUE((*scanner)->Next().ok());
  }
  for (uint64_t n = 1; n < 60; n += 3) {
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::UnavailableError("gone"), .all_following = true});
    const auto open = DatasetReader::Open(faults, "/data");
    if (!open.ok()) continue;
    const auto scanner = (*open)->Scan({.threads = 4, .blocks_ahead = 6});
    ASSERT_TRUE(scanner.ok());
    absl::Status status;
    while (status.ok()) {
      const auto block = (*scanner)->Next();
      status = block.status();
      if (block.ok() && *block == nullptr) break;
    }
    EXPECT_TRUE(!faults.failed_call() || absl::IsUnavailable(status)) << status;
  }
}

TEST(ReadTurnsTest, OneAfterTheOtherWithinAShard) {
  dataset::ForwardReadQueue turns;
  dataset::ForwardReadQueue::Turn first(turns, 1, 4);
  dataset::ForwardReadQueue::Turn second(turns, 1, 5);
  dataset::ForwardReadQueue::Turn other(turns, 2, 0);
  other.Await();
  first.Await();
  std::atomic<bool> went = false;
  std::thread thread([&] {
    second.Await();
    went = true;
  });
  EXPECT_FALSE(went);
  first.End();
  thread.join();
  EXPECT_TRUE(went);
  first.End();
}

}  // namespace
}  // namespace shardkit::test
