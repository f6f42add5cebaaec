// Looking for blocks in a damaged shard.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/repair/repair_header.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard_info.h"

namespace shardkit {

// A block whose header is right.
struct FoundBlock {
  BlockInfo info;         // offset: where it was found
  uint64_t previous = 0;  // checksum field of the header before it, as it says
  bool whole = false;     // the checksums of all chunks hold
  std::vector<size_t> damaged_columns;
  bool cut_short = false;  // the file ends within it: which columns are damaged was not looked at
  bool nested = false;     // within the bytes that a damaged block before it, which is whole nowhere, claims
  bool foreign = false;    // the first block of another shard, whose header stands before it
};

struct ScanResult {
  std::vector<FoundBlock> blocks;  // ascending by offset; none within a whole one
  bool gave_up = false;            // so much of the file only pretends to be blocks that not everything was looked at
};

// Looks at every multiple of the alignment behind the header (of 64 when the alignment is not known), and at
// `more_places`, ascending offsets in the file. `progress` is told the bytes passed; it may be null.
absl::StatusOr<ScanResult> ScanForBlocks(const RandomAccessFile& file, const HeaderFinding& header,
                                         const std::vector<uint64_t>& more_places, const Cancellation* cancellation,
                                         const std::function<void(uint64_t)>& progress);

}  // namespace shardkit
