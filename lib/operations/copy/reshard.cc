#include "shardkit/copy.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/byte_cursor.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "dataset/dataset_files.h"
#include "dataset/write/dataset_job.h"
#include "io/publish_file.h"
#include "operations/copy/conversion.h"
#include "operations/copy/record_sorter.h"
#include "operations/pack/packer.h"
#include "operations/sources/dataset_source.h"
#include "operations/sources/source_unit.h"
#include "shardkit/source.h"

namespace shardkit::operations {
namespace {

// Samples are handed out in units of about so many bytes.
constexpr uint64_t kUnitBytes = uint64_t{4} << 20;

struct ShuffleOptions {
  uint64_t seed = 0;
  uint64_t memory = 0;                         // bytes
  std::string directory;                       // of the temporary files, which have the names of temporary shards
  const Cancellation* cancellation = nullptr;  // may be null
  std::function<void(uint64_t done, uint64_t total)> progress;  // of spreading; may be empty
};

// The samples of datasets in random order, in bounded memory.
// The order is that of the hashes of the samples' numbers: all samples are loaded once and sorted.
class ShuffledSource final : public Source {
 public:
  // `source`, of which nothing was listed yet, the file system, and the threads, which load, must outlive this one.
  // Samples of `source` do not fail: those that cannot be loaded are an error.
  ShuffledSource(FileSystem& file_system, DatasetSource& source, ThreadPool& threads, ShuffleOptions options);
  std::string_view name() const override { return source_.name(); }
  absl::StatusOr<std::vector<Column>> InitialColumns() override { return source_.InitialColumns(); }
  bool keys_ascend() const override { return false; }
  bool keys_are_unique() const override { return false; }
  bool has_own_units() const override { return true; }
  std::map<std::string, std::string> metadata() const override { return source_.metadata(); }
  absl::StatusOr<uint64_t> Count() override { return source_.Count(); }
  absl::StatusOr<std::unique_ptr<WorkUnit>> Next(size_t max_samples) override;
  void Load(WorkUnit& unit, SampleBatch* batch) override;
  absl::StatusOr<uint64_t> Skip(uint64_t count) override;

 private:
  class SortedUnit;

  uint64_t HashOf(uint64_t ordinal) const;
  absl::Status Spread();
  absl::Status Take(const SampleBatch& batch, uint64_t first);
  absl::Status SkipStored();

  DatasetSource& source_;
  ThreadPool& threads_;
  const ShuffleOptions options_;
  RecordSorter sorter_;
  uint64_t skipped_ = 0;
  uint64_t least_hash_ = 0;  // of the samples that are sorted
  bool spread_ = false;
  std::vector<const Column*> columns_;                   // of all fields
  absl::flat_hash_map<const Column*, uint32_t> places_;  // in columns_
};

class ShuffledSource::SortedUnit final : public WorkUnit {
 public:
  ByteArena memory;
  std::vector<std::string_view> rows;
};

ShuffledSource::ShuffledSource(FileSystem& file_system, DatasetSource& source, ThreadPool& threads,
                               ShuffleOptions options)
    : source_(source),
      threads_(threads),
      options_(std::move(options)),
      // A job takes files of such names for its own, and removes what a killed run has left.
      sorter_(
          file_system,
          [this](size_t file) { return io::UniqueTemporary(JoinPath(options_.directory, dataset::ShardName(file))); },
          options_.memory, options_.cancellation) {}

uint64_t ShuffledSource::HashOf(uint64_t ordinal) const {
  char bytes[8];
  StoreLittle(bytes, ordinal);
  return SeededHash64({bytes, sizeof(bytes)}, options_.seed);
}

absl::StatusOr<uint64_t> ShuffledSource::Skip(uint64_t count) {
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t total, source_.Count());
  const uint64_t skipped = std::min(count, total - skipped_);
  skipped_ += skipped;
  return skipped;
}

// Finds the hashes below which the samples are all stored by the run that this one resumes, so that they are not
// sorted, and leaves in skipped_ how many further ones it has stored.
absl::Status ShuffledSource::SkipStored() {
  if (skipped_ == 0) return absl::OkStatus();
  constexpr int kShift = 48;
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t total, source_.Count());
  std::vector<uint64_t> counts(size_t{1} << (64 - kShift));
  for (uint64_t i = 0; i < total; ++i) ++counts[HashOf(i) >> kShift];
  uint64_t first = 0;
  while (first + 1 < counts.size() && skipped_ >= counts[first]) skipped_ -= counts[first++];
  least_hash_ = first << kShift;
  return absl::OkStatus();
}

// Loads all samples, and sorts those that are still to be listed.
absl::Status ShuffledSource::Spread() {
  struct Loaded {
    std::unique_ptr<WorkUnit> unit;
    std::unique_ptr<SampleBatch> batch;
  };
  std::vector<std::unique_ptr<SampleBatch>> free;
  OrderedTasks<absl::StatusOr<Loaded>> loading(threads_, "shuffling samples", options_.cancellation,
                                               static_cast<size_t>(threads_.thread_count()) + 1);
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t total, source_.Count());
  uint64_t first = 0;
  for (bool at_end = false;;) {
    while (!at_end && !loading.full()) {
      SHARDKIT_ASSIGN_OR_RETURN(auto unit, source_.Next(SIZE_MAX));
      if (unit == nullptr) {
        at_end = true;
        break;
      }
      if (free.empty()) free.push_back(std::make_unique<SampleBatch>());
      loading.Add([this, begun = Loaded{std::move(unit), std::move(free.back())}]() mutable -> absl::StatusOr<Loaded> {
        source_.Load(*begun.unit, begun.batch.get());
        return std::move(begun);
      });
      free.pop_back();
    }
    if (loading.empty()) return sorter_.Sort();
    SHARDKIT_ASSIGN_OR_RETURN(Loaded loaded, loading.Take().result);
    SHARDKIT_RETURN_IF_ERROR(Take(*loaded.batch, first));
    first += loaded.unit->sample_count;
    if (options_.progress) options_.progress(first, total);
    free.push_back(std::move(loaded.batch));
  }
}

// A record is the key's length and the key, and of each field the column, the length and the value.
absl::Status ShuffledSource::Take(const SampleBatch& batch, uint64_t first) {
  if (!batch.failures.empty()) return batch.failures[0].status;
  std::string record;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const uint64_t hash = HashOf(first + batch.indexes[i]);
    if (hash < least_hash_) continue;
    const Sample& sample = batch.samples[i];
    record.clear();
    AppendLittle(record, uint64_t{sample.key.size()});
    record += sample.key;
    for (const Field& field : sample.fields) {
      const auto [place, is_new] = places_.try_emplace(field.column, static_cast<uint32_t>(columns_.size()));
      if (is_new) columns_.push_back(field.column);
      AppendLittle(record, place->second);
      AppendLittle(record, uint64_t{field.value.bytes.size()});
      record += field.value.bytes;
    }
    SHARDKIT_RETURN_IF_ERROR(sorter_.Add(hash, record));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WorkUnit>> ShuffledSource::Next(size_t max_samples) {
  uint64_t hash = 0;
  std::string_view record;
  if (!std::exchange(spread_, true)) {
    SHARDKIT_RETURN_IF_ERROR(SkipStored());
    SHARDKIT_RETURN_IF_ERROR(Spread());
    for (; skipped_ > 0; --skipped_) SHARDKIT_RETURN_IF_ERROR(sorter_.Next(&hash, &record).status());
  }
  auto unit = std::make_unique<SortedUnit>();
  for (uint64_t bytes = 0; unit->sample_count < max_samples && bytes < kUnitBytes; ++unit->sample_count) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool more, sorter_.Next(&hash, &record));
    if (!more) break;
    unit->rows.push_back(unit->memory.Copy(record));
    bytes += record.size();
  }
  return unit->sample_count == 0 ? nullptr : std::move(unit);
}

void ShuffledSource::Load(WorkUnit& unit, SampleBatch* batch) {
  const auto& rows = static_cast<const SortedUnit&>(unit).rows;
  batch->Clear();
  const auto load = [&](size_t i, Sample* sample) -> absl::Status {
    ByteCursor cursor(rows[i]);
    uint64_t length = 0;
    bool whole = cursor.Read(&length) && cursor.ReadBytes(length, &sample->key);
    while (whole && cursor.remaining() > 0) {
      uint32_t column = 0;
      std::string_view value;
      whole =
          cursor.Read(&column) && cursor.Read(&length) && cursor.ReadBytes(length, &value) && column < columns_.size();
      if (whole) sample->fields.push_back({columns_[column], Value(value)});
    }
    return whole ? absl::OkStatus() : Internal("a shuffled sample is not as it was");
  };
  LoadEach(
      unit, batch, load, [](size_t, const Sample& sample) { return sample.key; },
      [](size_t, const Sample* sample) { return sample ? ValueBytes(*sample) + sample->key.size() : 0; });
}

}  // namespace
}  // namespace shardkit::operations

namespace shardkit {
namespace {

absl::Status CheckOptions(FileSystem& file_system, const std::string& output, const ReshardOptions& options) {
  if (options.pack.skip_errors) return InvalidArgument("skip_errors: not for resharding; repair the dataset first");
  if (options.pack.dataset.append) return InvalidArgument("append: not for resharding, which makes a new dataset");
  if (options.shuffle && options.scratch.empty() && IsUrl(output)) {
    return InvalidArgument(output, ": temporary files cannot be there: name a local directory for them (--scratch)");
  }
  if (options.shuffle && options.keep_blocks.value_or(false)) {
    return InvalidArgument("keep_blocks: not with shuffle, which rewrites all blocks");
  }
  if (!options.shuffle && !options.scratch.empty()) return InvalidArgument("scratch: only with shuffle");
  if (options.scratch.empty()) return absl::OkStatus();
  // The first file would come after much has been read.
  const absl::StatusOr<FileInfo> scratch = file_system.Stat(options.scratch);
  if (!scratch.ok()) return Annotate(scratch.status(), "scratch");
  if (scratch->type == FileType::kDirectory) return absl::OkStatus();
  return InvalidArgument(options.scratch, ": is no directory for temporary files");
}

absl::StatusOr<PackReport> Shuffle(FileSystem& file_system, operations::DatasetSource& source,
                                   const std::string& output, const ConvertOptions& convert,
                                   const ReshardOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const Schema schema, operations::SchemaOf(source, convert.pack));
  SHARDKIT_ASSIGN_OR_RETURN(const DatasetWriterOptions native, operations::NativeOptionsOf(source, convert));
  SHARDKIT_ASSIGN_OR_RETURN(const auto job,
                            dataset::CreateUnitWriter(file_system, output, schema, native, dataset::JobKind::kUnits));
  operations::ShuffledSource shuffled(file_system, source, job->threads(),
                                      {.seed = *options.shuffle,
                                       .memory = options.shuffle_memory,
                                       .directory = options.scratch.empty() ? output : options.scratch,
                                       .cancellation = native.cancellation,
                                       .progress = options.spreading});
  return operations::RunPack(shuffled, convert.pack, *job, /*ends_shards=*/true);
}

}  // namespace

absl::StatusOr<PackReport> Reshard(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ReshardOptions& options) {
  return Guarded("resharding", [&]() -> absl::StatusOr<PackReport> {
    SHARDKIT_RETURN_IF_ERROR(CheckOptions(file_system, output, options));
    ConvertOptions convert{options};
    if (options.shuffle) convert.pack.dataset.job += StrCat("\nshuffle ", *options.shuffle);
    SHARDKIT_ASSIGN_OR_RETURN(const auto source, operations::OpenConversion(file_system, {input}, convert));
    return options.shuffle ? Shuffle(file_system, *source, output, convert, options)
                           : operations::ConvertToShards(file_system, *source, output, convert);
  });
}

}  // namespace shardkit
