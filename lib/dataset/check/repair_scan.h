// Looking for blocks in a damaged shard.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/check/repair_header.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {

// A block with a right header and the shard's id.
struct FoundBlock {
  BlockInfo info;      // offset: where it was found
  bool whole = false;  // the checksums of all chunks hold
  std::vector<size_t> damaged_columns;
  bool cut_short = false;  // the file ends within it; its columns were not checked
};

struct ScanResult {
  std::vector<FoundBlock> blocks;  // ascending by offset; none within a whole one
  bool gave_up = false;            // too many bytes only looked like blocks: not all of the file was checked
};

// Looks for blocks at every multiple of 64 from the shard's begin on, and at `more_places`, ascending offsets in the
// file. `progress` gets the number of bytes passed; it may be
// null.
absl::StatusOr<ScanResult> ScanForBlocks(const RandomAccessFile& file, const HeaderFinding& header,
                                         const std::vector<uint64_t>& more_places, const Cancellation* cancellation,
                                         const std::function<void(uint64_t)>& progress);

}  // namespace shardkit::dataset
