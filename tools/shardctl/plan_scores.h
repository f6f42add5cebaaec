// How well the order of a plan mixes, and a WebDataset-style buffer of the same bytes beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/plan.h"

namespace shardctl {

struct PlanScores {
  uint64_t samples = 0;   // positions that were looked at
  double shuffle = 0;     // neighbour distance; 1 is a perfect shuffle
  double webdataset = 0;  // the same of shards in random order and a shuffle buffer
  // Samples that follow one another and have the same label; 1 as in a perfect shuffle, more in clumps.
  std::optional<double> clumping;
  std::optional<double> webdataset_clumping;
};

// `paths` are the plan's datasets. Reads manifests and, with a label, that column. OutOfRange when a dataset has
// no such column.
absl::StatusOr<PlanScores> ScorePlan(const shardkit::Plan& plan, uint64_t epoch, const std::vector<std::string>& paths,
                                     const std::optional<std::string>& label);

}  // namespace shardctl
