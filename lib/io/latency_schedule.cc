#include "io/latency_schedule.h"

#include <algorithm>

namespace shardkit::io {

using std::chrono::nanoseconds;

LatencySchedule::LatencySchedule(const LatencyOptions& options) : options_(options), random_(options.seed) {}

LatencySchedule::Time LatencySchedule::Send(Time now, uint64_t bytes) {
  Time begin = now;
  while (!ends_.empty() && ends_.top() <= now) ends_.pop();
  if (ends_.size() >= static_cast<size_t>(std::max(options_.requests_at_once, 1))) {
    begin = ends_.top();
    ends_.pop();
  }
  Time end = begin + options_.latency;
  if (options_.bytes_per_second > 0) {
    const double seconds = static_cast<double>(bytes) / static_cast<double>(options_.bytes_per_second);
    end = std::max(end, link_free_) + nanoseconds(static_cast<int64_t>(1e9 * seconds));
    link_free_ = end;
  }
  // These delay this request alone: the link serves the others meanwhile.
  const uint64_t jitter = random_(), stall = random_();
  if (options_.jitter.count() > 0) {
    end += nanoseconds(static_cast<int64_t>(jitter % (static_cast<uint64_t>(options_.jitter.count()) + 1)));
  }
  if (options_.stall_every > 0 && stall % options_.stall_every == 0) end += options_.stall;
  ends_.push(end);
  return end;
}

}  // namespace shardkit::io
