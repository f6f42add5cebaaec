#include "foreign/webdataset/dali_index.h"

#include "base/strings.h"

namespace shardkit::foreign {
namespace {

constexpr std::string_view kVersion = "v1.2";

// The characters that end a word for DALI's reader.
constexpr std::string_view kWhiteSpace = " \t\v\f\r\n";

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

}  // namespace shardkit::foreign
