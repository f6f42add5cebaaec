// Finds the samples that rows belong to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/read/removed_samples.h"
#include "shardkit/change.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::convert {

using RowValue = std::optional<std::string_view>;

// Rows by stored samples, ascending. One thread at a time.
class PlacedRows {
 public:
  virtual ~PlacedRows() = default;

  // The next stored sample that has a row, and its values in the order of the columns but the key, valid until the next
  // call. False at the end.
  virtual absl::StatusOr<bool> Next(uint64_t* sample, std::span<RowValue> values) = 0;
};

// What the samples are matched with. Borrowed by the rows that are placed.
struct MatchInput {
  FileSystem& file_system;
  const std::string& directory;
  const DatasetReader& stored;  // the dataset as it is stored; its first column is the key where rows have keys
  const dataset::RemovedList& removed;
  ColumnRows& rows;
  const AddColumnsOptions& options;
};

// Sets `rows`, `matched`, `unmatched` and `unmatched_keys` of *report; at the latest when the last row was taken.
absl::StatusOr<std::unique_ptr<PlacedRows>> PlaceByKey(const MatchInput& input, AddColumnsReport* report);
absl::StatusOr<std::unique_ptr<PlacedRows>> PlaceByOrder(const MatchInput& input, AddColumnsReport* report);

}  // namespace shardkit::convert
