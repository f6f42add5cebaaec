// A fixed set of threads and a queue of tasks, and how many threads are worth starting.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/exceptions.h"

namespace shardkit {

template <typename T>
class Pending;

// Thread-safe. Tasks (Pending::Run) must end by themselves; a long task must check a Cancellation.
class ThreadPool {
 public:
  // `threads` >= 1. Starts fewer when the system refuses more. Without any thread, tasks run in Submit.
  explicit ThreadPool(int threads);

  // Runs all submitted tasks, then joins. To end sooner, first cancel the Cancellation that the tasks check.
  ~ThreadPool();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // False where the system started none: Submit then runs each task.
  bool has_threads() const { return !threads_.empty(); }

  // At least 1.
  int thread_count() const { return threads_.empty() ? 1 : static_cast<int>(threads_.size()); }

 private:
  template <typename T>
  friend class Pending;

  // The task must not throw.
  void Submit(std::function<void()> task);
  void Run();

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

// The result of a task on a pool, a Status or a StatusOr. Take() waits for the task. Every task ends, because it checks
// the cancellation of its operation.
template <typename T>
class Pending {
 public:
  // `what`, a literal, describes the task in the status of an exception that it throws.
  template <typename Function>
  static Pending Run(ThreadPool& pool, std::string_view what, Function function) {
    Pending pending;
    pool.Submit([state = pending.state_, what, function = std::move(function)]() mutable {
      T value = Guarded(what, function);
      {
        std::lock_guard lock(state->mutex);
        state->value.emplace(std::move(value));
      }
      state->ready.notify_one();
    });
    return pending;
  }

  T Take() {
    std::unique_lock lock(state_->mutex);
    state_->ready.wait(lock, [this] { return state_->value.has_value(); });
    return std::move(*state_->value);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ready;
    std::optional<T> value;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// The processors that a process may use at most, rounded up; nullopt without a limit. `cgroups` is the text of its
// /proc/PID/cgroup, and `mount` is /sys/fs/cgroup. Knows versions 1 and 2. The limits of the cgroups around its own
// hold, too.
std::optional<int> CgroupProcessors(std::string_view cgroups, const std::string& mount);

}  // namespace shardkit
