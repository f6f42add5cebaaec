// dataset.json: the contents of a dataset (format-spec/spec.md, section 9.1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard_info.h"

namespace shardkit {

inline constexpr std::string_view kManifestName = "dataset.json";
inline constexpr std::string_view kIndexName = "dataset.idx";
inline constexpr std::string_view kKeyTableName = "dataset.keys";

struct ManifestShard {
  std::string name;  // path relative to the dataset's directory
  uint64_t bytes = 0;
  uint64_t samples = 0;
  uint64_t blocks = 0;
  ContentHash content_hash{};
  std::optional<Sha256> sha256;  // of the whole file; absent when none is listed

  bool operator==(const ManifestShard&) const = default;
};

struct Manifest {
  Schema schema;
  Metadata metadata;
  std::vector<ManifestShard> shards;

  uint64_t samples() const;
  uint64_t bytes() const;
  uint64_t blocks() const;

  // XXH3-64 of the concatenated content hashes; the offset index stores it.
  uint64_t dataset_hash() const;
};

// The text of dataset.json. Deterministic.
std::string FormatManifest(const Manifest& manifest);

// DataLoss, saying what is wrong, for a malformed manifest and for names that would lead out of the directory.
// Unimplemented for a later version, and for a required feature that this version does not know.
absl::StatusOr<Manifest> ParseManifest(std::string_view text);

// Reads dataset.json of a directory. NotFound when the directory is not a dataset.
absl::StatusOr<Manifest> ReadManifest(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit
