// The text form of a cursor.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/errors.h"
#include "base/json.h"
#include "base/status_macros.h"
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
  Cursor cursor;
  const auto read_plan = [&](JsonReader& plan) -> absl::Status {
    std::string digits;
    SHARDKIT_RETURN_IF_ERROR(plan.Read(&digits));
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, cursor.plan, 16);
    if (digits.size() == kHashDigits && parsed.ec == std::errc() && parsed.ptr == end) return absl::OkStatus();
    return DataLoss("is not ", kHashDigits, " hexadecimal digits");
  };
  const absl::Status status = ReadJson(json, /*all=*/true, [&](JsonReader& object) {
    return object.Object(
        {{"epoch", &cursor.epoch},
         {"position", &cursor.position},
         {"plan", read_plan},
         {"generations", [&](JsonReader& list) { return list.Read(&cursor.generations); }, JsonField::kOptional}});
  });
  if (!status.ok()) return InvalidArgument("cursor: ", ToStd(status.message()));
  return cursor;
}

}  // namespace shardkit
