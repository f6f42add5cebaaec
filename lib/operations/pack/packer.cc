#include "operations/pack/packer.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "dataset/write/schema_mapper.h"
#include "operations/sources/dataset_source.h"
#include "operations/sources/file_source.h"

namespace shardkit::operations {
namespace {

// Samples are loaded in batches of about this many bytes, so that the cost of handing a batch over is small and memory
// is bounded. The output does not depend on the batches.
constexpr uint64_t kBatchBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxBatchSamples = 256;

// Finds keys that are repeated among the first kRemembered, so that the usual mistake, the same files twice, shows at
// once. The dataset's key table shows all others in the end.
class KeyCheck {
 public:
  explicit KeyCheck(bool ascending) : ascending_(ascending) {}

  // False when the key was seen before.
  bool Insert(std::string_view key) {
    if (ascending_) {
      if (any_ && key == last_) return false;
      any_ = true;
      last_ = key;
      return true;
    }
    return seen_.size() == kRemembered ? !seen_.contains(Hash128(key)) : seen_.insert(Hash128(key)).second;
  }

 private:
  static constexpr size_t kRemembered = size_t{1} << 21;  // 36 MiB

  absl::flat_hash_set<Hash128Bytes> seen_;
  const bool ascending_;  // equal keys would be neighbours
  bool any_ = false;
  std::string last_;
};

// Divides the samples of a source into units and shards, for a writer that leaves this to its caller.
class UnitDivision {
 public:
  // `job` is null when shards end elsewhere.
  UnitDivision(dataset::DatasetJob* job, const DatasetWriterOptions& options, const PackPart& part)
      : job_(job), limit_(options), next_unit_(part.unit), continued_(part.continued) {}

  // Behind this come samples of a unit of work.
  void Begin(const WorkUnit& work) {
    if (work.empty_tars > 0 || (work.of_tar ? work.begins_tar : of_tar_)) open_ = false;
    next_unit_ += work.empty_tars;
    of_tar_ = work.of_tar;
    if (work.begins_tar || !work.of_tar) continued_.reset();
  }

  absl::Status BeforeSample(const dataset::InputPosition& position) {
    if (job_ == nullptr || open_) return absl::OkStatus();
    const dataset::UnitShard number = continued_ ? *continued_ : dataset::UnitShard{.unit = next_unit_++};
    continued_.reset();
    open_ = true;
    limit_.Reset();
    return job_->StartUnit(number, position);
  }

  // Of many samples, all of which go before the end of the shard.
  absl::Status AfterSamples(const dataset::InputPosition& position, uint64_t count, uint64_t input_bytes) {
    if (job_ == nullptr || !limit_.Add(count, input_bytes)) return absl::OkStatus();
    limit_.Reset();
    open_ = of_tar_;
    return of_tar_ ? job_->EndShard(position) : absl::OkStatus();
  }
  uint64_t samples_left() const { return limit_.samples_left(); }

  absl::Status End(const dataset::InputPosition& position) {
    return job_ == nullptr ? absl::OkStatus() : job_->EndShard(position);
  }

 private:
  dataset::DatasetJob* const job_;
  ShardLimit limit_;
  uint64_t next_unit_;
  std::optional<dataset::UnitShard> continued_;
  bool open_ = false;  // a unit has been begun
  bool of_tar_ = false;
};

// What a sample adds to InputPosition::listing.
uint64_t ListedHash(std::string_view names, uint64_t bytes) {
  return names.empty() ? 0 : Hash64(StrCat(bytes, " ", names));
}

// What the tars of a source add to the listing of a whole input, which reads none of them again: their lengths.
absl::StatusOr<uint64_t> ListingOfTars(const Source& source) {
  uint64_t listing = 0;
  const auto* const files = dynamic_cast<const FileSource*>(&source);
  for (size_t i = 0; files != nullptr && i < files->input_count(); ++i) {
    if (!files->input(i).tar) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, files->options().file_system->Stat(files->input(i).path));
    listing += ListedHash("tar", info.size);
  }
  return listing;
}

// FailedPrecondition when the input is no longer the one of a job that is finished. Reads no tars.
absl::Status CheckInputOf(Source& source, const PackOptions& options, const dataset::DatasetJob& job) {
  constexpr size_t kListedAtOnce = 512;
  using Listing = absl::StatusOr<uint64_t>;
  ThreadPool& pool = job.threads();
  OrderedTasks<Listing> tasks(pool, "listing samples", options.dataset.cancellation,
                              static_cast<size_t>(pool.thread_count()) + 1);
  SHARDKIT_ASSIGN_OR_RETURN(uint64_t listing, ListingOfTars(source));
  auto* const files = dynamic_cast<FileSource*>(&source);
  // Null for a tar, as a whole, which is counted above.
  const auto list = [&]() -> absl::StatusOr<std::optional<std::shared_ptr<const WorkUnit>>> {
    if (files != nullptr) {
      SHARDKIT_ASSIGN_OR_RETURN(auto listed, files->List(kListedAtOnce));
      return listed ? std::optional<std::shared_ptr<const WorkUnit>>(std::move(listed->tree)) : std::nullopt;
    }
    SHARDKIT_ASSIGN_OR_RETURN(auto unit, source.Next(kListedAtOnce));
    return unit ? std::optional<std::shared_ptr<const WorkUnit>>(std::move(unit)) : std::nullopt;
  };
  for (bool more = true; more || !tasks.empty();) {
    while (more && !tasks.full()) {
      SHARDKIT_ASSIGN_OR_RETURN(auto next, list());
      more = next.has_value();
      if (!more || *next == nullptr) continue;
      tasks.Add([&source, unit = *std::move(next)]() -> Listing {
        SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> bytes, source.InputBytes(*unit));
        uint64_t sum = 0;
        for (size_t i = 0; i < unit->sample_count; ++i) sum += ListedHash(unit->Names(i), bytes[i]);
        return sum;
      });
    }
    if (tasks.empty()) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t some, tasks.Take().result);
    listing += some;
  }
  if (listing == job.listing()) return absl::OkStatus();
  return FailedPrecondition(job.directory(), ": is finished, and its input has changed since: to add new samples, ",
                            "append them (--append --existing-keys skip), else give another directory");
}

// Compares what is listed with what an earlier run has packed of it.
class PackedBefore {
 public:
  // `job` is null when shards end elsewhere.
  PackedBefore(const dataset::DatasetJob* job, uint64_t resume) : job_(job), resume_(resume) {}

  // Whether the samples before the position to begin at have to be listed. Others may be skipped.
  bool Compares(const Source& source) const {
    return job_ != nullptr && resume_ > 0 && !source.has_own_units() && job_->records().back().listing != 0;
  }

  // The next sample, with the position behind it.
  absl::Status Take(std::string names, const dataset::InputPosition& behind) {
    names_.push_back(std::move(names));
    const std::vector<dataset::ShardRecord>& records = job_->records();
    for (; entry_ < records.size() && records[entry_].next_position <= behind.samples; ++entry_) {
      if (records[entry_].listing == 0) continue;
      if (records[entry_].listing != behind.listing) return Differs(/*all_listed=*/false);
      compared_ = entry_ + 1;
      names_.clear();
    }
    return absl::OkStatus();
  }

  // At the end of the input, where it is before the position to begin at.
  absl::Status End() const { return Differs(/*all_listed=*/true); }

 private:
  static bool IsOf(std::string_view names, std::string_view key) {
    if (!names.starts_with(key)) return false;
    return names.size() == key.size() || names[key.size()] == '.' || names[key.size()] == '\0';
  }

  // Names the first sample that is gone or new among those listed since what was compared last. `all_listed`: nothing
  // follows them in the input.
  absl::Status Differs(bool all_listed) const {
    const std::vector<dataset::ShardRecord>& records = job_->records();
    const size_t end = std::min(entry_ + 1, records.size());
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<std::string> keys, job_->KeysOfShards(compared_, end));
    const std::string_view shard = records[end - 1].shard.name;
    const auto refuse = [&](const auto&... what) {
      return FailedPrecondition(job_->directory(), ": was begun with another input: ", what...,
                                "; give the same one to resume, or run without resuming to start over");
    };
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i < names_.size() && IsOf(names_[i], keys[i])) continue;
      if (i == names_.size() && !all_listed) break;
      const bool is_new = i < names_.size() && std::any_of(names_.begin() + static_cast<ptrdiff_t>(i), names_.end(),
                                                           [&](const auto& names) { return IsOf(names, keys[i]); });
      if (!is_new) return refuse("\"", keys[i], "\", which ", shard, " has, is not in its place any more");
      return refuse("\"", std::string_view(names_[i]).substr(0, names_[i].find('\0')), "\" is new");
    }
    return refuse("files of the samples that ", shard, " has, \"", keys.empty() ? "" : keys.front(), "\" to \"",
                  keys.empty() ? "" : keys.back(), "\", have other sizes or endings");
  }

  const dataset::DatasetJob* const job_;
  const uint64_t resume_;
  size_t entry_ = 0;                // of the job, to compare next
  size_t compared_ = 0;             // the entry behind the last one that was equal
  std::vector<std::string> names_;  // of the samples since
};

// The failure of one sample, with the option that goes on without it where the message names no other.
absl::Status OrSkip(const absl::Status& status) {
  const bool of_sample = absl::IsNotFound(status) || absl::IsInvalidArgument(status) || absl::IsDataLoss(status) ||
                         absl::IsPermissionDenied(status);
  const std::string_view message = ToStd(status.message());
  if (!of_sample || message.find("--") != message.npos) return status;
  return absl::Status(status.code(), ToAbsl(StrCat(message, "; --on-error skip leaves the sample out")));
}

// Loads samples on several threads and hands them over in listing order.
class Packer {
 public:
  Packer(Source& source, const PackOptions& options, const PackPart& part, dataset::DatasetJob* units, ThreadPool& pool)
      : source_(source),
        options_(options),
        part_(part),
        job_(units),
        blocks_(units != nullptr && units->columns_of_blocks() != nullptr ? dynamic_cast<DatasetSource*>(&source)
                                                                          : nullptr),
        units_(units, options.dataset, part),
        before_(units, part.resume),
        keys_(source.keys_ascend()),
        loading_(pool, "packing samples", options.dataset.cancellation, MostAhead(source, pool)) {}

  // `writer` is null for a dry run.
  absl::Status Run(DatasetWriter* writer) {
    writer_ = writer;
    if (part_.count != UINT64_MAX) {
      progress_.total_samples = part_.count;
    } else if (options_.progress && source_.counts_quickly()) {
      // A directory tree is counted quickly. A tar would have to be read to its end before packing could begin.
      SHARDKIT_ASSIGN_OR_RETURN(progress_.total_samples, source_.Count());
    }
    if (!before_.Compares(source_)) listed_ = position_.samples = part_.resume;
    if (part_.skip + listed_ > 0) SHARDKIT_RETURN_IF_ERROR(source_.Skip(part_.skip + listed_).status());
    while (true) {
      SHARDKIT_RETURN_IF_ERROR(ListAhead());
      if (loading_.empty()) return position_.samples < part_.resume ? before_.End() : units_.End(position_);
      SHARDKIT_ASSIGN_OR_RETURN(Loaded loaded, loading_.Take().result);
      if (position_.samples < part_.resume) {
        for (size_t i = 0; i < loaded.names.size(); ++i) {
          Pass(loaded.names[i], loaded.batch->input_bytes[i], loaded.unit->of_tar);
          SHARDKIT_RETURN_IF_ERROR(before_.Take(std::move(loaded.names[i]), position_));
        }
        free_.push_back(std::move(loaded.batch));
        continue;
      }
      units_.Begin(*loaded.unit);
      bool stored = false;
      if (loaded.block) {
        SHARDKIT_ASSIGN_OR_RETURN(stored, StoreBlock(*std::move(loaded.block), *loaded.unit));
        if (!stored) source_.Load(*loaded.unit, loaded.batch.get());
      }
      if (!stored) SHARDKIT_RETURN_IF_ERROR(Store(*loaded.batch, loaded.names, *loaded.unit));
      progress_.samples = position_.samples;
      if (options_.progress) options_.progress(progress_);
      free_.push_back(std::move(loaded.batch));
    }
  }

  uint64_t input_bytes() const { return progress_.input_bytes; }
  uint64_t stored_samples() const { return stored_samples_; }
  const dataset::InputPosition& position() const { return position_; }
  // InputPosition::listing of those samples that lie in no tar.
  uint64_t listing_of_trees() const { return listing_of_trees_; }
  const std::vector<SkippedSample>& skipped() const { return skipped_; }
  const absl::flat_hash_set<const Column*>& seen_columns() const { return seen_columns_; }

 private:
  // Units whose size the source chooses are large, so only a few of them wait.
  static size_t MostAhead(const Source& source, const ThreadPool& pool) {
    const auto threads = static_cast<size_t>(pool.thread_count());
    return source.has_own_units() ? threads + 1 : 4 * threads;
  }

  struct Loaded {
    std::unique_ptr<WorkUnit> unit;
    std::unique_ptr<SampleBatch> batch;
    std::vector<std::string> names;               // WorkUnit::Names, where there is a job
    std::optional<container::StoredBlock> block;  // instead of samples in the batch
  };

  absl::Status ListAhead() {
    const bool own = source_.has_own_units();
    while (!at_end_ && !loading_.full()) {
      const uint64_t average = stored_samples_ == 0 ? kBatchBytes / 16 : progress_.input_bytes / stored_samples_ + 1;
      const uint64_t most = own ? UINT64_MAX : std::clamp<uint64_t>(kBatchBytes / average, 1, kMaxBatchSamples);
      const bool before = listed_ < part_.resume;
      // Nothing is begun before it is known that the input is the same.
      if (!before && position_.samples < part_.resume && !loading_.empty()) break;
      const uint64_t wanted = std::min(most, (before ? part_.resume : part_.count) - listed_);
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
      Loaded begun{.unit = std::move(unit), .batch = nullptr, .names = {}, .block = std::nullopt};
      if (!free_.empty()) {
        begun.batch = std::move(free_.back());
        free_.pop_back();
      } else {
        begun.batch = std::make_unique<SampleBatch>();
      }
      loading_.Add([this, before, begun = std::move(begun)]() mutable -> absl::StatusOr<Loaded> {
        const size_t count = job_ == nullptr ? 0 : begun.unit->sample_count;
        for (size_t i = 0; i < count; ++i) begun.names.push_back(begun.unit->Names(i));
        if (before) {
          SHARDKIT_ASSIGN_OR_RETURN(begun.batch->input_bytes, source_.InputBytes(*begun.unit));
          return std::move(begun);
        }
        if (blocks_ != nullptr) {
          SHARDKIT_ASSIGN_OR_RETURN(begun.block, blocks_->LoadWhole(*begun.unit, *job_->columns_of_blocks()));
        }
        if (!begun.block) source_.Load(*begun.unit, begun.batch.get());
        return std::move(begun);
      });
    }
    return absl::OkStatus();
  }

  // Stores the samples of a unit as the block that they are. False when they have to be stored one by one.
  absl::StatusOr<bool> StoreBlock(container::StoredBlock block, const WorkUnit& work) {
    SHARDKIT_RETURN_IF_ERROR(units_.BeforeSample(position_));
    const uint64_t count = work.sample_count;
    if (units_.samples_left() < count) return false;
    uint64_t value_bytes = 0;
    for (size_t i = 0; i < block.schema->size(); ++i) {
      if (!(*block.schema)[i].is_key) value_bytes += block.statistics[i].value_bytes;
    }
    SHARDKIT_ASSIGN_OR_RETURN(const bool stored, job_->AppendBlock(std::move(block), position_.samples + count));
    if (!stored) return false;
    position_.samples += count;
    stored_samples_ += count;
    progress_.input_bytes += value_bytes;
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> bytes, source_.InputBytes(work));
    SHARDKIT_RETURN_IF_ERROR(units_.AfterSamples(position_, count, bytes.back()));
    return true;
  }

  // Stores the samples of a batch and reports its failures, in listing order.
  absl::Status Store(SampleBatch& batch, const std::vector<std::string>& names, const WorkUnit& work) {
    auto sample = batch.samples.begin();
    auto failure = batch.failures.begin();
    for (size_t i = 0; i < work.sample_count; ++i) {
      SHARDKIT_RETURN_IF_ERROR(units_.BeforeSample(position_));
      uint64_t bytes = i < batch.input_bytes.size() ? batch.input_bytes[i] : 0;
      if (failure != batch.failures.end() && failure->index == i) {
        SHARDKIT_RETURN_IF_ERROR(Fail(failure->key, failure->status));
        ++failure;
      } else if (sample != batch.samples.end() && batch.indexes[sample - batch.samples.begin()] == i) {
        SHARDKIT_RETURN_IF_ERROR(StoreSample(*sample));
        ++sample;
      }
      Pass(i < names.size() ? names[i] : std::string_view(), bytes, work.of_tar);
      SHARDKIT_RETURN_IF_ERROR(units_.AfterSamples(position_, 1, bytes));
    }
    return absl::OkStatus();
  }

  // Moves the position behind a sample.
  void Pass(std::string_view names, uint64_t bytes, bool of_tar) {
    const uint64_t listed = ListedHash(names, bytes);
    ++position_.samples;
    position_.listing += listed;
    if (!of_tar) listing_of_trees_ += listed;
  }

  absl::Status StoreSample(const Sample& sample) {
    absl::Status status;
    // Who skips errors wants no sample lost because another one has its key.
    if (!options_.skip_errors && source_.keys_are_unique() && !keys_.Insert(sample.key)) {
      return DuplicateKeyError(source_, sample.key);
    }
    if (writer_) {
      status = writer_->Append(sample, position_.samples + 1);
      if (!status.ok() && !absl::IsInvalidArgument(status)) return status;
      if (!status.ok()) return Fail(std::string(sample.key), Annotate(status, StrCat("sample \"", sample.key, "\"")));
    }
    ++stored_samples_;
    for (const Field& field : sample.fields) {
      progress_.input_bytes += field.value.length();
      if (!writer_) seen_columns_.insert(field.column);
    }
    return absl::OkStatus();
  }

  absl::Status Fail(const std::string& key, const absl::Status& status) {
    if (!options_.skip_errors) return OrSkip(status);
    SkippedSample skipped = SkippedSample::Of(position_.samples, key, status);
    if (writer_) writer_->RecordSkip(skipped);
    skipped_.push_back(std::move(skipped));
    return absl::OkStatus();
  }

  Source& source_;
  const PackOptions& options_;
  const PackPart& part_;
  dataset::DatasetJob* const job_;  // null when shards end elsewhere
  DatasetSource* const blocks_;     // the source, if its blocks may be stored whole; else null
  UnitDivision units_;
  PackedBefore before_;
  DatasetWriter* writer_ = nullptr;
  KeyCheck keys_;
  PackProgress progress_;
  std::vector<SkippedSample> skipped_;
  absl::flat_hash_set<const Column*> seen_columns_;  // of a dry run
  uint64_t listed_ = 0;                              // position up to which samples were listed
  dataset::InputPosition position_;                  // of the sample being stored
  uint64_t listing_of_trees_ = 0;
  uint64_t stored_samples_ = 0;
  bool at_end_ = false;
  std::vector<std::unique_ptr<SampleBatch>> free_;
  OrderedTasks<absl::StatusOr<Loaded>> loading_;  // last: its destructor waits for tasks, which use the other members
};

// For a source that finds its columns with its samples. A resumed run does not check types, because the source has not
// seen the types of the earlier run's columns.
absl::Status CheckAtTheEnd(const Source& source, const PackOptions& options, bool whole,
                           const std::vector<Column>& columns) {
  if (whole) SHARDKIT_RETURN_IF_ERROR(source.CheckTypes());
  return source.knows_all_columns() ? absl::OkStatus() : CheckColumnsOf(options.dataset, columns);
}

}  // namespace

absl::Status DuplicateKeyError(Source& source, std::string_view key) {
  const auto files = source.FindKey(key);
  if (!files.ok() || files->size() < 2) {
    return InvalidArgument("sample \"", key, "\": the key occurs twice in the input");
  }
  return InvalidArgument((*files)[1], ": the key \"", key, "\" occurs twice, first for ", (*files)[0],
                         ": rename one, or pack the inputs apart");
}

absl::Status ReportDuplicateKeys(Source& source, const PackOptions& options, const dataset::DuplicateKey& found,
                                 std::vector<std::string>* warnings) {
  if (!options.skip_errors) return DuplicateKeyError(source, found.key);
  warnings->push_back(StrCat(found.count, found.count == 1 ? " sample has" : " samples have",
                             " the key of another one, first sample ", found.second, " that of sample ", found.first,
                             ", \"", found.key, "\": by its key the first is found"));
  return absl::OkStatus();
}

absl::StatusOr<PartReport> RunUnits(Source& source, const PackOptions& options, const PackPart& part,
                                    dataset::DatasetJob& job) {
  Packer packer(source, options, part, &job, job.threads());
  SHARDKIT_RETURN_IF_ERROR(Guarded("packing", [&] { return packer.Run(&job); }));
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t tars, ListingOfTars(source));
  return PartReport{packer.position().samples, packer.listing_of_trees() + tars, packer.stored_samples(),
                    packer.input_bytes()};
}

absl::Status CheckIsColumn(std::string_view option, std::string_view name, const std::vector<Column>& columns) {
  if (std::ranges::find(columns, name, &Column::name) != columns.end()) return absl::OkStatus();
  return Annotate(dataset::NoSuchColumn(name, columns), option);
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
  if (options.note) std::ranges::for_each(source.notes(), options.note);
  return columns;
}

std::vector<std::string> WarningsOf(const Source& source, const PackOptions& options) {
  std::vector<std::string> warnings;
  if (!options.note) warnings = source.notes();
  std::ranges::move(source.warnings(), std::back_inserter(warnings));
  return warnings;
}

absl::StatusOr<PackReport> RunPack(Source& source, const PackOptions& options, dataset::DatasetJob& job,
                                   bool ends_shards) {
  dataset::DatasetJob* const units = ends_shards ? &job : nullptr;
  PackReport report;
  absl::Status status, repeated;
  PackPart part{.count = options.limit, .resume = job.resume_position()};
  if (part.resume == UINT64_MAX) {
    // An input without files may have some now.
    if (units != nullptr && (units->listing() != 0 || dynamic_cast<FileSource*>(&source) != nullptr)) {
      status = Guarded("listing", [&] { return CheckInputOf(source, options, *units); });
    }
  } else {
    if (units != nullptr) part.unit = units->first_unit();
    if (units != nullptr && !units->records().empty()) {
      if (const auto last = dataset::ParseShardName(units->records().back().shard.name)) {
        part.unit = last->unit + 1;
        part.continued = dataset::UnitShard{last->unit, last->shard + 1};
      }
    }
    if (units != nullptr && source.keys_are_unique()) {
      units->OnDuplicateKey({.take = [&](const dataset::DuplicateKey& found) {
        return repeated = ReportDuplicateKeys(source, options, found, &report.warnings);
      }});
    }
    Packer packer(source, options, part, units, job.threads());
    status = Guarded("packing", [&] { return packer.Run(&job); });
    report.input_bytes = packer.input_bytes();
    report.samples = packer.stored_samples();
    if (status.ok() && units != nullptr) {
      const absl::StatusOr<uint64_t> tars = ListingOfTars(source);
      status = tars.status();
      if (tars.ok()) units->SetListing(packer.listing_of_trees() + *tars);
    }
    if (status.ok()) {
      status = CheckAtTheEnd(source, options, part.resume == 0 && options.limit == UINT64_MAX, job.schema().columns());
      if (!status.ok()) (void)job.Abort();  // after the name is corrected, no run could resume these shards
    }
  }
  if (status.ok()) {
    absl::StatusOr<DatasetSummary> summary = job.Finish();
    if (summary.ok()) {
      report.manifest = std::move(summary->manifest);
      report.skipped = std::move(summary->skipped);
      report.existing = summary->existing;
      report.samples -= report.existing;
      std::ranges::move(WarningsOf(source, options), std::back_inserter(report.warnings));
      return report;
    }
    status = repeated.ok() ? summary.status() : repeated;
  }
  // The first error is reported, even when the cleanup fails too.
  (void)(options.keep_on_cancel ? job.Suspend() : job.Abort());
  return status;
}

absl::StatusOr<PackReport> DryRun(Source& source, const PackOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<Column> columns, FirstColumns(source, options));
  PackReport report;
  SHARDKIT_ASSIGN_OR_RETURN(report.manifest.schema, Schema::Create(std::move(columns)));
  const PackPart part{.count = options.limit};
  ThreadPool pool(std::max(options.dataset.threads, 1));
  Packer packer(source, options, part, nullptr, pool);
  SHARDKIT_RETURN_IF_ERROR(Guarded("packing", [&] { return packer.Run(nullptr); }));
  columns = report.manifest.schema.columns();
  for (const Column* const column : packer.seen_columns()) {
    if (std::ranges::find(columns, column->name, &Column::name) == columns.end()) columns.push_back(*column);
  }
  SHARDKIT_RETURN_IF_ERROR(CheckAtTheEnd(source, options, options.limit == UINT64_MAX, columns));
  report.input_bytes = packer.input_bytes();
  report.samples = packer.stored_samples();
  report.skipped = packer.skipped();
  report.warnings = WarningsOf(source, options);
  return report;
}

}  // namespace shardkit::operations
