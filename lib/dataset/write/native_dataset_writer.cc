// Writing our own datasets.

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "container/read/shard_index_part.h"
#include "container/write/block_builder.h"
#include "container/write/block_encoder.h"
#include "container/write/shard_file_writer.h"
#include "dataset/read/segments.h"
#include "dataset/stored_columns.h"
#include "dataset/write/dataset_job.h"
#include "dataset/write/schema_mapper.h"
#include "dataset/write/segment_writer.h"
#include "dataset/write/shard_collector.h"
#include "io/publish_file.h"

namespace shardkit {
namespace {

// The end of a shard that the caller has ended.
struct ShardEnd {
  dataset::InputPosition position;
  std::vector<SkippedSample> skipped;  // behind its last block
};

// A block that was handed to the encoding threads, or that needs no encoding.
struct InFlight {
  std::optional<container::StoredBlock> copied;
  std::shared_ptr<const container::BlockEncoding> plan;
  bool starts_shard = false;
  dataset::UnitShard number;     // of that shard
  std::optional<ShardEnd> ends;  // the shard before it
  uint64_t next_position = 0;
  std::vector<SkippedSample> skipped;
};

// A closed block, held until it is known how its shard is stored.
struct Held {
  container::RawBlock block;
  uint64_t next_position = 0;
  std::vector<SkippedSample> skipped;
};

// One encoder for each task that runs at the same time.
class EncoderPool {
 public:
  std::unique_ptr<container::BlockEncoder> Acquire() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<container::BlockEncoder>();
    std::unique_ptr<container::BlockEncoder> encoder = std::move(free_.back());
    free_.pop_back();
    return encoder;
  }
  void Release(std::unique_ptr<container::BlockEncoder> encoder) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(encoder));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<container::BlockEncoder>> free_;
};

// Describes everything that a dataset depends on which is written so, except the samples.
std::string DescribeJob(const Schema& schema, const DatasetWriterOptions& options) {
  const ShardOptions& shard = options.shard;
  std::string text = StrCat(options.job, "\n", shard.block_size, " ", shard.max_block_samples, " ", shard.alignment,
                            " ", options.shard_size, " ", options.shard_samples, "\n");
  for (const auto& [name, level] : shard.zstd_levels) text += StrCat("level ", name, " ", level, "\n");
  for (const auto& [name, size] : shard.dictionaries) text += StrCat("dictionary ", name, " ", size, "\n");
  for (const auto& [name, storage] : shard.storage) {
    text += StrCat("storage ", name, " ", static_cast<int>(storage), "\n");
  }
  for (const auto& [name, value] : shard.metadata) text += StrCat("metadata ", name, " ", value, "\n");
  if (options.sha256) text += "sha256\n";
  for (const auto& [name, codec] : options.codecs) text += StrCat("codec ", name, " ", CodecName(codec), "\n");
  for (const Column& column : schema.columns()) {
    text += StrCat("column ", column.name, " ", TypeName(column.type), " ", CodecName(column.codec), " ",
                   column.nullable ? "nullable " : "", column.is_key ? "key " : "", TypeName(column.dtype));
    if (column.shape) text += " shape";
    for (const uint64_t dimension : column.shape.value_or(std::vector<uint64_t>())) text += StrCat(" ", dimension);
    if (!IsKnownType(column.type) && column.fixed_size()) text += StrCat(" size ", *column.fixed_size());
    for (const auto& [name, value] : column.metadata) text += StrCat(" ", name, "=", value);
    text += '\n';
  }
  return text;
}

// Puts the stored names of columns in the place of their names.
template <typename Map>
void UseStoredNames(const ManifestSummary& manifest, Map* map) {
  Map stored;
  for (auto& [name, value] : *map) stored.emplace(manifest.StoredName(name), std::move(value));
  *map = std::move(stored);
}

class NativeDatasetWriter final : public dataset::DatasetJob {
 public:
  NativeDatasetWriter(FileSystem& file_system, std::string directory, const DatasetWriterOptions& options,
                      dataset::JobKind kind)
      : dataset::DatasetJob(file_system, std::move(directory), options),
        options_(options),
        kind_(kind),
        builder_limited_(kind != dataset::JobKind::kWriter || options.shard_samples != 0 ||
                         !options.shard.dictionaries.empty()),
        reading_(threads(), "reading indexes", options.cancellation, 2 * static_cast<size_t>(threads().thread_count())),
        in_flight_(threads(), "writing blocks", options.cancellation,
                   static_cast<size_t>(threads().thread_count()) + 2) {}

  ~NativeDatasetWriter() override {
    (void)Guarded("giving up", [this] { return Abort(); });
  }

  // `of_tasks` as of CreateUnitWriter.
  absl::Status Start(const Schema& schema, const std::vector<dataset::ShardRecord>* of_tasks = nullptr) {
    if (options_.append) {
      if (kind_ == dataset::JobKind::kWriter || kind_ == dataset::JobKind::kUnits) return StartAppending(schema);
      return InvalidArgument(directory_, ": tasks make new datasets: append their samples in one run, or merge");
    }
    SHARDKIT_RETURN_IF_ERROR(mapper_.Start(schema, options_.codecs));
    SHARDKIT_RETURN_IF_ERROR(UseSchema());
    // Refused here, rather than when the first shard has been filled.
    SHARDKIT_RETURN_IF_ERROR(Annotate(NewSha256().status(), directory_));
    if (options_.shard_size == 0) return InvalidArgument(directory_, ": shard size 0 is not allowed");
    first_schema_ = manifest_.schema = mapper_.schema();
    if (kind_ == dataset::JobKind::kTask) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(
        StartJob(DescribeJob(schema, options_),
                 {.resume = options_.resume, .of_tasks = of_tasks, .cancellation = options_.cancellation}));
    return UseSchema();
  }

  const Schema& schema() const override {
    return complete() || kind_ != dataset::JobKind::kWriter ? manifest_.schema : mapper_.schema();
  }

  absl::Status StartUnit(const dataset::UnitShard& number, const dataset::InputPosition& position) override {
    SHARDKIT_RETURN_IF_ERROR(EndShard(position));
    next_shard_ = number;
    // Where an interrupted run's unit goes on, its earlier shards have widened the schema.
    const Schema& schema = number.shard == 0 ? first_schema_ : resumed_schema_;
    if (mapper_.schema() == schema) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(Fail(mapper_.Start(schema, options_.codecs)));
    return Fail(UseSchema());
  }

  const Schema* columns_of_blocks() const override {
    const ShardOptions& shard = options_.shard;
    const bool as_ever = shard.zstd_levels.empty() && shard.dictionaries.empty() && shard.storage.empty();
    const bool same_names = manifest_.stored_names.empty();
    return kind_ != dataset::JobKind::kWriter && as_ever && same_names && !checks_samples() ? &first_schema_ : nullptr;
  }

  absl::StatusOr<bool> AppendBlock(container::StoredBlock block, uint64_t next_position) override {
    SHARDKIT_RETURN_IF_ERROR(CheckUsable());
    if (columns_of_blocks() == nullptr || block.alignment != options_.shard.alignment ||
        !container::EqualButStorages(*block.schema, plan_->schema)) {
      return false;
    }
    // What was collected before ends here; as the first block of a shard it decides on the storages.
    SHARDKIT_RETURN_IF_ERROR(Fail(CloseBlock()));
    SHARDKIT_RETURN_IF_ERROR(Fail(Dispatch()));
    if (!starts_shard_ && shard_plan_->schema != *block.schema) return false;
    if (starts_shard_) {
      container::BlockEncoding plan = *plan_;
      plan.schema = *block.schema;
      shard_plan_ = std::make_shared<const container::BlockEncoding>(std::move(plan));
    }
    CommitPosition(next_position);
    InFlight copied;
    copied.copied = std::move(block);
    copied.next_position = next_position;
    copied.skipped = TakeSkipped();
    SHARDKIT_RETURN_IF_ERROR(Fail(PlaceInShard(&copied)));
    in_flight_.AddReady(container::EncodedBlock(), std::move(copied));
    SHARDKIT_RETURN_IF_ERROR(Fail(WriteSome()));
    return true;
  }

  absl::Status EndShard(const dataset::InputPosition& position) override {
    SHARDKIT_RETURN_IF_ERROR(Fail(CloseBlock()));
    SHARDKIT_RETURN_IF_ERROR(Fail(Dispatch()));
    StartShard();
    CommitPosition(position.samples);
    if (!end_) end_.emplace();
    end_->position = position;
    std::ranges::move(TakeSkipped(), std::back_inserter(end_->skipped));
    return absl::OkStatus();
  }

  absl::Status EndBlock() override { return Fail(CloseBlock()); }

 protected:
  absl::Status AppendSample(const Sample& sample, uint64_t next_position) override {
    SHARDKIT_ASSIGN_OR_RETURN(const bool fits, mapper_.Map(sample, &values_));
    if (fits) {
      SHARDKIT_RETURN_IF_ERROR(container::CheckValues(mapper_.schema(), values_));
    } else {
      // A sample that is refused widens nothing.
      dataset::SchemaMapper wider = mapper_;
      SHARDKIT_RETURN_IF_ERROR(wider.Widen(sample));
      SHARDKIT_RETURN_IF_ERROR(wider.Map(sample, &values_).status());
      SHARDKIT_RETURN_IF_ERROR(container::CheckValues(wider.schema(), values_));
      SHARDKIT_RETURN_IF_ERROR(Fail(CloseBlock()));
      SHARDKIT_RETURN_IF_ERROR(Fail(Dispatch()));
      mapper_ = std::move(wider);
      // The options do not fit the new column: no later sample can be stored either.
      if (const absl::Status status = UseSchema(); !status.ok()) return FailedPrecondition(ToStd(status.message()));
      StartShard();
    }
    if (builder_->MustFlushBefore(values_)) SHARDKIT_RETURN_IF_ERROR(Fail(CloseBlock()));
    if (builder_limited_ && ShardIsFull()) {
      SHARDKIT_RETURN_IF_ERROR(Fail(CloseBlock()));
      SHARDKIT_RETURN_IF_ERROR(Fail(Dispatch()));
      StartShard();
    }
    const uint64_t bytes_before = builder_->bytes();
    builder_->Add(values_);
    CommitPosition(next_position);
    shard_raw_bytes_ += builder_->bytes() - bytes_before;
    ++shard_raw_samples_;
    return builder_->full() ? Fail(CloseBlock()) : absl::OkStatus();
  }

  absl::Status Begin() override {
    SHARDKIT_ASSIGN_OR_RETURN(index_, dataset::SegmentWriter::Create(file_system_, directory_));
    return absl::OkStatus();
  }

  absl::Status AdoptShard(const dataset::ShardRecord& /*record*/) override {
    // The records come in their order; the shards behind this one are read meanwhile.
    for (; reads_begun_ < records().size() && !reading_.full(); ++reads_begun_) {
      reading_.Add([this, &shard = records()[reads_begun_].shard] { return ReadFinished(shard); });
    }
    SHARDKIT_ASSIGN_OR_RETURN(const FinishedShard shard, reading_.Take().result);
    SHARDKIT_RETURN_IF_ERROR(index_->Add(shard.schema, shard.part));
    if (kind_ != dataset::JobKind::kWriter) {
      resumed_schema_ = shard.schema;
      return WidenBySchema(shard.schema);
    }
    return mapper_.Start(shard.schema, options_.codecs);
  }

  absl::Status FinishShards() override {
    SHARDKIT_RETURN_IF_ERROR(CloseBlock());
    SHARDKIT_RETURN_IF_ERROR(Dispatch());
    while (!in_flight_.empty()) SHARDKIT_RETURN_IF_ERROR(WriteOne());
    SHARDKIT_RETURN_IF_ERROR(FinishShard(std::move(end_)));
    if (update() == nullptr) {
      manifest_.metadata = options_.shard.metadata;
    } else if (manifest_.shards.size() == update()->before().shards.size()) {
      return absl::OkStatus();  // nothing was appended
    } else {
      dataset::IntersectMetadata(options_.shard.metadata, &manifest_.metadata);
    }
    if (kind_ == dataset::JobKind::kWriter && update() == nullptr) manifest_.schema = mapper_.schema();
    return absl::OkStatus();
  }

  absl::Status PublishIndexes() override {
    if (update() != nullptr) return PublishAppended();
    if (kind_ == dataset::JobKind::kTask) return absl::OkStatus();
    SHARDKIT_RETURN_IF_ERROR(dataset::FinishOneSegment(file_system_, directory_, *index_, &manifest_,
                                                       options_.cancellation, duplicate_keys_));
    return dataset::PublishManifest(file_system_, directory_, manifest_, /*must_be_new=*/true);
  }

  absl::Status DiscardOpen() override {
    reading_.Stop();
    in_flight_.Stop();
    absl::Status status;
    if (file_) status.Update(file_->Abort());
    if (index_) status.Update(index_->Abort());
    return status;
  }

 private:
  absl::Status StartAppending(const Schema& schema) {
    if (options_.resume) return InvalidArgument(directory_, ": an append cannot be resumed: it starts again");
    SHARDKIT_RETURN_IF_ERROR(Annotate(NewSha256().status(), directory_));
    SHARDKIT_RETURN_IF_ERROR(StartAppend(options_.existing_keys));
    first_number_ = update()->next_number() - manifest_.shards.size();
    options_.shard.metadata.insert(manifest_.metadata.begin(), manifest_.metadata.end());
    // The codec of a column that is there already is the dataset's.
    for (const Column& column : manifest_.schema.columns()) {
      const auto [codec, added] = options_.codecs.emplace(column.name, column.codec);
      if (!added && codec->second != column.codec) {
        return InvalidArgument(directory_, ": column \"", column.name, "\" has codec ", CodecName(column.codec),
                               " there, and ", CodecName(codec->second), " was asked for: a dataset keeps its codecs");
      }
    }
    const absl::StatusOr<Schema> samples = dataset::WithKeyOf(manifest_, schema);
    if (!samples.ok()) return DoNotFit(samples.status());
    SHARDKIT_RETURN_IF_ERROR(mapper_.Start(*samples, options_.codecs));
    SHARDKIT_RETURN_IF_ERROR(WidenByColumns(mapper_.schema()));
    // The new shards have all columns of the dataset.
    SHARDKIT_RETURN_IF_ERROR(mapper_.Start(manifest_.schema, options_.codecs));
    first_schema_ = mapper_.schema();
    return UseSchema();
  }

  absl::Status PublishAppended() {
    SHARDKIT_RETURN_IF_ERROR(update()->CheckUnchanged());  // before a table of another writer could be replaced
    const Manifest& before = update()->before();
    const auto appended = std::span<const ManifestShard>(manifest_.shards).subspan(before.shards.size());
    if (appended.empty()) {
      manifest_ = before;
      SHARDKIT_RETURN_IF_ERROR(index_->Abort());
      return update()->Abort();
    }
    dataset::DuplicateKeyFinder repeated(file_system_, directory_, appended);
    const auto check = [&]() -> absl::Status {
      std::optional<dataset::DuplicateKey> found = repeated.found();
      if (!found) return absl::OkStatus();
      found->first += before.sample_count;
      found->second += before.sample_count;
      return duplicate_keys_.take(*found);
    };
    const dataset::KeySources keys{.tables = index_->KeysOf(manifest_, appended),
                                   .repeated = duplicate_keys_.take ? &repeated : nullptr,
                                   .check = check,
                                   .cancellation = options_.cancellation};
    SHARDKIT_ASSIGN_OR_RETURN(manifest_.segments.emplace_back(),
                              index_->Finish(NameInGeneration(kSegmentName, manifest_.generation), appended, keys));
    SHARDKIT_RETURN_IF_ERROR(dataset::LimitSegments(file_system_, directory_, options_.cancellation, &manifest_));
    manifest_.operation.arguments = {{"shards", {StrCat(appended.size())}},
                                     {"samples", {StrCat(manifest_.sample_count - before.sample_count)}}};
    return update()->Publish(&manifest_);
  }

  // The name of the next shard, which begins with `block`. In a dataset that is appended to, it must be free.
  absl::StatusOr<std::string> NextShard(const InFlight& block) const {
    std::string name = kind_ == dataset::JobKind::kWriter ? dataset::ShardName(first_number_ + manifest_.shards.size())
                                                          : dataset::UnitShardName(block.number);
    if (update() == nullptr) return name;
    SHARDKIT_ASSIGN_OR_RETURN(const bool taken, dataset::Exists(file_system_, Path(name)));
    if (!taken) return name;
    return absl::AbortedError(StrCat(Path(name), ": is there already, and ", kManifestName, " does not name it: ",
                                     "another run writes there, or the file is a foreign one; nothing was appended"));
  }

  // Null when no hash was asked for.
  absl::StatusOr<std::unique_ptr<NamedHash>> NewSha256() const {
    if (!options_.sha256) return nullptr;
    return NamedHash::Create("sha256");
  }

  // Of samples that are appended.
  absl::Status WidenByColumns(const Schema& schema) {
    const absl::Status status = dataset::AppendColumns(schema, &manifest_);
    return status.ok() ? status : DoNotFit(status);
  }

  absl::Status DoNotFit(const absl::Status& why) const {
    return InvalidArgument(directory_, ": the samples do not fit its columns: ", ToStd(why.message()));
  }

  absl::Status UseSchema() {
    stored_schema_ = mapper_.schema();
    shard_options_ = options_.shard;
    if (update() != nullptr) {
      SHARDKIT_RETURN_IF_ERROR(WidenByColumns(mapper_.schema()));
      stored_schema_ = dataset::WithStoredNames(manifest_, mapper_.schema());
      UseStoredNames(manifest_, &shard_options_.storage);
      UseStoredNames(manifest_, &shard_options_.dictionaries);
      UseStoredNames(manifest_, &shard_options_.zstd_levels);
    }
    absl::StatusOr<container::BlockEncoding> made = container::MakeBlockEncoding(stored_schema_, shard_options_);
    if (!made.ok()) return Annotate(made.status(), directory_);
    container::BlockEncoding plan = *std::move(made);
    plan_ = std::make_shared<const container::BlockEncoding>(std::move(plan));
    uint32_t samples = options_.shard.max_block_samples;
    if (options_.shard_samples != 0)
      samples = static_cast<uint32_t>(std::min<uint64_t>(samples, options_.shard_samples));
    builder_ = std::make_unique<container::BlockBuilder>(plan_->schema, options_.shard.block_size, samples);
    return absl::OkStatus();
  }

  struct FinishedShard {
    Schema schema;
    container::ShardIndexPart part;
  };
  absl::StatusOr<FinishedShard> ReadFinished(const ManifestShard& listed) const {
    FinishedShard finished;
    SHARDKIT_ASSIGN_OR_RETURN(
        finished.part, container::ReadShardIndexPart(file_system_, Path(listed.name), &finished.schema,
                                                     container::ExpectedShard{listed.content_hash, listed.bytes}));
    return finished;
  }

  // Of shards of a new dataset.
  absl::Status WidenBySchema(const Schema& schema) {
    auto merged = manifest_.schema.size() == 0 ? schema : MergeSchemas(manifest_.schema, schema);
    if (!merged.ok()) return Annotate(merged.status(), directory_);
    manifest_.schema = *std::move(merged);
    return absl::OkStatus();
  }

  bool ShardIsFull() const {
    if (shard_raw_samples_ == 0 || kind_ != dataset::JobKind::kWriter) return false;
    return (options_.shard_samples != 0 && shard_raw_samples_ >= options_.shard_samples) ||
           shard_raw_bytes_ >= options_.shard_size;
  }

  void StartShard() {
    starts_shard_ = true;
    trained_ = false;
    shard_raw_samples_ = 0;
    shard_raw_bytes_ = 0;
  }

  absl::Status CloseBlock() {
    if (builder_->empty()) return absl::OkStatus();
    held_.push_back({builder_->Take(), next_position(), TakeSkipped()});
    const bool wait = !options_.shard.dictionaries.empty() && !trained_ && held_.size() < container::kTrainingBlocks;
    return wait ? absl::OkStatus() : Dispatch();
  }

  // Hands held blocks to the encoding threads, and writes finished ones so that few are in flight.
  absl::Status Dispatch() {
    if (held_.empty()) return absl::OkStatus();
    // Without a limit in samples or dictionaries, where a shard begins is known only when its first block is written.
    const container::RawBlock& first = held_.front().block;
    if (!options_.shard.dictionaries.empty() && !std::exchange(trained_, true)) {
      SHARDKIT_ASSIGN_OR_RETURN(container::BlockEncoding plan,
                                container::MakeBlockEncoding(stored_schema_, shard_options_));
      SHARDKIT_ASSIGN_OR_RETURN(plan.schema, container::ChooseStorages(shard_options_, plan.schema, &first));
      std::vector<container::RawBlock> blocks;
      for (Held& held : held_) blocks.push_back(std::move(held.block));
      SHARDKIT_RETURN_IF_ERROR(container::TrainDictionaries(shard_options_, blocks, &plan));
      for (size_t i = 0; i < held_.size(); ++i) held_[i].block = std::move(blocks[i]);
      shard_plan_ = std::make_shared<const container::BlockEncoding>(std::move(plan));
    } else if (starts_shard_) {
      SHARDKIT_ASSIGN_OR_RETURN(shard_plan_, PlanFor(*plan_, first));
    }
    for (Held& held : std::exchange(held_, {})) {
      InFlight block;
      SHARDKIT_RETURN_IF_ERROR(PlaceInShard(&block));
      block.next_position = held.next_position;
      block.skipped = std::move(held.skipped);
      in_flight_.Add(
          [this, plan = shard_plan_, raw = std::move(held.block)]() mutable {
            std::unique_ptr<container::BlockEncoder> encoder = encoders_.Acquire();
            absl::StatusOr<container::EncodedBlock> encoded = encoder->Encode(*plan, std::move(raw));
            encoders_.Release(std::move(encoder));
            return encoded;
          },
          std::move(block));
      SHARDKIT_RETURN_IF_ERROR(WriteSome());
    }
    return absl::OkStatus();
  }

  // The next block of the current shard, or the first of a new one.
  absl::Status PlaceInShard(InFlight* block) {
    block->plan = shard_plan_;
    block->starts_shard = std::exchange(starts_shard_, false);
    if (!block->starts_shard || kind_ == dataset::JobKind::kWriter) return absl::OkStatus();
    if (update() == nullptr) SHARDKIT_RETURN_IF_ERROR(WidenBySchema(shard_plan_->schema));
    block->ends = std::exchange(end_, {});
    block->number = next_shard_;
    ++next_shard_.shard;
    return absl::OkStatus();
  }

  // Blocks that need no encoding do not wait for anything.
  absl::Status WriteSome() {
    while (in_flight_.full() || (!in_flight_.empty() && in_flight_.front().copied)) {
      SHARDKIT_RETURN_IF_ERROR(WriteOne());
    }
    return absl::OkStatus();
  }

  absl::Status WriteOne() {
    auto [block, result] = in_flight_.Take();
    SHARDKIT_ASSIGN_OR_RETURN(container::EncodedBlock encoded, std::move(result));
    if (file_ && !block.starts_shard) {
      SHARDKIT_RETURN_IF_ERROR(EncodeAgain(file_schema_, &block, &encoded));
    }
    if (file_ && (block.starts_shard || WouldOverflow(encoded))) {
      SHARDKIT_RETURN_IF_ERROR(FinishShard(std::exchange(block.ends, {})));
    }
    if (!file_) {
      if (!block.copied) {
        SHARDKIT_ASSIGN_OR_RETURN(const Schema schema,
                                  container::ChooseStorages(shard_options_, block.plan->schema, &encoded.raw));
        SHARDKIT_RETURN_IF_ERROR(EncodeAgain(schema, &block, &encoded));
      }
      SHARDKIT_ASSIGN_OR_RETURN(file_name_, NextShard(block));
      const std::string path = Path(file_name_);
      SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<NamedHash> sha256, NewSha256());
      SHARDKIT_ASSIGN_OR_RETURN(
          file_, container::ShardFileWriter::Create(file_system_, path, *block.plan, options_.shard, std::move(sha256),
                                                    kind_ == dataset::JobKind::kTask ? io::UniqueTemporary(path) : ""));
      if (block.ends) std::ranges::move(block.ends->skipped, std::back_inserter(skipped_in_shard_));
      file_schema_ = block.plan->schema;
    }
    if (block.copied) {
      SHARDKIT_RETURN_IF_ERROR(file_->Copy(*std::move(block.copied), options_.cancellation));
    } else {
      SHARDKIT_RETURN_IF_ERROR(file_->Write(encoded, options_.cancellation));
      builder_->Recycle(std::move(encoded.raw));
    }
    written_position_ = block.next_position;
    std::ranges::move(block.skipped, std::back_inserter(skipped_in_shard_));
    return absl::OkStatus();
  }

  // A copy of `plan` with the storages of a shard that begins with `block`.
  absl::StatusOr<std::shared_ptr<const container::BlockEncoding>> PlanFor(const container::BlockEncoding& plan,
                                                                          const container::RawBlock& block) const {
    container::BlockEncoding chosen = plan;
    SHARDKIT_ASSIGN_OR_RETURN(chosen.schema, container::ChooseStorages(shard_options_, plan.schema, &block));
    chosen.provisional = !builder_limited_ && container::StoragesAreOpen(shard_options_, plan.schema);
    return std::make_shared<const container::BlockEncoding>(std::move(chosen));
  }

  // Encodes a block again if its columns were given other storages than those of the shard that it has come to lie in.
  // That happens to some blocks where storages change from shard to shard.
  absl::Status EncodeAgain(const Schema& schema, InFlight* block, container::EncodedBlock* encoded) {
    if (!block->plan->provisional || block->plan->schema == schema) return absl::OkStatus();
    auto plan = std::make_shared<container::BlockEncoding>(*block->plan);
    plan->schema = schema;
    std::unique_ptr<container::BlockEncoder> encoder = encoders_.Acquire();
    SHARDKIT_ASSIGN_OR_RETURN(*encoded, encoder->Encode(*plan, std::move(encoded->raw)));
    encoders_.Release(std::move(encoder));
    // Blocks that are encoded from now on have these storages from the beginning, if they have these columns.
    if (shard_plan_ == block->plan) shard_plan_ = plan;
    block->plan = std::move(plan);
    return absl::OkStatus();
  }

  bool WouldOverflow(const container::EncodedBlock& block) const {
    if (file_->sample_count() + block.header.sample_count > format::kMaxShardSamples) return true;
    if (builder_limited_) return false;
    return file_->position() + block.length() > options_.shard_size ||
           file_->sample_count() + block.header.sample_count > kMaxSamplesBySize;
  }

  // `end` is empty where not the caller, but the writer ends the shard.
  absl::Status FinishShard(std::optional<ShardEnd> end) {
    if (!file_) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const ShardSummary summary, file_->Finish());
    dataset::ShardRecord record;
    record.shard = {file_name_,          summary.file_length,  summary.sample_count,
                    summary.block_count, summary.content_hash, file_->sha256()};
    record.next_position = end ? end->position.samples : written_position_;
    if (end) record.listing = end->position.listing;
    record.may_continue = end || kind_ == dataset::JobKind::kWriter;
    record.skipped = std::exchange(skipped_in_shard_, {});
    if (end) std::ranges::move(end->skipped, std::back_inserter(record.skipped));
    if (index_) SHARDKIT_RETURN_IF_ERROR(index_->Add(file_schema_, file_->TakeIndexPart()));
    file_.reset();
    return Record(std::move(record));
  }

  // Bounds the memory of the key index and of the ends while a shard of tiny samples is written.
  static constexpr uint64_t kMaxSamplesBySize = uint64_t{1} << 20;

  DatasetWriterOptions options_;
  const dataset::JobKind kind_;
  const bool builder_limited_;  // where shards end is known before their blocks are encoded

  dataset::SchemaMapper mapper_;
  std::vector<std::optional<Value>> values_;
  std::shared_ptr<const container::BlockEncoding> plan_;        // without dictionaries
  std::shared_ptr<const container::BlockEncoding> shard_plan_;  // of the shard being filled
  std::unique_ptr<container::BlockBuilder> builder_;
  std::vector<Held> held_;
  bool trained_ = false;
  bool starts_shard_ = true;
  uint64_t shard_raw_samples_ = 0;
  uint64_t shard_raw_bytes_ = 0;
  Schema first_schema_;            // of each unit
  Schema resumed_schema_;          // of the last shard of an interrupted run
  Schema stored_schema_;           // mapper_'s, with the names that its columns have in shards
  ShardOptions shard_options_;     // with these names
  dataset::UnitShard next_shard_;  // the number of the shard that begins next
  std::optional<ShardEnd> end_;    // of the shard before it

  size_t first_number_ = 0;  // of the shard names, less the dataset's first shards
  std::string file_name_;
  std::unique_ptr<container::ShardFileWriter> file_;
  Schema file_schema_;
  uint64_t written_position_ = 0;

  std::unique_ptr<dataset::SegmentWriter> index_;
  size_t reads_begun_ = 0;                       // of records()
  std::vector<SkippedSample> skipped_in_shard_;  // in the blocks written to the current shard
  EncoderPool encoders_;
  // Last: their destructors wait for tasks, which use the other members.
  OrderedTasks<absl::StatusOr<FinishedShard>> reading_;
  OrderedTasks<absl::StatusOr<container::EncodedBlock>, InFlight> in_flight_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetWriter>> DatasetWriter::Create(FileSystem& file_system,
                                                                     const std::string& directory, const Schema& schema,
                                                                     const DatasetWriterOptions& options) {
  return dataset::StartOrSuspend(
      std::make_unique<NativeDatasetWriter>(file_system, directory, options, dataset::JobKind::kWriter), schema);
}

absl::StatusOr<std::unique_ptr<dataset::DatasetJob>> dataset::CreateUnitWriter(
    FileSystem& file_system, const std::string& directory, const Schema& schema, const DatasetWriterOptions& options,
    dataset::JobKind kind, const std::vector<dataset::ShardRecord>* of_tasks) {
  return dataset::StartOrSuspend(std::make_unique<NativeDatasetWriter>(file_system, directory, options, kind), schema,
                                 of_tasks);
}

std::string dataset::FingerprintOfJob(const Schema& schema, const DatasetWriterOptions& options) {
  return dataset::FingerprintOf(DescribeJob(schema, options));
}

}  // namespace shardkit
