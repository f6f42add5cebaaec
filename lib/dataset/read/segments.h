// The segments of a dataset: making one, and joining them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/segment_part.h"
#include "dataset/write/segment_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// A writer leaves no more segments in a dataset.
inline constexpr size_t kMostSegments = 8;

// Makes the shards of all parts, in their order, one segment: publishes it at this name in `directory`, with a list of
// the shards as `listed` has them. What the segments of the parts say is taken from them; where one cannot be read,
// from the shards. The columns of the parts fit together. `cancellation` may be null. `repeated`, which may be null,
// takes the keys.
absl::StatusOr<Segment> MakeSegment(FileSystem& file_system, std::span<const SegmentPart> parts,
                                    const std::string& directory, const std::string& name,
                                    std::span<const ManifestShard> listed, const Cancellation* cancellation,
                                    DuplicateKeyFinder* repeated = nullptr);

// Makes all shards of *manifest, which were added to `segment` in their order, one segment of the manifest's
// generation, with their keys. A dataset without shards gets no segment. `cancellation` may be null. What `repeated`
// says is done before the segment is published.
absl::Status FinishOneSegment(FileSystem& file_system, const std::string& directory, SegmentWriter& segment,
                              Manifest* manifest, const Cancellation* cancellation,
                              const DuplicateKeyCheck& repeated = {});

// Gives *manifest one segment of all its shards, some of which `before` has, too, in the same order: what its segments
// say of those is taken from them. Published as JoinSegments does.
absl::Status MakeOneSegment(FileSystem& file_system, const std::string& directory, const Manifest& before,
                            const Cancellation* cancellation, Manifest* manifest);

// Makes the segments `first` to `first + count` of *manifest one, and publishes it under a name of the manifest's
// generation that none of its segments has. What the old ones say is taken from them; where one cannot be read, from
// the shards. The old files stay. `cancellation` may be null.
absl::Status JoinSegments(FileSystem& file_system, const std::string& directory, size_t first, size_t count,
                          const Cancellation* cancellation, Manifest* manifest);

// Joins neighbours until there are at most kMostSegments: always the two that have the fewest samples together, of
// equals the later ones.
absl::Status LimitSegments(FileSystem& file_system, const std::string& directory, const Cancellation* cancellation,
                           Manifest* manifest);

}  // namespace shardkit::dataset
