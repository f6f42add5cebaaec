// Streams and events on any device: queued work runs in order, and waits for the given events.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "gpu/host_backend.h"
#include "unit/gpu/device/device_support.h"

namespace shardkit::test {
namespace {

using gpu::CopyKind;

class BackendTest : public testing::Test {
 protected:
  gpu::Stream NewStream() {
    const auto stream = device_->CreateStream();
    EXPECT_TRUE(stream.ok()) << stream.status();
    streams_.push_back(*stream);
    return *stream;
  }
  gpu::Event NewEvent() {
    const auto event = device_->CreateEvent(true);
    EXPECT_TRUE(event.ok()) << event.status();
    events_.push_back(*event);
    return *event;
  }
  void TearDown() override {
    for (const gpu::Stream stream : streams_) device_->DestroyStream(stream);
    for (const gpu::Event event : events_) device_->DestroyEvent(event);
  }

  const std::shared_ptr<gpu::Backend> device_ = TestDevice();
  std::vector<gpu::Stream> streams_;
  std::vector<gpu::Event> events_;
};

TEST_F(BackendTest, CopiesInOrder) {
  std::mt19937_64 random(1);
  const gpu::Stream stream = NewStream();
  for (const uint64_t size : {1, 255, 4096, 1 << 20, 5'000'001}) {
    const auto from = device_->AllocatePinned(size), back = device_->AllocatePinned(size);
    ASSERT_TRUE(from.ok() && back.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*from) % 4096, 0u);
    auto* const bytes = static_cast<uint8_t*>(*from);
    for (uint64_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(random());
    DeviceBytes first(device_, size), second(device_, size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 256, 0u);
    ASSERT_TRUE(device_->Fill(second.data(), 7, size, stream).ok());
    ASSERT_TRUE(device_->Copy(first.data(), *from, size, CopyKind::kHostToDevice, stream).ok());
    ASSERT_TRUE(device_->Copy(second.data(), first.data(), size, CopyKind::kDeviceToDevice, stream).ok());
    ASSERT_TRUE(device_->Copy(*back, second.data(), size, CopyKind::kDeviceToHost, stream).ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    EXPECT_EQ(std::memcmp(*from, *back, size), 0);
    ASSERT_TRUE(device_->Fill(first.data(), 9, size, stream).ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    EXPECT_EQ(Fetch(*device_, first.data(), size), std::vector<uint8_t>(size, 9));
    device_->FreePinned(*from, size);
    device_->FreePinned(*back, size);
  }
}

TEST_F(BackendTest, EventsOrderStreams) {
  const gpu::Stream first = NewStream(), second = NewStream();
  const gpu::Event done = NewEvent();
  EXPECT_EQ(*device_->Query(done), true);  // never recorded
  EXPECT_TRUE(device_->Synchronize(done).ok());
  EXPECT_TRUE(device_->Wait(second, done).ok());
  constexpr uint64_t kSize = 1 << 20;
  DeviceBytes memory(device_, kSize), copy(device_, kSize);
  for (uint8_t round = 1; round < 40; ++round) {
    // Without waiting, the second stream would be much faster than the first.
    ASSERT_TRUE(device_->Spin(20000, first).ok());
    ASSERT_TRUE(device_->Fill(memory.data(), round, kSize, first).ok());
    ASSERT_TRUE(device_->Record(done, first).ok());
    ASSERT_TRUE(device_->Wait(second, done).ok());
    ASSERT_TRUE(device_->Copy(copy.data(), memory.data(), kSize, CopyKind::kDeviceToDevice, second).ok());
    const gpu::Event copied = NewEvent();
    ASSERT_TRUE(device_->Record(copied, second).ok());
    ASSERT_TRUE(device_->Wait(first, copied).ok());
    if (round % 8 != 0) continue;
    ASSERT_TRUE(device_->Synchronize(copied).ok());
    EXPECT_EQ(*device_->Query(copied), true);
    EXPECT_EQ(Fetch(*device_, copy.data(), kSize), std::vector<uint8_t>(kSize, round));
  }
  ASSERT_TRUE(device_->SynchronizeStream(first).ok());
  ASSERT_TRUE(device_->SynchronizeStream(second).ok());
}

TEST_F(BackendTest, EventsTellTime) {
  const gpu::Stream stream = NewStream();
  const gpu::Event begin = NewEvent(), middle = NewEvent(), end = NewEvent();
  EXPECT_FALSE(device_->ElapsedSeconds(begin, end).ok());
  ASSERT_TRUE(device_->Record(begin, stream).ok());
  ASSERT_TRUE(device_->Spin(1'000'000, stream).ok());
  ASSERT_TRUE(device_->Record(middle, stream).ok());
  ASSERT_TRUE(device_->Spin(4'000'000, stream).ok());
  ASSERT_TRUE(device_->Record(end, stream).ok());
  ASSERT_TRUE(device_->Synchronize(end).ok());
  const double first = *device_->ElapsedSeconds(begin, middle), both = *device_->ElapsedSeconds(begin, end);
  EXPECT_GT(first, 0);
  EXPECT_GT(both, first);
}

// The memory is freed only after the stream has ended, so that no wait is needed.
TEST_F(BackendTest, StreamsEndTheirWorkWhenDestroyed) {
  constexpr uint64_t kSize = 1 << 16;
  DeviceBytes memory(device_, kSize);
  const gpu::Event done = NewEvent();
  for (uint8_t round = 1; round < 50; ++round) {
    const auto stream = device_->CreateStream();
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(device_->Spin(10000, *stream).ok());
    ASSERT_TRUE(device_->Fill(memory.data(), round, kSize, *stream).ok());
    ASSERT_TRUE(device_->Record(done, *stream).ok());
    device_->DestroyStream(*stream);
    ASSERT_TRUE(device_->Synchronize(done).ok());
    EXPECT_EQ(Fetch(*device_, memory.data(), kSize), std::vector<uint8_t>(kSize, round));
  }
}

TEST(HostBackend, AFailureStaysInItsStreamAndShowsInItsEvents) {
  gpu::HostBackend device;
  const auto failing = device.CreateStream(), waiting = device.CreateStream(), other = device.CreateStream();
  const auto before = device.CreateEvent(true), after = device.CreateEvent(true), reached = device.CreateEvent(true),
             elsewhere = device.CreateEvent(true);
  ASSERT_TRUE(device.Record(*before, *failing).ok());
  ASSERT_TRUE(device.Enqueue(*failing, [] { return absl::InternalError("burnt"); }).ok());
  bool ran = false;
  ASSERT_TRUE(device
                  .Enqueue(*failing,
                           [&] {
                             ran = true;
                             return absl::OkStatus();
                           })
                  .ok());
  ASSERT_TRUE(device.Record(*after, *failing).ok());
  ASSERT_TRUE(device.Wait(*waiting, *after).ok());
  ASSERT_TRUE(device.Record(*reached, *waiting).ok());
  ASSERT_TRUE(device.Record(*elsewhere, *other).ok());
  EXPECT_TRUE(device.Synchronize(*before).ok());
  EXPECT_EQ(device.Synchronize(*after).message(), "burnt");
  EXPECT_EQ(device.Query(*after).status().message(), "burnt");
  EXPECT_EQ(device.Synchronize(*reached).message(), "burnt");
  EXPECT_TRUE(device.Synchronize(*elsewhere).ok());
  EXPECT_EQ(device.SynchronizeStream(*failing).message(), "burnt");
  EXPECT_FALSE(ran);
  for (const auto& event : {before, after, reached, elsewhere}) device.DestroyEvent(*event);
  for (const auto& stream : {failing, waiting, other}) device.DestroyStream(*stream);
}

TEST(OpenDevice, NamesAndWhatIsNotThere) {
  EXPECT_TRUE(gpu::OpenDevice("emulated").ok());
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "host:0", "cuda:99999999999"}) {
    const absl::Status status = gpu::OpenDevice(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name << ": " << status;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(DeviceForRank(-1).status()));
  const auto devices = CudaDevices();
  if (devices.ok() && !devices->empty()) {
    const auto count = static_cast<int64_t>(devices->size());
    EXPECT_EQ(*DeviceForRank(count + 1), "cuda:" + std::to_string(count == 1 ? 0 : 1));
    EXPECT_EQ((*gpu::OpenDevice("cuda"))->info().name, "cuda:0");
    EXPECT_TRUE(absl::IsNotFound(gpu::OpenDevice("cuda:" + std::to_string(count)).status()));
    return;
  }
  // Without CUDA, without a driver, or without a device: the message says what to do.
  const absl::Status status = gpu::OpenDevice("cuda").status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsNotFound(status)) << status;
  EXPECT_EQ(DeviceForRank(0).status().code(), status.code());
  if (absl::IsUnavailable(status)) {
    EXPECT_NE(status.message().find("\"host\""), absl::string_view::npos) << status;
  }
}

}  // namespace
}  // namespace shardkit::test
