// Emptying the page cache of files, so that reading them is reading the device.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/shard_reader.h"

namespace shardctl {

// The files of a dataset, or the shard itself. It is opened with these options.
absl::StatusOr<std::vector<std::string>> FilesOfDataset(const std::string& path, const shardkit::ReadOptions& read);

// Drops the files' pages, or, where the system allows no less, all pages of all files. Empty when hardly any page is
// left, else why not.
std::string DropFromPageCache(const std::vector<std::string>& files);

}  // namespace shardctl
