// Memory, streams and timing for measurements.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/backend.h"
#include "gpu/memory_limit.h"
#include "gpu/pinned_pool.h"

namespace shardkit::gpu {

inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Whether a measurement may allocate so many bytes.
inline absl::Status CheckMemory(const Backend& backend, uint64_t host_bytes, uint64_t device_bytes) {
  if (host_bytes == 0 && device_bytes == 0) return InvalidArgument(backend.info().name, ": a measurement of 0 bytes");
  constexpr uint64_t kMost = uint64_t{1} << 60;  // the sum below does not overflow
  if (backend.info().cuda && backend.info().memory_bytes != 0 && device_bytes > backend.info().memory_bytes) {
    return ResourceExhausted(backend.info().name, ": it would take ", device_bytes >> 20,
                             " MiB of the device, which has ", backend.info().memory_bytes >> 20);
  }
  // Memory of the host device is memory of the host.
  const uint64_t bytes = std::min(host_bytes, kMost) + (backend.info().cuda ? 0 : std::min(device_bytes, kMost));
  const std::optional<MemoryLimit> limit = FindMemoryLimit();
  if (!limit || bytes <= limit->bytes / 2) return absl::OkStatus();
  return ResourceExhausted(backend.info().name, ": it would take ", bytes >> 20, " MiB, more than half of the ",
                           limit->bytes >> 20, " MiB that this process may have (", limit->source, ")");
}

// The same for `bytes` on the device and `host_times` as many on the host.
inline absl::Status CheckTransfer(const Backend& backend, uint64_t bytes, uint64_t host_times) {
  constexpr uint64_t kMost = uint64_t{1} << 50;  // the product does not overflow
  const uint64_t bounded = std::min(bytes, kMost);
  return CheckMemory(backend, host_times * bounded, bounded);
}

// What is compared transfers this many bytes in total, so small transfers are repeated many times.
inline constexpr uint64_t kComparedAtOnce = uint64_t{256} << 20;

inline uint64_t Repetitions(uint64_t bytes, uint64_t at_once) { return std::max<uint64_t>(1, at_once / bytes); }

// Device memory.
class DeviceBuffer {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceBuffer>> Create(Backend& backend, uint64_t bytes) {
    SHARDKIT_ASSIGN_OR_RETURN(void* const data, backend.AllocateDevice(bytes));
    return std::unique_ptr<DeviceBuffer>(new DeviceBuffer(backend, data, bytes));
  }
  ~DeviceBuffer() { backend_.FreeDevice(data_, bytes_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }

 private:
  DeviceBuffer(Backend& backend, void* data, uint64_t bytes) : backend_(backend), data_(data), bytes_(bytes) {}

  Backend& backend_;
  void* const data_;
  const uint64_t bytes_;
};

// Ordinary memory of the host, all of it written to. Otherwise all its pages would be the same page of zeros.
inline absl::StatusOr<std::shared_ptr<uint8_t>> TouchedMemory(uint64_t bytes) {
  auto* const memory = static_cast<uint8_t*>(std::malloc(bytes));
  if (memory == nullptr) return ResourceExhausted("host: there are no ", bytes, " bytes of memory");
  std::memset(memory, 0x5a, bytes);
  return std::shared_ptr<uint8_t>(memory, std::free);
}

// Page-locked memory with its own pool, all of it written to.
inline absl::StatusOr<std::shared_ptr<uint8_t>> PinnedMemory(const std::shared_ptr<Backend>& backend, uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  const uint64_t budget = std::max((bytes + kPage - 1) / kPage * kPage, uint64_t{1} << 20);
  SHARDKIT_ASSIGN_OR_RETURN(const std::shared_ptr<PinnedPool> pool, PinnedPool::Create(backend, {.bytes = budget}));
  SHARDKIT_ASSIGN_OR_RETURN(void* const memory, pool->Allocate(bytes));
  std::memset(memory, 0x5a, bytes);
  return std::shared_ptr<uint8_t>(static_cast<uint8_t*>(memory), [pool](uint8_t* given) { pool->Free(given); });
}

// A stream whose destructor waits for its work. Declare what the work uses before the stream.
class MeasuredStream {
 public:
  static absl::StatusOr<std::unique_ptr<MeasuredStream>> Create(Backend& backend) {
    SHARDKIT_ASSIGN_OR_RETURN(const Stream stream, backend.CreateStream());
    return std::unique_ptr<MeasuredStream>(new MeasuredStream(backend, stream));
  }
  ~MeasuredStream() {
    (void)backend_.SynchronizeStream(stream_);
    backend_.DestroyStream(stream_);
  }
  MeasuredStream(const MeasuredStream&) = delete;
  MeasuredStream& operator=(const MeasuredStream&) = delete;

  Stream get() const { return stream_; }

 private:
  MeasuredStream(Backend& backend, Stream stream) : backend_(backend), stream_(stream) {}

  Backend& backend_;
  const Stream stream_;
};

// An event with timing.
class MeasuredEvent {
 public:
  static absl::StatusOr<std::unique_ptr<MeasuredEvent>> Create(Backend& backend) {
    SHARDKIT_ASSIGN_OR_RETURN(const Event event, backend.CreateEvent(true));
    return std::unique_ptr<MeasuredEvent>(new MeasuredEvent(backend, event));
  }
  ~MeasuredEvent() { backend_.DestroyEvent(event_); }
  MeasuredEvent(const MeasuredEvent&) = delete;
  MeasuredEvent& operator=(const MeasuredEvent&) = delete;

  Event get() const { return event_; }

 private:
  MeasuredEvent(Backend& backend, Event event) : backend_(backend), event_(event) {}

  Backend& backend_;
  const Event event_;
};

// Seconds that the device takes for what `queue` queues in `stream`.
inline absl::StatusOr<double> DeviceSeconds(Backend& backend, Stream stream,
                                            const std::function<absl::Status()>& queue) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto begin, MeasuredEvent::Create(backend));
  SHARDKIT_ASSIGN_OR_RETURN(const auto end, MeasuredEvent::Create(backend));
  SHARDKIT_RETURN_IF_ERROR(backend.Record(begin->get(), stream));
  SHARDKIT_RETURN_IF_ERROR(queue());
  SHARDKIT_RETURN_IF_ERROR(backend.Record(end->get(), stream));
  SHARDKIT_RETURN_IF_ERROR(backend.Synchronize(end->get()));
  return backend.ElapsedSeconds(begin->get(), end->get());
}

// How often to measure: enough for a median, but not too long on a slow device.
class Rounds {
 public:
  // Whether to measure once more.
  bool Next() {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return done_++ < kLeast || (done_ <= kMost && seconds < kSeconds);
  }

 private:
  static constexpr int kLeast = 3;
  static constexpr int kMost = 9;
  static constexpr double kSeconds = 0.5;

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int done_ = 0;
};

}  // namespace shardkit::gpu
