#include "shardkit/dataset_writer.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "container/block_builder.h"
#include "container/block_encoder.h"
#include "container/shard_file_writer.h"
#include "dataset/finished_shard.h"
#include "dataset/index_writer.h"
#include "dataset/job_directory.h"
#include "dataset/schema_mapper.h"

namespace shardkit {
namespace {

// A block on its way through the encoding threads.
struct InFlight {
  Pending<absl::StatusOr<EncodedBlock>> encoded;
  std::shared_ptr<const EncodingPlan> plan;
  bool starts_shard = false;
  uint64_t next_position = 0;
  std::vector<SkippedSample> skipped;
};

// A closed block, held until the dictionaries of its shard are trained.
struct Held {
  RawBlock block;
  uint64_t next_position = 0;
  std::vector<SkippedSample> skipped;
};

// One encoder for each task that runs at the same time.
class EncoderPool {
 public:
  std::unique_ptr<BlockEncoder> Acquire() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<BlockEncoder>();
    std::unique_ptr<BlockEncoder> encoder = std::move(free_.back());
    free_.pop_back();
    return encoder;
  }
  void Release(std::unique_ptr<BlockEncoder> encoder) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(encoder));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<BlockEncoder>> free_;
};

std::string Fingerprint(const Schema& schema, const DatasetWriterOptions& options) {
  const ShardOptions& shard = options.shard;
  std::string text = StrCat(options.job, "\n", shard.block_size, " ", shard.max_block_samples, " ", shard.alignment,
                            " ", options.shard_size, " ", options.shard_samples, "\n");
  for (const auto& [name, level] : shard.zstd_levels) text += StrCat("level ", name, " ", level, "\n");
  for (const auto& [name, size] : shard.dictionaries) text += StrCat("dictionary ", name, " ", size, "\n");
  for (const auto& [name, value] : shard.metadata) text += StrCat("metadata ", name, " ", value, "\n");
  for (const auto& [name, codec] : options.codecs) text += StrCat("codec ", name, " ", CodecName(codec), "\n");
  for (const Column& column : schema.columns()) {
    text += StrCat("column ", column.name, " ", TypeName(column.type), " ", CodecName(column.codec), " ",
                   column.nullable ? "nullable " : "", column.is_key ? "key " : "", TypeName(column.dtype));
    if (column.shape) text += " shape";
    for (const uint64_t dimension : column.shape.value_or(std::vector<uint64_t>())) text += StrCat(" ", dimension);
    text += '\n';
  }
  return StrCat(absl::Hex(Hash64(text), absl::kZeroPad16));
}

class NativeDatasetWriter : public DatasetWriter {
 public:
  NativeDatasetWriter(FileSystem& file_system, std::string directory, const DatasetWriterOptions& options)
      : file_system_(file_system),
        directory_(std::move(directory)),
        options_(options),
        builder_limited_(options.shard_samples != 0 || !options.shard.dictionaries.empty()),
        threads_(std::make_unique<ThreadPool>(std::max(options.threads, 1))) {}

  ~NativeDatasetWriter() override { (void)Abort(); }

  absl::Status Start(const Schema& schema) {
    if (options_.shard_size == 0) return InvalidArgument(directory_, ": shard size 0 is not allowed");
    SHARDKIT_RETURN_IF_ERROR(CheckPartition(options_.partition, options_.partition_count));
    SHARDKIT_RETURN_IF_ERROR(mapper_.Start(schema, options_.codecs));
    SHARDKIT_RETURN_IF_ERROR(UseSchema());
    SHARDKIT_ASSIGN_OR_RETURN(
        job_, JobDirectory::Open(file_system_, directory_,
                                 {Fingerprint(schema, options_), options_.partition, options_.partition_count},
                                 options_.resume));
    if (job_->complete()) {
      SHARDKIT_ASSIGN_OR_RETURN(manifest_, ReadManifest(file_system_, directory_));
      SHARDKIT_RETURN_IF_ERROR(job_->CheckComplete(manifest_));
      resume_position_ = UINT64_MAX;
      return absl::OkStatus();
    }
    SHARDKIT_ASSIGN_OR_RETURN(index_, IndexWriter::Create(file_system_, directory_));
    return TakeUpFinishedShards();
  }

  // Of the interrupted run.
  bool has_finished_shards() const { return job_ && !job_->finished().empty(); }

  uint64_t resume_position() const override { return resume_position_; }
  const Schema& schema() const override { return mapper_.schema(); }
  uint64_t stored_bytes() const override { return finished_bytes_ + (file_ ? file_->position() : 0); }

  absl::Status Append(const Sample& sample, uint64_t next_position) override {
    SHARDKIT_RETURN_IF_ERROR(CheckUsable());
    if (job_->complete()) return FailedPrecondition(directory_, ": is complete, and takes no more samples");
    SHARDKIT_ASSIGN_OR_RETURN(const bool fits, mapper_.Map(sample, &values_));
    if (!fits) {
      SHARDKIT_RETURN_IF_ERROR(Broken(CloseBlock()));
      SHARDKIT_RETURN_IF_ERROR(Broken(Dispatch()));
      SHARDKIT_RETURN_IF_ERROR(mapper_.Widen(sample));
      SHARDKIT_RETURN_IF_ERROR(Broken(UseSchema()));
      StartShard();
      SHARDKIT_RETURN_IF_ERROR(mapper_.Map(sample, &values_).status());
    }
    SHARDKIT_RETURN_IF_ERROR(builder_->Check(values_));
    if (builder_->MustFlushBefore(values_)) SHARDKIT_RETURN_IF_ERROR(Broken(CloseBlock()));
    if (builder_limited_ && ShardIsFull()) {
      SHARDKIT_RETURN_IF_ERROR(Broken(CloseBlock()));
      SHARDKIT_RETURN_IF_ERROR(Broken(Dispatch()));
      StartShard();
    }
    const uint64_t bytes_before = builder_->bytes();
    builder_->Add(values_);
    shard_raw_bytes_ += builder_->bytes() - bytes_before;
    ++shard_raw_samples_;
    next_position_ = next_position;
    return builder_->full() ? Broken(CloseBlock()) : absl::OkStatus();
  }

  void RecordSkip(SkippedSample skipped) override {
    skipped_.push_back(skipped);
    skipped_since_block_.push_back(std::move(skipped));
  }

  absl::StatusOr<DatasetSummary> Finish() override {
    SHARDKIT_RETURN_IF_ERROR(CheckUsable());
    if (!job_->complete()) {
      SHARDKIT_RETURN_IF_ERROR(Broken(CloseBlock()));
      SHARDKIT_RETURN_IF_ERROR(Broken(Dispatch()));
      while (!in_flight_.empty()) SHARDKIT_RETURN_IF_ERROR(Broken(WriteOne()));
      SHARDKIT_RETURN_IF_ERROR(Broken(FinishShard()));
      manifest_.schema = mapper_.schema();
      manifest_.metadata = options_.shard.metadata;
      SHARDKIT_RETURN_IF_ERROR(Broken(index_->Finish(manifest_)));
      SHARDKIT_RETURN_IF_ERROR(Broken(job_->Describe(manifest_)));
      SHARDKIT_RETURN_IF_ERROR(Broken(PublishManifest(file_system_, directory_, manifest_)));
      // From here on the dataset is complete: what is left is tidying up, and a later run can do it.
      SHARDKIT_RETURN_IF_ERROR(job_->Finish());
    }
    ended_ = true;
    return DatasetSummary{manifest_, skipped_};
  }

  absl::Status Abort() override {
    if (std::exchange(ended_, true)) return absl::OkStatus();
    StopThreads();
    absl::Status status;
    if (file_) status.Update(file_->Abort());
    if (index_) status.Update(index_->Abort());
    if (job_) status.Update(job_->Abort());
    return status;
  }

  absl::Status Suspend() override {
    if (std::exchange(ended_, true)) return absl::OkStatus();
    StopThreads();
    absl::Status status;
    if (file_) status.Update(file_->Abort());
    if (index_) status.Update(index_->Abort());
    if (job_) job_->Suspend();
    job_.reset();
    return status;
  }

 private:
  absl::Status CheckUsable() const {
    if (ended_) return FailedPrecondition(directory_, ": the dataset writer has ended");
    return broken_;
  }

  // Remembers an error after which the writer can only be aborted.
  absl::Status Broken(absl::Status status) {
    if (!status.ok()) broken_ = status;
    return status;
  }

  void StopThreads() {
    stopped_.Cancel();
    in_flight_.clear();
    threads_.reset();
  }

  absl::Status UseSchema() {
    SHARDKIT_ASSIGN_OR_RETURN(EncodingPlan plan, MakeEncodingPlan(mapper_.schema(), options_.shard));
    plan_ = std::make_shared<const EncodingPlan>(std::move(plan));
    uint32_t samples = options_.shard.max_block_samples;
    if (options_.shard_samples != 0)
      samples = static_cast<uint32_t>(std::min<uint64_t>(samples, options_.shard_samples));
    builder_ = std::make_unique<BlockBuilder>(plan_->schema, options_.shard.block_size, samples);
    return absl::OkStatus();
  }

  bool ShardIsFull() const {
    if (shard_raw_samples_ == 0) return false;
    return (options_.shard_samples != 0 && shard_raw_samples_ >= options_.shard_samples) ||
           shard_raw_bytes_ >= options_.shard_size;
  }

  void StartShard() {
    starts_shard_ = true;
    trained_ = false;
    shard_raw_samples_ = 0;
    shard_raw_bytes_ = 0;
  }

  absl::Status TakeUpFinishedShards() {
    for (const JournalEntry& entry : job_->finished()) {
      const std::string path = JoinPath(directory_, entry.shard.name);
      SHARDKIT_ASSIGN_OR_RETURN(FinishedShard shard, ReadFinishedShard(file_system_, path));
      SHARDKIT_RETURN_IF_ERROR(index_->Add(shard.schema, std::move(shard.index_part)));
      SHARDKIT_RETURN_IF_ERROR(mapper_.Start(shard.schema, options_.codecs));
      manifest_.shards.push_back(entry.shard);
      finished_bytes_ += entry.shard.bytes;
      resume_position_ = next_position_ = entry.next_position;
    }
    for (const JournalEntry& entry : job_->finished()) {
      for (const SkippedSample& skipped : entry.skipped) {
        // One after the last stored sample is met again, and may have been met again before.
        const bool again = !skipped_.empty() && skipped.position <= skipped_.back().position;
        if (skipped.position < resume_position_ && !again) skipped_.push_back(skipped);
      }
    }
    return UseSchema();
  }

  absl::Status CloseBlock() {
    if (builder_->empty()) return absl::OkStatus();
    held_.push_back({builder_->Take(), next_position_, std::exchange(skipped_since_block_, {})});
    const bool wait = !options_.shard.dictionaries.empty() && !trained_ && held_.size() < kTrainingBlocks;
    return wait ? absl::OkStatus() : Dispatch();
  }

  // Hands held blocks to the encoding threads, and writes finished ones so that few are in flight.
  absl::Status Dispatch() {
    if (held_.empty()) return absl::OkStatus();
    if (!options_.shard.dictionaries.empty() && !std::exchange(trained_, true)) {
      SHARDKIT_ASSIGN_OR_RETURN(EncodingPlan plan, MakeEncodingPlan(mapper_.schema(), options_.shard));
      std::vector<RawBlock> blocks;
      for (Held& held : held_) blocks.push_back(std::move(held.block));
      SHARDKIT_RETURN_IF_ERROR(TrainDictionaries(options_.shard, blocks, &plan));
      for (size_t i = 0; i < held_.size(); ++i) held_[i].block = std::move(blocks[i]);
      shard_plan_ = std::make_shared<const EncodingPlan>(std::move(plan));
    } else if (options_.shard.dictionaries.empty()) {
      shard_plan_ = plan_;
    }
    for (Held& held : std::exchange(held_, {})) {
      InFlight block;
      block.plan = shard_plan_;
      block.starts_shard = std::exchange(starts_shard_, false);
      block.next_position = held.next_position;
      block.skipped = std::move(held.skipped);
      auto raw = std::make_shared<RawBlock>(std::move(held.block));
      block.encoded = Pending<absl::StatusOr<EncodedBlock>>::Run(
          *threads_, [this, plan = shard_plan_, raw]() -> absl::StatusOr<EncodedBlock> {
            SHARDKIT_RETURN_IF_ERROR(stopped_.Check("compressing blocks"));
            std::unique_ptr<BlockEncoder> encoder = encoders_.Acquire();
            absl::StatusOr<EncodedBlock> encoded = encoder->Encode(*plan, std::move(*raw));
            encoders_.Release(std::move(encoder));
            return encoded;
          });
      in_flight_.push_back(std::move(block));
      while (in_flight_.size() > static_cast<size_t>(threads_->thread_count()) + 1) {
        SHARDKIT_RETURN_IF_ERROR(WriteOne());
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteOne() {
    InFlight block = std::move(in_flight_.front());
    in_flight_.pop_front();
    SHARDKIT_ASSIGN_OR_RETURN(EncodedBlock encoded, block.encoded.Take());
    if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check("writing blocks"));
    if (file_ && (block.starts_shard || WouldOverflow(encoded))) SHARDKIT_RETURN_IF_ERROR(FinishShard());
    if (!file_) {
      const std::string path = JoinPath(directory_, ShardName(manifest_.shards.size()));
      SHARDKIT_ASSIGN_OR_RETURN(file_, ShardFileWriter::Create(file_system_, path, *block.plan, options_.shard));
      file_schema_ = block.plan->schema;
    }
    SHARDKIT_RETURN_IF_ERROR(file_->Write(std::move(encoded), options_.cancellation));
    written_position_ = block.next_position;
    std::ranges::move(block.skipped, std::back_inserter(skipped_in_shard_));
    return absl::OkStatus();
  }

  bool WouldOverflow(const EncodedBlock& block) const {
    if (file_->sample_count() + block.header.sample_count > format::kMaxShardSamples) return true;
    if (builder_limited_) return false;
    return file_->position() + block.length() > options_.shard_size ||
           file_->sample_count() + block.header.sample_count > kMaxSamplesBySize;
  }

  absl::Status FinishShard() {
    if (!file_) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary summary, file_->Finish());
    JournalEntry entry;
    entry.shard = {ShardName(manifest_.shards.size()), summary.file_length, summary.sample_count, summary.block_count,
                   summary.content_hash};
    entry.next_position = written_position_;
    entry.skipped = std::exchange(skipped_in_shard_, {});
    SHARDKIT_RETURN_IF_ERROR(index_->Add(file_schema_, file_->TakeIndexPart()));
    file_.reset();
    finished_bytes_ += summary.file_length;
    manifest_.shards.push_back(entry.shard);
    return job_->Record(entry);
  }

  // Bounds the memory of the key index and of the ends while a shard of tiny samples is written.
  static constexpr uint64_t kMaxSamplesBySize = uint64_t{1} << 20;

  FileSystem& file_system_;
  const std::string directory_;
  const DatasetWriterOptions options_;
  const bool builder_limited_;  // shards end where the builder says, not where stored bytes do

  SchemaMapper mapper_;
  std::vector<std::optional<Value>> values_;
  std::shared_ptr<const EncodingPlan> plan_;        // without dictionaries
  std::shared_ptr<const EncodingPlan> shard_plan_;  // of the shard being filled
  std::unique_ptr<BlockBuilder> builder_;
  std::vector<Held> held_;
  bool trained_ = false;
  bool starts_shard_ = false;
  uint64_t shard_raw_samples_ = 0;
  uint64_t shard_raw_bytes_ = 0;
  uint64_t next_position_ = 0;

  std::deque<InFlight> in_flight_;
  std::unique_ptr<ShardFileWriter> file_;
  Schema file_schema_;
  uint64_t written_position_ = 0;
  uint64_t resume_position_ = 0;
  uint64_t finished_bytes_ = 0;

  std::unique_ptr<JobDirectory> job_;
  std::unique_ptr<IndexWriter> index_;
  Manifest manifest_;
  std::vector<SkippedSample> skipped_;              // all
  std::vector<SkippedSample> skipped_since_block_;  // since the last block was closed
  std::vector<SkippedSample> skipped_in_shard_;     // among the blocks written to the present shard
  absl::Status broken_;
  bool ended_ = false;
  Cancellation stopped_;
  EncoderPool encoders_;
  std::unique_ptr<ThreadPool> threads_;  // last: joins before what its tasks use is gone
};

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetWriter>> DatasetWriter::Create(FileSystem& file_system,
                                                                     const std::string& directory, const Schema& schema,
                                                                     const DatasetWriterOptions& options) {
  auto writer = std::make_unique<NativeDatasetWriter>(file_system, directory, options);
  if (absl::Status status = writer->Start(schema); !status.ok()) {
    // What an earlier run finished is not lost because it could not be taken up just now.
    if (writer->has_finished_shards()) (void)writer->Suspend();
    return status;
  }
  return writer;
}

}  // namespace shardkit
