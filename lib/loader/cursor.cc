// The text form of a cursor.
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/errors.h"
#include "base/strings.h"
#include "shardkit/plan.h"

namespace shardkit {
namespace {

constexpr size_t kLongestCursor = 65536;  // bytes; even with white space and thousands of datasets a cursor is shorter
constexpr size_t kHashDigits = 16;

}  // namespace

std::string FormatCursor(const Cursor& cursor) {
  char text[128];
  const int length =
      std::snprintf(text, sizeof(text), R"({"epoch":%llu,"position":%llu,"plan":"%016llx")",
                    static_cast<unsigned long long>(cursor.epoch), static_cast<unsigned long long>(cursor.position),
                    static_cast<unsigned long long>(cursor.plan));
  std::string json(text, static_cast<size_t>(length));
  if (std::ranges::any_of(cursor.generations, [](uint64_t generation) { return generation != 0; })) {
    const char* before = R"(,"generations":[)";
    for (const uint64_t generation : cursor.generations) {
      json += StrCat(std::exchange(before, ","), generation);
    }
    json += "]";
  }
  return json + "}";
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
  simdjson::dom::element generations;
  if (value.at_key("generations").get(generations) == simdjson::SUCCESS) {
    const auto refuse = [] { return InvalidArgument("cursor: \"generations\" is not a list of numbers from 0 on"); };
    simdjson::dom::array numbers;
    if (generations.get(numbers) != simdjson::SUCCESS) return refuse();
    for (const simdjson::dom::element number : numbers) {
      if (number.get(cursor.generations.emplace_back()) != simdjson::SUCCESS) return refuse();
    }
  }
  return cursor;
}

}  // namespace shardkit
