#include "dataset/foreign/foreign_dataset_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/publish_file.h"

namespace shardkit {

absl::Status ForeignDatasetWriter::StartJob(const Schema& schema, const JobFiles& files, const std::string& settings) {
  if (common_.shard_size == 0) return InvalidArgument(directory_, ": shard size 0 is not allowed");
  SHARDKIT_RETURN_IF_ERROR(CheckPartition(common_.partition, common_.partition_count));
  manifest_.schema = schema;
  manifest_.metadata = common_.origin.metadata;
  Manifest described;
  described.schema = schema;
  const std::string text = StrCat(common_.job, "\n", settings, "\n", common_.shard_size, " ", common_.shard_samples,
                                  "\n", FormatManifest(described), FormatManifest(common_.origin));
  SHARDKIT_ASSIGN_OR_RETURN(job_, JobDirectory::Open(file_system_, directory_,
                                                     {StrCat(absl::Hex(Hash64(text), absl::kZeroPad16)),
                                                      common_.partition, common_.partition_count},
                                                     common_.resume, files));
  if (job_->complete()) {
    SHARDKIT_ASSIGN_OR_RETURN(manifest_, ReadFinished());
    SHARDKIT_RETURN_IF_ERROR(job_->CheckComplete(manifest_));
    resume_position_ = UINT64_MAX;
    return absl::OkStatus();
  }
  for (const JournalEntry& entry : job_->finished()) {
    SHARDKIT_RETURN_IF_ERROR(TakeUp(entry));
    manifest_.shards.push_back(entry.shard);
    stored_bytes_ += entry.shard.bytes;
    resume_position_ = next_position_ = entry.next_position;
    for (const SkippedSample& skipped : entry.skipped) skipped_.push_back(skipped);
  }
  return absl::OkStatus();
}

absl::Status ForeignDatasetWriter::CheckUsable() const {
  if (ended_) return FailedPrecondition(directory_, ": the dataset writer has ended");
  return broken_;
}

absl::Status ForeignDatasetWriter::Broken(absl::Status status) {
  // That would say that the sample at hand is to blame.
  if (absl::IsInvalidArgument(status)) status = Internal(ToStd(status.message()));
  if (!status.ok()) broken_ = status;
  return status;
}

absl::Status ForeignDatasetWriter::Append(const Sample& sample, uint64_t next_position) {
  SHARDKIT_RETURN_IF_ERROR(CheckUsable());
  if (job_->complete()) return FailedPrecondition(directory_, ": is complete, and takes no more samples");
  const absl::Status status = AppendSample(sample);
  if (!status.ok()) return absl::IsInvalidArgument(status) ? status : Broken(status);
  next_position_ = next_position;
  return absl::OkStatus();
}

void ForeignDatasetWriter::RecordSkip(SkippedSample skipped) {
  skipped_.push_back(skipped);
  skipped_since_shard_.push_back(std::move(skipped));
}

std::vector<SkippedSample> ForeignDatasetWriter::TakeSkipped() {
  const auto behind = std::ranges::find_if(
      skipped_since_shard_, [&](const SkippedSample& skipped) { return skipped.position >= next_position_; });
  std::vector<SkippedSample> taken(std::make_move_iterator(skipped_since_shard_.begin()),
                                   std::make_move_iterator(behind));
  skipped_since_shard_.erase(skipped_since_shard_.begin(), behind);
  return taken;
}

absl::Status ForeignDatasetWriter::Record(JournalEntry entry) {
  stored_bytes_ += entry.shard.bytes;
  SHARDKIT_RETURN_IF_ERROR(job_->Record(entry));
  manifest_.shards.push_back(std::move(entry.shard));
  return absl::OkStatus();
}

absl::Status ForeignDatasetWriter::PublishOrigin() const {
  Manifest origin = common_.origin;
  origin.shards.clear();
  return PublishFile(file_system_, Path(kOriginName), FormatManifest(origin));
}

absl::StatusOr<DatasetSummary> ForeignDatasetWriter::Finish() {
  SHARDKIT_RETURN_IF_ERROR(CheckUsable());
  if (!job_->complete()) {
    SHARDKIT_RETURN_IF_ERROR(Broken(FinishShards()));
    SHARDKIT_RETURN_IF_ERROR(Broken(job_->Describe(manifest_)));
    SHARDKIT_RETURN_IF_ERROR(Broken(PublishIndexes()));
    // From here on the dataset is complete: what is left is tidying up, and a later run can do it.
    SHARDKIT_RETURN_IF_ERROR(job_->Finish());
  }
  ended_ = true;
  return DatasetSummary{manifest_, skipped_};
}

absl::Status ForeignDatasetWriter::Abort() {
  if (std::exchange(ended_, true)) return absl::OkStatus();
  absl::Status status = DiscardOpen();
  if (job_) status.Update(job_->Abort());
  return status;
}

absl::Status ForeignDatasetWriter::Suspend() {
  if (std::exchange(ended_, true)) return absl::OkStatus();
  const absl::Status status = DiscardOpen();
  if (job_) job_->Suspend();
  job_.reset();
  return status;
}

}  // namespace shardkit
