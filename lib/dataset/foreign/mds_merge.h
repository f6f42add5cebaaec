// One index for MDS datasets that lie in folders of a directory.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Whether all parts are MDS datasets, with index.json and without a manifest of ours. InvalidArgument when
// some are and some are not.
absl::StatusOr<bool> AreMdsParts(FileSystem& file_system, const std::vector<std::string>& parts);

// Writes index.json of `output`: the shards of all parts in order, with their paths relative to `output`. Writes
// nothing else, and writes the file atomically. For parts directly in `output`, its bytes are those that
// streaming.base.util.merge_index writes. InvalidArgument when a part does not lie below `output`, when parts are given
// twice, differ in their columns or have shards of equal hashes, or when `output` has shards of its own. NotFound when
// a shard is missing, DataLoss when it has another length. The returned manifest has no schema when the columns cannot
// be read.
absl::StatusOr<Manifest> MergeMdsIndexes(FileSystem& file_system, const std::vector<std::string>& parts,
                                         const std::string& output);

}  // namespace shardkit::dataset
