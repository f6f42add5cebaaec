#include "scalar.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace shardctl {
namespace {

using shardkit::Type;

// Files are little-endian on every machine.
uint64_t LoadLittleEndian(const char* bytes, uint32_t size) {
  uint64_t value = 0;
  for (uint32_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

float HalfToFloat(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa != 0 ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

float E4m3ToFloat(uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(mantissa + 8), exponent - 10);
  return (bits & 128) != 0 ? -magnitude : magnitude;
}

template <typename Number>
std::string Shortest(Number value) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  }
  std::array<char, 64> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc() ? std::string(buffer.data(), end) : "?";
}

// "1.5-2j", as Python writes it but for the parentheses.
std::string ComplexText(Type part, const char* bytes) {
  const std::string imaginary = ScalarText(part, bytes + shardkit::ScalarSize(part));
  return ScalarText(part, bytes) + (imaginary[0] == '-' ? "" : "+") + imaginary + "j";
}

}  // namespace

std::string ScalarText(Type type, const char* bytes) {
  if (type == Type::kComplex64) return ComplexText(Type::kF32, bytes);
  if (type == Type::kComplex128) return ComplexText(Type::kF64, bytes);
  const uint64_t bits = LoadLittleEndian(bytes, shardkit::ScalarSize(type));
  switch (type) {
    case Type::kI8:
      return Shortest(static_cast<int>(static_cast<int8_t>(bits)));
    case Type::kI16:
      return Shortest(static_cast<int>(static_cast<int16_t>(bits)));
    case Type::kI32:
      return Shortest(static_cast<int32_t>(bits));
    case Type::kI64:
    case Type::kTimestampS:
    case Type::kTimestampMs:
    case Type::kTimestampUs:
    case Type::kTimestampNs:
      return Shortest(static_cast<int64_t>(bits));
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
      return Shortest(bits);
    case Type::kF8E4M3:
      return Shortest(E4m3ToFloat(static_cast<uint8_t>(bits)));
    case Type::kF8E5M2:  // the upper half of an f16
      return Shortest(HalfToFloat(static_cast<uint16_t>(bits << 8)));
    case Type::kF16:
      return Shortest(HalfToFloat(static_cast<uint16_t>(bits)));
    case Type::kBf16:
      return Shortest(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    case Type::kF32:
      return Shortest(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case Type::kF64:
      return Shortest(std::bit_cast<double>(bits));
    case Type::kBool:
      return bits != 0 ? "true" : "false";
    default:
      return "?";
  }
}

bool IsJsonText(const std::string& scalar_text) {
  return scalar_text != "?" && scalar_text != "nan" && scalar_text != "inf" && scalar_text != "-inf" &&
         !scalar_text.ends_with('j');
}

Json ScalarJson(Type type, const char* bytes) {
  const std::string text = ScalarText(type, bytes);
  return IsJsonText(text) ? Json::parse(text) : Json(text);
}

Json BoundJson(shardkit::RangeKind kind, uint64_t bits) {
  if (kind == shardkit::RangeKind::kI64) return static_cast<int64_t>(bits);
  if (kind == shardkit::RangeKind::kU64) return bits;
  return JsonNumber(std::bit_cast<double>(bits));
}

}  // namespace shardctl
