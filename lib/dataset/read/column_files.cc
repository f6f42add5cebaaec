#include "dataset/read/column_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "container/block_buffer.h"
#include "dataset/bases.h"
#include "dataset/write/schema_mapper.h"
#include "io/read_ahead.h"
#include "shardkit/error_place.h"

namespace shardkit::dataset {
namespace {

// Blocks of a column of small values have a few KiB. Where that takes as long, their neighbours are read with them.
constexpr uint64_t kFarGap = uint64_t{256} << 10;
constexpr size_t kMostPieces = 32;

constexpr size_t kMostOpening = 8;

class ReadAheadFileSystem final : public ForwardingReads<ReadableFileSystem> {
 public:
  using ForwardingReads::ForwardingReads;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = ForwardingReads::OpenForReading(path, mode, size);
    if (!file.ok() || (*file)->hints().bridge_gap_bytes < kFarGap || (*file)->Mapped()) return file;
    const uint64_t piece = (*file)->hints().bridge_gap_bytes;
    return std::make_unique<io::ReadAheadFile>(*std::move(file), piece, kMostPieces);
  }
};

}  // namespace

ColumnFiles::ColumnFiles(ReadableFileSystem& file_system, std::string directory, const ManifestSummary& summary,
                         std::vector<size_t> columns, const ReadOptions& options)
    : file_system_(file_system),
      directory_(std::move(directory)),
      summary_(summary),
      columns_(std::move(columns)),
      options_(options),
      runs_(summary.schema.size()),
      slots_(summary.column_files.size()) {
  for (size_t column = 0; column < runs_.size() && !slots_.empty(); ++column) {
    const std::string_view name = summary.StoredName(summary.schema[column].name);
    for (size_t i = 0; i < summary.column_files.size(); ++i) {
      const ColumnFile& file = summary.column_files[i];
      const auto found = std::ranges::find(file.columns, name);
      if (found == file.columns.end()) continue;
      const auto position = static_cast<size_t>(found - file.columns.begin());
      for (const ColumnRun& run : file.runs) {
        runs_[column].push_back({run.sample, run.sample + run.samples, i, position, run.begin});
      }
    }
    std::ranges::sort(runs_[column], {}, &Run::sample);
  }
}

const ColumnFiles::Run* ColumnFiles::Before(uint64_t sample, size_t column) const {
  const std::vector<Run>& runs = runs_[column];
  const auto after = std::ranges::upper_bound(runs, sample, {}, &Run::sample);
  return after == runs.begin() ? nullptr : &*(after - 1);
}

std::optional<ColumnFiles::Place> ColumnFiles::Find(uint64_t sample, size_t column) const {
  const Run* const run = Before(sample, column);
  if (run == nullptr || sample >= run->end) return std::nullopt;
  return Place{run->file, run->column, sample - run->sample + run->begin};
}

bool ColumnFiles::HaveAll(size_t column, uint64_t first, uint64_t count) const {
  const uint64_t end = first + count;
  while (first < end) {
    const Run* const run = Before(first, column);
    if (run == nullptr || first >= run->end) return false;
    first = run->end;
  }
  return true;
}

absl::StatusOr<const ColumnFiles::Run*> ColumnFiles::RunOfBlock(uint64_t first, uint64_t end, size_t column) const {
  const Run* const run = Before(end - 1, column);
  if (run == nullptr || run->end <= first) return nullptr;
  if (run->sample <= first && end <= run->end) return run;
  return DataLoss(JoinPath(directory_, kManifestName), ": column file ", run->file,
                  ": a run begins or ends within the block of samples ", first, " to ", end - 1);
}

absl::StatusOr<std::shared_ptr<const ShardReader>> ColumnFiles::Open(size_t file) const {
  Slot& slot = slots_[file];
  const std::lock_guard lock(slot.mutex);
  if (slot.reader) return slot.reader;
  const ColumnFile& listed = summary_.column_files[file];
  const std::string path = summary_.PathOf(directory_, listed.name);
  ReadAheadFileSystem files(file_system_);
  auto opened = ShardReader::Open(files, path, options_, listed.bytes);
  if (absl::IsNotFound(opened.status())) {
    const absl::Status missing =
        NotFound(path, ": column file ", file, " of the manifest is missing; copy it again, or shardctl columns drop ",
                 directory_, " takes its columns out");
    return At(InBase(missing, summary_, listed.name), {.path = path});
  }
  if (!opened.ok()) return At(InBase(Describe(opened.status(), file), summary_, listed.name), {.path = path});
  const ShardReader& reader = **opened;
  const auto wrong = [&](const auto&... what) {
    const absl::Status another = DataLoss(path, ": is not column file ", file, " of the manifest: ", what...);
    return At(InBase(another, summary_, listed.name), {.path = path});
  };
  if (reader.file_length() != listed.bytes || reader.sample_count() != listed.samples ||
      reader.blocks().size() != listed.blocks || reader.content_hash() != listed.content_hash) {
    return wrong("content hash, length or counts differ");
  }
  if (!std::ranges::equal(reader.schema().columns(), listed.columns, {}, &Column::name)) {
    return wrong("its columns are others");
  }
  for (const Column& column : reader.schema().columns()) {
    if (column.is_key) return wrong("it has a key");
    for (const Column& seen : summary_.schema.columns()) {
      if (summary_.StoredName(seen.name) != column.name) continue;
      const std::string_view difference = ColumnDifference(column, seen);
      if (difference.empty()) continue;
      return wrong("its column \"", column.name, "\" does not fit the dataset's column \"", seen.name, "\": its ",
                   difference, " differs");
    }
  }
  slot.reader = *std::move(opened);
  return slot.reader;
}

absl::Status ColumnFiles::CheckRuns(size_t number, std::span<const DatasetBlock> blocks) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, Open(number));
  const auto wrong = [&](const auto&... what) { return DataLoss(file->path(), ": column file ", number, what...); };
  for (const ColumnRun& run : summary_.column_files[number].runs) {
    const uint64_t end = run.sample + run.samples;
    auto block = std::ranges::lower_bound(blocks, run.sample, {}, &DatasetBlock::first_sample);
    if (block == blocks.end() || block->first_sample != run.sample) {
      return wrong(": a run begins with sample ", run.sample, ", within a block of the shards");
    }
    for (; block != blocks.end() && block->first_sample < end; ++block) {
      if (block->first_sample + block->sample_count > end) {
        return wrong(": a run ends behind sample ", end - 1, ", within a block of the shards");
      }
      const uint64_t sample = block->first_sample - run.sample + run.begin;
      const BlockInfo& own = file->blocks()[file->BlockOfSample(sample)];
      if (own.first_sample == sample && own.sample_count == block->sample_count) continue;
      return wrong(" has no block of the samples of block ", block->block, " of shard ", block->shard);
    }
  }
  return absl::OkStatus();
}

void ColumnFiles::OpenAll(uint64_t sample) const {
  std::set<size_t> closed;
  for (const size_t column : columns_) {
    const std::optional<Place> place = Find(sample, column);
    if (!place || closed.contains(place->file)) continue;
    const std::lock_guard lock(slots_[place->file].mutex);
    if (!slots_[place->file].reader) closed.insert(place->file);
  }
  if (closed.size() < 2) return;
  // Who needs one of them gets its error.
  ThreadPool pool(static_cast<int>(std::min<size_t>(closed.size(), kMostOpening)));
  OrderedTasks<absl::Status> opening(pool, "opening column files", nullptr, closed.size());
  for (const size_t file : closed) opening.Add([this, file] { return Open(file).status(); });
  while (!opening.empty()) (void)opening.Take();
}

absl::StatusOr<std::optional<std::string_view>> ColumnFiles::ReadValue(uint64_t sample, const Place& place,
                                                                       BlockBuffer* buffer) const {
  OpenAll(sample);
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, Open(place.file));
  buffer->state().Pin(file);
  auto value = file->ReadValue(place.sample, place.column, buffer);
  if (!value.ok()) return Describe(value.status(), place.file);
  return value;
}

absl::StatusOr<bool> ColumnFiles::CopyValue(const Place& place, const ByteSink& sink) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, Open(place.file));
  auto copied = file->CopyValue(place.sample, place.column, sink);
  if (!copied.ok()) return Describe(copied.status(), place.file);
  return copied;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> ColumnFiles::OpenValue(const Place& place) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, Open(place.file));
  auto opened = file->OpenValue(place.sample, place.column);
  if (!opened.ok()) return Describe(opened.status(), place.file);
  return opened;
}

absl::Status ColumnFiles::Describe(const absl::Status& status, size_t file) {
  if (!absl::IsDataLoss(status) || absl::StrContains(status.message(), "column file")) return status;
  return WithMessage(status, StrCat(ToStd(status.message()), " (column file ", file, " of the manifest)"));
}

// What a block gets from one file.
struct ColumnFiles::Wanted {
  const Run* run = nullptr;
  std::vector<std::pair<size_t, size_t>> columns;  // in the block, and in the file
};

absl::Status ColumnFiles::Complete(uint64_t first, BlockBuffer* buffer, BlockView* view, BlockDamage* damage) const {
  if (view->sample_count() == 0 || slots_.empty()) return absl::OkStatus();
  std::map<size_t, Wanted> files;
  OpenAll(first);
  for (size_t i = 0; i < columns_.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const Run* const run, RunOfBlock(first, first + view->sample_count(), columns_[i]));
    if (run == nullptr) continue;
    Wanted& wanted = files[run->file];
    wanted.run = run;
    wanted.columns.emplace_back(i, run->column);
  }
  std::deque<BlockBuffer>& parts = buffer->state().parts;
  size_t used = 0;
  for (auto& [file, wanted] : files) {
    if (parts.size() == used) parts.emplace_back();
    const absl::Status status =
        Describe(ReadBlock(first, view->sample_count(), wanted, &parts[used++], view, damage), file);
    if (status.ok()) continue;
    if (damage == nullptr || !absl::IsDataLoss(status)) return status;
    for (const auto& [column, position] : wanted.columns) damage->columns[column] = status;
  }
  for (; used < parts.size(); ++used) container::ForgetBlock(parts[used]);
  return absl::OkStatus();
}

absl::Status ColumnFiles::ReadBlock(uint64_t first, uint32_t samples, Wanted& wanted, BlockBuffer* buffer,
                                    BlockView* view, BlockDamage* damage) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto reader, Open(wanted.run->file));
  const uint64_t sample = first - wanted.run->sample + wanted.run->begin;
  const size_t number = reader->BlockOfSample(sample);
  const BlockInfo& block = reader->blocks()[number];
  if (block.first_sample != sample || block.sample_count != samples) {
    return At(DataLoss(reader->path(), ": block ", number, " has not just the samples ", sample, " to ",
                       sample + samples - 1, ", which are a block of the shards"),
              {.path = reader->path(), .block = number});
  }
  std::vector<size_t> positions;
  for (const auto& [column, position] : wanted.columns) positions.push_back(position);
  std::ranges::sort(positions);
  buffer->state().Pin(reader);
  BlockView read;
  BlockDamage found;
  SHARDKIT_RETURN_IF_ERROR(damage == nullptr ? reader->ReadBlock(number, positions, buffer, &read)
                                             : reader->SalvageBlock(number, positions, buffer, &read, &found));
  for (const auto& [column, position] : wanted.columns) {
    container::BlockAssembler::Set(view, column, read.column(position));
    if (const auto why = found.columns.find(position); why != found.columns.end())
      damage->columns[column] = why->second;
    for (const auto& [place, why] : found.values) {
      if (place.second == position) damage->values[{place.first, column}] = why;
    }
  }
  return absl::OkStatus();
}

absl::Status ColumnFiles::MergeStatistics(std::vector<ColumnStatistics>* merged) const {
  for (size_t file = 0; file < slots_.size(); ++file) {
    std::vector<ColumnStatistics> statistics;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto run = std::ranges::find(runs_[columns_[i]], file, &Run::file);
      if (run == runs_[columns_[i]].end()) continue;
      if (statistics.empty()) {
        SHARDKIT_ASSIGN_OR_RETURN(const auto reader, Open(file));
        SHARDKIT_ASSIGN_OR_RETURN(statistics, reader->ReadStatistics());
      }
      (*merged)[i].Merge(statistics[run->column]);
    }
  }
  return absl::OkStatus();
}

}  // namespace shardkit::dataset
