// Common to long operations: cancellation, threads and progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"

namespace shardkit {

// Shared by the caller and an operation. The caller may call Cancel() from any thread or from a signal handler. The
// operation then stops within one unit of work (a file, a block), cleans up as documented there, and returns Cancelled
// with the name of its stage. Must outlive the operation.
class Cancellation {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // OK, or Cancelled with "cancelled while STAGE".
  absl::Status Check(std::string_view stage) const;

 private:
  std::atomic<bool> cancelled_{false};
};

// During its lifetime, the work of this thread, and work that it passes to threads of the library, belongs to a
// cancellation. Soon after Cancel(), running read requests to a store end with Cancelled, also in functions that take
// no Cancellation. Later read requests, such as for cleaning up, have half a second. Write requests go on. For one
// thread.
class CancellationScope {
 public:
  explicit CancellationScope(std::shared_ptr<const Cancellation> cancellation);
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;

  // The cancellation of this thread, or null.
  static const std::shared_ptr<const Cancellation>& Current();

 private:
  std::shared_ptr<const Cancellation> before_;
};

// The default number of computing threads, at least 1: the processors that this process may use, divided among the
// ranks of its machine. Affinity (taskset, Slurm) and the cpu.max of its cgroups (containers) limit the processors;
// parts of a processor count as one. LOCAL_WORLD_SIZE, which torchrun sets, is the number of ranks. Asks the system at
// each call. Thread-safe.
int AvailableProcessors();

// Options of an operation that goes through samples or bytes.
struct JobOptions {
  // Computing threads, at least 1. Written data and reports do not depend on their number.
  int threads = 1;

  // Borrowed; may be null. Cancelling it, from any thread, ends the operation with Cancelled.
  const Cancellation* cancellation = nullptr;

  // Called from time to time on the calling thread with the finished and the total number of samples, unless the
  // operation says otherwise. An exception ends the operation like an error: Internal, with its text.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

}  // namespace shardkit
