#include "dataset/write/dataset_job.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/without_sync.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/shard.h"

namespace shardkit {

SkippedSample SkippedSample::Of(uint64_t position, std::string key, const absl::Status& why) {
  SkippedSample skipped{position, std::move(key), std::string(ToStd(why.message()))};
  if (absl::IsDataLoss(why)) skipped.kind = "damaged";
  if (absl::IsNotFound(why)) skipped.kind = "missing";
  if (absl::IsPermissionDenied(why)) skipped.kind = "forbidden";
  if (absl::IsResourceExhausted(why)) skipped.kind = "too large";
  return skipped;
}

namespace dataset {
namespace {

constexpr size_t kNamed = 3;  // keys, in the message

}  // namespace

// The keys that a dataset has, while samples are appended to it. One thread at a time. Holds what a reader of the
// dataset holds, however many keys there are.
class ExistingKeyCheck {
 public:
  // Null where there is nothing to look for: the dataset has no keys, or samples are added whatever their keys are. The
  // file system must outlive the check.
  static absl::StatusOr<std::unique_ptr<ExistingKeyCheck>> Open(FileSystem& file_system, const std::string& directory,
                                                                ExistingKeys action);

  // Whether a sample with this key is to be left out: the dataset has the key, or, where it refuses, had one before, so
  // that nothing more is stored for naught.
  absl::StatusOr<bool> LeavesOut(std::string_view key);

  // Samples whose key the dataset has.
  uint64_t count() const { return count_; }

  // AlreadyExists where there were such samples and the append is to be refused.
  absl::Status Verdict() const;

 private:
  ExistingKeyCheck(std::unique_ptr<DatasetReader> dataset, ExistingKeys action)
      : dataset_(std::move(dataset)), action_(action) {}

  const std::unique_ptr<DatasetReader> dataset_;
  const ExistingKeys action_;
  BlockBuffer buffer_;
  uint64_t count_ = 0;
  std::vector<std::string> first_;  // of the keys
};

absl::StatusOr<std::unique_ptr<ExistingKeyCheck>> ExistingKeyCheck::Open(FileSystem& file_system,
                                                                         const std::string& directory,
                                                                         ExistingKeys action) {
  if (action == ExistingKeys::kAdd) return nullptr;
  SHARDKIT_ASSIGN_OR_RETURN(auto dataset, DatasetReader::Open(file_system, directory));
  if (!dataset->summary().schema.key_column()) return nullptr;
  return std::unique_ptr<ExistingKeyCheck>(new ExistingKeyCheck(std::move(dataset), action));
}

absl::StatusOr<bool> ExistingKeyCheck::LeavesOut(std::string_view key) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> found, dataset_->FindKey(key, &buffer_));
  if (found) {
    if (first_.size() < kNamed) first_.emplace_back(key);
    ++count_;
  }
  return found.has_value() || (action_ == ExistingKeys::kRefuse && count_ > 0);
}

absl::Status ExistingKeyCheck::Verdict() const {
  if (action_ != ExistingKeys::kRefuse || count_ == 0) return absl::OkStatus();
  std::string keys;
  for (const std::string& key : first_) keys += StrCat(keys.empty() ? "\"" : ", \"", key, "\"");
  if (count_ > first_.size()) keys += ", …";
  return absl::AlreadyExistsError(ToAbsl(
      StrCat(dataset_->path(), ": has the ", count_ == 1 ? "key of 1 sample" : StrCat("keys of ", count_, " samples"),
             " already: ", keys, "; nothing was appended; --existing-keys skip leaves them out, add stores them")));
}

DatasetJob::DatasetJob(FileSystem& file_system, std::string directory, const WriterOptions& options)
    : unsynced_(options.sync ? nullptr : io::WithoutSync(file_system)),
      file_system_(unsynced_ ? *unsynced_ : file_system),
      directory_(std::move(directory)),
      threads_(std::make_unique<ThreadPool>(std::max(options.threads, 1))) {}

DatasetJob::~DatasetJob() = default;

absl::Status DatasetJob::StartUnit(const UnitShard& /*number*/, const InputPosition& /*position*/) {
  return Unimplemented(directory_, ": this container is not written in units");
}

absl::Status DatasetJob::EndShard(const InputPosition& /*position*/) {
  return Unimplemented(directory_, ": this container is not written in units");
}

absl::Status DatasetJob::EndBlock() { return Unimplemented(directory_, ": this container has no blocks"); }

absl::StatusOr<bool> DatasetJob::AppendBlock(container::StoredBlock /*block*/, uint64_t /*next_position*/) {
  return false;
}

absl::Status DatasetJob::StartJob(const std::string& text, JobFolder::Options options) {
  options.threads = threads_.get();
  SHARDKIT_ASSIGN_OR_RETURN(job_, JobFolder::Open(file_system_, directory_, FingerprintOf(text), options));
  if (job_->complete()) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto dataset, DatasetReader::Open(file_system_, directory_));
    SHARDKIT_ASSIGN_OR_RETURN(manifest_, dataset->ReadManifest());
    SHARDKIT_RETURN_IF_ERROR(job_->CheckComplete(manifest_));
    resume_position_ = UINT64_MAX;
    return absl::OkStatus();
  }
  SHARDKIT_RETURN_IF_ERROR(Begin());
  records_ = job_->finished();
  for (const ShardRecord& record : records_) {
    SHARDKIT_RETURN_IF_ERROR(AdoptShard(record));
    manifest_.AddShard(record.shard);
    resume_position_ = next_position_ = record.next_position;
    for (const SkippedSample& skipped : record.skipped) skipped_.push_back(skipped);
  }
  return absl::OkStatus();
}

absl::Status DatasetJob::StartAppend(ExistingKeys existing_keys) {
  SHARDKIT_ASSIGN_OR_RETURN(update_, DatasetUpdate::Begin(file_system_, directory_));
  SHARDKIT_ASSIGN_OR_RETURN(existing_keys_, ExistingKeyCheck::Open(file_system_, directory_, existing_keys));
  manifest_ = update_->before();
  manifest_.BeginGeneration({.name = "append", .arguments = {}});
  return Begin();
}

absl::Status DatasetJob::CheckUsable() const {
  if (ended_) return FailedPrecondition(directory_, ": the dataset writer has ended");
  return broken_;
}

absl::Status DatasetJob::Fail(absl::Status status) {
  // InvalidArgument would say that the current sample is wrong.
  if (absl::IsInvalidArgument(status)) status = Internal(ToStd(status.message()));
  if (!status.ok()) broken_ = status;
  return status;
}

absl::Status DatasetJob::Append(const Sample& sample, std::optional<uint64_t> next_position) {
  SHARDKIT_RETURN_IF_ERROR(CheckUsable());
  if (complete()) return FailedPrecondition(directory_, ": is complete, and takes no more samples");
  const uint64_t next = next_position.value_or(next_position_ + 1);
  if (existing_keys_) {
    const absl::StatusOr<bool> left_out = existing_keys_->LeavesOut(sample.key);
    if (!left_out.ok()) return Fail(left_out.status());
    if (*left_out) {
      CommitPosition(next);
      return absl::OkStatus();
    }
  }
  const absl::Status status = AppendSample(sample, next);
  if (!status.ok()) return absl::IsInvalidArgument(status) ? status : Fail(status);
  CommitPosition(next);
  return absl::OkStatus();
}

absl::Status DatasetJob::Append(std::span<const std::optional<Value>> row, std::optional<uint64_t> next_position) {
  const std::vector<Column>& columns = schema().columns();
  if (row.size() != columns.size()) {
    return InvalidArgument("a row of ", row.size(), " values: the dataset has ", columns.size(), " columns");
  }
  Sample sample;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!row[i]) {
      if (columns[i].is_key) return InvalidArgument("column \"", columns[i].name, "\": a sample has a key");
    } else if (columns[i].is_key) {
      if (row[i]->file)
        return InvalidArgument("column \"", columns[i].name, "\": a key is given as bytes, not as a file");
      sample.key = row[i]->bytes;
    } else {
      sample.fields.push_back({&columns[i], *row[i]});
    }
  }
  return Append(sample, next_position);
}

void DatasetJob::RecordSkip(SkippedSample skipped) {
  skipped_.push_back(skipped);
  skipped_since_shard_.push_back(std::move(skipped));
}

std::vector<SkippedSample> DatasetJob::TakeSkipped() {
  const auto behind = std::ranges::find_if(
      skipped_since_shard_, [&](const SkippedSample& skipped) { return skipped.position >= next_position_; });
  std::vector<SkippedSample> taken(std::make_move_iterator(skipped_since_shard_.begin()),
                                   std::make_move_iterator(behind));
  skipped_since_shard_.erase(skipped_since_shard_.begin(), behind);
  return taken;
}

absl::Status DatasetJob::Record(ShardRecord record) {
  record.shards_before = records_.size();
  if (job_) SHARDKIT_RETURN_IF_ERROR(job_->Record(record));
  manifest_.AddShard(record.shard);
  records_.push_back(std::move(record));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DatasetJob::KeysOfShards(size_t begin, size_t end) const {
  std::vector<std::string> keys;
  const uint64_t first = begin == 0 ? 0 : records_[begin - 1].next_position;
  BlockBuffer buffer;
  BlockView view;
  for (size_t i = begin; i < end; ++i) {
    auto skipped = records_[i].skipped.begin();
    const auto add_skipped = [&] {
      for (; skipped != records_[i].skipped.end() && skipped->position == first + keys.size(); ++skipped) {
        keys.push_back(skipped->key);
      }
    };
    SHARDKIT_ASSIGN_OR_RETURN(const auto shard, ShardReader::Open(file_system_, Path(records_[i].shard.name)));
    const std::optional<size_t> column = shard->schema().key_column();
    for (size_t block = 0; column && block < shard->blocks().size(); ++block) {
      SHARDKIT_RETURN_IF_ERROR(shard->ReadBlock(block, {&*column, 1}, &buffer, &view));
      for (uint32_t k = 0; k < view.sample_count(); ++k) {
        add_skipped();
        keys.emplace_back(view.column(*column).bytes(k));
      }
    }
    add_skipped();
  }
  return keys;
}

absl::StatusOr<DatasetSummary> DatasetJob::Finish() {
  SHARDKIT_RETURN_IF_ERROR(CheckUsable());
  if (!complete()) {
    if (existing_keys_) SHARDKIT_RETURN_IF_ERROR(Fail(existing_keys_->Verdict()));
    SHARDKIT_RETURN_IF_ERROR(Fail(FinishShards()));
    if (job_) SHARDKIT_RETURN_IF_ERROR(Fail(job_->Describe(manifest_, listing_)));
    const absl::Status published = PublishIndexes();
    // Another run has taken the directory, although this one had locked it: its files are not to be removed.
    if (absl::IsAlreadyExists(published) && job_) job_->Suspend();
    SHARDKIT_RETURN_IF_ERROR(Fail(published));
    // From here on the dataset is complete. Only cleaning up is left, which a later run can do.
    if (job_) SHARDKIT_RETURN_IF_ERROR(job_->Finish());
  }
  ended_ = true;
  return DatasetSummary{manifest_, skipped_, existing_keys_ ? existing_keys_->count() : 0};
}

absl::Status DatasetJob::Abort() {
  if (std::exchange(ended_, true)) return absl::OkStatus();
  absl::Status status = DiscardOpen();
  if (job_) status.Update(job_->Abort());
  if (update_) status.Update(update_->Abort());
  return status;
}

absl::Status DatasetJob::Suspend() {
  if (update_) return Abort();
  if (std::exchange(ended_, true)) return absl::OkStatus();
  const absl::Status status = DiscardOpen();
  if (job_) job_->Suspend();
  job_.reset();
  return status;
}

}  // namespace dataset
}  // namespace shardkit
