// What the offset index needs to know of a shard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard_info.h"

namespace shardkit {

struct ShardIndexPart {
  std::vector<BlockInfo> blocks;
  // For each block, for each blob column of the shard, its ends as offsets in the file: sample_count u64 each.
  std::vector<uint64_t> ends;
};

class BlockBuffer;
class NativeShardReader;

// Appends what ShardIndexPart::ends says of block `index`, whose heads `buffer` holds.
void AppendBlockEnds(const NativeShardReader& shard, size_t index, BlockBuffer& buffer, std::vector<uint64_t>* ends);

// The same from a finished shard: reads the front of every block.
absl::StatusOr<ShardIndexPart> ReadShardIndexPart(const NativeShardReader& shard);
// And of the shard at `path`, whose columns are left in *schema.
absl::StatusOr<ShardIndexPart> ReadShardIndexPart(FileSystem& file_system, const std::string& path, Schema* schema);

}  // namespace shardkit
