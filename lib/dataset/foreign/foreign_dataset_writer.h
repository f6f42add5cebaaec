// What writers of other containers' datasets have in common: the job and its journal, skipped samples, errors that end
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/job_directory.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/foreign_writer.h"

namespace shardkit {

class ForeignDatasetWriter : public DatasetWriter {
 public:
  uint64_t resume_position() const override { return resume_position_; }
  const Schema& schema() const override { return manifest_.schema; }
  absl::Status Append(const Sample& sample, uint64_t next_position) override;
  void RecordSkip(SkippedSample skipped) override;
  absl::StatusOr<DatasetSummary> Finish() override;
  absl::Status Abort() override;
  absl::Status Suspend() override;
  uint64_t stored_bytes() const override { return stored_bytes_; }

  // Of an interrupted run.
  bool has_finished_shards() const { return job_ && !job_->finished().empty(); }

 protected:
  ForeignDatasetWriter(FileSystem& file_system, std::string directory, const ForeignWriterOptions& options)
      : file_system_(file_system), directory_(std::move(directory)), common_(options) {}

  // Opens the job and takes up what an earlier run has finished. `settings` are what the output depends on beside the
  // schema and the common options.
  absl::Status StartJob(const Schema& schema, const JobFiles& files, const std::string& settings);

  // Part of each container. Append's InvalidArgument means that nothing was written, any other error that the writer is
  // broken. What goes wrong with a file while samples before this one are written passes through Broken: it may be
  // InvalidArgument, too.
  virtual absl::Status AppendSample(const Sample& sample) = 0;
  virtual absl::Status TakeUp(const JournalEntry& entry) = 0;  // a shard that an earlier run has finished
  virtual absl::Status FinishShards() = 0;                     // all that have been begun
  virtual absl::Status PublishIndexes() = 0;                   // the job's manifest last
  virtual absl::Status DiscardOpen() = 0;                      // stops threads, removes temporary files
  virtual absl::StatusOr<Manifest> ReadFinished() const = 0;   // the manifest of a dataset that is complete

  // Lets nothing be written any more unless the status is OK. Returns it, InvalidArgument as Internal.
  absl::Status Broken(absl::Status status);

  // Makes a published shard part of the job.
  absl::Status Record(JournalEntry entry);

  // Where to go on behind the sample that was appended last.
  uint64_t next_position() const { return next_position_; }
  // Samples passed over since this was last asked, in front of next_position(): those behind it are met again when the
  // run is resumed.
  std::vector<SkippedSample> TakeSkipped();

  std::string Path(std::string_view name) const { return JoinPath(directory_, name); }
  absl::Status PublishOrigin() const;

  FileSystem& file_system_;
  const std::string directory_;
  const ForeignWriterOptions common_;
  Manifest manifest_;

 private:
  absl::Status CheckUsable() const;

  std::unique_ptr<JobDirectory> job_;
  uint64_t resume_position_ = 0;
  uint64_t next_position_ = 0;
  uint64_t stored_bytes_ = 0;
  std::vector<SkippedSample> skipped_;  // all
  std::vector<SkippedSample> skipped_since_shard_;
  absl::Status broken_;
  bool ended_ = false;
};

}  // namespace shardkit
