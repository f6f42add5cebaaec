// Joining the segments of a dataset.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "shardkit/cancellation.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit {

// A writer leaves no more segments in a dataset.
inline constexpr size_t kMostSegments = 8;

// Makes the segments `first` to `first + count` of *manifest one, and publishes its index and key table under names of
// the manifest's generation that none of its tables has. What the old tables say is taken from them; where one cannot
// be read, from the shards. The old files stay. `cancellation` may be null.
absl::Status JoinSegments(FileSystem& file_system, const std::string& directory, size_t first, size_t count,
                          const Cancellation* cancellation, Manifest* manifest);

// Joins neighbours until there are at most kMostSegments: always the two that have the fewest samples together, of
// equals the later ones.
absl::Status LimitSegments(FileSystem& file_system, const std::string& directory, const Cancellation* cancellation,
                           Manifest* manifest);

}  // namespace shardkit
