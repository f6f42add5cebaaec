// What the threads of a stage spend their time with.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "loader/trace.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

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
