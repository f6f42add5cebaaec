#include "convert/npy.h"

#include <charconv>
#include <span>
#include <vector>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/strings.h"

namespace shardkit {
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

}  // namespace shardkit
