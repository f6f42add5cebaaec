// The offset index, dataset.idx (format-spec/spec.md, section 9.2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::format {

inline constexpr uint64_t kIndexHeaderBytes = 192;
inline constexpr uint64_t kIndexEntryBytes = 64;  // of a block and of a shard
inline constexpr uint64_t kIndexPageBytes = 65536;

struct IndexHeader {
  uint32_t blob_column_count = 0;
  uint64_t shard_count = 0;
  uint64_t block_count = 0;
  uint64_t sample_count = 0;
  uint64_t names_length = 0;
  uint64_t dataset_hash = 0;
  uint64_t pages_checksum = 0;

  // Computed from the counts. Valid only for counts that passed DecodeIndexHeader or that a writer counted: other
  // counts could overflow.
  uint64_t ends_offset() const { return kIndexHeaderBytes; }
  uint64_t blocks_offset() const { return ends_offset() + 8 * sample_count * blob_column_count; }
  uint64_t shards_offset() const { return blocks_offset() + kIndexEntryBytes * block_count; }
  uint64_t names_offset() const { return shards_offset() + kIndexEntryBytes * shard_count; }
  uint64_t pages_offset() const { return (names_offset() + names_length + 7) & ~uint64_t{7}; }
  uint64_t page_count() const { return (pages_offset() - kIndexHeaderBytes + kIndexPageBytes - 1) / kIndexPageBytes; }
  uint64_t file_length() const { return pages_offset() + 8 * page_count(); }
};

struct IndexBlock {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t front_length = 0;
  uint64_t first_sample = 0;  // in the dataset
  uint32_t sample_count = 0;
  uint32_t shard = 0;
  uint64_t header_checksum = 0;
  uint64_t ends_begin = 0;

  bool operator==(const IndexBlock&) const = default;
};

struct IndexShard {
  uint64_t first_sample = 0;  // in the dataset
  uint64_t sample_count = 0;
  uint64_t first_block = 0;
  uint64_t block_count = 0;
  uint64_t file_length = 0;
  uint64_t name_offset = 0;
  uint32_t name_length = 0;

  bool operator==(const IndexShard&) const = default;
};

std::string EncodeIndexHeader(const IndexHeader& header);
// `bytes` is the first kIndexHeaderBytes. Checks everything that the header and the file's length alone can show.
absl::StatusOr<IndexHeader> DecodeIndexHeader(std::string_view bytes, uint64_t file_length);

void AppendIndexBlock(const IndexBlock& block, std::string* out);
void AppendIndexShard(const IndexShard& shard, std::string* out);
// `from` has kIndexEntryBytes.
IndexBlock LoadIndexBlock(const char* from);
IndexShard LoadIndexShard(const char* from);

// Where the first record of a blob column begins: see the end of section 9.2. `last_ends` has the last end of each blob
// column of the block. `column` is a position in `last_ends`.
uint64_t FirstRecordOffset(uint64_t front_end, std::span<const uint64_t> last_ends, size_t column);

}  // namespace shardkit::format
