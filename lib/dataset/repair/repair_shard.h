// Repairing a shard of which a dataset may know more than the shard itself does.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "dataset/repair/repair_header.h"
#include "shardkit/filesystem.h"
#include "shardkit/repair.h"

namespace shardkit {

// As RepairShard. `listing` is what the manifest of the shard's dataset says of it; null when there is none.
// `keys_left` is how many keys the report may name, and is lowered by those it does.
absl::StatusOr<RepairReport> RepairListedShard(FileSystem& file_system, const std::string& path,
                                               const std::string& output, const RepairOptions& options,
                                               const ListedShard* listing, uint64_t* keys_left);

// InvalidArgument, saying what to do instead, for a path that is by its name of another container.
absl::Status RefuseOtherContainers(FileSystem& file_system, const std::string& path, const FileInfo& info);

}  // namespace shardkit
