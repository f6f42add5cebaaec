// Minimum and maximum of numeric columns, block by block.

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/endian.h"
#include "base/errors.h"
#include "format/footer.h"

namespace shardkit {

const BlockRange* BlockRanges::Find(size_t block, size_t column) const {
  const auto place = std::ranges::lower_bound(columns, column);
  if (place == columns.end() || *place != column) return nullptr;
  return &ranges[block * columns.size() + static_cast<size_t>(place - columns.begin())];
}

namespace format {
namespace {

constexpr uint64_t kRangeBytes = 24;
constexpr uint32_t kHasRangeFlag = 1;

std::vector<size_t> RangedColumns(const Schema& schema) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (RangeKindOf(schema[i].type) != RangeKind::kNone) columns.push_back(i);
  }
  return columns;
}

ColumnStatistics AsStatistics(const BlockRange& range) {
  ColumnStatistics statistics;
  statistics.present_count = range.present_count;
  statistics.range_kind = range.range_kind;
  statistics.minimum = range.minimum;
  statistics.maximum = range.maximum;
  return statistics;
}

bool Ordered(const BlockRange& range) {
  if (range.range_kind == RangeKind::kF64 && std::isnan(std::bit_cast<double>(range.maximum))) return false;
  // The smaller of the two must be the minimum.
  ColumnStatistics merged = AsStatistics(range);
  merged.minimum = range.maximum;
  merged.Merge(AsStatistics(range));
  return merged.minimum == range.minimum;
}

}  // namespace

bool TypesAreKnown(const Schema& schema) {
  return std::ranges::all_of(schema.columns(), [](const Column& column) { return IsKnownType(column.type); });
}

bool RangesCanBeFound(const Schema& schema) {
  return TypesAreKnown(schema) &&
         std::ranges::all_of(schema.columns(), [](const Column& column) { return IsKnownCodec(column.codec); });
}

void AppendBlockRanges(const Schema& schema, std::span<const ColumnStatistics> statistics, std::string* out) {
  for (const size_t i : RangedColumns(schema)) {
    const ColumnStatistics& column = statistics[i];
    AppendLittle(*out, static_cast<uint32_t>(column.present_count));
    AppendLittle(*out, column.range_kind == RangeKind::kNone ? 0 : kHasRangeFlag);
    AppendLittle(*out, column.minimum);
    AppendLittle(*out, column.maximum);
  }
}

absl::StatusOr<BlockRanges> DecodeBlockRanges(const Schema& schema, std::span<const BlockInfo> blocks,
                                              std::string_view bytes) {
  BlockRanges decoded;
  decoded.columns = RangedColumns(schema);
  if (bytes.size() != kRangeBytes * decoded.columns.size() * blocks.size()) {
    return DataLoss("block ranges: their length does not fit ", blocks.size(), " blocks of ", decoded.columns.size(),
                    " numeric columns");
  }
  decoded.ranges.reserve(bytes.size() / kRangeBytes);
  const char* p = bytes.data();
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (const size_t column : decoded.columns) {
      BlockRange range;
      range.present_count = LoadLittle<uint32_t>(p);
      const uint32_t flags = LoadLittle<uint32_t>(p + 4);
      range.minimum = LoadLittle<uint64_t>(p + 8);
      range.maximum = LoadLittle<uint64_t>(p + 16);
      p += kRangeBytes;
      const auto damaged = [&](std::string_view what) {
        return DataLoss("block ranges: block ", block, ": column ", column, " \"", schema[column].name, "\": ", what);
      };
      if ((flags & ~kHasRangeFlag) != 0) return damaged("reserved flag bits are set");
      if (flags == 0 && (range.minimum != 0 || range.maximum != 0)) return damaged("a range where its flag says none");
      if (range.present_count > blocks[block].sample_count || (flags != 0 && range.present_count == 0)) {
        return damaged("present_count does not fit the block");
      }
      if (flags != 0) range.range_kind = RangeKindOf(schema[column].type);
      if (flags != 0 && !Ordered(range)) return damaged("the minimum is above the maximum, or not a number");
      decoded.ranges.push_back(range);
    }
  }
  return decoded;
}

absl::Status CompareBlockRanges(const Schema& schema, const BlockRanges& ranges,
                                std::span<const ColumnStatistics> statistics) {
  for (size_t c = 0; c < ranges.columns.size(); ++c) {
    ColumnStatistics merged;
    for (size_t i = c; i < ranges.ranges.size(); i += ranges.columns.size()) {
      merged.Merge(AsStatistics(ranges.ranges[i]));
    }
    const ColumnStatistics& shard = statistics[ranges.columns[c]];
    if (merged.present_count != shard.present_count || merged.range_kind != shard.range_kind ||
        merged.minimum != shard.minimum || merged.maximum != shard.maximum) {
      return DataLoss("block ranges: column ", ranges.columns[c], " \"", schema[ranges.columns[c]].name,
                      "\": the ranges of all blocks are not together what the statistics say");
    }
  }
  return absl::OkStatus();
}

}  // namespace format
}  // namespace shardkit
