// A device on the host that fails at a chosen call, to test every place where a call can fail. Its copies can also be
// held until they are released.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/host_backend.h"

namespace shardkit::test {

// Thread-safe.
class FaultBackend : public gpu::HostBackend {
 public:
  // Makes the call with this number return an error: ResourceExhausted for memory, Internal for all others. Numbers
  // count from 1 over all calls that can fail, or over those with a name: calls of several threads have no fixed order.
  void FailCall(uint64_t number, const std::string& name = "");
  // Makes the copy with this number, counted from 1, fail during its execution. The call itself succeeds.
  void FailCopyLater(uint64_t number);

  uint64_t call_count() const;
  // Number of calls with this name.
  uint64_t call_count(const std::string& name) const;
  uint64_t copy_count() const;
  // Name of the call that failed; empty when none did.
  std::string failed() const;
  // Number of memory allocations, events and streams that are not yet destroyed.
  int64_t alive() const;
  // Bytes of pinned memory in use.
  uint64_t pinned_bytes() const;

  // After this call, copies whose turn in the stream has come wait until Release.
  void HoldCopies();
  void Release();

  absl::StatusOr<void*> AllocateDevice(uint64_t bytes) override;
  void FreeDevice(void* memory, uint64_t bytes) override;
  absl::StatusOr<void*> AllocatePinned(uint64_t bytes) override;
  void FreePinned(void* memory, uint64_t bytes) override;
  absl::StatusOr<gpu::Stream> CreateStream() override;
  void DestroyStream(gpu::Stream stream) override;
  absl::StatusOr<gpu::Event> CreateEvent(bool timing) override;
  void DestroyEvent(gpu::Event event) override;
  absl::Status Record(gpu::Event event, gpu::Stream stream) override;
  absl::Status Wait(gpu::Stream stream, gpu::Event event) override;
  absl::Status Synchronize(gpu::Event event) override;
  absl::Status Copy(void* to, const void* from, uint64_t bytes, gpu::CopyKind kind, gpu::Stream stream) override;
  absl::Status Launch(const gpu::NormalizeImages& arguments, gpu::Stream stream) override;
  absl::Status Launch(const gpu::ResampleImages& arguments, gpu::Stream stream) override;
  absl::Status Launch(const gpu::RasterizeMasks& arguments, gpu::Stream stream) override;

 private:
  bool Fails(const char* name);
  template <typename T>
  absl::StatusOr<T> Made(absl::StatusOr<T> made);
  void Gone(const void* handle);

  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::string fail_name_;
  uint64_t fail_call_ = 0, fail_copy_ = 0;
  uint64_t calls_ = 0, copies_ = 0;
  // All names are present from the start, so that counting allocates nothing: in some tests allocations fail.
  std::map<std::string, uint64_t, std::less<>> calls_by_name_ = {
      {"AllocateDevice", 0}, {"AllocatePinned", 0}, {"CreateStream", 0}, {"CreateEvent", 0}, {"Record", 0},
      {"Wait", 0},           {"Synchronize", 0},    {"Copy", 0},         {"Launch", 0}};
  std::string failed_;
  int64_t alive_ = 0;
  uint64_t pinned_bytes_ = 0;
  bool hold_ = false;
};

}  // namespace shardkit::test
