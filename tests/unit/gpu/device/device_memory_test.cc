// Device memory that is used again after waiting for its last use.
#include "gpu/device_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <random>
#include <thread>

#include "support/fault_backend.h"
#include "unit/gpu/device/device_support.h"

namespace shardkit::test {
namespace {

using gpu::DeviceMemory;
using gpu::EventPool;

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
  EXPECT_TRUE(memory->HasRoom(4 * kMiB));
  // Kept blocks of other sizes, or too many of them, are freed.
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

// The blocks kept in a run with changing sizes are limited by the blocks in use at once, not by the number of sizes
// seen.
TEST(DeviceMemory, ARaggedRunDoesNotGrow) {
  const auto device = std::make_shared<FaultBackend>();
  const auto memory = std::make_shared<DeviceMemory>(device, UINT64_MAX, nullptr);
  std::mt19937_64 random(7);
  std::deque<std::shared_ptr<gpu::DeviceBlock>> live;
  uint64_t used = 0, peak_used = 0, taken = 0;
  const auto run = [&](int takes, double largest_exponent) {
    for (int i = 0; i < takes; ++i) {
      const double exponent = std::uniform_real_distribution<>(10, largest_exponent)(random);
      const uint64_t bytes = static_cast<uint64_t>(std::exp2(exponent));
      auto block = memory->Take(bytes, nullptr);
      ASSERT_TRUE(block.ok());
      ASSERT_GE((*block)->size(), bytes);
      ASSERT_LE((*block)->size(), (bytes + std::max<uint64_t>(bytes / 8, 64 << 10)) / 4 * 5);
      used += (*block)->size();
      peak_used = std::max(peak_used, used);
      ASSERT_LE(memory->held(), 2 * peak_used);
      live.push_back(*std::move(block));
      if (live.size() > 4) {
        used -= live.front()->size();
        live.pop_front();
      }
      taken = std::max(taken, bytes);
    }
  };
  run(10'000, 26);
  EXPECT_GT(taken, 60 * kMiB);
  EXPECT_LE(memory->peak(), 2 * peak_used);
  // Frees the blocks that later batches do not need.
  run(200, 18);
  EXPECT_LE(memory->held(), 4 * kMiB);
  // When sizes stay the same, nothing more is allocated.
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(memory->Take(kMiB, nullptr).ok());
  const uint64_t allocations = device->call_count("AllocateDevice");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(memory->Take(kMiB, nullptr).ok());
  EXPECT_EQ(device->call_count("AllocateDevice"), allocations);
}

// Giving back a block neither waits for the device nor frees anything, however much is kept.
TEST(DeviceMemory, GivingBackCallsNoDevice) {
  const auto device = std::make_shared<FaultBackend>();
  const auto events = std::make_shared<EventPool>(device);
  const auto memory = std::make_shared<DeviceMemory>(device, 4 * kMiB, nullptr);
  const auto stream = device->CreateStream();
  std::vector<uint8_t> bytes(1);
  {
    std::vector<std::shared_ptr<gpu::DeviceBlock>> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(*memory->Take(kMiB, *stream));
    device->HoldCopies();
    for (const auto& block : blocks) {
      ASSERT_TRUE(device->Copy(bytes.data(), block->data(), 1, gpu::CopyKind::kDeviceToHost, *stream).ok());
      block->UsedUntil(*events->Record(*stream));
    }
    const uint64_t calls = device->call_count();
    const int64_t alive = device->alive();
    blocks.clear();  // would wait for ever
    EXPECT_EQ(device->call_count(), calls);
    EXPECT_EQ(device->alive(), alive);
  }
  EXPECT_TRUE(memory->HasRoom(4 * kMiB));
  device->Release();
  // The next call of Take does that work.
  ASSERT_TRUE(memory->Take(kMiB, *stream).ok());
  EXPECT_LE(memory->held(), 4 * kMiB);
  ASSERT_TRUE(device->SynchronizeStream(*stream).ok());  // the copies end before `bytes` does
  device->DestroyStream(*stream);
}

// A block that is taken and given back unused, because something else failed, still has the uses of its previous
// owners.
TEST(DeviceMemory, ATakeThatFailsKeepsTheUses) {
  const auto device = std::make_shared<FaultBackend>();
  const auto events = std::make_shared<EventPool>(device);
  const auto memory = std::make_shared<DeviceMemory>(device, UINT64_MAX, nullptr);
  const auto reader = device->CreateStream(), writer = device->CreateStream();
  std::vector<uint8_t> seen(kMiB);
  for (const bool wait_fails : {false, true}) {
    uint8_t* address = nullptr;
    {
      auto block = memory->Take(kMiB, *reader);
      ASSERT_TRUE(block.ok());
      address = (*block)->data();
      ASSERT_TRUE(device->Fill(address, 5, kMiB, *reader).ok());
      device->HoldCopies();
      ASSERT_TRUE(device->Copy(seen.data(), address, kMiB, gpu::CopyKind::kDeviceToHost, *reader).ok());
      (*block)->UsedUntil(*events->Record(*reader));
    }
    if (wait_fails) {
      device->FailCall(device->call_count() + 1);
      EXPECT_FALSE(memory->Take(kMiB, *writer).ok());
      EXPECT_EQ(device->failed(), "Wait");
    } else {
      const auto block = memory->Take(kMiB, *writer);
      ASSERT_TRUE(block.ok());
      EXPECT_EQ((*block)->data(), address);
      device->FailCall(device->call_count() + 1);
      EXPECT_FALSE(memory->Take(4 * kMiB, *writer).ok());
      EXPECT_EQ(device->failed(), "AllocateDevice");
    }
    // The next owner waits for the copy.
    const uint64_t waits = device->call_count("Wait");
    const auto next = memory->Take(kMiB, *writer);
    ASSERT_TRUE(next.ok());
    EXPECT_EQ((*next)->data(), address);
    EXPECT_EQ(device->call_count("Wait"), waits + 1);
    ASSERT_TRUE(device->Fill(address, 0, kMiB, *writer).ok());
    device->Release();
    ASSERT_TRUE(device->SynchronizeStream(*writer).ok());
    EXPECT_EQ(seen, std::vector<uint8_t>(kMiB, 5));
    (*next)->UsedUntil(*events->Record(*writer));
  }
  // Freeing the block waits, too.
  {
    device->HoldCopies();
    auto block = memory->Take(kMiB, *reader);
    ASSERT_TRUE(device->Copy(seen.data(), (*block)->data(), kMiB, gpu::CopyKind::kDeviceToHost, *reader).ok());
    (*block)->UsedUntil(*events->Record(*reader));
    block->reset();
    ASSERT_TRUE(memory->Take(kMiB, *writer).ok());
  }
  const uint64_t before = device->call_count("Synchronize");
  std::thread later([&] { device->Release(); });
  memory->Close();
  EXPECT_EQ(device->call_count("Synchronize"), before + 1);
  later.join();
  device->DestroyStream(*reader);
  device->DestroyStream(*writer);
}

}  // namespace
}  // namespace shardkit::test
