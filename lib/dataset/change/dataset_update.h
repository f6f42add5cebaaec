// A complete dataset while shards are appended or its segments are joined: the lock, the manifest that it had, and the
// removal of what is no longer needed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

// Temporary files of a change in the dataset's directory are named so, with ".tmp" at the end.
inline constexpr std::string_view kSortedFiles = "columns-";

// Removes the tables that none of the manifests names, and the manifests that are not to be kept beside the first of
// them. The others may be null.
absl::Status RemoveOldTables(FileSystem& file_system, const std::string& directory,
                             std::span<const Manifest* const> manifests);

// One thread at a time. Until Publish succeeds the dataset is as it was; a file that marks the change tells the next
// one that it may remove what an interrupted change has left.
class DatasetUpdate {
 public:
  // Locks the dataset and removes what an interrupted change has left. NotFound when there is no dataset; Unavailable
  // when another writer uses it; FailedPrecondition when a job has not finished it.
  static absl::StatusOr<std::unique_ptr<DatasetUpdate>> Begin(FileSystem& file_system, const std::string& directory);
  ~DatasetUpdate();

  // As it was when the change began.
  const Manifest& before() const { return before_; }
  // Shards that are added have numbers (see ShardName) from here on.
  size_t next_number() const { return next_number_; }

  // Aborted when another writer has published since Begin, which is possible only where locks do not work.
  absl::Status CheckUnchanged() const;

  // Publishes `manifest` as the next generation, in one step: it says so already. Aborted when another writer has
  // published since Begin, or has replaced one of the new shards and tables: then nothing was changed. Keeps the
  // manifest of before() (see KeptManifestName). Afterwards removes the tables that neither this manifest nor before()
  // names.
  absl::Status Publish(Manifest* published);

  // Removes what was written, unless the manifest names it. Idempotent; does nothing after Publish.
  absl::Status Abort();

  // Instead of Publish, where nothing was written.
  absl::Status Release();

  // Instead of Publish: removes the manifests of earlier generations, and what only they name. *files counts what was
  // removed. After an error some of it is gone, but nothing that the newest manifest names.
  absl::Status RemoveEarlier(uint64_t* files);

 private:
  DatasetUpdate(FileSystem& file_system, std::string directory)
      : file_system_(file_system), directory_(std::move(directory)) {}
  absl::Status Prepare();
  absl::Status PrepareLocked(bool* marked);
  absl::StatusOr<std::string> ReadUnchanged() const;
  absl::Status RemoveLeftovers();
  absl::Status Unmark();
  absl::Status Replaced(const std::string& path) const;
  absl::Status CheckAdded(const Manifest& manifest) const;
  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }
  std::string MarkerPath() const;

  FileSystem& file_system_;
  const std::string directory_;
  std::unique_ptr<FileLock> lock_;
  Manifest before_;
  uint64_t hash_ = 0;  // of the file of before_
  size_t next_number_ = 0;
  bool ended_ = true;
};

// DatasetUpdate::Begin; InvalidArgument for what is a dataset, but none that can be changed in its place.
absl::StatusOr<std::unique_ptr<DatasetUpdate>> BeginChange(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit::dataset
