// A file system that is as slow as one behind a network, to find out how programs would do there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardctl {

struct LatencyOptions {
  // From sending a request to its first byte. Every request takes this and, evenly distributed, up to `jitter` more.
  std::chrono::nanoseconds latency{};
  std::chrono::nanoseconds jitter{};

  // One request in `stall_every` takes `stall` more. 0: none.
  uint64_t stall_every = 0;
  std::chrono::nanoseconds stall{};

  // Of all requests together; 0: unlimited.
  uint64_t bytes_per_second = 0;

  // More requests wait until one of these has ended. At least 1.
  int requests_at_once = 64;

  // Decides the jitter and the stalls of the first request, the second and so on.
  uint64_t seed = 0;

  // When it is cancelled, waits end with Cancelled. May be null; must outlive the file system and its files.
  const shardkit::Cancellation* cancellation = nullptr;
};

// Passes all calls on to `base`, which must outlive it and its files, and makes them take time: a read, Stat, List,
// ReadFile, and opening a file whose size is not known. The requests of a ReadBatch are sent together; those of
// StartRead take no thread each. Files have no memory maps, and hints that suit the latency. Thread-safe if `base` is.
std::unique_ptr<shardkit::ReadableFileSystem> NewLatencyFileSystem(shardkit::ReadableFileSystem& base,
                                                                   const LatencyOptions& options);

// When requests to a simulated network end. Pure: the caller has the clock. For one thread at a time.
class LatencySchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit LatencySchedule(const LatencyOptions& options);

  // Sends a request for `bytes` bytes and returns when its last byte arrives. `now` must not decrease.
  Time Send(Time now, uint64_t bytes);

 private:
  const LatencyOptions options_;
  std::mt19937_64 random_;
  std::priority_queue<Time, std::vector<Time>, std::greater<>> ends_;  // of the requests under way
  Time link_free_{};                                                   // when the bytes promised so far have arrived
};

}  // namespace shardctl
