// Copies to the device: what a ring and an uploader hold, for how long, and how errors are reported.
#include "gpu/uploader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "support/fault_backend.h"
#include "unit/gpu/device/device_support.h"

namespace shardkit::test {
namespace {

using gpu::PinnedPool;
using gpu::StagingRing;
using gpu::Uploader;
using gpu::UploadPiece;

std::shared_ptr<StagingRing> MakeRing(const std::shared_ptr<gpu::Backend>& device, uint64_t bytes) {
  return StagingRing::Create(*PinnedPool::Create(device, {.bytes = bytes}));
}

std::unique_ptr<Uploader> MakeUploader(const std::shared_ptr<gpu::Backend>& device,
                                       const std::shared_ptr<StagingRing>& ring, int depth = 3) {
  auto uploader = Uploader::Create(device, ring, {.depth = depth});
  EXPECT_TRUE(uploader.ok()) << uploader.status();
  return *std::move(uploader);
}

std::vector<uint8_t> RandomBytes(uint64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Records when it is destroyed.
std::shared_ptr<const void> Hold(std::atomic<int>* gone) {
  return std::shared_ptr<const void>(gone, [](std::atomic<int>* counter) { ++*counter; });
}

TEST(Uploader, BytesArriveFromPinnedAndOtherMemory) {
  const auto device = TestDevice();
  const auto ring = MakeRing(device, 2 * kMiB);
  const auto pool = *PinnedPool::Create(device, {.bytes = 16 * kMiB});
  const auto uploader = MakeUploader(device, ring);
  uint64_t all = 0, staged = 0, count = 0;
  for (const uint64_t size : {uint64_t{1}, uint64_t{4096}, 3 * kMiB + 7, 9 * kMiB}) {
    const std::vector<uint8_t> bytes = RandomBytes(size, size);
    void* const pinned = pool->Allocate(size).value_or(nullptr);
    ASSERT_NE(pinned, nullptr);
    std::memcpy(pinned, bytes.data(), size);
    DeviceBytes first(device, size), second(device, size);
    const UploadPiece pieces[] = {
        {first.data(), pinned, size, true}, {nullptr, nullptr, 0, false}, {second.data(), bytes.data(), size, false}};
    std::atomic<int> gone = 0, done = 0;
    double seconds = -1;
    const auto transfer = uploader->Upload(pieces, Hold(&gone), nullptr, [&](const absl::Status& outcome, double took) {
      EXPECT_TRUE(outcome.ok()) << outcome;
      EXPECT_EQ(gone, 1);
      seconds = took;
      ++done;
    });
    ASSERT_TRUE(transfer.ok()) << transfer.status();
    ASSERT_TRUE((*transfer)->Synchronize().ok());
    EXPECT_EQ(Fetch(*device, first.data(), size), bytes);
    EXPECT_EQ(Fetch(*device, second.data(), size), bytes);
    while (done == 0) std::this_thread::yield();
    EXPECT_EQ((*transfer)->outcome(), absl::OkStatus());
    EXPECT_GE(seconds, 0);
    pool->Free(pinned);
    all += 2 * size;
    staged += size;
    ++count;
  }
  while (uploader->Report().under_way != 0) std::this_thread::yield();
  const gpu::UploaderReport report = uploader->Report();
  EXPECT_EQ(report.transfers, count);
  EXPECT_EQ(report.bytes, all);
  EXPECT_EQ(report.staged_bytes, staged);
  EXPECT_GT(report.copy_seconds, 0);
}

TEST(Uploader, AConsumersStreamWaitsAndTheHostDoesNot) {
  const auto device = std::make_shared<FaultBackend>();
  const auto uploader = MakeUploader(device, MakeRing(device, kMiB));
  const std::vector<uint8_t> bytes = RandomBytes(100'000, 1);
  DeviceBytes memory(device, bytes.size()), seen(device, bytes.size());
  const auto consumer = device->CreateStream();
  device->HoldCopies();
  const UploadPiece piece{memory.data(), bytes.data(), bytes.size(), false};
  const auto transfer = uploader->Upload({&piece, 1}, nullptr);
  ASSERT_TRUE(transfer.ok());
  ASSERT_TRUE((*transfer)->WaitOn(*consumer).ok());
  std::atomic<bool> ran = false;
  ASSERT_TRUE(device
                  ->Enqueue(*consumer,
                            [&] {
                              std::memcpy(seen.data(), memory.data(), bytes.size());
                              ran = true;
                              return absl::OkStatus();
                            })
                  .ok());
  EXPECT_FALSE((*transfer)->outcome().has_value());
  EXPECT_FALSE(ran);
  EXPECT_EQ(uploader->Report().bytes, bytes.size());  // a consumer who waits on the event alone finds it counted
  device->Release();
  ASSERT_TRUE(device->SynchronizeStream(*consumer).ok());
  EXPECT_EQ(Fetch(*device, seen.data(), bytes.size()), bytes);
  device->DestroyStream(*consumer);
}

TEST(Uploader, DepthAndRingBoundWhatIsUnderWay) {
  const auto device = std::make_shared<FaultBackend>();
  const auto ring = MakeRing(device, kMiB);
  const auto uploader = MakeUploader(device, ring, 2);
  std::vector<uint8_t> bytes(1000, 5);
  DeviceBytes memory(device, bytes.size());
  const UploadPiece piece{memory.data(), bytes.data(), bytes.size(), true};
  device->HoldCopies();
  std::atomic<int> gone = 0;
  ASSERT_TRUE(uploader->Upload({&piece, 1}, Hold(&gone)).ok());
  ASSERT_TRUE(uploader->Upload({&piece, 1}, Hold(&gone)).ok());
  // The third waits, and can be cancelled.
  Cancellation cancellation;
  absl::Status status;
  std::thread third([&] { status = uploader->Upload({&piece, 1}, Hold(&gone), &cancellation).status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(uploader->Report().under_way, 2u);
  EXPECT_EQ(gone, 0);
  cancellation.Cancel();
  uploader->Wake();
  third.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_NE(status.message().find("waiting for an upload to end"), absl::string_view::npos);
  EXPECT_EQ(gone, 1);
  device->Release();
  while (uploader->Report().under_way != 0) std::this_thread::yield();
  EXPECT_EQ(gone, 3);

  // The ring is full: 2 MiB pass through its 1 MiB only when copies end.
  device->HoldCopies();
  std::vector<uint8_t> large(2 * kMiB, 6);
  DeviceBytes more(device, large.size());
  const UploadPiece staged{more.data(), large.data(), large.size(), false};
  Cancellation second;
  std::thread full([&] { status = uploader->Upload({&staged, 1}, Hold(&gone), &second).status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  second.Cancel();
  uploader->Wake();
  full.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_NE(status.message().find("waiting for a staging slot"), absl::string_view::npos) << status;
  device->Release();
  const auto last = uploader->Upload({&staged, 1}, nullptr);
  ASSERT_TRUE(last.ok());
  // Also waits for the work that the previous one had queued.
  ASSERT_TRUE((*last)->Synchronize().ok());
  EXPECT_EQ(Fetch(*device, more.data(), large.size()), large);
}

TEST(StagingRing, ASlotIsUsedAgainOnlyAfterItsLastUse) {
  const auto device = std::make_shared<FaultBackend>();
  const auto ring = MakeRing(device, kMiB);
  const auto uploader = MakeUploader(device, ring);
  auto slot = ring->Acquire(kMiB);
  ASSERT_TRUE(slot.ok()) << slot.status();
  std::memset((*slot)->data(), 1, kMiB);
  uint8_t* const address = (*slot)->data();
  DeviceBytes memory(device, kMiB);
  device->HoldCopies();
  const UploadPiece piece{memory.data(), address, kMiB, true};
  ASSERT_TRUE(uploader->Upload({&piece, 1}, *std::move(slot)).ok());
  std::atomic<bool> acquired = false;
  std::thread writer([&] {
    const auto next = ring->Acquire(kMiB);
    ASSERT_TRUE(next.ok());
    EXPECT_EQ((*next)->data(), address);
    acquired = true;
    std::memset((*next)->data(), 2, kMiB);  // a data race if the copy had not finished
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(acquired);
  device->Release();
  writer.join();
  EXPECT_EQ(Fetch(*device, memory.data(), kMiB), std::vector<uint8_t>(kMiB, 1));
}

TEST(StagingRing, RefusesAndCancels) {
  const auto device = std::make_shared<FaultBackend>();
  const auto ring = MakeRing(device, kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(ring->Acquire(kMiB + 1).status()));
  device->FailCall(1);
  EXPECT_EQ(ring->Acquire(kMiB).status().message(), "injected fault: AllocatePinned");
  const auto held = ring->Acquire(kMiB);
  ASSERT_TRUE(held.ok());
  absl::Status status;
  std::thread waiting([&] { status = ring->Acquire(1).status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ring->Cancel();
  waiting.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(absl::IsCancelled(ring->Acquire(1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Uploader::Create(device, ring, {.depth = 1}).status()));
}

TEST(Uploader, AnErrorOfACopyIsThatOfItsTransfer) {
  const auto device = std::make_shared<FaultBackend>();
  std::vector<uint8_t> bytes(1000, 5);
  DeviceBytes memory(device, bytes.size());
  const UploadPiece piece{memory.data(), bytes.data(), bytes.size(), false};
  const auto uploader = MakeUploader(device, MakeRing(device, kMiB));
  const auto good = uploader->Upload({&piece, 1}, nullptr);
  ASSERT_TRUE(good.ok());
  ASSERT_TRUE((*good)->Synchronize().ok());
  device->FailCopyLater(2);
  std::atomic<int> gone = 0;
  absl::Status told;
  std::atomic<bool> called = false;
  const auto bad = uploader->Upload({&piece, 1}, Hold(&gone), nullptr, [&](const absl::Status& outcome, double) {
    told = outcome;
    called = true;
  });
  ASSERT_TRUE(bad.ok()) << bad.status();
  EXPECT_EQ((*bad)->Synchronize().message(), "injected fault: a copy, later");
  while (!called) std::this_thread::yield();
  EXPECT_EQ(told.message(), "injected fault: a copy, later");
  EXPECT_EQ((*bad)->outcome()->message(), "injected fault: a copy, later");
  EXPECT_EQ((*good)->outcome(), absl::OkStatus());
  EXPECT_EQ(gone, 1);
}

// Every call of the device fails in turn: an error or success, held memory is released, nothing leaks.
TEST(Uploader, EveryCallFailedInTurn) {
  const std::vector<uint8_t> bytes = RandomBytes(3 * kMiB, 9);
  bool failed = true;
  for (uint64_t call = 1; failed; ++call) {
    const auto device = std::make_shared<FaultBackend>();
    std::atomic<int> gone = 0;
    {
      const auto ring = MakeRing(device, 2 * kMiB);
      const auto memory = device->AllocateDevice(bytes.size());
      ASSERT_TRUE(memory.ok());
      device->FailCall(device->call_count() + call);
      auto uploader = Uploader::Create(device, ring, {.depth = 2});
      absl::Status status = uploader.status();
      for (int i = 0; i < 4 && status.ok(); ++i) {
        const UploadPiece piece{*memory, bytes.data(), bytes.size(), false};
        const auto transfer = (*uploader)->Upload({&piece, 1}, Hold(&gone));
        status = transfer.ok() ? (*transfer)->Synchronize() : transfer.status();
        if (status.ok()) {
          EXPECT_EQ(std::memcmp(*memory, bytes.data(), bytes.size()), 0);
        }
      }
      failed = !device->failed().empty();
      if (!failed) {
        EXPECT_TRUE(status.ok()) << status;
      }
      if (!status.ok()) {
        EXPECT_EQ(status.message(), "injected fault: " + device->failed());
      }
      if (uploader.ok()) uploader->reset();
      device->FreeDevice(*memory, bytes.size());
    }
    EXPECT_EQ(device->alive(), 0) << call << " " << device->failed();
    if (!failed) {
      EXPECT_EQ(gone, 4);
    }
  }
}

TEST(Uploader, DestroyedMidFlight) {
  const auto device = std::make_shared<FaultBackend>();
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> gone = 0;
    {
      std::vector<uint8_t> bytes(100'000, 1);
      DeviceBytes memory(device, bytes.size());
      auto uploader = MakeUploader(device, MakeRing(device, kMiB));
      const UploadPiece piece{memory.data(), bytes.data(), bytes.size(), round % 2 == 0};
      for (int i = 0; i < 3; ++i) ASSERT_TRUE(uploader->Upload({&piece, 1}, Hold(&gone)).ok());
      uploader.reset();
      EXPECT_EQ(gone, 3);
    }
  }
  EXPECT_EQ(device->alive(), 0);
}

}  // namespace
}  // namespace shardkit::test
