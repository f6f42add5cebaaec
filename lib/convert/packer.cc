#include "convert/packer.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "convert/sources/source_names.h"
#include "dataset/schema_mapper.h"
#include "shardkit/shard_reader.h"

namespace shardkit {
namespace {

// Samples are loaded in batches of about this many bytes, so that the cost of handing a batch over is small and memory
// is bounded. The output does not depend on the batches.
constexpr uint64_t kBatchBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxBatchSamples = 256;

// Finds repeated keys.
class KeyCheck {
 public:
  explicit KeyCheck(bool ascending) : ascending_(ascending) {}

  // False when the key was seen before.
  bool Insert(std::string_view key) {
    if (!ascending_) return seen_.insert(Hash128(key)).second;
    if (any_ && key == last_) return false;
    any_ = true;
    last_ = key;
    return true;
  }

  // Adds the keys in the finished shards of an interrupted run.
  absl::Status AddShards(FileSystem& file_system, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto shard, ShardReader::Open(file_system, path));
      const std::optional<size_t> key_column = shard->schema().key_column();
      if (!key_column) continue;
      BlockBuffer buffer;
      BlockView view;
      for (size_t block = 0; block < shard->blocks().size(); ++block) {
        SHARDKIT_RETURN_IF_ERROR(shard->ReadBlock(block, {&*key_column, 1}, &buffer, &view));
        for (uint32_t i = 0; i < view.sample_count(); ++i) (void)Insert(view.column(*key_column).bytes(i));
      }
    }
    return absl::OkStatus();
  }

 private:
  // 128-bit hashes: with a billion keys, the chance that two different keys have the same hash is below 1e-20.
  absl::flat_hash_set<Hash128Bytes> seen_;
  const bool ascending_;
  bool any_ = false;
  std::string last_;
};

// Loads samples on several threads and hands them over in listing order.
class Packer {
 public:
  Packer(Source& source, const PackOptions& options)
      : source_(source), options_(options), keys_(source.keys_ascend()), pool_(std::max(options.dataset.threads, 1)) {}

  ~Packer() { stopped_.Cancel(); }

  // `writer` is null for a dry run.
  absl::Status Run(DatasetWriter* writer, uint64_t resume_position) {
    writer_ = writer;
    uint64_t begin = 0;
    if (options_.dataset.partition_count > 1) {
      SHARDKIT_ASSIGN_OR_RETURN(const uint64_t total, source_.Count());
      begin = Share(total, options_.dataset.partition);
      end_ = Share(total, options_.dataset.partition + 1);
      progress_.total_samples = end_ - begin;
    } else if (options_.progress && (source_.keys_ascend() || source_.has_own_units())) {
      // A directory tree is counted quickly. A tar would have to be read to its end before packing could begin.
      SHARDKIT_ASSIGN_OR_RETURN(progress_.total_samples, source_.Count());
    }
    first_ = begin;
    begin = std::max(begin, resume_position);
    if (begin > 0) {
      SHARDKIT_RETURN_IF_ERROR(source_.Skip(begin).status());
    }
    listed_ = position_ = begin;
    while (true) {
      SHARDKIT_RETURN_IF_ERROR(ListAhead());
      if (pending_.empty()) return absl::OkStatus();
      absl::StatusOr<std::unique_ptr<SampleBatch>> loaded = pending_.front().batch.Take();
      const size_t count = pending_.front().sample_count;
      pending_.pop_front();
      if (options_.dataset.cancellation) {
        SHARDKIT_RETURN_IF_ERROR(options_.dataset.cancellation->Check("packing samples"));
      }
      SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<SampleBatch> batch, std::move(loaded));
      SHARDKIT_RETURN_IF_ERROR(Store(*batch));
      position_ += count;
      progress_.samples = position_ - first_;
      if (options_.progress) options_.progress(progress_);
      free_.push_back(std::move(batch));
    }
  }

  KeyCheck& keys() { return keys_; }
  uint64_t input_bytes() const { return progress_.input_bytes; }
  uint64_t stored_samples() const { return stored_samples_; }
  const std::vector<SkippedSample>& skipped() const { return skipped_; }
  const absl::flat_hash_set<const Column*>& seen_columns() const { return seen_columns_; }

 private:
  struct Loading {
    Pending<absl::StatusOr<std::unique_ptr<SampleBatch>>> batch;
    size_t sample_count = 0;
  };

  // First sample of partition `index`; computed so that no product can overflow.
  uint64_t Share(uint64_t total, uint64_t index) const {
    const uint64_t count = options_.dataset.partition_count;
    return total / count * index + total % count * index / count;
  }

  absl::Status ListAhead() {
    // Units whose size the source chooses are large, so only a few of them wait.
    const bool own = source_.has_own_units();
    const size_t threads = static_cast<size_t>(pool_.thread_count());
    while (!at_end_ && pending_.size() < (own ? threads + 1 : 4 * threads)) {
      const uint64_t average = stored_samples_ == 0 ? kBatchBytes / 16 : progress_.input_bytes / stored_samples_ + 1;
      const uint64_t most = own ? UINT64_MAX : std::clamp<uint64_t>(kBatchBytes / average, 1, kMaxBatchSamples);
      const uint64_t wanted = std::min(most, end_ - listed_);
      if (wanted == 0) {
        at_end_ = true;
        break;
      }
      SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<WorkUnit> unit, source_.Next(wanted));
      if (!unit) {
        at_end_ = true;
        break;
      }
      listed_ += unit->sample_count;
      Loading loading;
      loading.sample_count = unit->sample_count;
      std::unique_ptr<SampleBatch> batch;
      if (!free_.empty()) {
        batch = std::move(free_.back());
        free_.pop_back();
      } else {
        batch = std::make_unique<SampleBatch>();
      }
      // A std::function must be copyable, which unique pointers are not.
      struct Task {
        std::unique_ptr<WorkUnit> unit;
        std::unique_ptr<SampleBatch> batch;
      };
      auto task = std::make_shared<Task>(Task{std::move(unit), std::move(batch)});
      using Loaded = absl::StatusOr<std::unique_ptr<SampleBatch>>;
      loading.batch = Pending<Loaded>::Run(pool_, "loading samples", [this, task]() -> Loaded {
        if (!stopped_.cancelled()) source_.Load(*task->unit, task->batch.get());
        return std::move(task->batch);
      });
      pending_.push_back(std::move(loading));
    }
    return absl::OkStatus();
  }

  // Stores the samples of a batch and reports its failures, in listing order.
  absl::Status Store(SampleBatch& batch) {
    size_t failure = 0;
    for (size_t i = 0; i <= batch.samples.size(); ++i) {
      const size_t index = i < batch.samples.size() ? batch.indexes[i] : SIZE_MAX;
      for (; failure < batch.failures.size() && batch.failures[failure].index < index; ++failure) {
        const SampleFailure& failed = batch.failures[failure];
        SHARDKIT_RETURN_IF_ERROR(Fail(position_ + failed.index, failed.key, failed.status));
      }
      if (i == batch.samples.size()) break;
      const Sample& sample = batch.samples[i];
      absl::Status status;
      if (source_.keys_are_unique() && !keys_.Insert(sample.key)) {
        status = KeyTwice(sample.key);
      } else if (writer_) {
        status = writer_->Append(sample, position_ + index + 1);
        if (!status.ok() && !absl::IsInvalidArgument(status)) return status;
        if (!status.ok()) status = Annotate(status, StrCat("sample \"", sample.key, "\""));
      }
      if (!status.ok()) {
        SHARDKIT_RETURN_IF_ERROR(Fail(position_ + index, std::string(sample.key), status));
        continue;
      }
      ++stored_samples_;
      for (const Field& field : sample.fields) {
        progress_.input_bytes += field.value.length();
        if (!writer_) seen_columns_.insert(field.column);
      }
    }
    return absl::OkStatus();
  }

  absl::Status KeyTwice(std::string_view key) {
    // Finding the files takes as long as listing the input, so it is not done for samples that are skipped.
    absl::StatusOr<std::vector<std::string>> files;
    if (!options_.skip_errors) files = source_.FindKey(key);
    if (options_.skip_errors || !files.ok() || files->size() < 2) {
      return InvalidArgument("sample \"", key, "\": the key stands twice in the input");
    }
    return InvalidArgument((*files)[1], ": the key \"", key, "\" stands twice, first for ", (*files)[0],
                           ": rename one, or pack the inputs apart");
  }

  absl::Status Fail(uint64_t position, const std::string& key, const absl::Status& status) {
    if (!options_.skip_errors) return status;
    SkippedSample skipped{position, key, std::string(ToStd(status.message()))};
    if (writer_) writer_->RecordSkip(skipped);
    skipped_.push_back(std::move(skipped));
    return absl::OkStatus();
  }

  Source& source_;
  const PackOptions& options_;
  DatasetWriter* writer_ = nullptr;
  KeyCheck keys_;
  PackProgress progress_;
  std::vector<SkippedSample> skipped_;
  absl::flat_hash_set<const Column*> seen_columns_;  // of a dry run
  uint64_t first_ = 0;                               // of the partition
  uint64_t end_ = UINT64_MAX;                        // of the partition
  uint64_t listed_ = 0;                              // position up to which samples were listed
  uint64_t position_ = 0;                            // of the first sample of the batch being stored
  uint64_t stored_samples_ = 0;
  bool at_end_ = false;
  std::deque<Loading> pending_;
  std::vector<std::unique_ptr<SampleBatch>> free_;
  Cancellation stopped_;
  ThreadPool pool_;  // last: its destructor waits for tasks, which use the other members
};

// For a source that finds its columns with its samples. A partition is not checked, because it may lack columns that
// other partitions have. A resumed run does not check types, because the source has not seen the types of the earlier
// run's columns.
absl::Status CheckAtTheEnd(const Source& source, const PackOptions& options, bool whole,
                           const std::vector<Column>& columns) {
  if (options.dataset.partition_count > 1) return absl::OkStatus();
  if (whole) SHARDKIT_RETURN_IF_ERROR(source.CheckTypes());
  return source.knows_all_columns() ? absl::OkStatus() : CheckColumnsOf(options.dataset, columns);
}

}  // namespace

absl::Status CheckIsColumn(std::string_view option, std::string_view name, const std::vector<Column>& columns) {
  if (std::ranges::find(columns, name, &Column::name) != columns.end()) return absl::OkStatus();
  return Annotate(NoSuchColumn(name, columns), option);
}

absl::Status CheckColumnsOf(const DatasetWriterOptions& options, const std::vector<Column>& columns) {
  for (const auto& [name, codec] : options.codecs) SHARDKIT_RETURN_IF_ERROR(CheckIsColumn("--codec", name, columns));
  for (const auto& [name, level] : options.shard.zstd_levels) {
    SHARDKIT_RETURN_IF_ERROR(CheckIsColumn("--codec", name, columns));
  }
  for (const auto& [name, bytes] : options.shard.dictionaries) {
    SHARDKIT_RETURN_IF_ERROR(CheckIsColumn("--dictionary", name, columns));
  }
  for (const auto& [name, storage] : options.shard.storage) {
    SHARDKIT_RETURN_IF_ERROR(CheckIsColumn("--storage", name, columns));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Column>> FirstColumns(Source& source, const PackOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, source.InitialColumns());
  if (source.knows_all_columns()) SHARDKIT_RETURN_IF_ERROR(CheckColumnsOf(options.dataset, columns));
  if (!options.note || source.name() != "files") return columns;
  for (const Column& column : columns) {
    const std::string suffix = StrCat(".", column.name);
    const std::string_view ending = LastExtension(suffix);
    if (ending != "tar" && ending != "shard" && ending != "mds") continue;
    options.note(StrCat("files *.", column.name, " of the input are packed as they are, not the samples in them: ",
                        "to have those, pack or convert them by themselves (--from files says that it is meant)"));
  }
  return columns;
}

absl::StatusOr<PackReport> PackInto(FileSystem& file_system, Source& source, const PackOptions& options,
                                    DatasetWriter& writer) {
  PackReport report;
  absl::Status status;
  const uint64_t resume_position = writer.resume_position();
  if (resume_position != UINT64_MAX) {
    Packer packer(source, options);
    if (resume_position > 0 && source.keys_are_unique() && !source.keys_ascend()) {
      status = packer.keys().AddShards(file_system, writer.finished_shards());
    }
    if (status.ok()) {
      status = Guarded("packing", [&] { return packer.Run(&writer, resume_position); });
    }
    report.input_bytes = packer.input_bytes();
    report.samples = packer.stored_samples();
    if (status.ok()) {
      status = CheckAtTheEnd(source, options, resume_position == 0, writer.schema().columns());
      if (!status.ok()) (void)writer.Abort();  // after the name is corrected, no run could resume these shards
    }
  }
  if (status.ok()) {
    absl::StatusOr<DatasetSummary> summary = writer.Finish();
    if (summary.ok()) {
      report.manifest = std::move(summary->manifest);
      report.skipped = std::move(summary->skipped);
      report.warnings = source.warnings();
      return report;
    }
    status = summary.status();
  }
  // The first error is reported, even when the cleanup fails too.
  (void)(options.keep_on_cancel ? writer.Suspend() : writer.Abort());
  return status;
}

absl::StatusOr<PackReport> PackNowhere(Source& source, const PackOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, FirstColumns(source, options));
  PackReport report;
  SHARDKIT_ASSIGN_OR_RETURN(report.manifest.schema, Schema::Create(std::move(columns)));
  Packer packer(source, options);
  SHARDKIT_RETURN_IF_ERROR(Guarded("packing", [&] { return packer.Run(nullptr, 0); }));
  columns = report.manifest.schema.columns();
  for (const Column* const column : packer.seen_columns()) {
    if (std::ranges::find(columns, column->name, &Column::name) == columns.end()) columns.push_back(*column);
  }
  SHARDKIT_RETURN_IF_ERROR(CheckAtTheEnd(source, options, /*whole=*/true, columns));
  report.input_bytes = packer.input_bytes();
  report.samples = packer.stored_samples();
  report.skipped = packer.skipped();
  report.warnings = source.warnings();
  return report;
}

}  // namespace shardkit
