#include "foreign/mds/mds_encoding.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "shardkit/schema.h"

namespace shardkit::foreign {
namespace {

struct NamedEncoding {
  std::string_view name;
  Type type;
  MdsForm form = MdsForm::kPlain;
  Type stored_type = Type::kBytes;  // differs from `type` for values that are converted
};

// Scalars have a fixed size, all others do not.
constexpr std::array<NamedEncoding, 28> kEntries{{
    {"bytes", Type::kBytes},
    {"str", Type::kUtf8},
    {"int", Type::kI64},
    {"uint8", Type::kU8},
    {"uint16", Type::kU16},
    {"uint32", Type::kU32},
    {"uint64", Type::kU64},
    {"int8", Type::kI8},
    {"int16", Type::kI16},
    {"int32", Type::kI32},
    {"int64", Type::kI64},
    {"float16", Type::kF16},
    {"float32", Type::kF32},
    {"float64", Type::kF64},
    {"str_int", Type::kI64, MdsForm::kInteger, Type::kUtf8},
    {"str_float", Type::kF64, MdsForm::kReal, Type::kUtf8},
    {"str_decimal", Type::kUtf8},
    {"json", Type::kJson},
    {"jpeg", Type::kJpeg},
    {"png", Type::kPng},
    {"pil", Type::kImage, MdsForm::kPixels},
    {"jpeg_array", Type::kBytes},
    {"jpegarray", Type::kBytes},
    {"list[pil]", Type::kBytes, MdsForm::kPixelsList},
    {"list[jpeg]", Type::kBytes},
    {"list[png]", Type::kBytes},
    {"ndarray", Type::kBytes, MdsForm::kTypedArray},
    {"pkl", Type::kBytes},
}};

constexpr std::string_view kArrayPrefix = "ndarray:";

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
  how.form = MdsForm::kTypedArray;
  if (text.empty()) return how;  // like "ndarray"
  how.form = MdsForm::kPlain;
  const size_t colon = text.find(':');
  const std::optional<Type> dtype = MdsElementType(text.substr(0, colon));
  if (!dtype) return Unknown();
  how.type = Type::kNdarray;
  how.dtype = *dtype;
  if (colon == text.npos) {
    how.form = MdsForm::kArray;
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

std::optional<Type> MdsElementType(std::string_view name) {
  const auto found = std::ranges::find(kEntries, name, &NamedEncoding::name);
  return found == kEntries.end() || name == "int" || ScalarSize(found->type) == 0 || found->form != MdsForm::kPlain
             ? std::nullopt
             : std::optional(found->type);
}

MdsEncoding DescribeMdsEncoding(std::string_view encoding) {
  if (encoding.starts_with(kArrayPrefix)) return DescribeArray(encoding.substr(kArrayPrefix.size()));
  const auto found = std::ranges::find(kEntries, encoding, &NamedEncoding::name);
  if (found == kEntries.end()) return Unknown();
  MdsEncoding how;
  how.type = found->type;
  how.form = found->form;
  how.stored_type = found->stored_type;
  how.is_list = encoding.starts_with("list[") || (encoding.starts_with("jpeg") && encoding != "jpeg");
  const uint32_t size = how.form == MdsForm::kPlain ? ScalarSize(how.type) : 0;
  if (size != 0) how.size = size;
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
  if (column.how.is_list) out.metadata[kMediaType] = kImageListMediaType;
  return out;
}

}  // namespace shardkit::foreign
