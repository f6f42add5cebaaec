// Choosing samples: by a condition on their values, by keys, by ordinals, or at random.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit {

// Conditions on the values of samples, as text: `width >= 1024 and mean(predicted_iou) > 0.9 and key ~ "sa_1*"`.
// docs/select.md describes the language.

namespace predicate {
struct Tree;
}

// Limits of a predicate's text, which may be untrusted.
inline constexpr size_t kMaxPredicateBytes = size_t{64} << 10;
inline constexpr int kMaxPredicateDepth = 100;  // of nesting

// Immutable once made, and cheap to copy. Thread-safe.
class Predicate {
 public:
  // InvalidArgument, with the place in the text, if the text is no condition, names a column that is not among
  // `columns`, does not fit the columns' types, or exceeds a limit. Does not look at values.
  static absl::StatusOr<Predicate> Parse(std::string_view text, std::span<const Column> columns);

  // The required columns, at least one, in the order of their first mention in the text.
  const std::vector<std::string>& columns() const;

  // Replaces *selected by the samples of the block for which the condition is true, ascending. The block must have been
  // read with columns(), in their order (DatasetOptions::columns); others may follow. A condition on an absent value is
  // neither true nor false (SQL's three values). DataLoss if a value does not fit its column's type, InvalidArgument if
  // integers of an arithmetic expression exceed 128 bits.
  absl::Status Select(const BlockView& block, std::vector<uint32_t>* selected) const;

  // False if no sample of a block can satisfy the condition. `ranges` has an entry for each of columns(), null if
  // unknown (ShardReader::ReadBlockRanges); the entry of a column that the shard lacks has no present values.
  bool MayMatch(std::span<const BlockRange* const> ranges, uint32_t sample_count) const;

 private:
  explicit Predicate(std::shared_ptr<const predicate::Tree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const predicate::Tree> tree_;
};

// Selection of samples by a condition on their values, by key, by ordinal, by a random share.

// A sample is selected if it satisfies all given criteria. By default all samples are.
struct SampleSelection {
  // A condition, as for Predicate; empty: none.
  std::string where;

  // Samples with one of these keys. Without a key column, keys are the samples' ordinals in twelve digits.
  std::optional<std::vector<std::string>> keys;

  // Samples whose ordinal in the dataset is in one of these ranges: [first, second). Empty: any ordinal.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;

  // The share of all keys that is selected, above 0 and at most 1, in steps of 1e-9. The decision for a sample depends
  // on its key and the seed alone: on the XXH3-64 of the key with the seed (XXH3_64bits_withSeed), as a fraction of
  // 2^64. So it is the same after samples are appended, and a larger share with the same seed contains a smaller one.
  double share = 1;
  uint64_t seed = 0;
};

// Progress counts decided samples.
struct SelectionOptions : JobOptions, InputOptions {
  uint64_t generation = 0;  // as DatasetOptions::generation
};

struct SelectionReport {
  uint64_t samples = 0;         // of the dataset
  uint64_t selected = 0;        // of them
  uint64_t blocks = 0;          // of the dataset
  uint64_t blocks_read = 0;     // for the decision; 0 if only ordinals decide
  uint64_t blocks_skipped = 0;  // because their ranges exclude all of their samples
  uint64_t keys_missing = 0;    // of SampleSelection::keys, without a sample that predicate and ranges leave
};

// Counts the selected samples of the dataset at `path`. Reads only the required columns, and skips blocks whose ranges
// exclude the predicate. InvalidArgument, before any block is read, for an invalid predicate or one that does not fit
// the columns, and for a share out of range.
absl::StatusOr<SelectionReport> CountSamples(ReadableFileSystem& file_system, const std::string& path,
                                             const SampleSelection& selection, const SelectionOptions& options = {});

// The ordinals of the selected samples, ascending. Otherwise as CountSamples.
struct FoundSamples {
  std::vector<uint64_t> ordinals;
  SelectionReport report;
};
absl::StatusOr<FoundSamples> FindSamples(ReadableFileSystem& file_system, const std::string& path,
                                         const SampleSelection& selection, const SelectionOptions& options = {});

// The keys in a file, one per line, in any order. Ignores empty lines; a line may end in CR LF. At most 4 GiB.
absl::StatusOr<std::vector<std::string>> ReadKeys(ReadableFileSystem& file_system, const std::string& path);

}  // namespace shardkit
