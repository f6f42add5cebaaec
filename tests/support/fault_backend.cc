#include "support/fault_backend.h"

#include <utility>

namespace shardkit::test {

using gpu::HostBackend;

void FaultBackend::FailCall(uint64_t number, const std::string& name) {
  std::lock_guard lock(mutex_);
  fail_call_ = number;
  fail_name_ = name;
}
void FaultBackend::FailCopyLater(uint64_t number) {
  std::lock_guard lock(mutex_);
  fail_copy_ = number;
}
uint64_t FaultBackend::call_count() const {
  std::lock_guard lock(mutex_);
  return calls_;
}
uint64_t FaultBackend::call_count(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return calls_by_name_.at(name);
}
uint64_t FaultBackend::copy_count() const {
  std::lock_guard lock(mutex_);
  return copies_;
}
std::string FaultBackend::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}
int64_t FaultBackend::alive() const {
  std::lock_guard lock(mutex_);
  return alive_;
}
uint64_t FaultBackend::pinned_bytes() const {
  std::lock_guard lock(mutex_);
  return pinned_bytes_;
}
void FaultBackend::HoldCopies() {
  std::lock_guard lock(mutex_);
  hold_ = true;
}
void FaultBackend::Release() {
  std::lock_guard lock(mutex_);
  hold_ = false;
  released_.notify_all();
}

bool FaultBackend::Fails(const char* name) {
  std::lock_guard lock(mutex_);
  const uint64_t of_name = ++calls_by_name_.find(name)->second;
  ++calls_;
  if (fail_name_.empty() ? calls_ != fail_call_ : fail_name_ != name || of_name != fail_call_) return false;
  failed_ = name;
  return true;
}

template <typename T>
absl::StatusOr<T> FaultBackend::Made(absl::StatusOr<T> made) {
  std::lock_guard lock(mutex_);
  if (made.ok()) ++alive_;
  return made;
}

void FaultBackend::Gone(const void* handle) {
  std::lock_guard lock(mutex_);
  if (handle != nullptr) --alive_;
}

absl::StatusOr<void*> FaultBackend::AllocateDevice(uint64_t bytes) {
  if (Fails("AllocateDevice")) return absl::ResourceExhaustedError("injected fault: AllocateDevice");
  return Made(HostBackend::AllocateDevice(bytes));
}
void FaultBackend::FreeDevice(void* memory, uint64_t bytes) {
  HostBackend::FreeDevice(memory, bytes);
  Gone(memory);
}
absl::StatusOr<void*> FaultBackend::AllocatePinned(uint64_t bytes) {
  if (Fails("AllocatePinned")) return absl::ResourceExhaustedError("injected fault: AllocatePinned");
  {
    std::lock_guard lock(mutex_);
    pinned_bytes_ += bytes;
  }
  return Made(HostBackend::AllocatePinned(bytes));
}
void FaultBackend::FreePinned(void* memory, uint64_t bytes) {
  HostBackend::FreePinned(memory, bytes);
  Gone(memory);
  std::lock_guard lock(mutex_);
  pinned_bytes_ -= bytes;
}
absl::StatusOr<gpu::Stream> FaultBackend::CreateStream() {
  if (Fails("CreateStream")) return absl::InternalError("injected fault: CreateStream");
  return Made(HostBackend::CreateStream());
}
void FaultBackend::DestroyStream(gpu::Stream stream) {
  HostBackend::DestroyStream(stream);
  Gone(stream);
}
absl::StatusOr<gpu::Event> FaultBackend::CreateEvent(bool timing) {
  if (Fails("CreateEvent")) return absl::InternalError("injected fault: CreateEvent");
  return Made(HostBackend::CreateEvent(timing));
}
void FaultBackend::DestroyEvent(gpu::Event event) {
  HostBackend::DestroyEvent(event);
  Gone(event);
}
absl::Status FaultBackend::Record(gpu::Event event, gpu::Stream stream) {
  if (Fails("Record")) return absl::InternalError("injected fault: Record");
  return HostBackend::Record(event, stream);
}
absl::Status FaultBackend::Wait(gpu::Stream stream, gpu::Event event) {
  if (Fails("Wait")) return absl::InternalError("injected fault: Wait");
  return HostBackend::Wait(stream, event);
}
absl::Status FaultBackend::Synchronize(gpu::Event event) {
  // Even when this call returns an error, the device's work has finished.
  const absl::Status status = HostBackend::Synchronize(event);
  if (Fails("Synchronize")) return absl::InternalError("injected fault: Synchronize");
  return status;
}

absl::Status FaultBackend::Copy(void* to, const void* from, uint64_t bytes, gpu::CopyKind kind, gpu::Stream stream) {
  if (Fails("Copy")) return absl::InternalError("injected fault: Copy");
  bool later, hold;
  {
    std::lock_guard lock(mutex_);
    later = ++copies_ == fail_copy_;
    hold = hold_;
    if (later) failed_ = "a copy, later";
  }
  if (hold) {
    (void)Enqueue(stream, [this] {
      std::unique_lock lock(mutex_);
      released_.wait(lock, [&] { return !hold_; });
      return absl::OkStatus();
    });
  }
  if (later) return Enqueue(stream, [] { return absl::InternalError("injected fault: a copy, later"); });
  return HostBackend::Copy(to, from, bytes, kind, stream);
}

absl::Status FaultBackend::Launch(const gpu::NormalizeImages& arguments, gpu::Stream stream) {
  if (Fails("Launch")) return absl::InternalError("injected fault: Launch");
  return HostBackend::Launch(arguments, stream);
}
absl::Status FaultBackend::Launch(const gpu::ResampleImages& arguments, gpu::Stream stream) {
  if (Fails("Launch")) return absl::InternalError("injected fault: Launch");
  return HostBackend::Launch(arguments, stream);
}
absl::Status FaultBackend::Launch(const gpu::RasterizeMasks& arguments, gpu::Stream stream) {
  if (Fails("Launch")) return absl::InternalError("injected fault: Launch");
  return HostBackend::Launch(arguments, stream);
}

}  // namespace shardkit::test
