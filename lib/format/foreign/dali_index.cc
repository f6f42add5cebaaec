#include "format/foreign/dali_index.h"

#include <charconv>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::format {
namespace {

constexpr std::string_view kVersion = "v1.2";

// The characters that end a word for DALI's reader.
constexpr std::string_view kWhiteSpace = " \t\v\f\r\n";

// Removes and returns the next word of a line; empty at the end of the line.
std::string_view TakeWord(std::string_view* line) {
  const size_t begin = line->find_first_not_of(kWhiteSpace);
  if (begin == line->npos) return *line = {};
  line->remove_prefix(begin);
  const std::string_view word = line->substr(0, line->find_first_of(kWhiteSpace));
  line->remove_prefix(word.size());
  return word;
}

bool TakeNumber(std::string_view* line, uint64_t* number) {
  const std::string_view word = TakeWord(line);
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, *number);
  return !word.empty() && error == std::errc() && rest == end;
}

std::string_view TakeLine(std::string_view* text) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == text->npos ? text->size() : end + 1);
  return line;
}

}  // namespace

DaliName SplitDaliName(std::string_view name) {
  const size_t dot = name.find('.', name.rfind('/') + 1);
  if (dot == name.npos) return {name.substr(0, name.empty() ? 0 : name.size() - 1), name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool IsHiddenForDali(const DaliName& name) { return name.stem.empty() || name.stem.ends_with('/'); }

std::string_view UnfitForDali(const DaliMember& member) {
  if (member.extension.empty()) return "its name ends with a dot, and an index cannot say that an extension is empty";
  if (member.name.find_first_of(kWhiteSpace) != member.name.npos)
    return "its name has white space, which ends a word of an index";
  return {};
}

std::string FormatDaliIndex(const std::vector<DaliSample>& samples) {
  std::string text = StrCat(kVersion, " ", samples.size(), "\n");
  for (const DaliSample& sample : samples) {
    const char* separator = "";
    for (const DaliMember& member : sample.members) {
      text += StrCat(separator, member.extension, " ", member.offset, " ", member.length, " ", member.name);
      separator = " ";
    }
    text += '\n';
  }
  return text;
}

bool IsDaliIndex(std::string_view text) {
  std::string_view line = TakeLine(&text);
  return TakeWord(&line) == kVersion;
}

absl::Status ParseDaliIndex(std::string_view text, const std::function<absl::Status(uint64_t, DaliMember)>& take) {
  std::string_view line = TakeLine(&text);
  uint64_t samples = 0;
  if (TakeWord(&line) != kVersion || !TakeNumber(&line, &samples) || !TakeWord(&line).empty() || samples == 0) {
    return DataLoss("line 1: is not \"", kVersion, "\" and a number of samples");
  }
  for (uint64_t i = 0; i < samples; ++i) {
    const uint64_t number = i + 2;
    if (text.empty()) return DataLoss("line 1: announces ", samples, " samples, but there are ", i, ": it was cut off");
    line = TakeLine(&text);
    std::string_view extension = TakeWord(&line);
    if (extension.empty()) return DataLoss("line ", number, ": has no member");
    for (; !extension.empty(); extension = TakeWord(&line)) {
      DaliMember member;
      member.extension = extension;
      if (TakeNumber(&line, &member.offset) && TakeNumber(&line, &member.length)) member.name = TakeWord(&line);
      if (member.name.empty()) {
        return DataLoss("line ", number, ": what follows '", extension,
                        "' is not offset, size and name (a name with a space?)");
      }
      if (SplitDaliName(member.name).extension != extension) {
        return DataLoss("line ", number, ": '", extension, "' is not the extension of '", member.name, "'");
      }
      SHARDKIT_RETURN_IF_ERROR(take(number, std::move(member)));
    }
  }
  if (text.find_first_not_of(kWhiteSpace) != text.npos) {
    return DataLoss("line ", samples + 2, ": follows the ", samples, " samples that line 1 announces");
  }
  return absl::OkStatus();
}

}  // namespace shardkit::format
