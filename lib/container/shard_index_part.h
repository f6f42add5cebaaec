// What offset index and key table of a dataset need to know about a shard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/table_place.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit {
class BlockBuffer;
}

namespace shardkit::container {

struct ShardIndexPart {
  uint32_t incompatible_flags = 0;  // of the header
  std::vector<BlockInfo> blocks;
  // For each block, for each blob column of the shard, its ends as offsets in the file: sample_count u64 each.
  std::vector<uint64_t> ends;
  // Where the shard's key table lies, if it has keys.
  std::optional<TablePlace> keys;
};

class NativeShardReader;

// Appends the ends of block `index`, as in ShardIndexPart::ends. `buffer` must hold the heads of the block.
void AppendBlockEnds(const NativeShardReader& shard, size_t index, BlockBuffer& buffer, std::vector<uint64_t>* ends);

// Makes the part for a finished shard. Reads the front of every block.
absl::StatusOr<ShardIndexPart> ReadShardIndexPart(const NativeShardReader& shard);
// What a shard is known to be.
struct ExpectedShard {
  ContentHash content_hash;
  uint64_t bytes = 0;
};

// The same for the shard at `path`. *schema gets the columns of the shard. DataLoss when it is not the one that was
// `expected`.
absl::StatusOr<ShardIndexPart> ReadShardIndexPart(ReadableFileSystem& file_system, const std::string& path,
                                                  Schema* schema, std::optional<ExpectedShard> expected = {});

}  // namespace shardkit::container
