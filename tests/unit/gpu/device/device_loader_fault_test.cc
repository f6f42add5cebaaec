// A device that fails: its batch gives the error, nothing hangs and nothing leaks.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "loader/geometry_support.h"
#include "shardkit/job.h"
#include "support/effort.h"
#include "support/fault_backend.h"
#include "support/fault_filesystem.h"
#include "unit/gpu/device/device_loader_support.h"

namespace shardkit::test {
namespace {

class DeviceLoaderFaultTest : public testing::Test {
 protected:
  void SetUp() override { (void)WriteImagesAndMasks(*files_); }

  static LoaderOptions Options() {
    LoaderOptions options;
    options.plan = {.seed = 3, .batch_size = 12};
    options.memory_bytes = 8 << 20;
    options.plan.shuffle_buffer_bytes = 1 << 20;
    options.decode_threads = options.read_threads = 1;
    options.columns = {{.name = "image", .decode = ColumnDecode::kImage},
                       {.name = "masks", .decode = ColumnDecode::kMasks}};
    options.geometry = Geometries()[3];
    options.device_geometry = true;
    options.columns[0].output = {.type = Type::kF32, .planar = true};
    options.pinned_bytes = 4 << 20;
    return options;
  }

  const std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  gpu::HostBackend fetcher_;  // its memory is the other devices' too, and its calls do not fail
};

TEST_F(DeviceLoaderFaultTest, EveryCallOfTheDeviceFailedInTurn) {
  std::vector<std::string> expected;
  {
    const auto device = std::make_shared<FaultBackend>();
    expected = Deliver(*device, *OpenDeviceLoader(device, *files_, Options()));
    ASSERT_EQ(expected.size(), 4u);
  }
  const auto fail = [&](const std::string& name, uint64_t call) {
    SCOPED_TRACE(testing::Message() << name << " " << call);
    const auto device = std::make_shared<FaultBackend>();
    device->FailCall(call, name);
    auto loader = loader::OpenOnDevice(device, *files_, {{.path = "/data"}}, Options());
    absl::Status status = loader.status();
    size_t delivered = 0;
    while (status.ok()) {
      auto batch = (*loader)->Next();
      status = batch.status();
      if (!status.ok()) {
        EXPECT_EQ((*loader)->Next().status(), status);
        break;
      }
      if (*batch == nullptr) break;
      status = (*batch)->Synchronize();
      if (status.ok()) {
        EXPECT_EQ(ShowEnded(fetcher_, **batch), expected[delivered]);
      }
      ++delivered;
    }
    if (status.ok()) {
      // Not every failed call matters: without page-locked memory a batch is staged, and at the end nobody waits any
      // more.
      EXPECT_EQ(delivered, expected.size()) << device->failed();
    } else {
      EXPECT_NE(status.message().find("injected fault: " + device->failed()), absl::string_view::npos) << status;
    }
    if (loader.ok()) loader->reset();
    EXPECT_EQ(device->alive(), 0) << device->failed();
    return !device->failed().empty();
  };
  for (const char* name : {"AllocateDevice", "AllocatePinned", "CreateStream", "CreateEvent", "Record", "Wait", "Copy",
                           "Launch", "Synchronize"}) {
    EXPECT_TRUE(fail(name, 1)) << name;
    for (uint64_t call = 2; fail(name, call);) ++call;
  }
}

TEST_F(DeviceLoaderFaultTest, AnErrorOfACopyIsThatOfItsBatch) {
  bool failed = true;
  for (uint64_t copy = 1; failed; ++copy) {
    const auto device = std::make_shared<FaultBackend>();
    device->FailCopyLater(copy);
    const auto loader = OpenDeviceLoader(device, *files_, Options());
    std::optional<uint64_t> bad;
    while (true) {
      const auto batch = loader->Next();
      if (!batch.ok()) {
        const std::string message(batch.status().message());
        EXPECT_NE(message.find("emulated: batch of epoch 0, step "), std::string::npos) << message;
        if (bad) {
          EXPECT_NE(message.find("step " + std::to_string(*bad) + ":"), std::string::npos) << message;
        }
        break;
      }
      if (*batch == nullptr) {
        // The last batch's error may come after the end.
        failed = !device->failed().empty();
        EXPECT_EQ(bad.has_value(), failed) << "copy " << copy;
        break;
      }
      const absl::Status status = (*batch)->Synchronize();
      if (!status.ok()) {
        if (!bad) bad = (*batch)->step();
        EXPECT_NE(status.message().find("step " + std::to_string((*batch)->step()) + ": injected fault: a copy, later"),
                  absl::string_view::npos)
            << status;
        while (!(*batch)->outcome()) std::this_thread::yield();
        EXPECT_EQ(*(*batch)->outcome(), status);
      }
    }
  }
}

TEST_F(DeviceLoaderFaultTest, ErrorsOfTheLoaderComeInTheirTurn) {
  LoaderOptions options = Options();
  options.plan.order = SampleOrder::kSequential;
  FaultFileSystem faults(files_.get());
  const auto device = std::make_shared<FaultBackend>();
  auto probe = loader::OpenOnDevice(device, faults, {{.path = "/data"}}, options);
  ASSERT_TRUE(probe.ok());
  (void)Deliver(*device, **probe);
  const uint64_t calls = faults.call_count();
  FaultFileSystem failing(files_.get());
  failing.FailCall(calls - 1, {.status = absl::DataLossError("torn")});
  auto loader = loader::OpenOnDevice(device, failing, {{.path = "/data"}}, options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const std::vector<std::string> shown = Deliver(*device, **loader);
  ASSERT_GE(shown.size(), 2u);
  EXPECT_NE(shown.back().find("torn"), std::string::npos) << shown.back();
}

TEST_F(DeviceLoaderFaultTest, DestroyedMidFlight) {
  const auto device = std::make_shared<FaultBackend>();
  for (int round = 0; round < Thinned(60); ++round) {
    LoaderOptions options = Options();
    options.epochs = 0;
    std::vector<std::shared_ptr<const Batch>> held;
    {
      const auto loader = OpenDeviceLoader(device, *files_, options);
      for (int i = 0; i < round % 5; ++i) held.push_back(*loader->Next());
    }
    // Batches outlive their loader.
    for (const auto& batch : held) {
      EXPECT_TRUE(batch->Synchronize().ok());
      EXPECT_EQ(batch->size(), 12u);
    }
    held.clear();
    EXPECT_EQ(device->alive(), 0);
  }
}

TEST_F(DeviceLoaderFaultTest, CancelWakesAWaitingConsumer) {
  const auto device = std::make_shared<FaultBackend>();
  LoaderOptions options = Options();
  options.epochs = 0;
  options.batch_function = [](Batch& batch) {
    if (batch.step() >= 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return absl::OkStatus();
  };
  const auto loader = OpenDeviceLoader(device, *files_, options);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    loader->Cancel();
  });
  absl::Status status;
  while (status.ok()) status = loader->Next().status();
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(DeviceLoaderFaultTest, WaitForSaysWhenNextWouldNotWait) {
  const auto device = std::make_shared<FaultBackend>();
  Cancellation delivered;
  LoaderOptions options = Options();
  options.batch_function = [&](Batch&) {
    while (!delivered.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  };
  const auto loader = OpenDeviceLoader(device, *files_, options);
  EXPECT_FALSE(loader->WaitFor(std::chrono::milliseconds(1)));
  delivered.Cancel();
  while (true) {
    EXPECT_TRUE(loader->WaitFor(std::chrono::hours(1)));
    const auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (*batch == nullptr) break;
  }
  EXPECT_TRUE(loader->WaitFor(std::chrono::hours(1))) << "the end stays";
  loader->Cancel();
  EXPECT_TRUE(loader->WaitFor(std::chrono::hours(1)));
}

// The consumer reads late, in its own stream. The memory is not used again before that.
TEST_F(DeviceLoaderFaultTest, MemoryWaitsForTheConsumersStream) {
  const auto device = std::make_shared<FaultBackend>();
  LoaderOptions options = Options();
  options.epochs = 5;
  const std::vector<std::string> expected = Deliver(*device, *OpenDeviceLoader(device, *files_, options));
  const auto stream = device->CreateStream();
  std::vector<std::vector<uint8_t>> seen;
  seen.reserve(expected.size());
  {
    const auto loader = OpenDeviceLoader(device, *files_, options);
    while (true) {
      const auto batch = *loader->Next();
      if (batch == nullptr) break;
      ASSERT_TRUE(batch->WaitOn(*stream).ok());
      const BatchColumn& column = batch->column(0);
      ASSERT_TRUE(device->Spin(200'000, *stream).ok());
      seen.emplace_back(column.values.size());
      ASSERT_TRUE(device
                      ->Copy(seen.back().data(), column.values.data(), column.values.size(),
                             gpu::CopyKind::kDeviceToHost, *stream)
                      .ok());
    }
  }
  ASSERT_TRUE(device->SynchronizeStream(*stream).ok());
  device->DestroyStream(*stream);
  ASSERT_EQ(seen.size(), expected.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_NE(expected[i].find(std::string(seen[i].begin(), seen[i].end())), std::string::npos) << i;
  }
}

TEST_F(DeviceLoaderFaultTest, DevicesBesideEachOther) {
  const std::shared_ptr<FaultBackend> devices[] = {std::make_shared<FaultBackend>(), std::make_shared<FaultBackend>()};
  std::vector<std::thread> ranks;
  std::vector<std::string> shown[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      LoaderOptions options = Options();
      options.world_size = 2;
      options.rank = static_cast<uint64_t>(rank);
      shown[rank] = Deliver(*devices[rank], *OpenDeviceLoader(devices[rank], *files_, options));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(shown[0].size(), 4u);
  EXPECT_EQ(shown[1].size(), 4u);
  EXPECT_NE(shown[0], shown[1]);
}

}  // namespace
}  // namespace shardkit::test
