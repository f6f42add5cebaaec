// The command line's parsers of sizes, counts, ranges and paths, compared with simple models.

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "shardkit/filesystem.h"
#include "shardkit/tar_index.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"
#include "tools/shardctl/numbers.h"

namespace {

using namespace shardkit::fuzz;

std::optional<uint64_t> ModelDigits(std::string_view text) {
  if (text.empty()) return std::nullopt;
  unsigned __int128 number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<unsigned>(c - '0');
    if (number > std::numeric_limits<uint64_t>::max()) return std::nullopt;
  }
  return static_cast<uint64_t>(number);
}

void CheckSize(std::string_view text) {
  const auto size = shardctl::ParseSize(text);
  if (const auto digits = ModelDigits(text)) Require(size.ok() && *size == *digits, "digits are a size");
  if (!size.ok()) return;
  std::string other_case(text);
  for (char& c : other_case) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) c = static_cast<char>(c ^ 32);
  }
  Require(shardctl::ParseSize(other_case).value() == *size, "units may be written in either case");
  Require(shardctl::ParseSize(std::to_string(*size)).value() == *size, "a size is its number of bytes");
  Require(!shardctl::FormatBytes(*size).empty(), "a size has a text");
}

void CheckCount(Input input) {
  const uint64_t minimum = input.Number(8), maximum = input.Number(8);
  const auto model = ModelDigits(input.rest());
  const auto count = shardctl::ParseCount(input.rest(), minimum, maximum);
  Require(count.ok() == (model && *model >= minimum && *model <= maximum), "a count lies within its bounds");
  if (count.ok()) Require(*count == *model, "a count is its digits");
}

void CheckPair(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view left = text.substr(0, at), right = at == text.npos ? "" : text.substr(at + 1);
  const auto first = ModelDigits(left), second = ModelDigits(right);
  if (separator == ':') {
    const uint64_t begin = first.value_or(0), end = second.value_or(UINT64_MAX);
    const bool valid = at != text.npos && (first || left.empty()) && (second || right.empty()) && begin <= end;
    const auto range = shardctl::ParseRange(text);
    // The model leaves out "" and ":" because the command decides whether they mean everything or nothing.
    if (!left.empty() || !right.empty()) Require(range.ok() == valid, "a range is two numbers in order");
    if (range.ok()) Require(range->first == begin && range->second == end, "a range has its numbers");
  } else {
    const auto part = shardctl::ParsePart(text);
    Require(part.ok() == (first && second && *first < *second), "a part is a number below another");
    if (part.ok()) Require(part->first == *first && part->second == *second, "a part has its numbers");
  }
}

void CheckPath(Input input) {
  const std::string directory(input.Bytes(input.Byte()));
  const std::string name(input.rest());
  const std::string joined = shardkit::JoinPath(directory, name);
  Require(joined.size() <= directory.size() + name.size() + 1, "joining adds a slash at most");
  (void)shardkit::IsTarPath(joined);
  const auto files = shardkit::NewMemoryFileSystem();
  if (!shardkit::CreateDirectories(*files, joined).ok()) return;
  const auto info = files->Stat(joined);
  Require(info.ok() && info->type == shardkit::FileType::kDirectory, "a directory that was made is there");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  switch (input.Below(6)) {
    case 0:
      CheckSize(input.rest());
      break;
    case 1:
      CheckCount(input);
      break;
    case 2:
      CheckPair(input.rest(), ':');
      break;
    case 3:
      CheckPair(input.rest(), '/');
      break;
    case 4: {
      const auto number = shardctl::ParseNumber(input.rest(), -1, 1000);
      if (number.ok())
        Require(std::isfinite(*number) && *number >= -1 && *number <= 1000, "a number lies within its bounds");
      break;
    }
    default:
      CheckPath(input);
  }
  return 0;
}
