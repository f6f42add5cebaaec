// The folder .shardkit in a dataset's directory: which job makes, or has made, the dataset, and what is finished of it.
// For writers alone. Nothing in it is appended to, so a store needs no object twice.
//
//   .shardkit/lock            held by a run that writes or changes the dataset
//   .shardkit/job.json        the job: made before its first shard, and complete before the dataset's manifest is there
//   .shardkit/00000012.json   for each finished shard a record, made after the shard is published
//   .shardkit/plan.shard      what is to be done, where tasks do it (operations/tasks/pack_plan.h)
//   .shardkit/change          marks a dataset that is being changed (see DatasetUpdate)
//
// In the end lock and job.json are left, and only job.json stays.
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
#include "base/thread_pool.h"
#include "dataset/dataset_files.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"

namespace shardkit::dataset {

inline constexpr std::string_view kJobFolderName = ".shardkit";
inline constexpr std::string_view kChangeName = "change";  // in it
inline std::string JobFolderPath(const std::string& directory) { return JoinPath(directory, kJobFolderName); }

// Creates the folder where it is missing, and takes the lock of the directory, in which a dataset is written.
// Unavailable when another run holds it. Of Unlock, which removes the lock and what is empty then, the first error.
absl::StatusOr<std::unique_ptr<FileLock>> LockDirectory(FileSystem& file_system, const std::string& directory);
absl::Status UnlockDirectory(FileSystem& file_system, const std::string& directory, std::unique_ptr<FileLock> lock);

// Removes what lies in the folder, but for the lock: the job first.
absl::Status ClearJobFolder(FileSystem& file_system, const std::string& directory);

// What job.json says.
struct JobDescription {
  std::string fingerprint;               // 16 hexadecimal digits: jobs of the same one write the same dataset
  bool in_tasks = false;                 // tasks write the shards
  std::optional<uint64_t> dataset_hash;  // the manifest's; empty before all shards are there
  uint64_t listing = 0;                  // of the whole input (see DatasetJob::SetListing)
};

// The fingerprint of a job. `text` describes everything that its dataset depends on, except the samples.
std::string FingerprintOf(const std::string& text);

// Empty when there is no job.json, or one that cannot be parsed.
absl::StatusOr<std::optional<JobDescription>> ReadJob(ReadableFileSystem& file_system, const std::string& directory);

// Whether the directory holds shards of a job that has not made a dataset of them.
absl::StatusOr<bool> HasUnfinishedJob(ReadableFileSystem& file_system, const std::string& directory);

// AlreadyExists when the directory has other files than the folder, or the folder has a job.
absl::Status CheckIsNew(ReadableFileSystem& file_system, const std::string& directory);

// Makes a new directory one of a job in tasks, or does nothing to one that is, or was. Any number of processes may
// begin at once. AlreadyExists when it has other files, FailedPrecondition when it has another job.
absl::Status BeginTasks(FileSystem& file_system, const std::string& directory, const std::string& fingerprint);

// What became of a unit that a task did.
struct UnitEnd {
  uint64_t listed = 0;       // samples, with those that were skipped
  uint64_t listing = 0;      // of these (see DatasetJob::SetListing)
  uint64_t input_bytes = 0;  // of the values that were stored
};

// A finished shard, and where to continue after it. Positions of units that tasks do begin with each unit.
struct ShardRecord {
  ManifestShard shard;         // without a name: a unit without a shard
  uint64_t shards_before = 0;  // of the job, or of the unit where tasks do them
  uint64_t next_position = 0;
  uint64_t listing = 0;  // InputPosition::listing there
  // Where the input says that a shard ends. Of others a run that is resumed makes those at the end again.
  bool may_continue = true;
  std::vector<SkippedSample> skipped;
  std::string details;              // what the writer of another container needs to know when it resumes; UTF-8
  std::optional<UnitEnd> unit_end;  // for the last record of a unit that a task did
};

// The records of one job. Thread-safe.
class ShardRecords {
 public:
  // `job` says which job's they are: 16 hexadecimal digits.
  ShardRecords(FileSystem& file_system, const std::string& directory, std::string job)
      : file_system_(file_system), folder_(JobFolderPath(directory)), job_(std::move(job)) {}

  static std::string Name(const UnitShard& number) { return UnitShardName(number, ".json"); }

  // Empty when there is none, one of another job, or one that is damaged.
  absl::StatusOr<std::optional<ShardRecord>> Read(const UnitShard& number) const;

  // All records of a unit that a task has finished; empty while it has not.
  absl::StatusOr<std::optional<std::vector<ShardRecord>>> ReadUnit(uint64_t unit) const;

  // Durable. Any number of processes may publish the same one.
  absl::Status Publish(const UnitShard& number, const ShardRecord& record) const;

  // Removes the records of all jobs, with temporary files.
  absl::Status RemoveAll() const;

 private:
  FileSystem& file_system_;
  const std::string folder_;
  const std::string job_;
};

// A dataset's files; their names depend on the container. Immutable; must outlive the job.
class JobFiles {
 public:
  virtual ~JobFiles() = default;

  // The file that is published last: when it exists, the job is complete.
  virtual std::string_view manifest_name() const = 0;

  // Whether a job may leave a file of this name. `shard` is the name of the shard that a published file belongs to, if
  // any.
  struct Name {
    bool ours = false;
    std::string_view shard;
  };
  virtual Name Recognize(std::string_view name) const = 0;

  // Whether the shard at `path` is the one listed. False when it was lost or cut short since then. An error when this
  // cannot be found out now.
  virtual absl::StatusOr<bool> IsWhole(ReadableFileSystem& file_system, const std::string& path,
                                       const ManifestShard& listed) const = 0;
};

// The files of our own datasets.
const JobFiles& NativeJobFiles();

// A directory while a job makes a dataset in it.
class JobFolder {
 public:
  struct Options {
    bool resume = false;
    // The shards of all units, where tasks have written them.
    const std::vector<ShardRecord>* of_tasks = nullptr;
    const JobFiles& files = NativeJobFiles();
    ThreadPool* threads = nullptr;  // to look at the shards of a job that is resumed, which needs them
    const Cancellation* cancellation = nullptr;
  };

  // The errors are those of DatasetWriter::Create. Only a job of the same fingerprint is resumed.
  static absl::StatusOr<std::unique_ptr<JobFolder>> Open(FileSystem& file_system, const std::string& directory,
                                                         const std::string& fingerprint, const Options& options);
  // Removes what is left of the making of a dataset that is complete: its run may have been killed at its end. Does
  // nothing for other datasets.
  static absl::Status CleanUp(FileSystem& file_system, const std::string& directory);
  ~JobFolder();

  // The dataset is already complete (only with `resume` or `of_tasks`).
  bool complete() const { return complete_; }

  // Shards that are finished already, in order.
  const std::vector<ShardRecord>& finished() const { return finished_; }

  // Makes a shard that has been published part of the job.
  absl::Status Record(const ShardRecord& record);

  // Of the input of the job that is complete.
  uint64_t listing() const { return job_.listing; }

  // FailedPrecondition unless the complete dataset is still the one that the job made.
  absl::Status CheckComplete(const Manifest& manifest) const;

  // Call before the manifest is published: nothing else says which job made the dataset, of which input.
  absl::Status Describe(const Manifest& manifest, uint64_t listing);

  // Call after the manifest has been published.
  absl::Status Finish();

  // Removes all files of the job, and the directory if the job made it. If a file cannot be removed, job.json stays, so
  // that a later run knows the file. Idempotent. What tasks have written stays.
  absl::Status Abort();

  // Ends the job and keeps its files.
  void Suspend() { ended_ = true; }

 private:
  JobFolder(FileSystem& file_system, const std::string& directory, const std::string& fingerprint,
            const Options& options)
      : file_system_(file_system),
        directory_(directory),
        options_(options),
        records_(file_system, directory, fingerprint),
        job_{.fingerprint = fingerprint, .in_tasks = options.of_tasks != nullptr} {}
  absl::Status Prepare();
  absl::StatusOr<bool> LookAround();
  absl::Status MadeByAnotherJob() const;
  absl::Status ReadRecords();
  absl::Status RemoveLeftovers();
  absl::Status PublishJob() const;
  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }

  FileSystem& file_system_;
  const std::string directory_;
  const Options options_;
  const ShardRecords records_;
  JobDescription job_;
  bool created_directory_ = false;
  bool complete_ = false;
  bool ended_ = true;  // nothing may be removed until Prepare has found that the directory is ours
  std::unique_ptr<FileLock> lock_;
  std::vector<ShardRecord> finished_;
  std::vector<std::string> names_;  // of records, from here and before
};

}  // namespace shardkit::dataset
