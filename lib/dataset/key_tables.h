// The key tables of a dataset's segments (format-spec/spec.md, section 9.3).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/key_table_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Opens the table that the segment names. NotFound when it names none, or when the file is missing. DataLoss, too, when
// the file is not the one that is named.
absl::StatusOr<std::shared_ptr<const container::KeyTable>> OpenKeyTable(ReadableFileSystem& file_system,
                                                                        const std::string& directory,
                                                                        const Segment& segment);

// Thread-safe. Opens the tables when one is first used, and does without one that is missing or damaged.
class KeyTables {
 public:
  // `segments` must outlive the object.
  KeyTables(ReadableFileSystem& file_system, std::string directory, const std::vector<Segment>& segments)
      : file_system_(file_system), directory_(std::move(directory)), segments_(segments), tables_(segments.size()) {}

  // Calls `visit` as KeyTable::Find does, with ordinals of the segment. False when the table cannot be used: what was
  // visited may then not be all. Errors of `visit` are returned, and of files that cannot be read now.
  absl::StatusOr<bool> Find(size_t segment, uint64_t hash,
                            const std::function<absl::StatusOr<bool>(uint64_t ordinal)>& visit) const;

 private:
  absl::StatusOr<std::shared_ptr<const container::KeyTable>> Get(size_t segment) const;

  ReadableFileSystem& file_system_;
  const std::string directory_;
  const std::vector<Segment>& segments_;

  struct Table {
    absl::StatusOr<std::unique_ptr<RandomAccessFile>> file = nullptr;  // null until it is open, and once it is used
    std::optional<absl::StatusOr<std::shared_ptr<const container::KeyTable>>> opened;  // or lost for good
  };
  mutable std::mutex mutex_;
  mutable std::vector<Table> tables_;
};

}  // namespace shardkit::dataset
