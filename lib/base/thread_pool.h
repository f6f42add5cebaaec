// A fixed set of threads and a queue of tasks, tasks whose results come in order, and how many threads are worth
// starting.
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
#include <variant>
#include <vector>

#include "base/exceptions.h"
#include "base/status_macros.h"
#include "shardkit/job.h"

namespace shardkit {

template <typename T>
class Pending;

// Thread-safe. Tasks (Pending::Run) must end by themselves; a long task must check a Cancellation.
class ThreadPool {
 public:
  // `threads` >= 0. Starts fewer when the system refuses more. Without any thread, tasks run in Submit.
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
    // A std::function must be copyable, which what a task holds often is not.
    auto shared = std::make_shared<Function>(std::move(function));
    pool.Submit([state = pending.state_, what, shared = std::move(shared)]() mutable {
      T value = Guarded(what, *shared);
      shared.reset();
      {
        std::lock_guard lock(state->mutex);
        state->value.emplace(std::move(value));
      }
      state->ready.notify_one();
    });
    return pending;
  }

  // The result of a task that need not run.
  static Pending Ready(T value) {
    Pending pending;
    pending.state_->value.emplace(std::move(value));
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

// Tasks on a pool whose results are taken in the order in which the tasks were added, however long each of them takes.
// `Result` is a Status or a StatusOr; `Item` is what the caller keeps of a task until its result is taken. One thread
// adds and takes. A user declares its pool before, and what its tasks use, too: the destructor waits for them.
template <typename Result, typename Item = std::monostate>
class OrderedTasks {
 public:
  struct Taken {
    Item item;
    Result result;
  };

  // `stage`, a literal, says what the tasks do: "checking blocks". `cancellation` may be null. `most`, >= 1, is how
  // many tasks full() lets wait and run at the same time.
  OrderedTasks(ThreadPool& pool, std::string_view stage, const Cancellation* cancellation, size_t most)
      : pool_(pool), stage_(stage), cancellation_(cancellation), most_(most) {}
  ~OrderedTasks() { Stop(); }
  OrderedTasks(const OrderedTasks&) = delete;
  OrderedTasks& operator=(const OrderedTasks&) = delete;

  bool empty() const { return tasks_.empty(); }
  bool full() const { return tasks_.size() >= most_; }
  size_t size() const { return tasks_.size(); }
  // The item of the task whose result is taken next. There must be one.
  Item& front() { return tasks_.front().item; }

  // `function` returns a Result. It does not run if the caller has cancelled, or Stop was called, before its turn: the
  // result is Cancelled then.
  template <typename Function>
  void Add(Function function, Item item = {}) {
    tasks_.push_back({std::move(item),
                      Pending<Result>::Run(pool_, stage_, [this, function = std::move(function)]() mutable -> Result {
                        SHARDKIT_RETURN_IF_ERROR(Check());
                        return function();
                      })});
  }
  // A result that needs no task, in its place among the others.
  void AddReady(Result result, Item item) {
    tasks_.push_back({std::move(item), Pending<Result>::Ready(std::move(result))});
  }

  // Waits for the first of the tasks, of which there must be one. Cancelled when the caller has cancelled.
  Taken Take() {
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    Taken taken{std::move(task.item), task.pending.Take()};
    if (absl::Status status = cancellation_ ? cancellation_->Check(stage_) : absl::OkStatus(); !status.ok()) {
      taken.result = std::move(status);
    }
    return taken;
  }

  // For a task that takes long, on any thread: Cancelled when nobody wants its result any more.
  absl::Status Check() const {
    SHARDKIT_RETURN_IF_ERROR(stopped_.Check(stage_));
    return cancellation_ ? cancellation_->Check(stage_) : absl::OkStatus();
  }

  // Drops all tasks, and waits for those that run. No task can be added after that.
  void Stop() {
    stopped_.Cancel();
    for (; !tasks_.empty(); tasks_.pop_front()) (void)tasks_.front().pending.Take();
  }

 private:
  struct Task {
    Item item;
    Pending<Result> pending;
  };

  ThreadPool& pool_;
  const std::string_view stage_;
  const Cancellation* const cancellation_;
  const size_t most_;
  Cancellation stopped_;
  std::deque<Task> tasks_;
};

// The processors that a process may use at most, rounded up; nullopt without a limit. `cgroups` is the text of its
// /proc/PID/cgroup, and `mount` is /sys/fs/cgroup. Knows versions 1 and 2. The limits of the cgroups around its own
// hold, too.
std::optional<int> CgroupProcessors(std::string_view cgroups, const std::string& mount);

}  // namespace shardkit
