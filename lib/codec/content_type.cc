#include "codec/content_type.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <string>

namespace shardkit {
namespace {

constexpr std::array<std::string_view, 12> kTextExtensions = {"txt", "cls",  "caption", "csv", "tsv", "md",
                                                              "xml", "html", "yaml",    "yml", "log", "jsonl"};

// A parser keeps memory in proportion to the largest document it has seen: above this it is given back.
constexpr size_t kKeptParserCapacity = size_t{16} << 20;

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsTextExtension(std::string_view lower) {
  return lower == "ndjson" || std::find(kTextExtensions.begin(), kTextExtensions.end(), lower) != kTextExtensions.end();
}

}  // namespace

bool HasJpegSignature(std::string_view bytes) { return bytes.substr(0, 3) == "\xff\xd8\xff"; }

bool HasPngSignature(std::string_view bytes) { return bytes.substr(0, 8) == std::string_view("\x89PNG\r\n\x1a\n", 8); }

bool IsValidUtf8(std::string_view bytes) { return simdjson::validate_utf8(bytes.data(), bytes.size()); }

bool IsValidJson(std::string_view bytes) {
  // simdjson's On-Demand front end would leave what is not looked at unchecked.
  thread_local simdjson::dom::parser parser;
  simdjson::dom::element document;
  const bool valid = parser.parse(bytes.data(), bytes.size()).get(document) == simdjson::SUCCESS;
  if (parser.capacity() > kKeptParserCapacity) parser = simdjson::dom::parser();
  return valid;
}

Type GuessType(std::string_view bytes, std::string_view extension) {
  const std::string lower = LowerCase(extension);
  if (bytes.empty()) {
    if (lower == "jpg" || lower == "jpeg" || lower == "jpe" || lower == "jfif") return Type::kJpeg;
    if (lower == "png") return Type::kPng;
    return lower == "json" || IsTextExtension(lower) ? Type::kUtf8 : Type::kBytes;
  }
  if (HasJpegSignature(bytes)) return Type::kJpeg;
  if (HasPngSignature(bytes)) return Type::kPng;
  if (lower == "json") {
    if (IsValidJson(bytes)) return Type::kJson;
    return IsValidUtf8(bytes) ? Type::kUtf8 : Type::kBytes;
  }
  return IsTextExtension(lower) && IsValidUtf8(bytes) ? Type::kUtf8 : Type::kBytes;
}

bool FitsType(std::string_view bytes, Type type) {
  switch (type) {
    case Type::kBytes:
      return true;
    case Type::kUtf8:
      return IsValidUtf8(bytes);
    case Type::kJson:
      return IsValidJson(bytes);
    case Type::kJpeg:
      return bytes.empty() || HasJpegSignature(bytes);
    case Type::kPng:
      return bytes.empty() || HasPngSignature(bytes);
    default:
      return false;
  }
}

}  // namespace shardkit
