// What the dataset writers of all containers share: the job and its journal, the shards that an earlier run has
// finished, skipped samples, and errors that end the job.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/dataset_update.h"
#include "dataset/job_directory.h"
#include "shardkit/dataset_writer.h"

namespace shardkit {

class DatasetJob : public DatasetWriter {
 public:
  uint64_t resume_position() const override { return resume_position_; }
  const Schema& schema() const override { return manifest_.schema; }
  absl::Status Append(const Sample& sample, std::optional<uint64_t> next_position) override;
  absl::Status Append(std::span<const std::optional<Value>> row, std::optional<uint64_t> next_position) override;
  void RecordSkip(SkippedSample skipped) override;
  absl::StatusOr<DatasetSummary> Finish() override;
  absl::Status Abort() override;
  absl::Status Suspend() override;
  uint64_t stored_bytes() const override { return stored_bytes_; }
  std::vector<std::string> finished_shards() const override;

 protected:
  DatasetJob(FileSystem& file_system, std::string directory)
      : file_system_(file_system), directory_(std::move(directory)) {}

  // Opens the job and takes up the shards that an earlier run has finished. `text` describes everything that the output
  // depends on, except the samples and the partition. `options` may be those of any container. `files` must outlive the
  // writer's job.
  template <typename Options>
  absl::Status StartJob(const std::string& text, const Options& options, const JobFiles& files) {
    return StartJob(text,
                    {.fingerprint = {}, .partition = options.partition, .partition_count = options.partition_count},
                    options.shard_size, options.resume, files);
  }

  // Begins to append to the dataset in the directory: sets manifest_ to what it has, in the next generation.
  absl::Status StartAppend();
  // Null unless the job appends.
  DatasetUpdate* update() const { return update_.get(); }

  // Implemented by each container. InvalidArgument from AppendSample means that nothing of the sample was written; any
  // other error means that the writer is broken. A file error while earlier samples are written may be InvalidArgument,
  // too, so it must pass through Broken. AppendSample calls Accept before it does anything that can write the sample
  // itself.
  virtual absl::Status AppendSample(const Sample& sample, uint64_t next_position) = 0;
  virtual absl::Status Begin() { return absl::OkStatus(); }    // called before TakeUp and before anything is written
  virtual absl::Status TakeUp(const JournalEntry& entry) = 0;  // takes up a shard that an earlier run has finished
  virtual absl::Status FinishShards() = 0;                     // finishes all shards that were begun
  virtual absl::Status PublishIndexes() = 0;                   // publishes the job's manifest last
  virtual absl::Status DiscardOpen() = 0;                      // stops threads, removes temporary files

  // After an error nothing can be written any more. Returns the status; InvalidArgument becomes Internal.
  absl::Status Broken(absl::Status status);

  // Makes a published shard part of the job.
  absl::Status Record(JournalEntry entry);

  // From now on the current sample is one of those to be written.
  void Accept(uint64_t next_position) { next_position_ = next_position; }
  // Where to continue after the sample that was accepted last.
  uint64_t next_position() const { return next_position_; }
  // The samples skipped since the last call and before next_position(). The others are met again when the run is
  // resumed.
  std::vector<SkippedSample> TakeSkipped();

  // Whether an earlier run has completed the job.
  bool complete() const { return job_ && job_->complete(); }
  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }

  FileSystem& file_system_;
  const std::string directory_;
  Manifest manifest_;

 private:
  absl::Status StartJob(const std::string& text, JobIdentity identity, uint64_t shard_size, bool resume,
                        const JobFiles& files);
  absl::Status CheckUsable() const;

  std::unique_ptr<JobDirectory> job_;      // null when the job appends
  std::unique_ptr<DatasetUpdate> update_;  // null unless it does
  uint64_t resume_position_ = 0;
  uint64_t next_position_ = 0;
  uint64_t stored_bytes_ = 0;           // of finished shards
  std::vector<SkippedSample> skipped_;  // all
  std::vector<SkippedSample> skipped_since_shard_;
  absl::Status broken_;
  bool ended_ = false;
};

// Starts a writer that was just made.
template <typename Writer>
absl::StatusOr<std::unique_ptr<DatasetWriter>> Started(std::unique_ptr<Writer> writer, const Schema& schema) {
  if (absl::Status status = writer->Start(schema); !status.ok()) {
    // Suspend keeps what an earlier run finished, although it cannot be taken up now. Without Suspend, the writer would
    // remove it.
    if (!writer->finished_shards().empty()) (void)writer->Suspend();
    return status;
  }
  return writer;
}

}  // namespace shardkit
