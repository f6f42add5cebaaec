// One index for MDS datasets that lie in folders of a directory.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit {

// Whether all parts are MDS datasets, with index.json and without a manifest of ours. InvalidArgument when
// some are and some are not.
absl::StatusOr<bool> AreMdsParts(FileSystem& file_system, const std::vector<std::string>& parts);

// Writes index.json of `output`, below which the parts lie: the shards of all parts in order, under their
// paths from there. Nothing else is written, and the file is there whole or not at all. Of parts that lie in
// `output` itself it has the bytes that streaming.base.util.merge_index writes. InvalidArgument for parts
// that lie elsewhere, that are given twice or differ in their columns, that
// CheckPartitions refuses, of which two have shards of equal hashes, and where `output` has shards of its
// own; NotFound or DataLoss when a shard is missing or has another length. The manifest returned has no
// schema where the columns cannot be read.
absl::StatusOr<Manifest> MergeMdsIndexes(FileSystem& file_system, const std::vector<std::string>& parts,
                                         const std::string& output);

}  // namespace shardkit
