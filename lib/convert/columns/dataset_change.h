// How a change of columns begins.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "dataset/dataset_update.h"

namespace shardkit {

// DatasetUpdate::Begin; InvalidArgument for what is a dataset, but none whose columns can be changed.
absl::StatusOr<std::unique_ptr<DatasetUpdate>> BeginChange(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit
