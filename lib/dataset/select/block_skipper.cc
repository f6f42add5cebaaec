#include "dataset/select/block_skipper.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace shardkit::dataset {

absl::StatusOr<BlockSkipper> BlockSkipper::Create(std::shared_ptr<const ShardReader> shard, Predicate predicate,
                                                  const ManifestSummary& summary) {
  BlockSkipper skipper(std::move(predicate));
  auto ranges = shard->ReadBlockRanges();
  if (ranges.ok()) {
    skipper.ranges_ = *std::move(ranges);
  } else if (!absl::IsNotFound(ranges.status())) {
    return ranges.status();
  }
  for (const std::string& name : skipper.predicate_.columns()) {
    const std::string_view stored = summary.StoredName(name);
    skipper.positions_.push_back(shard->schema().Find(stored));
    skipper.elsewhere_.push_back(std::ranges::any_of(summary.column_files, [&](const ColumnFile& file) {
      return std::ranges::find(file.columns, stored) != file.columns.end();
    }));
  }
  skipper.shard_ = std::move(shard);
  return skipper;
}

bool BlockSkipper::MayMatch(size_t block) const {
  const BlockRange absent;
  std::vector<const BlockRange*> found;
  for (size_t i = 0; i < positions_.size(); ++i) {
    if (elsewhere_[i]) {
      found.push_back(nullptr);
    } else {
      found.push_back(!positions_[i] ? &absent : ranges_ ? ranges_->Find(block, *positions_[i]) : nullptr);
    }
  }
  // The ranges are those of the stored samples.
  return predicate_.MayMatch(found, shard_->blocks()[block].sample_count);
}

}  // namespace shardkit::dataset
