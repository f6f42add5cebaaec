// The header of a block (format-spec/spec.md, section 3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/constants.h"
#include "shardkit/schema.h"

namespace shardkit::format {

// Lengths and checksums of a column's chunks; offsets are from the start of the block.
struct ColumnEntry {
  uint64_t offset = 0;
  uint64_t stored_length = 0;
  uint64_t raw_length = 0;
  uint64_t checksum = 0;
  uint64_t values_offset = 0;
  uint64_t values_length = 0;
  uint64_t values_checksum = 0;
  Encoding encoding = Encoding::kRaw;
};

struct BlockHeader {
  uint64_t block_length = 0;
  uint64_t front_length = 0;
  uint64_t first_sample = 0;
  uint32_t sample_count = 0;
  uint64_t shard_id = 0;
  std::vector<ColumnEntry> columns;
  uint64_t checksum = 0;
};

constexpr uint64_t BlockHeaderLength(size_t column_count) { return 64 * (uint64_t{column_count} + 1); }

// Sets block_length, front_length and the offsets in `header`, computed from its lengths.
void LayOutBlock(const Schema& schema, BlockHeader& header);

// DataLoss, naming the column, unless offsets and lengths equal what LayOutBlock computes.
absl::Status CheckBlockLayout(const Schema& schema, const BlockHeader& header);

// The bytes of its column entries. Those of a shard's first block are a part of the shard's id (section 1.1).
std::string EncodeColumnEntries(const BlockHeader& header);

// Appends the header's bytes; sets header.checksum.
void EncodeBlockHeader(BlockHeader& header, std::string* out);

// `bytes` begins with the block header and may be longer. Checks the magic, the checksum, the limits, and every rule of
// section 3 that can be checked on the header alone, but not whose block it is. Reuses the memory of *header. DataLoss
// on damage.
absl::Status DecodeBlockHeader(const Schema& schema, std::string_view bytes, BlockHeader* header);

}  // namespace shardkit::format
