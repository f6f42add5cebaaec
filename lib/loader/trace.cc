#include "loader/trace.h"

#include <algorithm>
#include <new>

#include <nlohmann/json.hpp>

namespace shardkit::loader {

void TraceRecorder::Add(const char* name, std::string_view lane, Clock::time_point begin, Clock::time_point end,
                        uint64_t number) noexcept {
  if (!on_) return;
  std::lock_guard lock(mutex_);
  if (events_.size() == kMostEvents) {
    ++dropped_;
    return;
  }
  try {
    const auto found = std::ranges::find(lanes_, lane);
    const size_t index = static_cast<size_t>(found - lanes_.begin());
    if (found == lanes_.end()) lanes_.emplace_back(lane);
    events_.push_back({name, index, (begin - begin_).count(), (end - begin).count(), number});
  } catch (const std::bad_alloc&) {
    ++dropped_;
  }
}

std::string TraceRecorder::Json() const {
  if (!on_) return {};
  std::lock_guard lock(mutex_);
  nlohmann::json events = nlohmann::json::array();
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    events.push_back(
        {{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", lane}, {"args", {{"name", lanes_[lane]}}}});
  }
  for (const Event& event : events_) {
    events.push_back({{"ph", "X"},
                      {"name", event.name},
                      {"cat", "loader"},
                      {"pid", 1},
                      {"tid", event.lane},
                      {"ts", static_cast<double>(event.begin) / 1000},
                      {"dur", static_cast<double>(event.duration) / 1000},
                      {"args", {{"number", event.number}}}});
  }
  return nlohmann::json{
      {"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"otherData", {{"dropped_events", dropped_}}}}
      .dump();
}

}  // namespace shardkit::loader
