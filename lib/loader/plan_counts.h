// How many samples of each dataset an epoch has, and how many lanes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

inline constexpr uint64_t kMaxEpochSamples = uint64_t{1} << 48;

// Of each dataset, in the epochs from `first_epoch` on, until a proportion changes.
struct EpochCounts {
  uint64_t first_epoch = 0;
  std::vector<uint64_t> counts;
};

// At least one, for epoch 0; all have the same sum. InvalidArgument, with the dataset's position, for options that
// contradict each other or make no sense.
absl::StatusOr<std::vector<EpochCounts>> CountSamples(std::span<const PlanDataset> datasets,
                                                      const PlanOptions& options);

uint32_t ChooseLanes(std::span<const PlanDataset> datasets, std::span<const uint64_t> counts,
                     const PlanOptions& options);

}  // namespace shardkit::loader
