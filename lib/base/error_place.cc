#include "shardkit/error_place.h"

#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/errors.h"

namespace shardkit {
namespace {

constexpr char kPayload[] = "shardkit/place";
constexpr char kSystemError[] = "shardkit/errno";

// It reads well where a status is printed whole: "shard 1, block 2, sample 3, column 5:image, path /data". The length
// before the column's name and the path at the end make it plain where they end.
void AddNumber(std::string_view name, const std::optional<uint64_t>& number, std::string& text) {
  if (number) text += StrCat(text.empty() ? "" : ", ", name, " ", *number);
}

std::optional<uint64_t> TakeNumber(std::string_view name, std::string_view& text) {
  if (text.substr(0, 2) == ", ") text.remove_prefix(2);
  if (text.substr(0, name.size()) != name) return std::nullopt;
  std::string_view digits = text.substr(name.size());
  if (!digits.empty()) digits.remove_prefix(1);
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  uint64_t number = 0;
  if (!absl::SimpleAtoi(ToAbsl(digits), &number)) return std::nullopt;
  text.remove_prefix(name.size() + 1 + digits.size());
  return number;
}

}  // namespace

ErrorPlace PlaceOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return {};
  const std::string bytes(*payload);
  std::string_view text = bytes;
  ErrorPlace place;
  place.shard = TakeNumber("shard", text);
  place.block = TakeNumber("block", text);
  place.sample = TakeNumber("sample", text);
  if (const auto length = TakeNumber("column", text); length && *length < text.size()) {
    place.column = text.substr(1, *length);
    text.remove_prefix(1 + *length);
  }
  if (text.substr(0, 2) == ", ") text.remove_prefix(2);
  if (text.substr(0, 5) == "path ") place.path = text.substr(5);
  return place;
}

absl::Status At(absl::Status status, const ErrorPlace& place) {
  if (status.ok()) return status;
  ErrorPlace known = PlaceOf(status);
  if (known.path.empty()) known.path = place.path;
  if (!known.shard) known.shard = place.shard;
  if (!known.block) known.block = place.block;
  if (!known.sample) known.sample = place.sample;
  if (known.column.empty()) known.column = place.column;
  std::string text;
  AddNumber("shard", known.shard, text);
  AddNumber("block", known.block, text);
  AddNumber("sample", known.sample, text);
  if (!known.column.empty()) {
    AddNumber("column", known.column.size(), text);
    text += StrCat(":", known.column);
  }
  if (!known.path.empty()) text += StrCat(text.empty() ? "" : ", ", "path ", known.path);
  if (!text.empty()) status.SetPayload(kPayload, absl::Cord(text));
  return status;
}

int SystemErrorOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kSystemError);
  int number = 0;
  return payload && absl::SimpleAtoi(std::string(*payload), &number) ? number : 0;
}

absl::Status OfSystem(absl::Status status, int error_number) {
  status.SetPayload(kSystemError, absl::Cord(StrCat(error_number)));
  return status;
}

absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status reworded(status.code(), ToAbsl(message));
  status.ForEachPayload(
      [&reworded](absl::string_view name, const absl::Cord& payload) { reworded.SetPayload(name, payload); });
  return reworded;
}

}  // namespace shardkit
