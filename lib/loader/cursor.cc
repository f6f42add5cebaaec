// The text form of a cursor.
#include <simdjson.h>

#include <charconv>
#include <cstdio>

#include "base/errors.h"
#include "shardkit/plan.h"

namespace shardkit {
namespace {

constexpr size_t kLongestCursor = 4096;  // bytes; even with white space a cursor is far shorter
constexpr size_t kHashDigits = 16;

}  // namespace

std::string FormatCursor(const Cursor& cursor) {
  char text[128];
  const int length =
      std::snprintf(text, sizeof(text), R"({"epoch":%llu,"position":%llu,"plan":"%016llx"})",
                    static_cast<unsigned long long>(cursor.epoch), static_cast<unsigned long long>(cursor.position),
                    static_cast<unsigned long long>(cursor.plan));
  return std::string(text, static_cast<size_t>(length));
}

absl::StatusOr<Cursor> ParseCursor(std::string_view json) {
  if (json.size() > kLongestCursor) return InvalidArgument("cursor: ", json.size(), " bytes are too many for one");
  simdjson::dom::parser parser;
  simdjson::dom::object value;
  if (parser.parse(json.data(), json.size()).get(value) != simdjson::SUCCESS) {
    return InvalidArgument("cursor: not a JSON object");
  }
  Cursor cursor;
  const auto number = [&](std::string_view name, uint64_t* out) {
    return value.at_key(name).get(*out) == simdjson::SUCCESS;
  };
  if (!number("epoch", &cursor.epoch)) return InvalidArgument("cursor: \"epoch\" is not a number from 0 on");
  if (!number("position", &cursor.position)) return InvalidArgument("cursor: \"position\" is not a number from 0 on");
  std::string_view digits;
  if (value.at_key("plan").get(digits) != simdjson::SUCCESS) return InvalidArgument("cursor: \"plan\" is missing");
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, cursor.plan, 16);
  if (digits.size() != kHashDigits || parsed.ec != std::errc() || parsed.ptr != end) {
    return InvalidArgument("cursor: \"plan\" is not ", kHashDigits, " hexadecimal digits");
  }
  return cursor;
}

}  // namespace shardkit
