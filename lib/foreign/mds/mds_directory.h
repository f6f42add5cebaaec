// The parts of an MDS dataset, for reading its samples and for checking its hashes.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreign/mds/mds_index.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard.h"

namespace shardkit::foreign {

inline constexpr std::string_view kMdsIndexName = "index.json";
inline constexpr uint64_t kMaxMdsIndexBytes = uint64_t{2} << 30;

struct MdsDirectory {
  std::string path;          // of the directory that the names of shards are relative to
  std::string described_by;  // the file that describes the columns, for messages
  MdsIndex index;
};

// Whether it is the name of a shard, plain or compressed.
bool IsMdsShardName(std::string_view name);

// NotFound when there is none.
absl::StatusOr<MdsDirectory> ReadMdsIndex(ReadableFileSystem& file_system, const std::string& index_path);

// Describes a shard without an index by its own header. DataLoss when the header is damaged.
absl::StatusOr<MdsDirectory> ReadMdsShardAlone(ReadableFileSystem& file_system, const std::string& path);

// Joins the folders of `path` that have an index.json, in the byte order of their names. Skips other folders. NotFound
// when there are none; InvalidArgument, naming both, when two differ in their columns; DataLoss when a folder has
// shards and no index.
absl::StatusOr<MdsDirectory> ReadMdsStreams(ReadableFileSystem& file_system, const std::string& path);

// Adds the shards of `part` to *whole, named with `folder` in front. `stream` is what messages call the part; *first,
// empty at the beginning, becomes that of the first part with shards, whose columns all have. InvalidArgument, naming
// both, when two differ.
absl::Status JoinMds(MdsDirectory part, const std::string& stream, const std::string& folder, std::string* first,
                     MdsDirectory* whole);

// Compares the existing files of a shard with the hashes that the index lists for them. Reads each file whole. If only
// the compressed file exists, also decompresses it, within the limits of `options`, and compares the raw hashes. OK
// when there are no hashes. DataLoss for the first difference, NotFound when neither file exists. Sets *unknown to the
// error for the first hash that this build cannot compute.
absl::Status CheckMdsShardHashes(ReadableFileSystem& file_system, const std::string& directory, const MdsShard& shard,
                                 const ReadOptions& options, absl::Status* unknown);

}  // namespace shardkit::foreign
