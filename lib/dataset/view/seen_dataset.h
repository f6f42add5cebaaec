// Which columns a dataset shows. DatasetReader::Open, beside them, shows it with the columns of its layers, and without
// removed samples.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/view/stored_dataset.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {

// The columns of `schema` that the options ask for. OutOfRange for a name that it has not.
absl::StatusOr<std::vector<Column>> ChosenColumns(const Schema& schema, const DatasetOptions& options,
                                                  const std::string& path);

// The stored columns from which some samples of `seen`, columns of the summary's view, take their values.
std::vector<Column> StoredColumns(const ManifestSummary& summary, const std::vector<Column>& seen);

}  // namespace shardkit::dataset
