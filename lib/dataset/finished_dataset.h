// What a resumed job needs to know of a dataset that an earlier run has completed.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit {

// The manifest of a dataset of any container.
absl::StatusOr<Manifest> ReadFinishedDataset(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit
