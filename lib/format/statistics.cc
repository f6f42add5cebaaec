// Minimum, maximum and lengths of columns, of a shard and block by block.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "base/endian.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "format/footer.h"
#include "shardkit/shard.h"

namespace shardkit {
namespace {

double HalfToDouble(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  double magnitude;
  if (exponent == 0) {
    magnitude = std::ldexp(mantissa, -24);
  } else if (exponent == 31) {
    magnitude = mantissa == 0 ? HUGE_VAL : NAN;
  } else {
    magnitude = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// OCP FP8 E4M3: no infinities; all bits of exponent and mantissa set are NaN.
double E4m3ToDouble(uint8_t bits) {
  const int exponent = (bits >> 3) & 0xf;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return NAN;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace

bool format::Widen(Type type, const char* value, RangeKind* kind, uint64_t* bits) {
  const auto as_signed = [&](int64_t number) {
    *kind = RangeKind::kI64;
    *bits = static_cast<uint64_t>(number);
    return true;
  };
  const auto as_unsigned = [&](uint64_t number) {
    *kind = RangeKind::kU64;
    *bits = number;
    return true;
  };
  const auto as_float = [&](double number) {
    *kind = RangeKind::kF64;
    *bits = std::bit_cast<uint64_t>(number);
    return !std::isnan(number);
  };
  switch (type) {
    case Type::kI8:
      return as_signed(LoadLittle<int8_t>(value));
    case Type::kI16:
      return as_signed(LoadLittle<int16_t>(value));
    case Type::kI32:
      return as_signed(LoadLittle<int32_t>(value));
    case Type::kI64:
    case Type::kTimestampS:
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return as_signed(LoadLittle<int64_t>(value));
    case Type::kU8:
    case Type::kBool:
      return as_unsigned(LoadLittle<uint8_t>(value));
    case Type::kU16:
      return as_unsigned(LoadLittle<uint16_t>(value));
    case Type::kU32:
      return as_unsigned(LoadLittle<uint32_t>(value));
    case Type::kU64:
      return as_unsigned(LoadLittle<uint64_t>(value));
    case Type::kF8E4M3:
      return as_float(E4m3ToDouble(LoadLittle<uint8_t>(value)));
    case Type::kF8E5M2:  // the upper half of an f16
      return as_float(HalfToDouble(static_cast<uint16_t>(LoadLittle<uint8_t>(value) << 8)));
    case Type::kF16:
      return as_float(HalfToDouble(LoadLittle<uint16_t>(value)));
    case Type::kBf16:
      return as_float(std::bit_cast<float>(uint32_t{LoadLittle<uint16_t>(value)} << 16));
    case Type::kF32:
      return as_float(LoadLittle<float>(value));
    case Type::kF64:
      return as_float(LoadLittle<double>(value));
    default:
      return false;
  }
}

namespace {

bool Less(RangeKind kind, uint64_t a, uint64_t b) {
  switch (kind) {
    case RangeKind::kI64:
      return static_cast<int64_t>(a) < static_cast<int64_t>(b);
    case RangeKind::kF64: {
      // +0 and -0 compare equal. Their sign decides, so that the result does not depend on the order of the values.
      const double left = std::bit_cast<double>(a), right = std::bit_cast<double>(b);
      if (left == right) return std::signbit(left) && !std::signbit(right);
      return left < right;
    }
    default:
      return a < b;
  }
}

}  // namespace

// The type of a value decides, not the value, except that NaN has no range. Zero is never NaN.
RangeKind RangeKindOf(Type type) {
  const char zero[16] = {};
  RangeKind kind = RangeKind::kNone;
  uint64_t bits = 0;
  format::Widen(type, zero, &kind, &bits);
  return kind;
}

std::string ToHex(const ContentHash& hash) { return internal::ToHexDigits(hash.data(), hash.size()); }

std::string ToHex(const Sha256& hash) { return internal::ToHexDigits(hash.data(), hash.size()); }

void ColumnStatistics::Add(const Column& column, const char* value, uint64_t length) {
  min_length = present_count == 0 ? length : std::min(min_length, length);
  max_length = std::max(max_length, length);
  ++present_count;
  value_bytes += length;
  ++length_histogram[static_cast<size_t>(std::bit_width(length))];
  if (ScalarSize(column.type) == 0) return;
  RangeKind kind = RangeKind::kNone;
  uint64_t bits = 0;
  if (!format::Widen(column.type, value, &kind, &bits)) return;
  if (range_kind == RangeKind::kNone || Less(kind, bits, minimum)) minimum = bits;
  if (range_kind == RangeKind::kNone || Less(kind, maximum, bits)) maximum = bits;
  range_kind = kind;
}

void ColumnStatistics::Merge(const ColumnStatistics& other) {
  if (other.present_count != 0) {
    min_length = present_count == 0 ? other.min_length : std::min(min_length, other.min_length);
    max_length = std::max(max_length, other.max_length);
  }
  present_count += other.present_count;
  value_bytes += other.value_bytes;
  stored_bytes += other.stored_bytes;
  for (size_t i = 0; i < length_histogram.size(); ++i) length_histogram[i] += other.length_histogram[i];
  if (other.range_kind == RangeKind::kNone) return;
  if (range_kind == RangeKind::kNone || Less(other.range_kind, other.minimum, minimum)) minimum = other.minimum;
  if (range_kind == RangeKind::kNone || Less(other.range_kind, maximum, other.maximum)) maximum = other.maximum;
  range_kind = other.range_kind;
}

uint64_t ColumnStatistics::LengthQuantile(double fraction) const {
  const double wanted = fraction * static_cast<double>(present_count);
  uint64_t seen = 0;
  for (size_t k = 0; k < length_histogram.size(); ++k) {
    seen += length_histogram[k];
    if (seen > 0 && static_cast<double>(seen) >= wanted) {
      const uint64_t upper = k == 0 ? 0 : k == 64 ? UINT64_MAX : (uint64_t{1} << k) - 1;
      return std::clamp(upper, min_length, max_length);
    }
  }
  return max_length;
}

const BlockRange* BlockRanges::Find(size_t block, size_t column) const {
  const auto place = std::ranges::lower_bound(columns, column);
  if (place == columns.end() || *place != column) return nullptr;
  return &ranges[block * columns.size() + static_cast<size_t>(place - columns.begin())];
}

namespace format {
namespace {

constexpr size_t kFixedBytes = 64;  // of a column, before its histogram

// The entries of the histogram that are stored: those from the shortest value's to the longest value's. `Statistics` is
// ColumnStatistics, const or not.
template <typename Statistics>
auto StoredEntries(Statistics& column) {
  const std::span entries(column.length_histogram);
  if (column.present_count == 0) return entries.subspan(0, 0);
  const auto first = static_cast<size_t>(std::bit_width(column.min_length));
  const auto last = static_cast<size_t>(std::bit_width(column.max_length));
  return entries.subspan(first, last - first + 1);
}

}  // namespace

std::string EncodeStatistics(std::span<const ColumnStatistics> statistics) {
  std::string out;
  for (const ColumnStatistics& column : statistics) {
    AppendLittle(out, column.present_count);
    AppendLittle(out, column.value_bytes);
    AppendLittle(out, column.stored_bytes);
    AppendLittle(out, column.min_length);
    AppendLittle(out, column.max_length);
    AppendLittle(out, static_cast<uint64_t>(column.range_kind));
    AppendLittle(out, column.minimum);
    AppendLittle(out, column.maximum);
    for (const uint64_t count : StoredEntries(column)) AppendLittle(out, count);
  }
  return out;
}

absl::StatusOr<std::vector<ColumnStatistics>> DecodeStatistics(const Schema& schema, std::string_view bytes) {
  const auto wrong_length = [&] {
    return DataLoss("statistics: their length does not fit the schema's ", schema.size(), " columns");
  };
  std::vector<ColumnStatistics> statistics(schema.size());
  for (size_t i = 0; i < schema.size(); ++i) {
    if (bytes.size() < kFixedBytes) return wrong_length();
    const char* const p = bytes.data();
    ColumnStatistics& column = statistics[i];
    column.present_count = LoadLittle<uint64_t>(p);
    column.value_bytes = LoadLittle<uint64_t>(p + 8);
    column.stored_bytes = LoadLittle<uint64_t>(p + 16);
    column.min_length = LoadLittle<uint64_t>(p + 24);
    column.max_length = LoadLittle<uint64_t>(p + 32);
    const uint64_t kind = LoadLittle<uint64_t>(p + 40);
    const bool known = schema[i].has_known_type() && IsKnownCodec(schema[i].codec);
    if (known && kind > 3) return DataLoss("statistics: column ", i, ": unknown range kind or reserved bytes not zero");
    column.range_kind = kind <= 3 ? static_cast<RangeKind>(kind) : RangeKind::kNone;
    column.minimum = LoadLittle<uint64_t>(p + 48);
    column.maximum = LoadLittle<uint64_t>(p + 56);
    bytes.remove_prefix(kFixedBytes);
    if (column.min_length > column.max_length || (column.present_count == 0 && column.max_length != 0)) {
      return DataLoss("statistics: column ", i, ": min_length ", column.min_length, " and max_length ",
                      column.max_length, " do not fit present_count ", column.present_count);
    }
    const std::span histogram = StoredEntries(column);
    if (bytes.size() < 8 * histogram.size()) return wrong_length();
    bool sums_up = true;
    uint64_t uncounted = column.present_count;
    for (size_t k = 0; k < histogram.size(); ++k) {
      histogram[k] = LoadLittle<uint64_t>(bytes.data() + 8 * k);
      sums_up = sums_up && histogram[k] <= uncounted;
      uncounted -= histogram[k];
    }
    if (!sums_up || uncounted != 0) {
      return DataLoss("statistics: column ", i, ": length_histogram does not count the present_count of ",
                      column.present_count, " values");
    }
    if (!histogram.empty() && (histogram.front() == 0 || histogram.back() == 0)) {
      return DataLoss("statistics: column ", i, ": length_histogram has no value as short as min_length or none as ",
                      "long as max_length");
    }
    bytes.remove_prefix(8 * histogram.size());
  }
  if (!bytes.empty()) return wrong_length();
  return statistics;
}

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
