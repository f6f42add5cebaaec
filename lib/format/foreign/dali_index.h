// Indexes of tars that DALI's wds2idx makes, text of version 1.2 (format-spec/interop.md). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::format {

struct DaliMember {
  std::string extension;
  uint64_t offset = 0;  // of its first byte in the tar
  uint64_t length = 0;
  std::string name;

  bool operator==(const DaliMember&) const = default;
};

// Members of a sample stand on one line.
struct DaliSample {
  std::vector<DaliMember> members;
};

// How wds2idx takes a name apart: at the first dot of the base name. Without one, as it happens there, all
// but the last character is the stem and the whole name the extension.
struct DaliName {
  std::string_view stem;  // with the folders
  std::string_view extension;
};
DaliName SplitDaliName(std::string_view name);

// Whether wds2idx leaves the member out: a hidden file.
bool IsHiddenForDali(const DaliName& name);

// Why an index cannot tell of the member ("its name has white space, …"), or empty.
std::string_view UnfitForDali(const DaliMember& member);

// What wds2idx writes.
std::string FormatDaliIndex(const std::vector<DaliSample>& samples);

// Whether the text is an index of this version; other ones do not have the names.
bool IsDaliIndex(std::string_view text);

// Calls `take` for each member in order, with the number of its line (the first is 1). DataLoss, naming the
// line, for what FormatDaliIndex does not write, other white space apart. Stops at the first error of `take`.
absl::Status ParseDaliIndex(std::string_view text,
                            const std::function<absl::Status(uint64_t line, DaliMember member)>& take);

}  // namespace shardkit::format
