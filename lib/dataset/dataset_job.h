// What writers of all containers' datasets have in common: the job and its journal, what an earlier run has finished,
// skipped samples, and errors that end it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

  // Opens the job and takes up what an earlier run has finished. `text` is all that the output depends on beside the
  // samples and the partition; `options` are those of any container. `files` outlive the writer's job.
  template <typename Options>
  absl::Status StartJob(const std::string& text, const Options& options, const JobFiles& files) {
    return StartJob(text,
                    {.fingerprint = {}, .partition = options.partition, .partition_count = options.partition_count},
                    options.shard_size, options.resume, files);
  }

  // Part of each container. Append's InvalidArgument means that nothing was written, any other error that the writer is
  // broken. What goes wrong with a file while samples before this one are written passes through Broken: it may be
  // InvalidArgument, too. Accept is called before the sample itself can be written.
  virtual absl::Status AppendSample(const Sample& sample, uint64_t next_position) = 0;
  virtual absl::Status Begin() { return absl::OkStatus(); }    // before anything is taken up or written
  virtual absl::Status TakeUp(const JournalEntry& entry) = 0;  // a shard that an earlier run has finished
  virtual absl::Status FinishShards() = 0;                     // all that have been begun
  virtual absl::Status PublishIndexes() = 0;                   // the job's manifest last
  virtual absl::Status DiscardOpen() = 0;                      // stops threads, removes temporary files

  // Lets nothing be written any more unless the status is OK. Returns it, InvalidArgument as Internal.
  absl::Status Broken(absl::Status status);

  // Makes a published shard part of the job.
  absl::Status Record(JournalEntry entry);

  // The sample at hand is among those that are written from now on.
  void Accept(uint64_t next_position) { next_position_ = next_position; }
  // Where to go on behind the sample that was accepted last.
  uint64_t next_position() const { return next_position_; }
  // Samples passed over since this was last asked, in front of next_position(): those behind it are met again when the
  // run is resumed.
  std::vector<SkippedSample> TakeSkipped();

  // An earlier run has left nothing to do.
  bool complete() const { return job_ && job_->complete(); }
  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }

  FileSystem& file_system_;
  const std::string directory_;
  Manifest manifest_;

 private:
  absl::Status StartJob(const std::string& text, JobIdentity identity, uint64_t shard_size, bool resume,
                        const JobFiles& files);
  absl::Status CheckUsable() const;

  std::unique_ptr<JobDirectory> job_;
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
    // What an earlier run finished is not lost because it could not be taken up just now.
    if (!writer->finished_shards().empty()) (void)writer->Suspend();
    return status;
  }
  return writer;
}

}  // namespace shardkit
