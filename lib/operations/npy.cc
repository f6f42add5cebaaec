#include "operations/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/strings.h"

namespace shardkit::operations {
namespace {

std::string_view Description(Type type) {
  switch (type) {
    case Type::kI8:
      return "|i1";
    case Type::kI16:
      return "<i2";
    case Type::kI32:
      return "<i4";
    case Type::kI64:
    case Type::kTimestampS:  // NumPy's datetime64 would read the smallest number as "not a time"
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return "<i8";
    case Type::kU8:
      return "|u1";
    case Type::kU16:
      return "<u2";
    case Type::kU32:
      return "<u4";
    case Type::kU64:
      return "<u8";
    case Type::kF16:
      return "<f2";
    case Type::kBf16:
      return "|V2";
    case Type::kF32:
      return "<f4";
    case Type::kF64:
      return "<f8";
    case Type::kComplex64:
      return "<c8";
    case Type::kComplex128:
      return "<c16";
    case Type::kF8E4M3:  // as programs with these types, which NumPy lacks, write them
    case Type::kF8E5M2:
      return "|V1";
    case Type::kBool:
      return "|b1";
    default:
      return "";
  }
}

// Empty for elements that no type holds, and where several could.
std::optional<Type> TypeOfDescription(std::string_view description) {
  if (description == "<M8[s]") return Type::kTimestampS;
  if (description == "<M8[ms]") return Type::kTimestampMs;
  if (description == "<M8[us]") return Type::kTimestampUs;
  if (description == "<M8[ns]") return Type::kTimestampNs;
  for (const Type type : {Type::kI8, Type::kI16, Type::kI32, Type::kI64, Type::kU8, Type::kU16, Type::kU32, Type::kU64,
                          Type::kF16, Type::kF32, Type::kF64, Type::kComplex64, Type::kComplex128, Type::kBool}) {
    if (Description(type) == description) return type;
  }
  return description == "|V2" ? std::optional(Type::kBf16) : std::nullopt;
}

// Everything before the elements.
std::string Header(std::string_view description, std::span<const uint64_t> shape) {
  std::string header = StrCat("{'descr': '", description, "', 'fortran_order': False, 'shape': (");
  for (const uint64_t dimension : shape) header += StrCat(dimension, ", ");
  header += "), }";
  // Magic, version and length take 10 bytes; the whole is padded with spaces to a multiple of 64, ending in a newline.
  const size_t length = RoundUp(10 + header.size() + 1, 64) - 10;
  header.resize(length - 1, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  AppendLittle(out, static_cast<uint16_t>(length));
  return out + header;
}

// The shape in a header that Header() made. For other files the result is arbitrary: ParseNpy sees that Header() makes
// a different header of it.
std::vector<uint64_t> ShapeIn(std::string_view file) {
  std::vector<uint64_t> shape;
  const size_t begin = file.substr(0, 512).find('(');
  if (begin == file.npos) return shape;
  const char* place = file.data() + begin + 1;
  const char* const end = file.data() + file.size();
  while (shape.size() <= kMaxRank) {
    uint64_t dimension = 0;
    const auto [next, error] = std::from_chars(place, end, dimension);
    if (error != std::errc() || end - next < 2) break;
    shape.push_back(dimension);
    place = next + 2;
  }
  return shape;
}

}  // namespace

absl::Status FormatNpy(const NdarrayView& array, std::string* out) {
  const std::string_view description = Description(array.dtype);
  if (description.empty()) return InvalidArgument("npy: ", TypeName(array.dtype), " is not a type of elements");
  *out = Header(description, array.shape);
  *out += array.data;
  return absl::OkStatus();
}

absl::StatusOr<NdarrayView> ParseNpy(Type dtype, std::string_view file) {
  NdarrayView view;
  view.dtype = dtype;
  view.shape = ShapeIn(file);
  const std::string header = Header(Description(dtype), view.shape);
  uint64_t size = ScalarSize(dtype);
  for (const uint64_t dimension : view.shape) {
    if (!CheckedMultiply(size, dimension, &size)) size = UINT64_MAX;
  }
  if (!file.starts_with(header) || file.size() - header.size() != size) {
    return DataLoss("npy: not the file of ", TypeName(dtype), " elements that it was");
  }
  view.data = file.substr(header.size());
  return view;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view front) {
  const auto damaged = [] { return InvalidArgument("is no NPY file of NumPy, or its header is damaged"); };
  if (!front.starts_with("\x93NUMPY") || front.size() < 12) return damaged();
  const bool first = front[6] == 1;
  const uint64_t begin = first ? 10 : 12;
  const uint64_t length = first ? LoadLittle<uint16_t>(front.data() + 8) : LoadLittle<uint32_t>(front.data() + 8);
  if (front[6] < 1 || front[6] > 3 || length > front.size() - begin) return damaged();
  const std::string_view text = front.substr(begin, length);
  // What follows "'KEY':"; only the writer's own quotes are known, as NumPy writes them.
  const auto value = [&](std::string_view key) {
    const size_t at = text.find(StrCat("'", key, "':"));
    if (at == text.npos) return std::string_view();
    std::string_view rest = text.substr(at + key.size() + 3);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    return rest;
  };
  NpyHeader header;
  header.data = begin + length;
  const std::string_view descr = value("descr");
  std::string_view shape = value("shape");
  if (descr.empty() || !shape.starts_with('(')) return damaged();
  if (!descr.starts_with('\'')) return InvalidArgument("has elements that are structures; save each field by itself");
  const std::string_view dtype = descr.substr(1, std::min(descr.find('\'', 1), descr.size()) - 1);
  const std::optional<Type> type = TypeOfDescription(dtype);
  if (!type) return InvalidArgument("has elements of NumPy's dtype \"", dtype, "\", which no type of a column holds");
  header.dtype = *type;
  if (!value("fortran_order").starts_with("False")) {
    return InvalidArgument("is in Fortran's order; save numpy.ascontiguousarray of it");
  }
  shape = shape.substr(1, shape.find(')') - 1);
  while (!shape.empty()) {
    uint64_t dimension = 0;
    const auto [next, error] = std::from_chars(shape.data(), shape.data() + shape.size(), dimension);
    if (error != std::errc() || header.shape.size() > kMaxRank) return damaged();
    header.shape.push_back(dimension);
    shape.remove_prefix(static_cast<size_t>(next - shape.data()));
    shape.remove_prefix(std::min(shape.find_first_not_of(", "), shape.size()));
  }
  return header;
}

}  // namespace shardkit::operations
