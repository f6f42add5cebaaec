// Waiting for what another thread hands over.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "shardkit/job.h"

namespace shardkit::remote {

inline constexpr std::chrono::milliseconds kLookForCancellation{50};

// Calls `start` with a function, and returns what that function is called with, once, on any thread. Whoever calls it
// has a deadline, so the wait ends. Calls `cancel` once when the cancellation that this thread belongs to is cancelled
// meanwhile.
template <typename T, typename Start, typename Cancel>
T Await(const Start& start, const Cancel& cancel) {
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<T> result;
  start([&](T value) {
    // Notified under the lock: afterwards this frame may be gone.
    const std::lock_guard lock(mutex);
    result = std::move(value);
    ended.notify_one();
  });
  std::unique_lock lock(mutex);
  const auto has_ended = [&] { return result.has_value(); };
  if (const auto& cancellation = CancellationScope::Current(); cancellation && !cancellation->cancelled()) {
    while (!ended.wait_for(lock, kLookForCancellation, has_ended)) {
      if (!cancellation->cancelled()) continue;
      cancel();
      break;
    }
  }
  ended.wait(lock, has_ended);
  return *std::move(result);
}

// The same where `start` itself sees to cancellations.
template <typename T, typename Start>
T Await(const Start& start) {
  return Await<T>(start, [] {});
}

}  // namespace shardkit::remote
