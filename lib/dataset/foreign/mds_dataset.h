// The parts of a dataset of MDS that reading its samples and checking its hashes have in common.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/foreign/mds_index.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

inline constexpr std::string_view kMdsIndexName = "index.json";

struct MdsDirectory {
  std::string path;          // of the directory that the shards' names start from
  std::string described_by;  // what says of the columns, for messages
  format::MdsIndex index;
};

// Of a shard, or of a compressed one.
bool IsMdsShardName(std::string_view name);

// NotFound when there is none.
absl::StatusOr<MdsDirectory> ReadMdsIndex(FileSystem& file_system, const std::string& index_path);

// A shard without an index, by what stands at its beginning. DataLoss when it is damaged there.
absl::StatusOr<MdsDirectory> ReadMdsShardAlone(FileSystem& file_system, const std::string& path);

// The folders of `path` that have an index.json, in the byte order of their names; others are passed over. NotFound
// when there are none; InvalidArgument, naming both, when two differ in their columns; DataLoss when a folder has
// shards and no index.
absl::StatusOr<MdsDirectory> ReadMdsStreams(FileSystem& file_system, const std::string& path);

// Compares the files of a shard that are there with the hashes that the index lists for them, reading them whole, and a
// compressed one without its raw twin with the raw hashes after decompressing, within the limits of `options`. OK when
// there are no hashes. DataLoss for the first difference, NotFound when neither file is there. The first hash that this
// build does not know is noted in *unknown.
absl::Status CheckMdsShardHashes(FileSystem& file_system, const std::string& directory, const format::MdsShard& shard,
                                 const ReadOptions& options, absl::Status* unknown);

}  // namespace shardkit
