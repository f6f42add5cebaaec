#include "loader/trace.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/json.h"

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
  JsonValue events = JsonValue::Array();
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    JsonValue event = JsonValue::Object();
    event.Set("ph", "M").Set("name", "thread_name").Set("pid", 1).Set("tid", lane);
    event.Set("args", std::move(JsonValue::Object().Set("name", lanes_[lane])));
    events.Add(std::move(event));
  }
  for (const Event& recorded : events_) {
    JsonValue event = JsonValue::Object();
    event.Set("ph", "X").Set("name", recorded.name).Set("cat", "loader").Set("pid", 1).Set("tid", recorded.lane);
    event.Set("ts", static_cast<double>(recorded.begin) / 1000);
    event.Set("dur", static_cast<double>(recorded.duration) / 1000);
    event.Set("args", std::move(JsonValue::Object().Set("number", recorded.number)));
    events.Add(std::move(event));
  }
  JsonValue document = JsonValue::Object();
  document.Set("traceEvents", std::move(events)).Set("displayTimeUnit", "ms");
  document.Set("otherData", std::move(JsonValue::Object().Set("dropped_events", dropped_)));
  return document.Format();
}

}  // namespace shardkit::loader
