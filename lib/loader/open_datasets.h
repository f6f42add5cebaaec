// The datasets of a loader, opened with the columns it needs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loader/timed_filesystem.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

struct OpenDatasets {
  std::unique_ptr<TimedFileSystem> file_system;  // what the readers read through
  std::vector<std::unique_ptr<DatasetReader>> readers;
  std::vector<std::vector<DatasetBlock>> blocks;  // of each, as in its shape
  std::vector<PlanDataset> shapes;
  std::vector<Column> columns;       // read from all of them, in this order
  std::optional<size_t> key_column;  // of `columns`

  std::string fallback_reason() const;
};

// The plan's view of a dataset: its blocks but the empty ones, whose places in the plan are those in *blocks then.
PlanDataset ShapeOf(const LoaderDataset& dataset, std::vector<DatasetBlock>* blocks);

// `wanted` are the columns, empty for all but the key; `keys` adds the key column where all datasets have one. NotFound
// for a column that is missing, InvalidArgument for one that differs between datasets.
absl::StatusOr<OpenDatasets> OpenAll(FileSystem& file_system, std::span<const LoaderDataset> datasets,
                                     std::span<const std::string> wanted, bool keys, const ReadOptions& read);

}  // namespace shardkit::loader
