// The description of a shard, readable without its samples.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shardkit/schema.h"

namespace shardkit {

// XXH3-128 in canonical byte order, as printed by `xxh128sum`.
using ContentHash = std::array<uint8_t, 16>;

// SHA-256 of a shard's file, as printed by `sha256sum`.
using Sha256 = std::array<uint8_t, 32>;

// Lower-case hexadecimal digits, two for each byte.
std::string ToHex(const ContentHash& hash);
std::string ToHex(const Sha256& hash);

// An entry of the block directory (format-spec/spec.md, section 5).
struct BlockInfo {
  uint64_t offset = 0;        // bytes from the start of the file
  uint64_t length = 0;        // bytes, without the padding up to the alignment
  uint64_t front_length = 0;  // bytes of header and head chunks
  uint64_t first_sample = 0;  // ordinal in the shard
  uint32_t sample_count = 0;
  uint64_t header_checksum = 0;

  bool operator==(const BlockInfo&) const = default;
};

// The representation of a numeric column's minimum and maximum.
enum class RangeKind : uint32_t { kNone = 0, kI64 = 1, kU64 = 2, kF64 = 3 };

// The kind of the ranges of columns of this type; kNone when they have none.
RangeKind RangeKindOf(Type type);

// Statistics of a column of a shard, or merged, of a dataset (format-spec/spec.md, "Statistics").
struct ColumnStatistics {
  uint64_t present_count = 0;
  uint64_t value_bytes = 0;   // sum of the lengths of the present values
  uint64_t stored_bytes = 0;  // of the column's chunks, including offsets and checksums
  uint64_t min_length = 0;    // bytes; 0 when no value is present
  uint64_t max_length = 0;
  RangeKind range_kind = RangeKind::kNone;
  uint64_t minimum = 0;  // bits of an i64, u64 or f64, by range_kind
  uint64_t maximum = 0;
  // Entry k counts present values whose length has k significant bits.
  std::array<uint64_t, 65> length_histogram{};

  // Counts a present value of `column`.
  void Add(const Column& column, const char* value, uint64_t length);
  // Adds the values that `other` has counted.
  void Merge(const ColumnStatistics& other);
  // Upper bound of the length below which `fraction` (0 to 1) of the present values lie, from the histogram: at most
  // twice the true length, and never above max_length.
  uint64_t LengthQuantile(double fraction) const;

  bool operator==(const ColumnStatistics&) const = default;
};

// Which values of a column a block holds (format-spec/spec.md, "Block ranges").
struct BlockRange {
  uint32_t present_count = 0;               // values present in the block
  RangeKind range_kind = RangeKind::kNone;  // kNone when every present value is NaN, or none is present
  uint64_t minimum = 0;                     // bits of an i64, u64 or f64, by range_kind; NaN does not count
  uint64_t maximum = 0;

  bool operator==(const BlockRange&) const = default;
};

// The ranges of all blocks of a shard.
struct BlockRanges {
  std::vector<size_t> columns;     // those whose type has a range: positions in the schema, ascending
  std::vector<BlockRange> ranges;  // for each block, one for each of `columns`

  // Null when the column has no ranges. `block` is below the number of blocks.
  const BlockRange* Find(size_t block, size_t column) const;
};

}  // namespace shardkit
