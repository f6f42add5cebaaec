// The host as a device: streams are threads, device memory is ordinary memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/backend.h"

namespace shardkit::gpu {

struct HostStream;

// The destructor waits for streams that still have work.
class HostBackend : public Backend {
 public:
  HostBackend();
  ~HostBackend() override;

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<void*> AllocateDevice(uint64_t bytes) override;
  void FreeDevice(void* memory, uint64_t bytes) override;
  absl::StatusOr<void*> AllocatePinned(uint64_t bytes) override;
  void FreePinned(void* memory, uint64_t bytes) override;

  absl::StatusOr<Stream> CreateStream() override;
  void DestroyStream(Stream stream) override;
  absl::Status SynchronizeStream(Stream stream) override;

  absl::StatusOr<Event> CreateEvent(bool timing) override;
  void DestroyEvent(Event event) override;
  absl::Status Record(Event event, Stream stream) override;
  absl::Status Wait(Stream stream, Event event) override;
  absl::StatusOr<bool> Query(Event event) override;
  absl::Status Synchronize(Event event) override;
  absl::StatusOr<double> ElapsedSeconds(Event begin, Event end) override;

  absl::Status Copy(void* to, const void* from, uint64_t bytes, CopyKind kind, Stream stream) override;
  absl::Status Fill(void* to, uint8_t value, uint64_t bytes, Stream stream) override;
  absl::Status Launch(const NormalizeImages& arguments, Stream stream) override;
  absl::Status Launch(const ResampleImages& arguments, Stream stream) override;
  absl::Status Launch(const RasterizeMasks& arguments, Stream stream) override;
  absl::Status Spin(uint64_t rounds, Stream stream) override;

  void PushRange(const char*) override {}
  void PopRange() override {}

  // Queues any work. A stream in which work has failed does no more work.
  absl::Status Enqueue(Stream stream, std::function<absl::Status()> work);

 private:
  void JoinEnded();

  const DeviceInfo info_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<HostStream>> streams_;
  std::vector<std::shared_ptr<HostStream>> ending_;
};

}  // namespace shardkit::gpu
