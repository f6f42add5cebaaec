// Removing files from the page cache, so that later reads come from the storage device.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/shard.h"

namespace shardctl {

// The files of a dataset, or the shard itself. `read` is used to open the dataset, in `generation`.
absl::StatusOr<std::vector<std::string>> FilesOfDataset(const std::string& path, const shardkit::ReadOptions& read,
                                                        uint64_t generation);

// Drops the files' pages. When that is not enough, drops all pages of all files, if the system allows it. Empty when
// hardly any page of the files is left, otherwise the reason.
std::string DropFromPageCache(const std::vector<std::string>& files);

}  // namespace shardctl
