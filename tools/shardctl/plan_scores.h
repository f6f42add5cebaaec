// How well the order of a plan mixes, compared with a WebDataset-style shuffle buffer of the same size in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/loader.h"
#include "shardkit/plan.h"

namespace shardctl {

struct PlanScores {
  uint64_t samples = 0;   // positions that were scored
  double shuffle = 0;     // neighbour distance; 1 is a perfect shuffle
  double webdataset = 0;  // the same for shards in random order and a shuffle buffer
  // How often neighbours have the same label, relative to a perfect shuffle (1). Clumps give more than 1.
  std::optional<double> clumping;
  std::optional<double> webdataset_clumping;
};

// `datasets` are the plan's. Reads their manifests and the column `label`, if given, comparing the hashes that an
// index lists for whole files with `verify_hashes`. OutOfRange when a dataset
// has no such column.
absl::StatusOr<PlanScores> ScorePlan(const shardkit::Plan& plan, uint64_t epoch,
                                     std::span<const shardkit::LoaderDataset> datasets,
                                     const std::optional<std::string>& label, bool verify_hashes);

}  // namespace shardctl
