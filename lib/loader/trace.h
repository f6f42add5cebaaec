// What the threads of a stage spend their time with: as sums, and as events in Chrome's trace format (the Trace Event
// Format document of the Chromium project), which Perfetto opens.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/exceptions.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

using Clock = std::chrono::steady_clock;

// Thread-safe. Costs almost nothing while off. Does not throw: an event for which there is no memory is dropped.
class TraceRecorder {
 public:
  explicit TraceRecorder(bool on) : on_(on), begin_(Clock::now()) {}

  // An event of `lane` (a thread by its stage and number). `name` is a literal.
  void Add(const char* name, std::string_view lane, Clock::time_point begin, Clock::time_point end,
           uint64_t number) noexcept;

  // The whole document; empty when off.
  std::string Json() const;

 private:
  struct Event {
    const char* name;
    size_t lane;
    int64_t begin;  // nanoseconds
    int64_t duration;
    uint64_t number;  // of the block or batch
  };
  // Later events are dropped, so that memory stays bounded.
  static constexpr size_t kMostEvents = 1 << 20;

  const bool on_;
  const Clock::time_point begin_;
  mutable std::mutex mutex_;
  std::vector<std::string> lanes_;
  std::vector<Event> events_;
  uint64_t dropped_ = 0;
};

// Calls a user's observer, if there is one. Its exceptions go to `failed`.
class GuardedObserver {
 public:
  GuardedObserver(std::shared_ptr<StageObserver> observer, std::function<void(absl::Status)> failed)
      : observer_(std::move(observer)), failed_(std::move(failed)) {}

  void Begin(const char* stage) {
    if (observer_ != nullptr) Call([&] { observer_->Begin(stage); });
  }
  void End() {
    if (observer_ != nullptr) Call([&] { observer_->End(); });
  }

 private:
  template <typename Function>
  void Call(const Function& function) {
    try {
      function();
    } catch (...) {
      failed_(StatusOfException("loader: the observer"));
    }
  }

  const std::shared_ptr<StageObserver> observer_;
  const std::function<void(absl::Status)> failed_;
};

// Records an event that lasts as long as this object, and tells the observer.
class StageScope {
 public:
  StageScope(TraceRecorder& trace, GuardedObserver& observer, const char* name, std::string_view lane, uint64_t number)
      : trace_(trace), observer_(observer), name_(name), lane_(lane), number_(number), begin_(Clock::now()) {
    observer_.Begin(name);
  }
  ~StageScope() {
    observer_.End();
    trace_.Add(name_, lane_, begin_, Clock::now(), number_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  TraceRecorder& trace_;
  GuardedObserver& observer_;
  const char* const name_;
  const std::string_view lane_;
  const uint64_t number_;
  const Clock::time_point begin_;
};

enum class Wait { kStarved, kBlocked };

// AddBusy is thread-safe; all else is called with the engine's lock held.
class StageCounter {
 public:
  void AddBusy(Clock::duration time) { busy_ += time.count(); }

  // Call before and after a wait. A wait that goes on counts up to now.
  Clock::time_point BeginWait(Wait kind) {
    const auto now = Clock::now();
    Waits& waits = waits_[static_cast<size_t>(kind)];
    ++waits.going_on;
    waits.begun += now.time_since_epoch().count();
    return now;
  }
  void EndWait(Wait kind, Clock::time_point begin) {
    Waits& waits = waits_[static_cast<size_t>(kind)];
    --waits.going_on;
    waits.begun -= begin.time_since_epoch().count();
    waits.ended += (Clock::now() - begin).count();
  }

  StageTimes times(int threads) const {
    return {Seconds(busy_), WaitSeconds(Wait::kStarved), WaitSeconds(Wait::kBlocked), threads};
  }

  static double Seconds(int64_t ticks) { return std::chrono::duration<double>(Clock::duration(ticks)).count(); }

 private:
  struct Waits {
    int64_t going_on = 0;
    int64_t begun = 0;  // sum of the begin times of waits that go on
    int64_t ended = 0;  // sum of the lengths of waits that are over
  };

  double WaitSeconds(Wait kind) const {
    const Waits& waits = waits_[static_cast<size_t>(kind)];
    return Seconds(waits.ended + waits.going_on * Clock::now().time_since_epoch().count() - waits.begun);
  }

  std::atomic<int64_t> busy_ = 0;
  std::array<Waits, 2> waits_;
};

}  // namespace shardkit::loader
