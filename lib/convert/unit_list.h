// Divides what a source lists into the units of a plan: the same ones that the packer finds while it packs all of it.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "convert/pack_plan.h"
#include "shardkit/source.h"

namespace shardkit::convert {

// Calls `take` for each unit. The sizes of files are asked for on options.dataset.threads threads. Fills in `totals`.
absl::Status ListUnits(Source& source, const PackOptions& options,
                       const std::function<absl::Status(const PlannedUnit& unit)>& take, PackPlan* totals);

}  // namespace shardkit::convert
