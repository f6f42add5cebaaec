// Several datasets or shards that one path names: braces as shells have them, and wildcards.
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
bool IsPattern(std::string_view path, const absl::Status& looked_for);

// What a pattern names: `{000000..000099}` counts, `{a,b}` names each, in this order; `*`, `?` and `[…]` match within
// one name, `**` matches any folders, in the order of the names' bytes. A backslash escapes. What braces alone name is
// not looked for. Wildcards match files of shards: tars, and names that end in .shard or have .mds; where they match
// none, folders that are datasets. A last `**` takes a folder with a manifest or an index as a whole. NotFound when
// wildcards match nothing, or the error of listing their folders. ResourceExhausted above 2^20 names.
absl::StatusOr<std::vector<std::string>> ExpandPattern(ReadableFileSystem& file_system, const std::string& pattern);

// The paths, with what each pattern among them names in its place.
absl::StatusOr<std::vector<std::string>> ExpandPatterns(ReadableFileSystem& file_system,
                                                        const std::vector<std::string>& paths);

}  // namespace shardkit::dataset
