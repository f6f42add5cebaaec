// The segments of a dataset: making one, joining them, and the lists of their shards.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/index_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// A writer leaves no more segments in a dataset.
inline constexpr size_t kMostSegments = 8;

// A dataset of more shards has lists of them beside the manifest.
inline constexpr size_t kMostShardsInManifest = 1024;

// Shards that a segment is made of, with the segments that they have in their directory.
struct SegmentPart {
  std::string directory;
  Manifest manifest;
};

// Makes the shards of all parts, in their order, one segment: publishes its index and key table at these names in
// `directory`. What the tables of the parts say is taken from them; where one cannot be read, from the shards. The
// columns of the parts fit together. `cancellation` may be null. `repeated`, which may be null, takes the keys.
absl::StatusOr<Segment> MakeSegment(FileSystem& file_system, std::span<const SegmentPart> parts,
                                    const std::string& directory, const std::string& index_name,
                                    const std::string& keys_name, const Cancellation* cancellation,
                                    DuplicateKeyFinder* repeated = nullptr);

// Makes all shards of *manifest, which were added to `index` in their order, one segment with an index of the
// manifest's generation, with their keys, and with a list of them if they are many. A dataset without shards gets no
// segment. `cancellation` may be null. What `repeated` says is done before the index is published.
absl::Status FinishOneSegment(FileSystem& file_system, const std::string& directory, IndexWriter& index,
                              Manifest* manifest, const Cancellation* cancellation,
                              const RepeatedKeyCheck& repeated = {});

// Publishes the list of `shards`, a segment, at `name` in the directory. InvalidArgument when the name of a shard is
// too long for a list.
absl::StatusOr<TableReference> WriteShardList(FileSystem& file_system, const std::string& directory,
                                              std::span<const ManifestShard> shards, const std::string& name);

// Gives each segment of *manifest a list of its shards, or none, as the number of all shards wants, so that what is
// published depends on the shards alone. Publishes new lists under names of the manifest's generation that none of its
// tables has.
absl::Status UpdateShardLists(FileSystem& file_system, const std::string& directory, Manifest* manifest);

// Gives *manifest one segment of all its shards, some of which `before` has, too, in the same order: what its tables
// say of those is taken from them. Published as JoinSegments does. None, where `before` has shards and no segments.
absl::Status MakeOneSegment(FileSystem& file_system, const std::string& directory, const Manifest& before,
                            const Cancellation* cancellation, Manifest* manifest);

// Makes the segments `first` to `first + count` of *manifest one, and publishes its index and key table under names of
// the manifest's generation that none of its tables has. What the old tables say is taken from them; where one cannot
// be read, from the shards. The old files stay. `cancellation` may be null.
absl::Status JoinSegments(FileSystem& file_system, const std::string& directory, size_t first, size_t count,
                          const Cancellation* cancellation, Manifest* manifest);

// Joins neighbours until there are at most kMostSegments: always the two that have the fewest samples together, of
// equals the later ones.
absl::Status LimitSegments(FileSystem& file_system, const std::string& directory, const Cancellation* cancellation,
                           Manifest* manifest);

}  // namespace shardkit::dataset
