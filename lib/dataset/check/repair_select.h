// Decides which found blocks belong to the shard, and what is missing between them. Pure: nothing is read.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataset/check/repair_scan.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {

// A stretch of the shard's samples: a block that was found, or a gap.
struct ShardPiece {
  std::optional<size_t> found;  // position in ScanResult::blocks; empty for a gap
  uint64_t first_sample = 0;
  uint64_t sample_count = 0;
  std::optional<uint64_t> first_block;  // ordinal, when known
  uint64_t block_count = 0;             // 0 when not known
};

struct Selection {
  std::vector<ShardPiece> pieces;  // ascending, from sample 0 on without holes
  uint64_t copies = 0;             // further whole copies of blocks
  uint64_t strangers = 0;          // other whole blocks that were left
};

// For a whole directory: for each entry, takes the found block with its header checksum.
Selection SelectByDirectory(const std::vector<FoundBlock>& found, const std::vector<BlockInfo>& directory);

// What is known of the shard without a directory.
struct ShardBounds {
  std::optional<uint64_t> sample_count;
  std::optional<uint64_t> block_count;
};

// Without a directory: takes whole blocks in the order of their first samples, then of their places, each that begins
// behind the one taken before. Then damaged ones that fit between these.
Selection SelectBySample(const std::vector<FoundBlock>& found, const ShardBounds& bounds);

}  // namespace shardkit::dataset
