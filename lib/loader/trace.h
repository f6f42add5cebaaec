// Events in Chrome's trace format (the Trace Event Format document of the Chromium project), which Perfetto opens.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/loader.h"

namespace shardkit::loader {

using Clock = std::chrono::steady_clock;

// Thread-safe. Costs nothing to speak of while off.
class TraceRecorder {
 public:
  explicit TraceRecorder(bool on) : on_(on), begin_(Clock::now()) {}

  // An event of `lane` (a thread by its stage and number). `name` is a literal.
  void Add(const char* name, std::string_view lane, Clock::time_point begin, Clock::time_point end, uint64_t number);

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
  // Beyond it nothing is recorded, so that memory stays bounded.
  static constexpr size_t kMostEvents = 1 << 20;

  const bool on_;
  const Clock::time_point begin_;
  mutable std::mutex mutex_;
  std::vector<std::string> lanes_;
  std::vector<Event> events_;
  uint64_t dropped_ = 0;
};

// Records what its thread does while it lives, and tells the observer, if there is one.
class StageScope {
 public:
  StageScope(TraceRecorder& trace, const std::shared_ptr<StageObserver>& observer, const char* name,
             std::string_view lane, uint64_t number)
      : trace_(trace), observer_(observer.get()), name_(name), lane_(lane), number_(number), begin_(Clock::now()) {
    if (observer_ != nullptr) observer_->Begin(name);
  }
  ~StageScope() {
    if (observer_ != nullptr) observer_->End();
    trace_.Add(name_, lane_, begin_, Clock::now(), number_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  TraceRecorder& trace_;
  StageObserver* const observer_;
  const char* const name_;
  const std::string_view lane_;
  const uint64_t number_;
  const Clock::time_point begin_;
};

}  // namespace shardkit::loader
