#include "foreign/mds/mds_encoding.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {
namespace {

struct NamedEncoding {
  std::string_view name;
  Type type;
};

// Scalars have a fixed size, all others do not. Values for which we have no type are read as `bytes`, exactly as
// stored.
constexpr std::array<NamedEncoding, 28> kEntries{{
    {"bytes", Type::kBytes},      {"str", Type::kUtf8},         {"int", Type::kI64},
    {"uint8", Type::kU8},         {"uint16", Type::kU16},       {"uint32", Type::kU32},
    {"uint64", Type::kU64},       {"int8", Type::kI8},          {"int16", Type::kI16},
    {"int32", Type::kI32},        {"int64", Type::kI64},        {"float16", Type::kF16},
    {"float32", Type::kF32},      {"float64", Type::kF64},      {"str_int", Type::kUtf8},
    {"str_float", Type::kUtf8},   {"str_decimal", Type::kUtf8}, {"json", Type::kJson},
    {"jpeg", Type::kJpeg},        {"png", Type::kPng},          {"pil", Type::kBytes},
    {"jpeg_array", Type::kBytes}, {"jpegarray", Type::kBytes},  {"list[pil]", Type::kBytes},
    {"list[jpeg]", Type::kBytes}, {"list[png]", Type::kBytes},  {"ndarray", Type::kBytes},
    {"pkl", Type::kBytes},
}};

constexpr std::string_view kArrayPrefix = "ndarray:";

// The type of an array's elements; empty for types that MDS arrays cannot have.
std::optional<Type> ElementType(std::string_view name) {
  constexpr std::array<NamedEncoding, 11> kElements{{
      {"uint8", Type::kU8},
      {"int8", Type::kI8},
      {"uint16", Type::kU16},
      {"int16", Type::kI16},
      {"float16", Type::kF16},
      {"uint32", Type::kU32},
      {"int32", Type::kI32},
      {"float32", Type::kF32},
      {"uint64", Type::kU64},
      {"int64", Type::kI64},
      {"float64", Type::kF64},
  }};
  const auto found = std::ranges::find(kElements, name, &NamedEncoding::name);
  if (found == kElements.end()) return std::nullopt;
  return found->type;
}

// "3,224,224"
std::optional<std::vector<uint64_t>> ParseShape(std::string_view text) {
  std::vector<uint64_t> shape;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    uint64_t dimension = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), dimension);
    if (part.empty() || error != std::errc() || end != part.data() + part.size() || dimension == 0) return std::nullopt;
    shape.push_back(dimension);
    if (comma == text.npos) return shape;
    text.remove_prefix(comma + 1);
  }
}

MdsEncoding Unknown() {
  MdsEncoding how;
  how.known = false;
  how.refusal = "has an encoding that is not one of MDS";
  return how;
}

MdsEncoding DescribeArray(std::string_view text) {
  MdsEncoding how;
  if (text.empty()) return how;  // like "ndarray": each value has its own dtype
  const size_t colon = text.find(':');
  const std::optional<Type> dtype = ElementType(text.substr(0, colon));
  if (!dtype) return Unknown();
  how.type = Type::kNdarray;
  how.dtype = *dtype;
  if (colon == text.npos) {
    how.is_array = true;
    return how;
  }
  how.shape = ParseShape(text.substr(colon + 1));
  if (!how.shape) return Unknown();
  uint64_t size = ScalarSize(*dtype);
  for (const uint64_t dimension : *how.shape) {
    // A shard cannot hold more: its offsets have 32 bits.
    if (!CheckedMultiply(size, dimension, &size) || size > UINT32_MAX) return Unknown();
  }
  how.size = size;
  if (how.shape->size() > kMaxRank) {
    how.type = Type::kBytes;  // more dimensions than an ndarray column can have
    how.shape.reset();
  }
  return how;
}

}  // namespace

MdsEncoding DescribeMdsEncoding(std::string_view encoding) {
  if (encoding.starts_with(kArrayPrefix)) return DescribeArray(encoding.substr(kArrayPrefix.size()));
  const auto found = std::ranges::find(kEntries, encoding, &NamedEncoding::name);
  if (found == kEntries.end()) return Unknown();
  MdsEncoding how;
  how.type = found->type;
  if (const uint32_t size = ScalarSize(how.type); size != 0) how.size = size;
  if (encoding == "pkl")
    how.refusal = "is pickled; unpickling runs code that the file brings along, so it is never done";
  return how;
}

absl::StatusOr<std::vector<MdsColumn>> MakeMdsColumns(std::vector<std::string> names,
                                                      std::vector<std::string> encodings,
                                                      std::vector<std::optional<uint64_t>> sizes) {
  if (encodings.size() != names.size() || sizes.size() != names.size()) {
    return DataLoss(names.size(), " column_names, ", encodings.size(), " column_encodings and ", sizes.size(),
                    " column_sizes: they should be as many");
  }
  if (names.empty()) return DataLoss("there are no columns");
  if (names.size() > kMaxColumns) return Unimplemented(names.size(), " columns: ", kMaxColumns, " at most are read");
  std::vector<MdsColumn> columns(names.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    MdsColumn& column = columns[i];
    column.name = std::move(names[i]);
    column.encoding = std::move(encodings[i]);
    column.size = sizes[i];
    column.how = DescribeMdsEncoding(column.encoding);
    if (column.size && *column.size > UINT32_MAX) {
      return DataLoss("column \"", column.name, "\": column_sizes says ", *column.size,
                      " bytes, more than a shard can hold");
    }
    if (column.how.known && column.size != column.how.size) {
      const auto text = [](const std::optional<uint64_t>& size) {
        return size ? StrCat(*size, " bytes") : std::string("no fixed size");
      };
      return DataLoss("column \"", column.name, "\": column_sizes says ", text(column.size),
                      ", but values of encoding ", column.encoding, " have ", text(column.how.size));
    }
  }
  return columns;
}

Column ColumnOf(const MdsColumn& column) {
  Column out;
  out.name = column.name;
  out.type = column.how.type;
  if (out.type == Type::kNdarray) {
    out.dtype = column.how.dtype;
    out.shape = column.how.shape;
  }
  return out;
}

absl::Status AppendMdsArray(Type dtype, std::string_view payload, std::string* out) {
  ByteCursor cursor(payload);
  uint8_t head;
  if (!cursor.Read(&head)) return DataLoss("an array of no bytes");
  const size_t rank = head >> 2;
  std::array<uint64_t, kMaxRank> shape;
  if (rank > kMaxRank) {
    return Unimplemented("an array of ", rank, " dimensions: ", kMaxRank, " at most are read");
  }
  for (size_t i = 0; i < rank; ++i) {
    uint8_t narrow = 0;
    uint16_t short_number = 0;
    uint32_t number = 0;
    bool read = false;
    switch (head & 3) {
      case 0:
        read = cursor.Read(&narrow);
        shape[i] = narrow;
        break;
      case 1:
        read = cursor.Read(&short_number);
        shape[i] = short_number;
        break;
      case 2:
        read = cursor.Read(&number);
        shape[i] = number;
        break;
      default:
        read = cursor.Read(&shape[i]);
    }
    if (!read) return DataLoss("an array of ", payload.size(), " bytes that ends within its shape");
  }
  const absl::Status status =
      AppendNdarray(dtype, std::span(shape).first(rank), payload.substr(cursor.position()), out);
  // The file's bytes are wrong, not an argument of the caller.
  return status.ok() ? status : absl::DataLossError(status.message());
}

}  // namespace shardkit::foreign
