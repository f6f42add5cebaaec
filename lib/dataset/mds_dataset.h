// The parts of a dataset of MDS that reading its samples and checking its hashes have in common.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/mds_index.h"
#include "shardkit/filesystem.h"

namespace shardkit {

struct MdsDirectory {
  std::string path;  // of the directory that the shards' names start from
  format::MdsIndex index;
};

// `path` is the directory or its index.json. NotFound when there is none.
absl::StatusOr<MdsDirectory> ReadMdsIndex(FileSystem& file_system, const std::string& path);

// Compares the files of a shard that are there with the hashes that the index lists for them, reading them whole, and a compressed
// one without its raw twin with the raw hashes after decompressing, within `max_memory` bytes. OK when there are no hashes.
// DataLoss for the first difference, NotFound when neither file is there. The first hash that this build does not know is noted
// in *unknown.
absl::Status CheckMdsShardHashes(FileSystem& file_system, const std::string& directory, const format::MdsShard& shard,
                                 uint64_t max_memory, absl::Status* unknown);

}  // namespace shardkit
