// The names of a dataset's files, and how its directory and its manifest come to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Creates a directory and its missing parents, and makes their entries durable: otherwise a crash could lose a finished
// dataset as a whole. *created: whether it was missing.
absl::Status CreateDurableDirectory(FileSystem& file_system, const std::string& directory, bool* created);

// The generation of a dataset's table by its name: 1 for dataset.segment, 7 for dataset-7.segment and
// dataset-7-1.segment, and UINT64_MAX for the temporary file of one. Empty for another name.
std::optional<uint64_t> GenerationOfTable(std::string_view name);

// Of column files, which are named as tables are.
inline constexpr std::string_view kColumnFileSuffix = ".columns";
std::string ColumnFileName(uint64_t generation, size_t number);

// The name of a manifest of an earlier generation, which is kept beside dataset.json (format-spec/dataset.md,
// section 9.3): "dataset-7.json"
std::string KeptManifestName(uint64_t generation);

// The generation in such a name, also in that of its temporary file. Empty for another name.
std::optional<uint64_t> GenerationOfKeptManifest(std::string_view name);

// Whether one of `generation` may stay beside a manifest of generation `newest`.
bool IsKept(uint64_t generation, uint64_t newest);

// Call before a manifest of the next generation is published in the place of the one with these bytes.
absl::Status KeepManifest(FileSystem& file_system, const std::string& directory, uint64_t generation,
                          std::string_view bytes);

// The manifest of a generation: dataset.json, if it is of that one. NotFound when there is none or it is not kept.
absl::StatusOr<Manifest> ReadGeneration(ReadableFileSystem& file_system, const std::string& directory,
                                        uint64_t generation);

// Whether a directory without a manifest that can be read has column files, lists of removed samples, or earlier
// manifests with bases: what its shards hold is then not what readers may see, and only its manifest says what that is.
absl::StatusOr<bool> WasChanged(ReadableFileSystem& file_system, const std::string& directory,
                                const std::vector<DirectoryEntry>& entries);

// "00000042.shard"
std::string ShardName(size_t number);

// A shard of a unit (see JobKind): "00000042.shard" for its first, "00000042_00001.shard" for the next one. The byte
// order of these names is the order of the numbers.
struct UnitShard {
  uint64_t unit = 0;
  uint64_t shard = 0;  // in the unit
  auto operator<=>(const UnitShard&) const = default;
};
std::string UnitShardName(const UnitShard& number, std::string_view suffix = ".shard");

// The numbers in the name of a shard, also of one that no unit has. Empty for another name.
std::optional<UnitShard> ParseShardName(std::string_view name, std::string_view suffix = ".shard");

// Writes dataset.json atomically. AlreadyExists when it must be new and there is one.
absl::Status PublishManifest(FileSystem& file_system, const std::string& directory, const Manifest& manifest,
                             bool must_be_new);

// Whether a file or directory of this name exists. An error when this cannot be found out.
absl::StatusOr<bool> Exists(ReadableFileSystem& file_system, const std::string& path);

// Whether a file of this name and length exists. An error when this cannot be found out.
absl::StatusOr<bool> HasLength(ReadableFileSystem& file_system, const std::string& path, uint64_t length);

}  // namespace shardkit::dataset
