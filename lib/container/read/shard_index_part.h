// What offset index and key table of a dataset need to know about a shard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/paged_table.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit {
class BlockBuffer;
}

namespace shardkit::container {

struct ShardIndexPart {
  std::vector<BlockInfo> blocks;
  // For each block, for each of the shard's indexed columns, as offsets in the file: where the record of the first
  // sample begins, then where that of each ends: sample_count + 1 numbers.
  std::vector<uint64_t> places;
  // Where the shard's key table lies, if it has keys.
  std::optional<format::TablePlace> keys;
};

class NativeShardReader;

// The columns whose records an offset index finds: those of storage blob and codec none, ascending.
std::vector<size_t> IndexedColumns(const Schema& schema);

// Appends the places of block `index`, as in ShardIndexPart::places. `buffer` must hold the heads of the block.
void AppendPlaces(const NativeShardReader& shard, size_t index, BlockBuffer& buffer, std::vector<uint64_t>* places);

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
