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
  std::unique_ptr<TimedFileSystem> file_system;  // the readers read through it
  std::vector<std::unique_ptr<DatasetReader>> readers;
  std::vector<std::vector<DatasetBlock>> blocks;  // of each, as in its shape
  std::vector<PlanDataset> shapes;
  std::vector<Column> columns;       // read from all of them, in this order
  std::optional<size_t> key_column;  // index in `columns`

  std::string fallback_reason() const;
};

// The plan's view of a dataset: its blocks without the empty ones. Removes empty blocks from *blocks too, so that the
// plan's block numbers fit it.
PlanDataset ShapeOf(const LoaderDataset& dataset, std::vector<DatasetBlock>* blocks);

// Reads the columns `wanted`; all but the key when it is empty. `keys` adds the key column when all datasets have the
// same one. OutOfRange for a column that is missing, InvalidArgument for one that differs between datasets.
absl::StatusOr<OpenDatasets> OpenAll(ReadableFileSystem& file_system, std::span<const LoaderDataset> datasets,
                                     std::span<const std::string> wanted, bool keys, const ReadOptions& read);

}  // namespace shardkit::loader
