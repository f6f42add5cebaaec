// Finds keys that several samples of a dataset have, while its key table is made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/read/removed_samples.h"
#include "format/key_table.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// The first key found that more than one sample has.
struct DuplicateKey {
  std::string key;
  uint64_t first = 0;  // ordinals of samples that have it
  uint64_t second = 0;
  uint64_t count = 0;             // samples whose key another one before them has, too: of all keys
  std::vector<std::string> more;  // further such keys, at most two
};

// What is done about repeated keys when the key table of a dataset is made.
struct DuplicateKeyCheck {
  // Called when there are such keys; its error is returned. Empty: nothing is looked for.
  std::function<absl::Status(const DuplicateKey&)> take;
  // As DuplicateKeyFinder has them.
  std::vector<uint64_t> ends;
};

// One thread at a time. References must outlive it.
class DuplicateKeyFinder {
 public:
  // With `ends`, which ascend, the samples come from several inputs, and each ends before the sample of this number:
  // only keys that stand in several of them are repeated. Samples of `removed`, which may be null, have none.
  DuplicateKeyFinder(FileSystem& file_system, std::string directory, std::span<const ManifestShard> shards,
                     std::vector<uint64_t> ends = {}, const RemovedList* removed = nullptr)
      : file_system_(file_system),
        directory_(std::move(directory)),
        shards_(shards),
        ends_(std::move(ends)),
        removed_(removed) {}

  // Takes the entries of the table in their order. Reads keys only where hashes are equal, until one is found.
  absl::Status Add(const format::KeyEntry& entry);

  // Forgets the entries.
  void Restart() {
    same_.clear();
    found_.reset();
  }

  const std::optional<DuplicateKey>& found() const { return found_; }

 private:
  absl::StatusOr<std::string> KeyOf(uint64_t ordinal) const;
  // Two samples of one input have the same number.
  uint64_t InputOf(uint64_t ordinal) const;

  FileSystem& file_system_;
  const std::string directory_;
  const std::span<const ManifestShard> shards_;
  const std::vector<uint64_t> ends_;
  const RemovedList* const removed_;
  uint64_t hash_ = 0;
  std::vector<uint64_t> same_;  // ordinals of the entries with this hash
  std::optional<DuplicateKey> found_;
  uint64_t named_hash_ = 0;  // of the key that was named last
};

}  // namespace shardkit::dataset
