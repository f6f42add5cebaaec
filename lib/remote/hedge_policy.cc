#include "remote/hedge_policy.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace shardkit::remote {

size_t HedgePolicy::ClassOf(uint64_t bytes) { return static_cast<size_t>(std::bit_width(bytes)) / 2; }

void HedgePolicy::Record(uint64_t bytes, Duration duration) {
  Class& of_size = classes_[ClassOf(bytes)];
  if (of_size.durations.size() < kRemembered) {
    of_size.durations.push_back(duration);
  } else {
    of_size.durations[of_size.next] = duration;
    of_size.next = (of_size.next + 1) % kRemembered;
  }
}

std::optional<HedgePolicy::Duration> HedgePolicy::HedgeAfter(uint64_t bytes) const {
  std::vector<Duration> durations = classes_[ClassOf(bytes)].durations;
  if (durations.size() < kEnoughForMedian) return std::nullopt;
  const auto slowest = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 100);
  std::nth_element(durations.begin(), slowest, durations.end(), std::greater<>());
  const Duration slowest_of_100 = durations.size() < kEnoughForSlowest ? Duration::max() : *slowest;
  const auto middle = durations.begin() + static_cast<ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return std::min(slowest_of_100, std::max<Duration>(4 * *middle, *middle + kLeastAboveMedian));
}

bool HedgePolicy::Spend() {
  if (budget_ < kCost) return false;
  budget_ -= kCost;
  return true;
}

}  // namespace shardkit::remote
