#include "convert/columns/json_value.h"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::convert {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

std::string_view KindOf(const element& value) {
  switch (value.type()) {
    case element_type::STRING:
      return "a text";
    case element_type::BOOL:
      return "true or false";
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::DOUBLE:
      return "a number with a fraction";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "an integer";
  }
}

absl::Status Refuse(const element& value, Type type) {
  return InvalidArgument("is ", KindOf(value), ", which is no ", TypeName(type));
}

template <typename T>
absl::Status AppendInteger(const element& value, Type type, std::string* out) {
  int64_t number = 0;
  uint64_t large = 0;
  if (value.is_int64() && value.get_int64().get(number) == simdjson::SUCCESS && std::in_range<T>(number)) {
    AppendLittle(*out, static_cast<T>(number));
  } else if (value.is_uint64() && value.get_uint64().get(large) == simdjson::SUCCESS && std::in_range<T>(large)) {
    AppendLittle(*out, static_cast<T>(large));
  } else if (value.type() == element_type::INT64 || value.type() == element_type::UINT64) {
    return InvalidArgument("is an integer that ", TypeName(type), " cannot hold");
  } else {
    return Refuse(value, type);
  }
  return absl::OkStatus();
}

// Whether T, a floating-point type, holds this integer.
template <typename T, std::integral Integer>
bool IsExactly(Integer number) {
  const T rounded = static_cast<T>(number);
  // The next power of two, which T holds and the integer's type does not: a number that was rounded up to it.
  if (rounded >= std::ldexp(T{1}, std::numeric_limits<Integer>::digits)) return false;
  return static_cast<Integer>(rounded) == number;
}

template <typename T>
absl::Status AppendFloat(const element& value, Type type, std::string* out) {
  double number = 0;
  if (value.get_double().get(number) != simdjson::SUCCESS) return Refuse(value, type);
  const bool exact = value.type() == element_type::INT64    ? IsExactly<T>(int64_t{value})
                     : value.type() == element_type::UINT64 ? IsExactly<T>(uint64_t{value})
                                                            : true;
  if (!exact) {
    return InvalidArgument("is an integer that ", TypeName(type), " cannot hold exactly; name a type, as i64 or json");
  }
  if (std::isfinite(number) && !std::isfinite(static_cast<T>(number))) {
    return InvalidArgument("is a number that ", TypeName(type), " cannot hold");
  }
  AppendLittle(*out, static_cast<T>(number));
  return absl::OkStatus();
}

}  // namespace

void JsonKinds::Note(const element& value) {
  switch (value.type()) {
    case element_type::NULL_VALUE:
      break;
    case element_type::BOOL:
      boolean = true;
      break;
    case element_type::INT64:
      integer = true;
      negative = negative || int64_t{value} < 0;
      break;
    case element_type::UINT64:  // above the largest i64
      large = true;
      break;
    case element_type::DOUBLE:
      fraction = true;
      break;
    case element_type::STRING:
      text = true;
      break;
    default:
      nested = true;
      break;
  }
}

absl::StatusOr<Type> JsonKinds::TypeOfAll() const {
  const bool number = integer || large || fraction;
  if (boolean + number + text + nested > 1) {
    return InvalidArgument("has values of several kinds; type json takes all of them");
  }
  if (boolean) return Type::kBool;
  if (text) return Type::kUtf8;
  if (nested) return Type::kJson;
  if (fraction) return Type::kF64;
  if (large && negative) return InvalidArgument("has integers that no type takes together; name one, as f64");
  if (large) return Type::kU64;
  if (integer) return Type::kI64;
  return InvalidArgument("has no value in any row; name its type, or leave it out");
}

bool IsJsonTarget(Type type) {
  switch (type) {
    case Type::kI8:
    case Type::kI16:
    case Type::kI32:
    case Type::kI64:
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
    case Type::kF32:
    case Type::kF64:
    case Type::kBool:
    case Type::kUtf8:
    case Type::kJson:
      return true;
    default:
      return false;
  }
}

absl::Status AppendJsonValue(const element& value, Type type, std::string* out) {
  switch (type) {
    case Type::kI8:
      return AppendInteger<int8_t>(value, type, out);
    case Type::kI16:
      return AppendInteger<int16_t>(value, type, out);
    case Type::kI32:
      return AppendInteger<int32_t>(value, type, out);
    case Type::kI64:
      return AppendInteger<int64_t>(value, type, out);
    case Type::kU8:
      return AppendInteger<uint8_t>(value, type, out);
    case Type::kU16:
      return AppendInteger<uint16_t>(value, type, out);
    case Type::kU32:
      return AppendInteger<uint32_t>(value, type, out);
    case Type::kU64:
      return AppendInteger<uint64_t>(value, type, out);
    case Type::kF32:
      return AppendFloat<float>(value, type, out);
    case Type::kF64:
      return AppendFloat<double>(value, type, out);
    case Type::kBool:
      if (!value.is_bool()) return Refuse(value, type);
      out->push_back(bool{value} ? '\1' : '\0');
      return absl::OkStatus();
    case Type::kUtf8:
      if (!value.is_string()) return Refuse(value, type);
      out->append(std::string_view(value));
      return absl::OkStatus();
    case Type::kJson:
      out->append(simdjson::minify(value));
      return absl::OkStatus();
    default:
      return InvalidArgument("cannot be made a value of ", TypeName(type));
  }
}

}  // namespace shardkit::convert
