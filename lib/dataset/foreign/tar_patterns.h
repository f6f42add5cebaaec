// Names of several tars: braces as shells have them, and wildcards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::dataset {

// Whether a path that Stat gave this status for is a pattern: nothing has that name, and it has braces or a wildcard
// (*, ?, [) that no backslash escapes. In a URL, ? is none.
bool IsTarPattern(std::string_view path, const absl::Status& looked_for);

// The tars of a pattern: `{000000..000099}` counts, `{a,b}` names each, in this order; `*`, `?` and `[…]` match within
// one name, `**` matches any folders, in the order of the names' bytes. A backslash escapes. Tars that braces alone
// name are not looked for. NotFound when wildcards match no tar, or the error of listing their folders.
// ResourceExhausted above 2^20 names.
absl::StatusOr<std::vector<std::string>> ExpandTarPattern(ReadableFileSystem& file_system, const std::string& pattern);

}  // namespace shardkit::dataset
