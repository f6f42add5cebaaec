// What is left of a damaged shard's footer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/check/repair_header.h"
#include "format/footer.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {

// A block headers section as it was read.
struct HeaderCopies {
  uint64_t begin = 0;  // where it lies in the file
  std::string bytes;
};

struct FooterFinding {
  std::optional<std::vector<BlockInfo>> directory;  // with offsets as stored, without base and shift
  uint64_t shift = 0;                               // to be added to these offsets, as EndOfShard::shift
  uint32_t alignment = 0;                           // of the directory's blocks; 0 without a directory
  // The copies of all block headers, some of them perhaps damaged. Where bytes were inserted or removed within them,
  // they are read from two places, and what follows that place is right in one of them. May be empty.
  std::vector<HeaderCopies> block_headers;
  std::optional<Metadata> metadata;
  std::optional<uint64_t> sample_count;  // of the undamaged shard
  std::optional<uint64_t> block_count;
  bool foreign = false;  // its copy of a header is another shard's
  std::vector<std::string> problems;
  std::vector<std::string> notes;
};

// Reads the sections that the trailer points to. Damage is recorded in the result. An error is returned only for I/O,
// or when the shard needs a later version.
absl::StatusOr<FooterFinding> ReadFooter(const RandomAccessFile& file, const HeaderFinding& header,
                                         const EndOfShard& end);

// For a shard without a trailer: looks for the last section table in [begin, end) of the file. A table counts only when
// the block directory or the metadata that it lists are whole, and it is not another shard's. Empty when there is none.
absl::StatusOr<std::optional<FooterFinding>> SearchFooter(const RandomAccessFile& file, const HeaderFinding& header,
                                                          uint64_t begin, uint64_t end,
                                                          const Cancellation* cancellation);

}  // namespace shardkit::dataset
