// Which blocks of a shard cannot have a sample that a predicate selects.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/manifest.h"
#include "shardkit/select.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {

class BlockSkipper {
 public:
  // Reads the shard's ranges; without them nothing is skipped. `summary` is that of the dataset.
  static absl::StatusOr<BlockSkipper> Create(std::shared_ptr<const ShardReader> shard, Predicate predicate,
                                             const ManifestSummary& summary);

  // `block` is one of the shard's.
  bool MayMatch(size_t block) const;

 private:
  explicit BlockSkipper(Predicate predicate) : predicate_(std::move(predicate)) {}

  Predicate predicate_;
  std::shared_ptr<const ShardReader> shard_;
  std::optional<BlockRanges> ranges_;
  std::vector<std::optional<size_t>> positions_;  // of the predicate's columns in the shard's schema
  std::vector<bool> elsewhere_;                   // for each: values come from column files
};

}  // namespace shardkit::dataset
