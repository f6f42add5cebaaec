// Device memory that is used again by whoever waits for its last use.
#include "gpu/device_memory.h"

#include <gtest/gtest.h>

#include <thread>

#include "gpu_device/device_support.h"
#include "support/fault_backend.h"

namespace shardkit::test {
namespace {

using gpu::DeviceMemory;
using gpu::EventPool;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(DeviceMemory, TheNextUserWaitsOnTheDevice) {
  const auto device = std::make_shared<FaultBackend>();
  const auto events = std::make_shared<EventPool>(device);
  const auto memory = std::make_shared<DeviceMemory>(device, UINT64_MAX, nullptr);
  const auto first = device->CreateStream(), second = device->CreateStream();
  std::vector<uint8_t> seen(kMiB);
  for (uint8_t round = 1; round < 30; ++round) {
    uint8_t* address = nullptr;
    {
      auto block = memory->Take(kMiB, *first);
      ASSERT_TRUE(block.ok());
      address = (*block)->data();
      // The reader is slow.
      ASSERT_TRUE(device->Fill(address, round, kMiB, *first).ok());
      ASSERT_TRUE(device->Spin(100'000, *first).ok());
      ASSERT_TRUE(device->Copy(seen.data(), address, kMiB, gpu::CopyKind::kDeviceToHost, *first).ok());
      (*block)->UsedUntil(*events->Record(*first));
    }
    auto next = memory->Take(kMiB - 100, *second);
    ASSERT_TRUE(next.ok());
    EXPECT_EQ((*next)->data(), address);
    ASSERT_TRUE(device->Fill(address, 0, kMiB, *second).ok());
    ASSERT_TRUE(device->SynchronizeStream(*second).ok());
    EXPECT_EQ(seen, std::vector<uint8_t>(kMiB, round));
  }
  EXPECT_EQ(memory->peak(), kMiB);
  device->DestroyStream(*first);
  device->DestroyStream(*second);
}

TEST(DeviceMemory, KeepsNoMoreThanItMay) {
  const auto device = std::make_shared<FaultBackend>();
  int returned = 0;
  const auto memory = std::make_shared<DeviceMemory>(device, 4 * kMiB, [&] { ++returned; });
  {
    const auto a = memory->Take(2 * kMiB, nullptr), b = memory->Take(2 * kMiB, nullptr);
    EXPECT_FALSE(memory->HasRoom(1));
    const auto beyond = memory->Take(kMiB, nullptr);  // the limit is for the caller
    ASSERT_TRUE(a.ok() && b.ok() && beyond.ok());
    EXPECT_EQ(memory->held(), 5 * kMiB);
  }
  EXPECT_EQ(returned, 3);
  EXPECT_LE(memory->held(), 4 * kMiB);
  EXPECT_TRUE(memory->HasRoom(4 * kMiB));
  // Kept blocks of other sizes give way.
  const auto other = memory->Take(3 * kMiB, nullptr);
  ASSERT_TRUE(other.ok());
  EXPECT_LE(memory->held(), 4 * kMiB);
  memory->Close();
}

TEST(DeviceMemory, ADeviceWithoutMemoryGetsKeptBlocksBack) {
  const auto device = std::make_shared<FaultBackend>();
  const auto memory = std::make_shared<DeviceMemory>(device, UINT64_MAX, nullptr);
  ASSERT_TRUE(memory->Take(kMiB, nullptr).ok());
  EXPECT_EQ(device->alive(), 1);
  device->FailCall(device->call_count() + 1);
  {
    const auto block = memory->Take(2 * kMiB, nullptr);
    ASSERT_TRUE(block.ok()) << block.status();
    EXPECT_EQ(device->alive(), 1);
    device->FailCall(device->call_count() + 1);
    const absl::Status status = memory->Take(3 * kMiB, nullptr).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status));
    EXPECT_NE(status.message().find("3145728 bytes beside 2097152 in use"), absl::string_view::npos) << status;
  }
  EXPECT_EQ(device->alive(), 1);
}

}  // namespace
}  // namespace shardkit::test
