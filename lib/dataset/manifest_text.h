// dataset.json without the lists of shards that it may name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

struct ManifestText {
  ManifestSummary summary;
  // Those that the text lists. Empty where the segments name lists; shard_count and bytes of the summary are then what
  // the text says, and nothing has confirmed them.
  std::vector<ManifestShard> shards;
  uint64_t checksum = 0;  // that ends the text

  bool has_lists() const { return !summary.segments.empty() && summary.segments[0].list.has_value(); }
};

// Errors are those of ParseManifest, but for lists, which are no error.
absl::StatusOr<ManifestText> ParseManifestText(std::string_view text);

inline constexpr uint64_t kMaxManifestBytes = uint64_t{2} << 30;

// The bytes of a directory's dataset.json. NotFound when it has none.
absl::StatusOr<std::string> ReadManifestBytes(ReadableFileSystem& file_system, const std::string& directory);

// Reads and parses them. Errors name the file.
absl::StatusOr<ManifestText> ReadManifestText(ReadableFileSystem& file_system, const std::string& directory);

Manifest MakeManifest(ManifestSummary summary, std::vector<ManifestShard> shards);

// The manifest of which `text` is a part: reads the lists of shards that it names. NotFound when one is missing,
// DataLoss when one is damaged or not the one that is named.
absl::StatusOr<Manifest> CompleteManifest(ReadableFileSystem& file_system, const std::string& directory,
                                          ManifestText text);

// DataLoss where the name of a shard, table or layer would lead out of the dataset's directory, or stands twice.
absl::Status CheckNames(const std::vector<ManifestShard>& shards, const ManifestSummary& summary);

// Whether `name` is a relative path that stays inside the dataset's directory.
bool IsSafeName(std::string_view name);

}  // namespace shardkit::dataset
