#include "operations/python_float.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace shardkit::operations {
namespace {

size_t Write(std::string_view text, char* out) {
  std::memcpy(out, text.data(), text.size());
  return text.size();
}

void AppendUtf16Escape(uint32_t unit, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const char escape[] = {'\\', 'u', kHex[unit >> 12], kHex[unit >> 8 & 15], kHex[unit >> 4 & 15], kHex[unit & 15]};
  out->append(escape, sizeof(escape));
}

// Decodes one code point of two to four bytes at the front of *text and removes it.
bool TakeCodePoint(std::string_view* text, uint32_t* code_point) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>((*text)[i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text->size() < length) return false;
  uint32_t value = lead & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return false;
    value = value << 6 | (byte(i) & 0x3fU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return false;
  text->remove_prefix(length);
  *code_point = value;
  return true;
}

}  // namespace

size_t FormatPythonFloat(double value, char* out) {
  if (std::isnan(value)) return Write("NaN", out);
  if (std::isinf(value)) return Write(value < 0 ? "-Infinity" : "Infinity", out);
  char* const end = out + kMaxPythonFloatBytes;
  const double magnitude = std::fabs(value);
  if (magnitude < 1e16) {
    // Below 1e16 the digits of an integer are its shortest form. Most numbers are coordinates, which take this path.
    const auto integer = static_cast<int64_t>(magnitude);
    if (static_cast<double>(integer) == magnitude) {
      char* next = out;
      if (std::signbit(value)) *next++ = '-';
      next = std::to_chars(next, end, integer).ptr;
      return static_cast<size_t>(next - out) + Write(".0", next);
    }
  }
  // The shortest digits that round-trip. Python changes to scientific notation at these limits.
  const bool fixed = magnitude >= 1e-4 && magnitude < 1e16;
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  return static_cast<size_t>(std::to_chars(out, end, value, format).ptr - out);
}

bool AppendPythonJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    if (static_cast<uint8_t>(c) >= 0x80) {
      uint32_t code_point = 0;
      if (!TakeCodePoint(&text, &code_point)) return false;
      if (code_point >= 0x10000) {
        AppendUtf16Escape(0xd800 + ((code_point - 0x10000) >> 10), out);
        code_point = 0xdc00 + ((code_point - 0x10000) & 0x3ff);
      }
      AppendUtf16Escape(code_point, out);
      continue;
    }
    text.remove_prefix(1);
    constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    if (const size_t i = kSpecial.find(c); i != std::string_view::npos) {
      out->push_back('\\');
      out->push_back(kLetters[i]);
    } else if (c < ' ' || c > '~') {
      AppendUtf16Escape(static_cast<uint8_t>(c), out);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
  return true;
}

}  // namespace shardkit::operations
