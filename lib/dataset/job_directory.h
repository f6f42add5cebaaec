// A dataset's directory while the dataset is being made: the lock, the journal of finished shards, and the removal of
// what an interrupted run has left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataset/job_record.h"
#include "dataset/journal_entry.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

inline constexpr std::string_view kLockName = ".shardkit-pack.lock";
// Marks a dataset that is being changed (see DatasetUpdate).
inline constexpr std::string_view kMarkerName = ".shardkit-pack.change";

// The lock of a directory in which a dataset is written. Its holder removes the file kLockName. Unavailable when
// another one holds it.
absl::StatusOr<std::unique_ptr<FileLock>> LockDirectory(FileSystem& file_system, const std::string& directory);

// Creates a directory and its missing parents, and makes their entries durable: otherwise a crash could lose a finished
// dataset as a whole. *created: whether it was missing.
absl::Status CreateDurableDirectory(FileSystem& file_system, const std::string& directory, bool* created);

// The generation of a dataset's table by its name: 1 for dataset.segment, 7 for dataset-7.segment and
// dataset-7-1.segment, and UINT64_MAX for the temporary file of one. Empty for another name.
std::optional<uint64_t> GenerationOfTable(std::string_view name);

// Of column files, which are named as tables are.
inline constexpr std::string_view kColumnFileSuffix = ".columns";
std::string ColumnFileName(uint64_t generation, size_t number);

// Whether a directory without a manifest that can be read has column files, lists of removed samples, or earlier
// manifests with bases: what its shards hold is then not what readers may see, and only its manifest says what that is.
absl::StatusOr<bool> WasChanged(ReadableFileSystem& file_system, const std::string& directory,
                                const std::vector<DirectoryEntry>& entries);

// "00000042.shard"
std::string ShardName(size_t number);

// A shard of a unit (see UnitJob): "00000042.shard" for its first, "00000042_00001.shard" for the next one. The byte
// order of these names is that of the numbers.
struct UnitShard {
  uint64_t unit = 0;
  uint64_t shard = 0;  // in the unit
};
std::string UnitShardName(const UnitShard& number);

// The numbers in the name of a shard, also of one that no unit has. Empty for another name.
std::optional<UnitShard> ParseShardName(std::string_view name);

// The files of a job; their names depend on the container. Immutable; must outlive the job.
class JobFiles {
 public:
  virtual ~JobFiles() = default;

  // The file that is published last: when it exists, the job is complete.
  virtual std::string_view manifest_name() const = 0;

  // Whether a file of this name may be left by a job, apart from its lock and its journal. `shard` is the name of the
  // shard that a published file belongs to, if any.
  struct Name {
    bool ours = false;
    std::string_view shard;
  };
  virtual Name Recognize(std::string_view name) const = 0;

  // Whether the shard at `path` is the one that the entry describes. `content_hash` is the entry's content hash as
  // text. Completes the entry. False when the shard was lost or cut short after the entry was written. An error when
  // this cannot be found out now.
  virtual absl::StatusOr<bool> IsWhole(FileSystem& file_system, const std::string& path, std::string_view content_hash,
                                       JournalEntry* entry) const = 0;
};

// The files of our own datasets.
const JobFiles& NativeJobFiles();

// The journal is created before the first shard and removed after the manifest is published. So a directory with a
// journal and no manifest is an unfinished job, and its files are known to be the job's.
class JobDirectory {
 public:
  // The errors are those of DatasetWriter::Create. Only a job of the same fingerprint (see JobRecord) is resumed.
  static absl::StatusOr<std::unique_ptr<JobDirectory>> Open(FileSystem& file_system, const std::string& directory,
                                                            const std::string& fingerprint, bool resume,
                                                            const JobFiles& files = NativeJobFiles());
  ~JobDirectory();

  // The dataset is already complete (only with `resume`).
  bool complete() const { return complete_; }

  // Finished shards of the interrupted run, in order; empty in a fresh one.
  const std::vector<JournalEntry>& finished() const { return finished_; }

  // Makes a shard that has been published part of the job.
  absl::Status Record(const JournalEntry& entry);

  // Of the input of the job that is complete.
  uint64_t listing() const { return listing_; }

  // FailedPrecondition unless the complete dataset is still the one that the job made.
  absl::Status CheckComplete(const Manifest& manifest) const;

  // Call before the manifest is published. Writes into the directory which job made the dataset, of which input;
  // nothing else records this.
  absl::Status Describe(const Manifest& manifest, uint64_t listing) const;

  // Call after the manifest has been published.
  absl::Status Finish();

  // Removes all files of the job, and the directory if the job made it. If a file cannot be removed, the journal stays,
  // so that a later run knows the file. Idempotent.
  absl::Status Abort();

  // Ends the job and keeps its files.
  void Suspend() { ended_ = true; }

 private:
  JobDirectory(const JobFiles& files, std::string fingerprint) : files_(files), fingerprint_(std::move(fingerprint)) {}
  absl::Status Prepare(bool resume);
  absl::StatusOr<bool> LookAround(bool resume);
  absl::Status CheckForeign(const std::vector<DirectoryEntry>& entries, bool ours) const;
  absl::Status MadeByAnotherJob() const;
  absl::Status ReadJournal(std::string* kept);
  absl::Status RemoveLeftovers(const std::vector<DirectoryEntry>& entries);
  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }
  JobFiles::Name Recognize(std::string_view name) const;

  const JobFiles& files_;
  const std::string fingerprint_;
  FileSystem* file_system_ = nullptr;
  std::string directory_;
  bool created_directory_ = false;
  bool complete_ = false;
  uint64_t complete_hash_ = 0;  // of the dataset that the job made
  uint64_t listing_ = 0;        // of its input
  bool ended_ = false;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<WritableFile> journal_;
  std::vector<JournalEntry> finished_;
};

// Writes dataset.json atomically. AlreadyExists when it must be new and there is one.
absl::Status PublishManifest(FileSystem& file_system, const std::string& directory, const Manifest& manifest,
                             bool must_be_new);

// Whether a file or directory of this name exists. An error when this cannot be found out.
absl::StatusOr<bool> Exists(ReadableFileSystem& file_system, const std::string& path);

// Whether a file of this name and length exists. An error when this cannot be found out.
absl::StatusOr<bool> HasLength(ReadableFileSystem& file_system, const std::string& path, uint64_t length);

// Whether an unfinished job's journal lies in the directory.
absl::StatusOr<bool> HasJournal(ReadableFileSystem& file_system, const std::string& directory);

}  // namespace shardkit::dataset
