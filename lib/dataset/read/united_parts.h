// Several datasets as one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/read/removed_samples.h"
#include "dataset/segment_part.h"
#include "dataset/write/segment_tables.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {

// A shard alone, described by itself.
absl::StatusOr<SegmentPart> ReadShardAlone(ReadableFileSystem& file_system, const std::string& path,
                                           const ReadOptions& options);

// Columns and metadata of the parts together. Those without shards count only where there are no others.
// InvalidArgument, saying what to do, where a part does not fit those before it.
absl::StatusOr<Manifest> UniteColumns(std::span<const SegmentPart> parts);

// The removed samples of the parts, by the numbers that they have together.
absl::StatusOr<RemovedList> UniteRemoved(ReadableFileSystem& file_system, std::span<const SegmentPart> parts);

// `schema`, whose columns have the codecs that columns of the same names have in `first`.
Schema WithCodecsOf(const Schema& first, const Schema& schema);

// Datasets that are read as one, which has no directory.
struct UnitedParts {
  Manifest manifest;  // names files by their paths; has segments where all parts have some
  RemovedList removed;
  std::vector<absl::StatusOr<SegmentTables>> segments;
};

// Each of `paths` is a dataset in our own container, or a shard alone.
absl::StatusOr<UnitedParts> UniteDatasets(ReadableFileSystem& file_system, const std::vector<std::string>& paths,
                                          const ReadOptions& options);

}  // namespace shardkit::dataset
