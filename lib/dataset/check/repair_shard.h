// Repairing a shard, with what the manifest of its dataset says about it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "dataset/check/repair_header.h"
#include "shardkit/filesystem.h"
#include "shardkit/repair.h"

namespace shardkit::dataset {

// Like RepairShard. `listing` is what the manifest of the shard's dataset says about the shard; null when there is
// none. `keys_left` is how many keys the report may still name, and is lowered by the keys that it names.
absl::StatusOr<RepairReport> RepairListedShard(FileSystem& file_system, const std::string& path,
                                               const std::string& output, const RepairOptions& options,
                                               const ListedShard* listing, uint64_t* keys_left);

// InvalidArgument, saying what to do instead, when names show that the path belongs to another container.
absl::Status RefuseOtherContainers(FileSystem& file_system, const std::string& path, const FileInfo& info);

}  // namespace shardkit::dataset
