// The text form of a cursor.
#include <charconv>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "shardkit/plan.h"

namespace shardkit {
namespace {

constexpr size_t kLongestCursor = 4096;  // bytes; a cursor with white space is far shorter
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
  const auto value = nlohmann::json::parse(json, nullptr, false);
  if (!value.is_object()) return InvalidArgument("cursor: not a JSON object");
  Cursor cursor;
  const auto number = [&](const char* name, uint64_t* out) {
    const auto found = value.find(name);
    if (found == value.end() || !found->is_number_unsigned()) return false;
    *out = found->get<uint64_t>();
    return true;
  };
  if (!number("epoch", &cursor.epoch)) return InvalidArgument("cursor: \"epoch\" is not a number from 0 on");
  if (!number("position", &cursor.position)) return InvalidArgument("cursor: \"position\" is not a number from 0 on");
  const auto plan = value.find("plan");
  if (plan == value.end() || !plan->is_string()) return InvalidArgument("cursor: \"plan\" is missing");
  const std::string& digits = plan->get_ref<const std::string&>();
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, cursor.plan, 16);
  if (digits.size() != kHashDigits || parsed.ec != std::errc() || parsed.ptr != end) {
    return InvalidArgument("cursor: \"plan\" is not ", kHashDigits, " hexadecimal digits");
  }
  return cursor;
}

}  // namespace shardkit
