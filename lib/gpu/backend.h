// The functions of a device that the GPU stage needs: memory, streams, events, copies, kernels. There are two
// implementations: a CUDA device, and an emulated one in the memory of the host, whose streams are threads. The
// emulated device is for machines without a GPU and for tests of everything except the arithmetic on a GPU.
//
// As in CUDA, a stream is a queue of work, done in order. An event recorded in a stream is reached when all work queued
// there before it is done. Only waits for events order work in different streams. A failure of queued work shows in the
// events recorded after it, and from then on in the whole stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/device.h"

namespace shardkit::gpu {

struct NormalizeImages;
struct ResampleImages;
struct RasterizeMasks;

using Stream = DeviceStream;
// A cudaEvent_t, or the host's.
using Event = void*;

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

// Thread-safe. Does not change the calling thread's current CUDA device. All pointers passed to work in a stream must
// stay valid until that work is done. Errors are Internal with the call and the device's own message, or
// ResourceExhausted for memory.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const DeviceInfo& info() const = 0;

  // Device memory, aligned to 256 bytes. `bytes` > 0. Not cleared.
  virtual absl::StatusOr<void*> AllocateDevice(uint64_t bytes) = 0;
  virtual void FreeDevice(void* memory, uint64_t bytes) = 0;

  // Page-locked host memory, aligned to 4096 bytes, on the device's NUMA node where that is known. Not cleared. Slow:
  // use a PinnedPool. On the host device it is ordinary memory.
  virtual absl::StatusOr<void*> AllocatePinned(uint64_t bytes) = 0;
  virtual void FreePinned(void* memory, uint64_t bytes) = 0;

  // A stream that does not wait for the default stream. Destroying it does not wait for its work, which still
  // completes.
  virtual absl::StatusOr<Stream> CreateStream() = 0;
  virtual void DestroyStream(Stream stream) = 0;
  // Waits until all work of the stream is done or has failed.
  virtual absl::Status SynchronizeStream(Stream stream) = 0;

  // With `timing`, the event can be passed to ElapsedSeconds.
  virtual absl::StatusOr<Event> CreateEvent(bool timing) = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual absl::Status Record(Event event, Stream stream) = 0;
  // Work queued in `stream` from now on waits for the last recording of the event. The host does not wait.
  virtual absl::Status Wait(Stream stream, Event event) = 0;
  // Whether the event has been reached, or the error of the work before it. An event that was never recorded counts as
  // reached.
  virtual absl::StatusOr<bool> Query(Event event) = 0;
  // Blocks the calling thread until the event is reached.
  virtual absl::Status Synchronize(Event event) = 0;
  // The seconds between two events with timing; both must have been reached.
  virtual absl::StatusOr<double> ElapsedSeconds(Event begin, Event end) = 0;

  // Queued. Asynchronous when the host's side is page-locked.
  virtual absl::Status Copy(void* to, const void* from, uint64_t bytes, CopyKind kind, Stream stream) = 0;
  // Sets every byte to `value`.
  virtual absl::Status Fill(void* to, uint8_t value, uint64_t bytes, Stream stream) = 0;
  // Kernels (lib/gpu/kernels/kernels.h). Queued.
  virtual absl::Status Launch(const NormalizeImages& arguments, Stream stream) = 0;
  virtual absl::Status Launch(const ResampleImages& arguments, Stream stream) = 0;
  virtual absl::Status Launch(const RasterizeMasks& arguments, Stream stream) = 0;
  // Arithmetic that uses no memory and takes time in proportion to `rounds`; for measuring overlap. Queued.
  virtual absl::Status Spin(uint64_t rounds, Stream stream) = 0;

  // Names the following work of this thread until PopRange, for profilers (NVTX). Nests. `name` is a literal.
  virtual void PushRange(const char* name) = 0;
  virtual void PopRange() = 0;
};

// `name` as in LoaderOptions::device, except "host". InvalidArgument for another name, NotFound when the device does
// not exist, Unavailable when this build or this machine has no CUDA: the message says which one, and how to get it.
absl::StatusOr<std::shared_ptr<Backend>> OpenDevice(std::string_view name);

// CUDA device `index`, from 0; in builds without CUDA there is none. Errors are those of OpenDevice.
absl::StatusOr<std::shared_ptr<Backend>> OpenCudaDevice(int index);

}  // namespace shardkit::gpu
