#include "report.h"

#include <unistd.h>

#include <array>
#include <cstdint>

namespace shardctl {
namespace {

void AppendEscaped(std::string_view text, bool quoted, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  while (!text.empty()) {
    const char c = text[0];
    const size_t length = CharacterLength(text);
    if (c == '\n') {
      *out += "\\n";
    } else if (c == '\t') {
      *out += "\\t";
    } else if (quoted && (c == '"' || c == '\\')) {
      *out += '\\';
      *out += c;
    } else if (length == 0 || (length == 1 && (static_cast<uint8_t>(c) < 0x20 || c == 0x7f))) {
      *out += "\\x";
      *out += kHex[static_cast<uint8_t>(c) >> 4];
      *out += kHex[static_cast<uint8_t>(c) & 15];
    } else {
      out->append(text.substr(0, length));
      text.remove_prefix(length);
      continue;
    }
    text.remove_prefix(1);
  }
}

}  // namespace

size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool beyond = first == 0xf4 && byte(1) >= 0x90;
  const bool control = first == 0xc2 && byte(1) < 0xa0;
  return overlong || surrogate || beyond || control ? 0 : length;
}

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitSuccess;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:  // for example a file that is too short
      return kExitBadData;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
      return kExitUsage;
    default:
      // A missing file is not bad data. Neither is a shard of a later version: the exit code must not suggest deleting
      // it.
      return kExitEnvironment;
  }
}

void PrintError(std::string_view line) {
  const std::string text = Printable(line) + "\n";
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
    if (written <= 0) return;  // the error cannot be reported anywhere
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

int Fail(const absl::Status& status) {
  PrintError("shardctl: " + (absl::IsCancelled(status) ? "interrupted" : std::string(status.message())));
  return ExitCode(status);
}

int FailWriting(const absl::Status& status) {
  const int code = Fail(status);
  return absl::IsFailedPrecondition(status) ? kExitUsage : code;
}

void Note(std::string_view message) { PrintError("shardctl: note: " + std::string(message)); }

std::string Printable(std::string_view text) {
  std::string out;
  AppendEscaped(text, false, &out);
  return out;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  AppendEscaped(text, true, &out);
  return out + "\"";
}

}  // namespace shardctl
