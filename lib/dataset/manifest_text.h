// dataset.json without the lists of shards in its segments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// The manifest without the shards that only its segments list. Where that is so, shard_count and bytes are what the
// text says, and nothing has confirmed them. Errors are those of ParseManifest, but for such shards, which are no
// error.
absl::StatusOr<Manifest> ParseManifestText(std::string_view text);

inline constexpr uint64_t kMaxManifestBytes = uint64_t{2} << 30;

// How the list of bases begins in the text.
inline constexpr std::string_view kBasesKey = "\n  \"bases\": [";

// The bytes of a directory's dataset.json. NotFound when it has none.
absl::StatusOr<std::string> ReadManifestBytes(ReadableFileSystem& file_system, const std::string& directory);

// Reads and parses them. Errors name the file.
absl::StatusOr<Manifest> ReadManifestText(ReadableFileSystem& file_system, const std::string& directory);

// Reads the shards of a manifest of ReadManifestText that only its segments list, if it has some. NotFound when a
// segment is missing, DataLoss when one is damaged or not the one that is named.
absl::Status ReadListedShards(ReadableFileSystem& file_system, const std::string& directory, Manifest* manifest);

// DataLoss where the name of a shard, table or column file would lead out of the dataset's directory, or occurs twice.
absl::Status CheckNames(const std::vector<ManifestShard>& shards, const ManifestSummary& summary);

// Whether `name` is a relative path in UTF-8 that stays inside the dataset's directory.
bool IsSafeName(std::string_view name);

}  // namespace shardkit::dataset
