// What is left of a damaged shard's footer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/repair/repair_header.h"
#include "format/footer.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"
#include "shardkit/shard_info.h"

namespace shardkit {

struct FooterFinding {
  std::optional<std::vector<BlockInfo>> directory;  // places as written there: without base or shift
  uint64_t shift = 0;                               // to be added to them, as EndOfShard::shift
  uint32_t alignment = 0;  // that the directory's blocks were laid out by; 0 without a directory
  std::optional<Metadata> metadata;
  std::optional<uint64_t> sample_count;  // of the shard as it was
  std::optional<uint64_t> block_count;
  std::vector<std::string> problems;
  std::vector<std::string> notes;
};

// Reads the sections that the trailer leads to. Damage is left in the finding; an error is one of I/O, or of
// a shard that needs a later version.
absl::StatusOr<FooterFinding> ReadFooter(const RandomAccessFile& file, const HeaderFinding& header,
                                         const EndOfShard& end);

// Without a trailer: looks for a section table in [begin, end) of the file, which proves itself by the
// checksums of the sections that it lists. Empty when there is none.
absl::StatusOr<std::optional<FooterFinding>> SearchFooter(const RandomAccessFile& file, const HeaderFinding& header,
                                                          uint64_t begin, uint64_t end,
                                                          const Cancellation* cancellation);

}  // namespace shardkit
