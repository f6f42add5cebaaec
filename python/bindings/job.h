// Long calls of the library: off the GIL, with progress, ended by Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "shardkit/job.h"
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

// Runs `job` on a thread of its own, which belongs to the cancellation, and returns its result.
template <typename Result>
Result RunJob(const nanobind::object& progress,
              const std::function<absl::StatusOr<Result>(Cancellation& cancellation, JobProgress& numbers)>& job,
              const std::shared_ptr<Cancellation>& cancellation = std::make_shared<Cancellation>()) {
  JobProgress numbers;
  std::mutex mutex;
  std::condition_variable ended;
  bool finished = false;
  std::optional<absl::StatusOr<Result>> result;
  std::thread thread([&] {
    const CancellationScope scope(cancellation);
    result = job(*cancellation, numbers);
    const std::lock_guard lock(mutex);
    finished = true;
    ended.notify_all();
  });
  const auto join = [&] {
    const GilReleased released;
    thread.join();
  };
  try {
    WaitForJob(mutex, ended, finished, numbers, progress, *cancellation);
  } catch (...) {
    join();
    throw;
  }
  join();
  return ValueOrRaise(*std::move(result));
}

// Returns the result of a function that may wait for a store, as WithoutGil does, and ends it by Ctrl-C.
template <typename Function>
auto Interruptibly(Function&& function,
                   const std::shared_ptr<Cancellation>& cancellation = std::make_shared<Cancellation>()) {
  using Result = typename std::invoke_result_t<Function&>::value_type;
  return RunJob<Result>(
      nanobind::none(), [&](Cancellation&, JobProgress&) { return function(); }, cancellation);
}

}  // namespace shardkit::bindings
