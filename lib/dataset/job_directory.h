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
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit {

// "00000042.shard"
std::string ShardName(size_t number);

// A finished shard and where to go on behind it.
struct JournalEntry {
  ManifestShard shard;
  uint64_t next_position = 0;
  std::vector<SkippedSample> skipped;
  std::string details;  // what a writer of another container has to know of its shard again; UTF-8
};

// The files of a job, whose names differ from container to container. Immutable, and outlives the job.
class JobFiles {
 public:
  virtual ~JobFiles() = default;

  // The one that is published last: where it is, the job is complete.
  virtual std::string_view manifest_name() const = 0;

  virtual std::string NameOfShard(size_t number) const = 0;

  // What a job may leave behind beside its lock and its journal. `shard` is the shard that a published file belongs to.
  struct Name {
    bool ours = false;
    std::optional<size_t> shard;
  };
  virtual Name Recognize(std::string_view name) const = 0;

  // Whether the shard at `path` is the one that the entry tells of, whose content hash is written out in
  // `content_hash`; completes the entry. False when it was lost or cut short after the entry had been written, an error
  // when that cannot be told just now.
  virtual absl::StatusOr<bool> IsWhole(FileSystem& file_system, const std::string& path, std::string_view content_hash,
                                       JournalEntry* entry) const = 0;
};

// Those of our own datasets.
const JobFiles& NativeJobFiles();

// The journal is there before the first shard and goes away after the manifest has come: a directory with a journal and
// no manifest is an unfinished job, and its files are known to be ours.
class JobDirectory {
 public:
  // Errors as DatasetWriter::Create. Only a job of the same identity is resumed.
  static absl::StatusOr<std::unique_ptr<JobDirectory>> Open(FileSystem& file_system, const std::string& directory,
                                                            const JobIdentity& identity, bool resume,
                                                            const JobFiles& files = NativeJobFiles());
  ~JobDirectory();

  // The dataset is already complete (only with `resume`).
  bool complete() const { return complete_; }

  // Finished shards of the interrupted run, in order; empty in a fresh one.
  const std::vector<JournalEntry>& finished() const { return finished_; }

  // Makes a shard that has been published part of the job.
  absl::Status Record(const JournalEntry& entry);

  // FailedPrecondition when the dataset that is already complete is no longer the one that the job made.
  absl::Status CheckComplete(const Manifest& manifest) const;

  // Before the manifest is published: writes beside the dataset which job made it. Without this nothing tells.
  absl::Status Describe(const Manifest& manifest) const;

  // After the manifest has been published.
  absl::Status Finish();

  // Removes all files of the job, and the directory if the job made it. What cannot be removed keeps its journal, so
  // that a later run knows it. Idempotent.
  absl::Status Abort();

  // Keeps them.
  void Suspend() { ended_ = true; }

 private:
  JobDirectory(const JobFiles& files, JobIdentity identity) : files_(files), identity_(std::move(identity)) {}
  absl::Status Prepare(bool resume);
  absl::Status MakeDirectory();
  absl::StatusOr<bool> LookAround(bool resume);
  absl::Status CheckForeign(const std::vector<DirectoryEntry>& entries, bool ours) const;
  absl::Status MadeByAnotherJob() const;
  absl::Status ReadJournal(std::string* kept);
  absl::Status RemoveLeftovers(const std::vector<DirectoryEntry>& entries);
  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }
  JobFiles::Name Recognize(std::string_view name) const;

  const JobFiles& files_;
  const JobIdentity identity_;
  FileSystem* file_system_ = nullptr;
  std::string directory_;
  bool created_directory_ = false;
  bool complete_ = false;
  uint64_t complete_hash_ = 0;  // of the dataset that the job made
  bool ended_ = false;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<WritableFile> journal_;
  std::vector<JournalEntry> finished_;
};

// Writes dataset.json: whole or not at all.
absl::Status PublishManifest(FileSystem& file_system, const std::string& directory, const Manifest& manifest);

// Whether there is a file or directory of this name; an error when that cannot be told, which is not the same as no.
absl::StatusOr<bool> Exists(FileSystem& file_system, const std::string& path);

// Whether there is a file of this name and length; an error when that cannot be told.
absl::StatusOr<bool> HasLength(FileSystem& file_system, const std::string& path, uint64_t length);

// Whether an unfinished job's journal lies in the directory.
absl::StatusOr<bool> HasJournal(FileSystem& file_system, const std::string& directory);

}  // namespace shardkit
