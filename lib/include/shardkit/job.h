// What long operations have in common: asking them to stop, how many threads they start, and how far they are.
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

// While it lives, what this thread does, and what it gives to threads of the library, belongs to a cancellation:
// requests that read from a store and are under way then end with Cancelled soon after Cancel(), also those of
// functions that take no Cancellation. Those that begin later, as to put things in order, have half a second. Those
// that write go on. For one thread.
class CancellationScope {
 public:
  explicit CancellationScope(std::shared_ptr<const Cancellation> cancellation);
  ~CancellationScope();
  CancellationScope(const CancellationScope&) = delete;
  CancellationScope& operator=(const CancellationScope&) = delete;

  // Of this thread; null where there is none.
  static const std::shared_ptr<const Cancellation>& Current();

 private:
  std::shared_ptr<const Cancellation> before_;
};

// The default number of threads that compute, at least 1: the processors that this process may use, divided among the
// ranks of its machine. They are limited by its affinity (taskset, Slurm) and the cpu.max of its cgroups (containers);
// parts of a processor count as one. LOCAL_WORLD_SIZE, which torchrun sets, says how many ranks there are. Asks the
// system at each call. Thread-safe.
int AvailableProcessors();

// The options of an operation that goes through samples or bytes.
struct JobOptions {
  // Threads that compute, at least 1. What is written or reported does not depend on their number.
  int threads = 1;

  // Borrowed; may be null. Cancelling it, from any thread, ends the operation with Cancelled.
  const Cancellation* cancellation = nullptr;

  // Called from time to time on the calling thread with what is done, of all: samples, unless the operation says
  // otherwise. An exception ends the operation as an error does: Internal, with its text.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

}  // namespace shardkit
