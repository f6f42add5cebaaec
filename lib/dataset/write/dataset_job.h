// What the dataset writers of all containers share: the job and its folder, the shards that an earlier run has
// finished, skipped samples, and errors that end the job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "container/write/block_encoder.h"
#include "dataset/change/dataset_update.h"
#include "dataset/write/duplicate_key_finder.h"
#include "dataset/write/job_folder.h"
#include "shardkit/dataset_writer.h"

namespace shardkit::dataset {

// How a dataset's samples come to be in its shards.
enum class JobKind : uint8_t {
  kWriter,  // the writer ends shards, by the limits of its options
  kUnits,   // the input is divided into units: shards end where StartUnit and EndShard say, and have the names of units
  kTask,    // the same, for some of the units: writes shards that others make a dataset of, and nothing else
};

class ExistingKeyCheck;

// A place between two samples of an input.
struct InputPosition {
  uint64_t samples = 0;  // before it
  // What those were: the sum, modulo 2^64, of a hash for each of them, of its files' names and of their bytes. A sum,
  // so that it can be made of those of units that were packed apart. 0 where the input tells nothing of its samples.
  uint64_t listing = 0;
};

class DatasetJob : public DatasetWriter {
 public:
  ~DatasetJob() override;

  // For kUnits and kTask. The samples from `position` on are those of unit `number.unit`; its
  // next shard is number `number.shard` of it, and has at first the columns given to Create. What a unit's shards hold
  // depends on its samples alone.
  virtual absl::Status StartUnit(const UnitShard& number, const InputPosition& position);
  // The samples from `position` on come into another shard of the unit.
  virtual absl::Status EndShard(const InputPosition& position);

  // Closes the block, so that the next sample begins another one.
  virtual absl::Status EndBlock();

  // The columns that blocks must have, but for their storages, for AppendBlock to take them. Null where it takes none.
  virtual const Schema* columns_of_blocks() const { return nullptr; }

  // For kUnits and kTask. Makes a whole block of another shard the next block of this one, instead of its samples, if
  // the shard that it comes to lie in stores all columns in the same way. False when it does not: then nothing was
  // stored, but a block may have ended with the sample before. The next position is one behind its last sample.
  virtual absl::StatusOr<bool> AppendBlock(container::StoredBlock block, uint64_t next_position);

  // For kUnits. `check.take` is called before the dataset is published; its error is returned by Finish. The
  // check has no `ends` when the job appends.
  void OnDuplicateKey(DuplicateKeyCheck check) { duplicate_keys_ = std::move(check); }

  // For kUnits: the number of the first unit of a job that resumes none. That of a dataset's first shard is 0.
  uint64_t first_unit() const { return update_ ? update_->next_number() : 0; }

  // The keys of the samples of the shards records()[begin] to records()[end - 1], or what those that were skipped are
  // called, in the order of the input.
  absl::StatusOr<std::vector<std::string>> KeysOfShards(size_t begin, size_t end) const;
  const std::string& directory() const { return directory_; }

  // The threads that encode what is stored. The creator of a job may give them tasks, too.
  ThreadPool& threads() const { return *threads_; }

  // Sets what the whole input was, before Finish: as InputPosition::listing, but of tars a sum of their lengths'
  // hashes, so that nobody reads them to find out that nothing is to be done.
  void SetListing(uint64_t listing) { listing_ = listing; }
  // What an earlier run that has completed the job has set.
  uint64_t listing() const { return job_->listing(); }

  // Whether an interrupted run has finished shards of the job.
  bool continues_job() const { return job_ && !job_->finished().empty(); }

  // The shards that were finished, those of a run that this one resumes first.
  const std::vector<ShardRecord>& records() const { return records_; }

  uint64_t resume_position() const override { return resume_position_; }
  const Schema& schema() const override { return manifest_.schema; }
  absl::Status Append(const Sample& sample, std::optional<uint64_t> next_position) override;
  absl::Status Append(std::span<const std::optional<Value>> row, std::optional<uint64_t> next_position) override;
  void RecordSkip(SkippedSample skipped) override;
  absl::StatusOr<DatasetSummary> Finish() override;
  absl::Status Abort() override;
  absl::Status Suspend() override;

 protected:
  // The threads of `options`, at least 1, encode.
  DatasetJob(FileSystem& file_system, std::string directory, const WriterOptions& options);

  // Opens the job and takes up the shards that are finished. `text` describes everything that the output depends on,
  // except the samples. options.files must outlive the writer's job.
  absl::Status StartJob(const std::string& text, JobFolder::Options options);

  // Begins to append to the dataset in the directory: sets manifest_ to what it has, in the next generation.
  absl::Status StartAppend(ExistingKeys existing_keys);
  // Null unless the job appends.
  DatasetUpdate* update() const { return update_.get(); }

  // Implemented by each container. InvalidArgument from AppendSample means that nothing of the sample was written; any
  // other error means that the writer is broken. A file error while earlier samples are written may be InvalidArgument,
  // too, so it must pass through Fail. AppendSample calls CommitPosition before it does anything that can write the
  // sample itself.
  virtual absl::Status AppendSample(const Sample& sample, uint64_t next_position) = 0;
  virtual absl::Status Begin() { return absl::OkStatus(); }  // called before AdoptShard and before anything is written
  virtual absl::Status AdoptShard(const ShardRecord& record) = 0;  // takes up a shard that an earlier run has finished
  virtual absl::Status FinishShards() = 0;                         // finishes all shards that were begun
  virtual absl::Status PublishIndexes() = 0;                       // publishes the job's manifest last
  virtual absl::Status DiscardOpen() = 0;                          // stops threads, removes temporary files

  // Whether samples are looked at one by one before they are stored.
  bool checks_samples() const { return existing_keys_ != nullptr; }
  absl::Status CheckUsable() const;

  // After an error nothing can be written any more. Returns the status; InvalidArgument becomes Internal.
  absl::Status Fail(absl::Status status);

  // Makes a published shard part of the job.
  absl::Status Record(ShardRecord record);

  // From now on the current sample is one of those to be written.
  void CommitPosition(uint64_t next_position) { next_position_ = next_position; }
  // Where to continue after the sample that was accepted last.
  uint64_t next_position() const { return next_position_; }
  // The samples skipped since the last call and before next_position(). The others are met again when the run is
  // resumed.
  std::vector<SkippedSample> TakeSkipped();

  // Whether an earlier run has completed the job.
  bool complete() const { return job_ && job_->complete(); }
  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }

  const std::unique_ptr<FileSystem> unsynced_;  // null if the job syncs
  FileSystem& file_system_;
  const std::string directory_;
  const std::unique_ptr<ThreadPool> threads_;
  Manifest manifest_;
  DuplicateKeyCheck duplicate_keys_;

 private:
  std::unique_ptr<JobFolder> job_;  // null when the job appends, and for kTask
  std::vector<ShardRecord> records_;
  std::unique_ptr<DatasetUpdate> update_;            // null unless it does
  std::unique_ptr<ExistingKeyCheck> existing_keys_;  // null where every key is taken
  uint64_t resume_position_ = 0;
  uint64_t next_position_ = 0;
  uint64_t listing_ = 0;
  std::vector<SkippedSample> skipped_;  // all
  std::vector<SkippedSample> skipped_since_shard_;
  absl::Status broken_;
  bool ended_ = false;
};

// A job in Shardkit's own container, of kUnits or kTask. With `of_tasks`, for kUnits, these are the shards of all
// units, which tasks have written: they stay if the job fails.
absl::StatusOr<std::unique_ptr<DatasetJob>> CreateUnitWriter(FileSystem& file_system, const std::string& directory,
                                                             const Schema& schema, const DatasetWriterOptions& options,
                                                             JobKind kind,
                                                             const std::vector<ShardRecord>* of_tasks = nullptr);

// The fingerprint of the job (see JobDescription) that CreateUnitWriter makes.
std::string FingerprintOfJob(const Schema& schema, const DatasetWriterOptions& options);

// Starts a writer that was just made.
template <typename Writer, typename... Parts>
absl::StatusOr<std::unique_ptr<Writer>> StartOrSuspend(std::unique_ptr<Writer> writer, const Schema& schema,
                                                       Parts... parts) {
  if (absl::Status status = writer->Start(schema, std::move(parts)...); !status.ok()) {
    // Suspend keeps what an earlier run finished, although it cannot be taken up now. Without Suspend, the writer would
    // remove it.
    if (writer->continues_job()) (void)writer->Suspend();
    return status;
  }
  return writer;
}

}  // namespace shardkit::dataset
