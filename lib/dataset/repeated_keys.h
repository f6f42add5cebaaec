// Finds keys that several samples of a dataset have, while its key table is made.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/key_table.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit {

// The first key found that more than one sample has.
struct RepeatedKey {
  std::string key;
  uint64_t first = 0;  // ordinals of samples that have it
  uint64_t second = 0;
  uint64_t count = 0;  // samples whose key another one before them has, too: of all keys
};

// One thread at a time. References must outlive it.
class RepeatedKeys {
 public:
  RepeatedKeys(FileSystem& file_system, std::string directory, std::span<const ManifestShard> shards)
      : file_system_(file_system), directory_(std::move(directory)), shards_(shards) {}

  // Takes the entries of the table in their order. Reads keys only where hashes are equal, until one is found.
  absl::Status Add(const format::KeyEntry& entry);

  const std::optional<RepeatedKey>& found() const { return found_; }

 private:
  absl::StatusOr<std::string> KeyOf(uint64_t ordinal) const;

  FileSystem& file_system_;
  const std::string directory_;
  const std::span<const ManifestShard> shards_;
  uint64_t hash_ = 0;
  std::vector<uint64_t> same_;  // ordinals of the entries with this hash
  std::optional<RepeatedKey> found_;
};

}  // namespace shardkit
