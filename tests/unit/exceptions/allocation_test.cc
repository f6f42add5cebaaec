// Each allocation on a thread of the library fails in turn. The operation reports it, or works without the memory.
// Nothing hangs, and the process continues. This program replaces operator new.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "loader/geometry_support.h"
#include "shardkit/copy.h"
#include "support/effort.h"
#include "support/fault_backend.h"
#include "unit/gpu/device/device_loader_support.h"

namespace {

std::atomic<bool> armed = false;
std::atomic<uint64_t> allocations = 0;  // on threads other than the caller's
std::atomic<uint64_t> failing = 0;      // the first that fails
std::atomic<bool> all_following = false;
std::atomic<pthread_t> caller;

bool Fails() {
  if (!armed.load(std::memory_order_relaxed) || pthread_equal(pthread_self(), caller) != 0) return false;
  const uint64_t number = allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  return all_following ? number >= failing : number == failing;
}

}  // namespace

// Where only one of a pair is inlined, gcc takes malloc and delete for a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t size) {
  void* const memory = Fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// By default it calls the other operator; a sanitizer's version does not.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return Fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace shardkit::test {
namespace {

class AllocationTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteDataset(*files_, "/data", MakeSamples(60), SmallShards(20, 5)).ok()); }

  // `run` works without the failed allocation, or returns ResourceExhausted. Allocations on its own thread do not fail.
  static void FailEachAllocation(const std::function<absl::Status()>& run) {
    caller = pthread_self();
    for (const bool following : {false, true}) {
      uint64_t errors = 0;
      // After the first allocations the step is a prime number, because there are thousands.
      uint64_t step = 1;
      for (uint64_t number = 1;; number += step) {
        failing = number;
        all_following = following;
        allocations = 0;
        armed = true;
        const absl::Status status = run();
        armed = false;
        if (!status.ok()) {
          EXPECT_TRUE(absl::IsResourceExhausted(status)) << number << ": " << status;
          ++errors;
        }
        if (allocations < number) {
          EXPECT_TRUE(status.ok()) << status;
          break;
        }
        if (number > 300) step = static_cast<uint64_t>(Every(7));
      }
      EXPECT_GT(errors, 3u) << following;
    }
  }

  static int Every(int step) { return step * static_cast<int>(TestStep()); }

  static absl::Status Follow(Loader& loader) {
    while (true) {
      const auto batch = loader.Next();
      if (!batch.ok() || *batch == nullptr) return batch.status();
    }
  }

  static LoaderOptions Options() {
    LoaderOptions options;
    options.plan = {.seed = 2, .batch_size = 7, .shuffle_buffer_bytes = 8000};
    options.memory_bytes = 4 << 20;
    options.decode_threads = options.read_threads = 2;
    return options;
  }

  absl::Status RunLoader(const LoaderOptions& options) {
    const auto loader = Loader::Open(*files_, {{.path = "/data"}}, options);
    return loader.ok() ? Follow(**loader) : loader.status();
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(AllocationTest, Loaders) {
  LoaderOptions options = Options();
  FailEachAllocation([&] { return RunLoader(options); });
  options.trace = true;
  options.columns = {{.name = "text", .decode = ColumnDecode::kViews}, {.name = "label"}};
  FailEachAllocation([&] { return RunLoader(options); });
}

TEST_F(AllocationTest, LoadersOfImagesAndMasks) {
  files_ = NewMemoryFileSystem();
  (void)WriteImagesAndMasks(*files_);
  LoaderOptions options = Options();
  options.columns = {{.name = "image", .decode = ColumnDecode::kImage},
                     {.name = "masks", .decode = ColumnDecode::kMasks}};
  options.geometry = Geometries()[3];
  // A failed allocation during decoding is not the sample's fault.
  options.bad_samples = BadSamples::kSkip;
  FailEachAllocation([&]() -> absl::Status {
    const auto loader = OpenLoader(*files_, options);
    const absl::Status status = Follow(*loader);
    EXPECT_EQ(loader->Report().skipped, 0u);
    return status;
  });
}

TEST_F(AllocationTest, Scanners) {
  FailEachAllocation([&]() -> absl::Status {
    const auto dataset = *DatasetReader::Open(*files_, "/data");
    const auto scanner = *dataset->Scan({.threads = 2});
    while (true) {
      const auto block = scanner->Next();
      if (!block.ok() || *block == nullptr) return block.status();
    }
  });
}

TEST_F(AllocationTest, Validation) {
  FailEachAllocation([&]() -> absl::Status {
    ValidateOptions options;
    options.threads = 2;
    return Validate(*files_, "/data", options).status();
  });
}

TEST_F(AllocationTest, Unpacking) {
  const auto dataset = DatasetReader::Open(*files_, "/data");
  FailEachAllocation([&]() -> absl::Status {
    UnpackOptions options;
    options.threads = 2;
    const absl::Status status = Unpack(*files_, **dataset, "/out", options).status();
    if (status.ok()) {
      EXPECT_TRUE(RemoveTree(*files_, "/out").ok());
    }
    EXPECT_FALSE(Exists(*files_, "/out"));
    return status;
  });
}

TEST_F(AllocationTest, Packing) {
  Tree tree;
  for (int i = 0; i < 30; ++i) tree["f" + std::to_string(100 + i) + ".txt"] = std::string(50, 'x');
  WriteTree(*files_, "/files", tree);
  for (const bool skip : {false, true}) {
    FailEachAllocation([&]() -> absl::Status {
      PackOptions options;
      options.dataset = SmallShards(10, 3);
      options.dataset.threads = 2;
      options.skip_errors = skip;
      const auto report = PackFiles(*files_, {"/files"}, "/packed", options);
      if (report.ok()) {
        EXPECT_EQ(report->samples, 30u);
        EXPECT_TRUE(RemoveTree(*files_, "/packed").ok());
      }
      EXPECT_FALSE(Exists(*files_, "/packed"));
      return report.status();
    });
  }
}

TEST_F(AllocationTest, Converting) {
  for (const Container to : {Container::kMds, Container::kWebDataset, Container::kShard}) {
    FailEachAllocation([&]() -> absl::Status {
      ConvertOptions options;
      options.to = to;
      options.columns = {"key", "image"};
      options.pack.dataset.threads = 2;
      const absl::Status status = Convert(*files_, "/data", "/out", options).status();
      if (status.ok()) {
        EXPECT_TRUE(RemoveTree(*files_, "/out").ok());
      }
      EXPECT_FALSE(Exists(*files_, "/out"));
      return status;
    });
  }
}

TEST_F(AllocationTest, DeviceLoaders) {
  files_ = NewMemoryFileSystem();
  (void)WriteImagesAndMasks(*files_);
  FailEachAllocation([&]() -> absl::Status {
    const auto device = std::make_shared<FaultBackend>();
    LoaderOptions options = Options();
    options.columns = {{.name = "image", .decode = ColumnDecode::kImage},
                       {.name = "masks", .decode = ColumnDecode::kMasks}};
    options.geometry = Geometries()[3];
    options.device_geometry = true;
    options.columns[0].output = {.type = Type::kF32, .planar = true};
    options.pinned_bytes = 4 << 20;
    absl::Status status;
    {
      const auto loader = OpenDeviceLoader(device, *files_, options);
      while (status.ok()) {
        const auto batch = loader->Next();
        status = batch.status();
        if (!status.ok() || *batch == nullptr) break;
        status = (*batch)->Synchronize();
      }
    }
    EXPECT_EQ(device->alive(), 0);
    return status;
  });
}

}  // namespace
}  // namespace shardkit::test
