// Long calls of the library: off the GIL, with progress, ended by Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "status.h"

namespace shardkit::bindings {

// What a running job tells the thread that waits for it. Thread-safe.
struct JobProgress {
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> total{0};

  void Set(uint64_t new_done, uint64_t new_total) {
    total = new_total;
    done = new_done;
  }
  // As the jobs of the library take it. Borrows this.
  std::function<void(uint64_t done, uint64_t total)> function() {
    return [this](uint64_t new_done, uint64_t new_total) { Set(new_done, new_total); };
  }
};

// Waits until `finished` is set. Several times a second calls `progress`, which may be None, with (done, total), and
// looks for signals. A signal, or an exception of `progress`, cancels the job; the exception is thrown when the job has
// ended.
void WaitForJob(std::mutex& mutex, std::condition_variable& ended, const bool& finished, const JobProgress& numbers,
                const nanobind::object& progress, Cancellation& cancellation);

// Runs `job` on a thread of its own and returns its result.
template <typename Result>
Result RunJob(const nanobind::object& progress,
              const std::function<absl::StatusOr<Result>(Cancellation& cancellation, JobProgress& numbers)>& job) {
  Cancellation cancellation;
  JobProgress numbers;
  std::mutex mutex;
  std::condition_variable ended;
  bool finished = false;
  std::optional<absl::StatusOr<Result>> result;
  std::thread thread([&] {
    result = job(cancellation, numbers);
    const std::lock_guard lock(mutex);
    finished = true;
    ended.notify_all();
  });
  const auto join = [&] {
    const GilReleased released;
    thread.join();
  };
  try {
    WaitForJob(mutex, ended, finished, numbers, progress, cancellation);
  } catch (...) {
    join();
    throw;
  }
  join();
  return ValueOrRaise(*std::move(result));
}

}  // namespace shardkit::bindings
