// When requests to a simulated network end. Pure: the caller has the clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "shardkit/latency_filesystem.h"

namespace shardkit::io {

// For one thread at a time.
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

}  // namespace shardkit::io
