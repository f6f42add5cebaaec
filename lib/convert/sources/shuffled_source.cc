#include "convert/sources/shuffled_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/byte_cursor.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/seeded_hash.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "convert/sources/source_unit.h"
#include "dataset/job_directory.h"
#include "io/publish_file.h"

namespace shardkit::convert {
namespace {

constexpr uint64_t kMostBuckets = 4096;

// Buffers, the run that is stored and the run that is read take a third of the memory each.
constexpr uint64_t kShares = 3;

// Samples are handed out in units of about so many bytes.
constexpr uint64_t kUnitBytes = uint64_t{4} << 20;

constexpr std::string_view kStage = "shuffling samples";

// The part of `parts` equal ones, of all 64-bit numbers, that a number is in, and where in it, as a 64-bit share.
std::pair<uint64_t, uint64_t> PartOf(uint64_t number, uint64_t parts) {
  const auto product = static_cast<unsigned __int128>(number) * parts;
  return {static_cast<uint64_t>(product >> 64), static_cast<uint64_t>(product)};
}

}  // namespace

class ShuffledSource::RunUnit final : public WorkUnit {
 public:
  std::shared_ptr<const Run> run;
  size_t first = 0;
};

ShuffledSource::ShuffledSource(FileSystem& file_system, DatasetSource& source, ShuffleOptions options)
    : file_system_(file_system), source_(source), options_(std::move(options)) {}

ShuffledSource::~ShuffledSource() {
  (void)Guarded("giving up", [this] {
    absl::Status status;
    for (const Bucket& bucket : buckets_) {
      if (!bucket.path.empty()) status.Update(file_system_.RemoveFile(bucket.path));
    }
    return status;
  });
}

uint64_t ShuffledSource::HashOf(uint64_t ordinal) const {
  char bytes[8];
  StoreLittle(bytes, ordinal);
  return SeededHash64({bytes, sizeof(bytes)}, options_.seed);
}

// Chooses the buckets. How many there are does not change the order.
absl::Status ShuffledSource::Prepare() {
  if (!buckets_.empty()) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(total_, source_.Count());
  uint64_t bytes = 0;
  for (const ConversionInput* const input : source_.inputs()) bytes += input->dataset->summary().bytes;
  // Twice as many as for the stored bytes, since values may take more, and parts are of many sizes.
  const uint64_t wanted = bytes / std::max<uint64_t>(options_.memory / kShares / 2, 1) + 1;
  buckets_.resize(std::min(wanted, kMostBuckets));
  for (uint64_t i = 0; i < total_; ++i) ++buckets_[PartOf(HashOf(i), buckets_.size()).first].end;
  uint64_t end = 0;
  for (Bucket& bucket : buckets_) bucket.end = end += bucket.end;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ShuffledSource::Skip(uint64_t count) {
  SHARDKIT_RETURN_IF_ERROR(Prepare());
  const uint64_t skipped = std::min(count, total_ - position_);
  position_ += skipped;
  return skipped;
}

// Loads all samples, and puts those that are still to be listed into their buckets.
absl::Status ShuffledSource::Spread() {
  struct Loading {
    std::unique_ptr<WorkUnit> unit;
    std::unique_ptr<SampleBatch> batch;
    Pending<absl::Status> loaded;
  };
  std::deque<Loading> pending;
  std::vector<std::unique_ptr<SampleBatch>> free;
  Cancellation stopped;
  ThreadPool pool(std::max(options_.threads, 1));
  const auto stop = [&](absl::Status status) {
    stopped.Cancel();
    for (Loading& loading : pending) (void)loading.loaded.Take();
    return status;
  };
  uint64_t first = 0;
  for (bool at_end = false;;) {
    while (!at_end && pending.size() < static_cast<size_t>(pool.thread_count()) + 1) {
      auto unit = source_.Next(SIZE_MAX);
      if (!unit.ok()) return stop(unit.status());
      if (*unit == nullptr) {
        at_end = true;
        break;
      }
      Loading loading{*std::move(unit), nullptr, {}};
      if (free.empty()) free.push_back(std::make_unique<SampleBatch>());
      loading.batch = std::move(free.back());
      free.pop_back();
      loading.loaded = Pending<absl::Status>::Run(
          pool, "loading samples", [this, &stopped, unit = loading.unit.get(), batch = loading.batch.get()] {
            if (!stopped.cancelled()) source_.Load(*unit, batch);
            return absl::OkStatus();
          });
      pending.push_back(std::move(loading));
    }
    if (pending.empty()) return absl::OkStatus();
    Loading loading = std::move(pending.front());
    pending.pop_front();
    absl::Status status = loading.loaded.Take();
    if (status.ok() && options_.cancellation) status = options_.cancellation->Check(kStage);
    if (status.ok()) status = Take(*loading.batch, first);
    if (!status.ok()) return stop(status);
    first += loading.unit->sample_count;
    if (options_.progress) options_.progress(first, total_);
    free.push_back(std::move(loading.batch));
  }
}

// A row is its length behind these 8 bytes, the ordinal, the key, and of each field the column and the value.
absl::Status ShuffledSource::Take(const SampleBatch& batch, uint64_t first) {
  if (!batch.failures.empty()) return batch.failures[0].status;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const uint64_t ordinal = first + batch.indexes[i];
    Bucket& bucket = buckets_[PartOf(HashOf(ordinal), buckets_.size()).first];
    if (bucket.end <= position_) continue;  // stored by the run that this one resumes
    const Sample& sample = batch.samples[i];
    std::string& rows = bucket.rows;
    const size_t begin = rows.size();
    AppendLittle(rows, uint64_t{0});
    AppendLittle(rows, ordinal);
    AppendLittle(rows, uint64_t{sample.key.size()});
    rows += sample.key;
    for (const Field& field : sample.fields) {
      const auto [place, is_new] = places_.try_emplace(field.column, static_cast<uint32_t>(columns_.size()));
      if (is_new) columns_.push_back(field.column);
      AppendLittle(rows, place->second);
      AppendLittle(rows, uint64_t{field.value.bytes.size()});
      rows += field.value.bytes;
    }
    const uint64_t length = rows.size() - begin;
    StoreLittle(rows.data() + begin, length - 8);
    bucket.bytes += length;
    buffered_ += length;
    if (buffered_ > options_.memory / kShares) SHARDKIT_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

// Appends all rows to the files of their buckets: length, checksum, rows.
absl::Status ShuffledSource::Flush() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.rows.empty()) continue;
    if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check(kStage));
    // A job takes files of such names for its own, and removes what a killed run has left.
    if (bucket.path.empty()) bucket.path = io::UniqueTemporary(JoinPath(options_.directory, dataset::ShardName(i)));
    SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForAppending(bucket.path));
    std::string head;
    AppendLittle(head, uint64_t{bucket.rows.size()});
    AppendLittle(head, Hash64(bucket.rows));
    const std::array<std::string_view, 2> pieces = {head, bucket.rows};
    SHARDKIT_RETURN_IF_ERROR(file->AppendPieces(pieces));
    SHARDKIT_RETURN_IF_ERROR(file->Close());
    std::string().swap(bucket.rows);
  }
  buffered_ = 0;
  return absl::OkStatus();
}

// Keeps the rows of a part of the bucket.
absl::Status ShuffledSource::TakeRows(std::string_view rows, uint64_t part, uint64_t parts, Run* run) const {
  ByteCursor cursor(rows);
  while (cursor.remaining() > 0) {
    Row row;
    uint64_t length = 0;
    if (!cursor.Read(&length) || !cursor.Read(&row.ordinal) || length < sizeof(row.ordinal) ||
        !cursor.ReadBytes(length - sizeof(row.ordinal), &row.bytes)) {
      return Internal("a shuffled sample is not as it was");
    }
    row.hash = HashOf(row.ordinal);
    if (PartOf(PartOf(row.hash, buckets_.size()).second, parts).first != part) continue;
    row.bytes = run->memory.Copy(row.bytes);
    run->rows.push_back(row);
  }
  return absl::OkStatus();
}

// Sets run_ to the next part of the order.
absl::Status ShuffledSource::ReadRun() {
  run_.reset();
  row_ = 0;
  Bucket& bucket = buckets_[bucket_];
  const uint64_t parts = bucket.bytes / std::max<uint64_t>(options_.memory / kShares, 1) + 1;
  auto run = std::make_shared<Run>();
  if (!bucket.path.empty()) {
    const auto damage = [&] {
      return DataLoss(bucket.path, ": the temporary file is not as it was written: run this again, on a sound disk");
    };
    SHARDKIT_ASSIGN_OR_RETURN(const auto file, file_system_.OpenForReading(bucket.path, ReadMode::kBuffered));
    std::string head(16, '\0'), rows;
    for (uint64_t position = 0; position < file->size(); position += rows.size()) {
      if (options_.cancellation) SHARDKIT_RETURN_IF_ERROR(options_.cancellation->Check(kStage));
      if (file->size() - position < head.size()) return damage();
      SHARDKIT_RETURN_IF_ERROR(file->ReadAt(position, head));
      position += head.size();
      const auto length = LoadLittle<uint64_t>(head.data());
      if (length > file->size() - position) return damage();
      rows.resize(length);
      SHARDKIT_RETURN_IF_ERROR(file->ReadAt(position, rows));
      if (Hash64(rows) != LoadLittle<uint64_t>(head.data() + 8)) return damage();
      SHARDKIT_RETURN_IF_ERROR(TakeRows(rows, part_, parts, run.get()));
    }
  }
  SHARDKIT_RETURN_IF_ERROR(TakeRows(bucket.rows, part_, parts, run.get()));
  std::ranges::sort(run->rows, {}, [](const Row& row) { return std::pair(row.hash, row.ordinal); });
  run_ = std::move(run);
  if (++part_ < parts) return absl::OkStatus();
  part_ = 0;
  ++bucket_;
  std::string().swap(bucket.rows);
  const std::string path = std::exchange(bucket.path, {});
  return path.empty() ? absl::OkStatus() : file_system_.RemoveFile(path);
}

absl::StatusOr<std::unique_ptr<WorkUnit>> ShuffledSource::Next(size_t max_samples) {
  if (!std::exchange(spread_, true)) {
    SHARDKIT_RETURN_IF_ERROR(Prepare());
    SHARDKIT_RETURN_IF_ERROR(Spread());
    // What a resumed run has stored before: whole buckets, and the first rows of the next.
    while (bucket_ < buckets_.size() && buckets_[bucket_].end <= position_) ++bucket_;
    uint64_t before = bucket_ == 0 ? 0 : buckets_[bucket_ - 1].end;
    while (bucket_ < buckets_.size() && before < position_) {
      SHARDKIT_RETURN_IF_ERROR(ReadRun());
      row_ = static_cast<size_t>(std::min<uint64_t>(run_->rows.size(), position_ - before));
      before += row_;
    }
  }
  while (run_ == nullptr || row_ == run_->rows.size()) {
    if (bucket_ == buckets_.size()) return nullptr;
    SHARDKIT_RETURN_IF_ERROR(ReadRun());
  }
  auto unit = std::make_unique<RunUnit>();
  unit->run = run_;
  unit->first = row_;
  uint64_t bytes = 0;
  do {
    bytes += run_->rows[row_++].bytes.size();
    ++unit->sample_count;
  } while (row_ < run_->rows.size() && unit->sample_count < max_samples && bytes < kUnitBytes);
  position_ += unit->sample_count;
  return unit;
}

void ShuffledSource::Load(WorkUnit& unit, SampleBatch* batch) {
  const RunUnit& wanted = static_cast<const RunUnit&>(unit);
  batch->Clear();
  const auto load = [&](size_t i, Sample* sample) -> absl::Status {
    ByteCursor cursor(wanted.run->rows[wanted.first + i].bytes);
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

}  // namespace shardkit::convert
