// Pages and root of the offset index (format-spec/spec.md, section 9.2): a table of checked pages for the shards of one
// segment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::format {

inline constexpr uint64_t kIndexPageHeadBytes = 8;
inline constexpr uint64_t kIndexBlockBytes = 64;
inline constexpr uint32_t kMaxIndexColumns = 4096;  // a schema has no more

struct IndexBlock {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t front_length = 0;
  uint64_t first_sample = 0;  // in the segment
  uint32_t sample_count = 0;
  uint32_t shard = 0;  // in the segment
  uint64_t header_checksum = 0;
  uint32_t incompatible_flags = 0;  // of the shard's header
  uint32_t layout = 0;              // which of the root's lists has the shard's blob columns
  uint64_t ends_begin = 0;          // offset in the page; 0 without blob columns

  bool operator==(const IndexBlock&) const = default;
};

// What the root holds besides the fences.
struct IndexRoot {
  uint64_t shard_count = 0;
  uint64_t block_count = 0;
  uint64_t sample_count = 0;
  uint64_t dataset_hash = 0;         // of the segment's shards
  std::vector<std::string> columns;  // names of blob columns
  // The distinct lists of a shard's blob columns, one after another: positions in `columns`. List i begins at
  // layout_begins[i].
  std::vector<uint32_t> layout_columns;
  std::vector<uint32_t> layout_begins = {0};

  size_t layout_count() const { return layout_begins.size() - 1; }
  std::span<const uint32_t> layout(size_t i) const {
    return std::span(layout_columns).subspan(layout_begins[i], layout_begins[i + 1] - layout_begins[i]);
  }
};

std::string EncodeIndexRoot(const IndexRoot& root);
// DataLoss unless the payload is one as writers make it. Does not say whether each list and column is used.
absl::StatusOr<IndexRoot> DecodeIndexRoot(std::string_view payload);

// A page while it is filled.
class IndexPageBuilder {
 public:
  bool empty() const { return blocks_.empty(); }
  // Bytes that the page has, with one more block of so many ends.
  uint64_t SizeWith(uint64_t end_count) const { return Size(blocks_.size() + 1, ends_.size() + end_count); }
  // Sets block.ends_begin.
  void Add(const IndexBlock& block, std::span<const uint64_t> ends);
  uint64_t first_sample() const { return blocks_.front().first_sample; }
  // Empties the builder.
  std::string Take();

 private:
  static uint64_t Size(uint64_t blocks, uint64_t ends) {
    return kIndexPageHeadBytes + kIndexBlockBytes * blocks + 8 * ends;
  }
  std::vector<IndexBlock> blocks_;  // ends_begin counts from the first of ends_
  std::vector<uint64_t> ends_;
};

// Number of blocks in a page, at least 1. DataLoss when their entries do not fit in it.
absl::StatusOr<uint32_t> DecodeIndexPageHead(std::string_view page);
// `i` is below DecodeIndexPageHead.
IndexBlock LoadIndexBlock(std::string_view page, uint32_t i);

// Where the first record of a blob column begins: see the end of section 9.2. `last_ends` has the last end of each blob
// column of the block. `column` is a position in `last_ends`.
uint64_t FirstRecordOffset(uint64_t front_end, std::span<const uint64_t> last_ends, size_t column);

}  // namespace shardkit::format
