// Conditions on the values of samples, as text: `width >= 1024 and mean(predicted_iou) > 0.9 and key ~ "sa_1*"`.
// docs/select.md describes the language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/block.h"
#include "shardkit/schema.h"
#include "shardkit/shard_info.h"

namespace shardkit {

namespace predicate {
struct Tree;
}

// Limits of a predicate's text, which may come from anywhere.
inline constexpr size_t kMaxPredicateBytes = size_t{64} << 10;
inline constexpr int kMaxPredicateDepth = 100;  // of what is nested in it

// Immutable once made, and cheap to copy. Thread-safe.
class Predicate {
 public:
  // InvalidArgument, saying at which character of the text, when the text is no condition, names a column that is not
  // among `columns`, does not fit the columns' types, or exceeds a limit. No value is looked at.
  static absl::StatusOr<Predicate> Parse(std::string_view text, std::span<const Column> columns);

  // The columns that it needs, at least one, in the order in which the text names them first.
  const std::vector<std::string>& columns() const;

  // Replaces *selected by the samples of the block for which the condition is true, ascending. The block was read with
  // columns(), in their order (DatasetOptions::columns); others may follow. A condition on an absent value is neither
  // true nor false (SQL's three values). DataLoss when a value does not fit its column's type, InvalidArgument when
  // integers of an arithmetic expression exceed 128 bits.
  absl::Status Select(const BlockView& block, std::vector<uint32_t>* selected) const;

  // False when no sample of a block can satisfy the condition. `ranges` has an entry for each of columns(), null where
  // nothing is known (ShardReader::ReadBlockRanges); a column that the shard lacks has one without present values.
  bool MayMatch(std::span<const BlockRange* const> ranges, uint32_t sample_count) const;

 private:
  explicit Predicate(std::shared_ptr<const predicate::Tree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const predicate::Tree> tree_;
};

}  // namespace shardkit
