// Waiting for what another thread hands over.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace shardkit::remote {

// Calls `start` with a function, and returns what that function is called with, once, on any thread. Whoever calls it
// has a deadline, so the wait ends.
template <typename T, typename Start>
T Await(const Start& start) {
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
  ended.wait(lock, [&] { return result.has_value(); });
  return *std::move(result);
}

}  // namespace shardkit::remote
