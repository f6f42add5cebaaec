// The tar indexes that DALI's wds2idx writes: text of version 1.2 (format-spec/interop.md). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardkit::foreign {

struct DaliMember {
  std::string extension;
  uint64_t offset = 0;  // of its first byte in the tar
  uint64_t length = 0;
  std::string name;

  bool operator==(const DaliMember&) const = default;
};

// The members of one sample. They are on one line of the index.
struct DaliSample {
  std::vector<DaliMember> members;
};

// How wds2idx splits a name: at the first dot of the base name. For a name without a dot, the stem is all but the last
// character, and the extension is the whole name. wds2idx does this by accident.
struct DaliName {
  std::string_view stem;  // with the folders
  std::string_view extension;
};
DaliName SplitDaliName(std::string_view name);

// Whether wds2idx leaves the member out because it is a hidden file.
bool IsHiddenForDali(const DaliName& name);

// Why an index cannot list the member ("its name has white space, …"), or empty.
std::string_view UnfitForDali(const DaliMember& member);

// The text that wds2idx writes for these samples.
std::string FormatDaliIndex(const std::vector<DaliSample>& samples);

}  // namespace shardkit::foreign
