#include "shardkit/error_place.h"

#include <array>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/errors.h"

namespace shardkit {
namespace {

constexpr char kPayload[] = "shardkit/place";

// The fields, of which none holds a NUL, joined by NULs.
constexpr size_t kFields = 5;

std::string Text(const std::optional<uint64_t>& number) { return number ? StrCat(*number) : std::string(); }

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(ToAbsl(text), &number)) return std::nullopt;
  return number;
}

}  // namespace

ErrorPlace PlaceOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return {};
  const std::string bytes(*payload);
  std::array<std::string_view, kFields> fields;
  std::string_view rest = bytes;
  for (std::string_view& field : fields) {
    field = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
  }
  return {std::string(fields[0]), Number(fields[1]), Number(fields[2]), Number(fields[3]), std::string(fields[4])};
}

absl::Status At(absl::Status status, const ErrorPlace& place) {
  if (status.ok()) return status;
  ErrorPlace known = PlaceOf(status);
  if (known.path.empty()) known.path = place.path;
  if (!known.shard) known.shard = place.shard;
  if (!known.block) known.block = place.block;
  if (!known.sample) known.sample = place.sample;
  if (known.column.empty()) known.column = place.column;
  std::string bytes;
  for (const std::string& field :
       {known.path, Text(known.shard), Text(known.block), Text(known.sample), known.column}) {
    bytes += field;
    bytes += '\0';
  }
  status.SetPayload(kPayload, absl::Cord(bytes));
  return status;
}

absl::Status Reworded(const absl::Status& status, std::string_view message) {
  return At(absl::Status(status.code(), ToAbsl(message)), PlaceOf(status));
}

}  // namespace shardkit
