#include "convert/npy.h"

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
    case Type::kBool:
      return "|b1";
    default:
      return "";
  }
}

}  // namespace

absl::Status FormatNpy(const NdarrayView& array, std::string* out) {
  const std::string_view description = Description(array.dtype);
  if (description.empty()) return InvalidArgument("npy: ", TypeName(array.dtype), " is not a type of elements");
  std::string header = StrCat("{'descr': '", description, "', 'fortran_order': False, 'shape': (");
  for (const uint64_t dimension : array.shape) header += StrCat(dimension, ", ");
  header += "), }";
  // Magic, version and length take 10 bytes; the whole is padded with spaces to a multiple of 64, ending in a newline.
  const size_t length = RoundUp(10 + header.size() + 1, 64) - 10;
  header.resize(length - 1, ' ');
  header += '\n';
  out->assign("\x93NUMPY\x01\x00", 8);
  AppendLittle(*out, static_cast<uint16_t>(length));
  *out += header;
  *out += array.data;
  return absl::OkStatus();
}

}  // namespace shardkit
