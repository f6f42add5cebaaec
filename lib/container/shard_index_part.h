// What the offset index needs to know of a shard.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/shard_info.h"

namespace shardkit {

struct ShardIndexPart {
  std::vector<BlockInfo> blocks;
  // For each block, for each blob column of the shard, its ends as offsets in the file: sample_count u64 each.
  std::vector<uint64_t> ends;
};

class NativeShardReader;

// The same from a finished shard: reads the front of every block.
absl::StatusOr<ShardIndexPart> ReadShardIndexPart(const NativeShardReader& shard);

}  // namespace shardkit
