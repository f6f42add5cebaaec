// When a request has taken so long that a second one is worth sending.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardkit::remote {

// For one thread.
class HedgePolicy {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // A request for so many bytes has begun. 5 % of the requests may be sent a second time.
  void Begin() { budget_ = budget_ < kMostBudget ? budget_ + 1 : budget_; }

  // A request for so many bytes took so long.
  void Record(uint64_t bytes, Duration duration);

  // Four times the median of the latest requests of about this size, or 0.1 s more than it, whichever is later; once a
  // hundred are known also the time that 1 % of them took longer than, if that is sooner. nullopt while there are too
  // few.
  std::optional<Duration> HedgeAfter(uint64_t bytes) const;

  // Whether the budget allows another second request; then it is spent.
  bool Spend();

 private:
  static constexpr size_t kRemembered = 200;  // of each size; 1 % are two
  static constexpr size_t kEnoughForMedian = 20;
  static constexpr size_t kEnoughForSlowest = 100;
  // Below this a wait is more likely due to this machine's own work than to a server or connection that stalls.
  static constexpr std::chrono::milliseconds kLeastAboveMedian{100};
  static constexpr uint64_t kCost = 20;  // requests that pay for one hedge
  static constexpr uint64_t kMostBudget = 10 * kCost;

  struct Class {
    std::vector<Duration> durations;  // a ring
    size_t next = 0;
  };

  // Sizes that differ by up to a factor of four are together.
  static size_t ClassOf(uint64_t bytes);

  std::array<Class, 33> classes_;
  uint64_t budget_ = 0;
};

}  // namespace shardkit::remote
