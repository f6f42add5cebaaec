#include "shardkit/dataset_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/block_buffer.h"
#include "dataset/bases.h"
#include "dataset/dataset_files.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/manifest_text.h"
#include "dataset/patterns.h"
#include "dataset/read/any_dataset_reader.h"
#include "dataset/read/block_scanner.h"
#include "dataset/read/united_parts.h"
#include "dataset/write/schema_mapper.h"

namespace shardkit::dataset {
namespace {

// The columns of `schema` that the options ask for. OutOfRange for a name that it has not.
absl::StatusOr<std::vector<Column>> ChosenColumns(const Schema& schema, const DatasetOptions& options,
                                                  const std::string& path) {
  if (options.columns.empty()) return schema.columns();
  std::vector<Column> chosen;
  for (const std::string& name : options.columns) {
    const std::optional<size_t> position = schema.Find(name);
    if (!position) return Annotate(NoSuchColumn(name, schema.columns()), path);
    chosen.push_back(schema[*position]);
  }
  if (const auto key = schema.key_column(); key && options.key_column) {
    if (std::ranges::find(chosen, schema[*key].name, &Column::name) == chosen.end()) chosen.push_back(schema[*key]);
  }
  return chosen;
}

// `open` gets the path of the shard's file and its size.
template <typename Open>
auto OpenNative(const std::string& directory, const ManifestSummary& dataset, const PlacedShard& shard,
                const Open& open) -> decltype(open("", 0)) {
  const std::string path = dataset.PathOf(directory, shard.shard.name);
  auto opened = open(path, shard.shard.bytes);
  if (opened.ok()) return opened;
  absl::Status failure = opened.status();
  if (absl::IsNotFound(failure)) {
    failure = NotFound(path, ": shard ", shard.number, " of the manifest is missing; copy it again",
                       directory.empty() ? "" : StrCat(", or shardctl repair ", directory, " -o OUT keeps the others"));
  }
  return At(InBase(failure, dataset, shard.shard.name), {.path = path, .shard = shard.number});
}

// `problem` says why there is no manifest of the generation that was asked for.
absl::Status DescribeNoGeneration(ReadableFileSystem& file_system, const std::string& path,
                                  const absl::Status& problem) {
  if (file_system.Stat(JoinPath(path, kManifestName)).ok()) return problem;
  return InvalidArgument(path, ": has no generations, which only the datasets of Shardkit have");
}

// Whether it may be gone when the dataset is opened again. Reading without an index for long would be worse.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status) ||
         absl::IsResourceExhausted(status);
}

uint64_t Words(uint64_t bytes) { return RoundUp(bytes, 8) / 8; }

// How much memory, in 8 bytes, SelectRows needs for the column.
uint64_t WordsToSelect(const ColumnView& column, std::span<const uint32_t> rows) {
  const auto count = static_cast<uint32_t>(rows.size());
  if (!column.loaded()) return 0;
  const uint64_t presence = column.may_be_absent() ? Words(RoundUp(count, 8) / 8) : 0;
  if (!column.fixed()) return presence + 2 * uint64_t{count};
  return presence + Words(count * column.fixed_size());
}

// These rows of the column, ascending positions in the block, as a view of its values and of *memory, which is moved
// behind the words that were used. Values of one size are copied there.
ColumnView SelectRows(const ColumnView& column, std::span<const uint32_t> rows, uint64_t** memory) {
  const auto count = static_cast<uint32_t>(rows.size());
  if (!column.loaded()) return ColumnView::Missing(count);
  const char* presence = nullptr;
  if (column.may_be_absent()) {
    const uint64_t words = Words(RoundUp(count, 8) / 8);
    auto* const bits = reinterpret_cast<uint8_t*>(*memory);
    std::memset(bits, 0, 8 * words);
    for (uint32_t i = 0; i < count; ++i) {
      if (column.present(rows[i])) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (1u << (i % 8)));
    }
    presence = reinterpret_cast<const char*>(bits);
    *memory += words;
  }
  if (!column.fixed()) {
    uint64_t* const begins = *memory;
    uint64_t* const ends = begins + count;
    for (uint32_t i = 0; i < count; ++i) {
      begins[i] = column.begin(rows[i]);
      ends[i] = column.end(rows[i]);
    }
    *memory += 2 * uint64_t{count};
    return column.At(count, presence, reinterpret_cast<const char*>(begins), reinterpret_cast<const char*>(ends));
  }
  const uint64_t size = column.fixed_size();
  char* const values = reinterpret_cast<char*>(*memory);
  for (uint32_t i = 0; i < count && size > 0; ++i) {
    std::memcpy(values + i * size, column.bytes(rows[i]).data(), size);
  }
  *memory += Words(count * size);
  return ColumnView(count, presence, nullptr, values, size, 0);
}

}  // namespace

absl::Status AnyDatasetReader::Open(ReadableFileSystem& file_system, const std::string& path,
                                    const DatasetOptions& options, bool with_removed) {
  path_ = path;
  // The manifest first: where there is one, nothing else has to be asked for.
  absl::StatusOr<Manifest> manifest = options.generation == 0 ? ReadManifestText(file_system, path)
                                                              : ReadGeneration(file_system, path, options.generation);
  if (manifest.ok()) SHARDKIT_RETURN_IF_ERROR(FindBases(path, &*manifest));
  FileInfo info{FileType::kDirectory};
  std::string directory = path;
  std::optional<UnitedParts> united;
  if (!manifest.ok()) {
    const absl::StatusOr<FileInfo> found = file_system.Stat(path);
    const bool pattern = IsPattern(path, found.status());
    if (!pattern && !found.ok()) return found.status();  // it names the path that the caller gave
    if (!pattern && !absl::IsNotFound(manifest.status())) return manifest.status();
    if (options.generation != 0) return DescribeNoGeneration(file_system, path_, manifest.status());
    if (pattern) {
      SHARDKIT_ASSIGN_OR_RETURN(const std::vector<std::string> members, ExpandPattern(file_system, path));
      SHARDKIT_ASSIGN_OR_RETURN(foreign_, OpenForeignMembers(file_system, path, members, options));
      if (foreign_ == nullptr) {
        SHARDKIT_ASSIGN_OR_RETURN(united, UniteDatasets(file_system, members, options));
        manifest = std::move(united->manifest);
        directory.clear();
      }
    } else {
      info = *found;
      SHARDKIT_ASSIGN_OR_RETURN(foreign_, OpenForeign(file_system, path, info, options, /*has_manifest=*/false));
    }
  }
  if (foreign_ != nullptr) {
    manifest = foreign_->manifest();
  } else if (info.type == FileType::kDirectory) {
    if (!manifest.ok()) return DescribeNoDataset(file_system, path);
  } else {
    SHARDKIT_ASSIGN_OR_RETURN(SegmentPart alone, ReadShardAlone(file_system, path, options));
    manifest = std::move(alone.manifest);
    directory = std::move(alone.directory);
  }
  const bool ours = foreign_ == nullptr && info.type == FileType::kDirectory;
  std::vector<absl::StatusOr<SegmentTables>> segments;
  if (united) {
    segments = std::move(united->segments);
  } else if (ours) {
    segments = OpenSegments(file_system, path, manifest->segments);
  }
  for (const absl::StatusOr<SegmentTables>& segment : segments) {
    if (!segment.ok() && MayPass(segment.status())) return segment.status();
  }
  SHARDKIT_ASSIGN_OR_RETURN(list_, ShardListReader::Open(path, &*manifest, &segments));
  summary_ = *std::move(manifest);
  stored_schema_ = summary_.StoredSchema();
  if (summary_.removed && with_removed) {
    summary_.removed.reset();
  } else if (united) {
    removed_ = std::move(united->removed);
    summary_.sample_count -= removed_.size();
  } else if (summary_.removed) {
    SHARDKIT_ASSIGN_OR_RETURN(removed_, RemovedList::Read(file_system, path, *summary_.removed, stored_samples()));
    summary_.sample_count -= removed_.size();
  }
  if (foreign_ != nullptr) {
    index_problem_ = StrCat("datasets of ", foreign_->container(), " have no offset index of ours");
  } else if (!ours) {
    index_problem_ = "a single shard has no offset index";
  } else if (united && summary_.segments.empty() && stored_samples() > 0) {
    index_problem_ = "some of these datasets have no offset index";
  } else {
    OpenIndex(&segments);
    for (const absl::StatusOr<SegmentTables>& segment : segments) {
      keys_.push_back(segment.ok() ? segment->keys : nullptr);
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(columns_, ChosenColumns(summary_.schema, options, path_));
  for (const Column& column : columns_) schema_positions_.push_back(*summary_.schema.Find(column.name));
  files_ = std::make_unique<ColumnFiles>(file_system, directory, summary_, schema_positions_, ReadOptions(options));
  as_stored_ = removed_.size() == 0 &&
               std::ranges::none_of(schema_positions_, [this](size_t column) { return files_->Has(column); });
  OpenShardFunction open;
  OpenFileFunction open_file;
  if (foreign_ != nullptr) {
    open = [foreign = foreign_.get(), read = ReadOptions(options)](const PlacedShard& shard) {
      return foreign->OpenShard(shard.number, read);
    };
  } else {
    open = [this, &file_system, directory, read = ReadOptions(options)](const PlacedShard& shard) {
      return OpenNative(directory, summary_, shard, [&](const std::string& file, uint64_t size) {
        return ShardReader::Open(file_system, file, read, size);
      });
    };
    open_file = [this, &file_system, directory, mode = options.mode](const PlacedShard& shard) {
      return OpenNative(directory, summary_, shard, [&](const std::string& file, uint64_t size) {
        return file_system.OpenForReading(file, mode, size);
      });
    };
  }
  shards_ =
      std::make_unique<ShardCache>(std::move(open), std::move(open_file), *list_, summary_, *files_, columns_, options);
  return absl::OkStatus();
}

void AnyDatasetReader::OpenIndex(std::vector<absl::StatusOr<SegmentTables>>* segments) {
  auto index = IndexReader::Open(segments, stored_schema_, summary_.segments);
  if (index.ok()) {
    index_ = *std::move(index);
  } else {
    index_problem_ = StrCat(ToStd(index.status().message()), "; run shardctl index ", path_);
  }
}

absl::Status AnyDatasetReader::CheckShard(size_t shard) const {
  if (shard < shard_count()) [[likely]]
    return absl::OkStatus();
  return OutOfRange(path_, ": has ", shard_count(), " shards; there is no shard ", shard);
}

absl::Status AnyDatasetReader::CheckSample(uint64_t sample) const {
  if (sample < sample_count()) [[likely]]
    return absl::OkStatus();
  return OutOfRange(path_, ": has ", sample_count(), " samples; there is no sample ", sample);
}

absl::StatusOr<DatasetReader::Location> AnyDatasetReader::Locate(uint64_t sample) const {
  SHARDKIT_RETURN_IF_ERROR(CheckSample(sample));
  return LocateStored(removed_.Stored(sample));
}

absl::StatusOr<DatasetReader::Location> AnyDatasetReader::LocateStored(uint64_t stored) const {
  SHARDKIT_ASSIGN_OR_RETURN(const ShardListReader::Place place, list_->Locate(stored));
  return Location{place.number, stored - place.first_sample};
}

absl::StatusOr<ManifestShard> AnyDatasetReader::Shard(size_t shard) const {
  SHARDKIT_RETURN_IF_ERROR(CheckShard(shard));
  SHARDKIT_ASSIGN_OR_RETURN(PlacedShard listed, list_->Get(shard));
  listed.shard.samples -= removed_.Within(listed.first_sample, listed.first_sample + listed.shard.samples).size();
  return std::move(listed.shard);
}

absl::Status AnyDatasetReader::ForEachShard(const std::function<absl::Status(const ManifestShard&)>& take) const {
  uint64_t first = 0;
  return list_->ForEach([&](const ManifestShard& listed) {
    ManifestShard seen = listed;
    seen.samples -= removed_.Within(first, first + listed.samples).size();
    first += listed.samples;
    return take(seen);
  });
}

absl::StatusOr<Manifest> AnyDatasetReader::ReadManifest() const {
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<ManifestShard> shards, list_->ReadAll());
  Manifest manifest{summary_, std::move(shards)};
  manifest.sample_count = stored_samples();
  return manifest;
}

absl::StatusOr<std::shared_ptr<const ShardReader>> AnyDatasetReader::OpenShard(size_t shard) const {
  SHARDKIT_RETURN_IF_ERROR(CheckShard(shard));
  SHARDKIT_ASSIGN_OR_RETURN(auto open, shards_->Get(shard));
  return std::shared_ptr<const ShardReader>(open, open->reader.get());
}

absl::StatusOr<std::vector<ColumnStatistics>> AnyDatasetReader::ReadStatistics() const {
  std::vector<ColumnStatistics> merged(columns_.size());
  for (size_t shard = 0; shard < shard_count(); ++shard) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
    SHARDKIT_ASSIGN_OR_RETURN(const auto statistics, open->reader->ReadStatistics());
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (open->columns[i] != CachedShard::kMissing) merged[i].Merge(statistics[open->columns[i]]);
    }
  }
  SHARDKIT_RETURN_IF_ERROR(files_->MergeStatistics(&merged));
  return merged;
}

absl::Status AnyDatasetReader::ForEachStoredBlock(const TakeBlock& take) const {
  uint64_t next = 0;
  if (index_) {
    const auto contradiction = [this] {
      return DataLoss(path_, ": the offset index contradicts the manifest; run shardctl index ", path_);
    };
    SHARDKIT_ASSIGN_OR_RETURN(const std::vector<ManifestShard> shards, list_->ReadAll());
    size_t shard = 0;
    uint64_t first_sample = 0;  // of that shard
    uint32_t number = 0;
    SHARDKIT_RETURN_IF_ERROR(index_->ForEachBlock([&](const IndexedBlock& block) -> absl::Status {
      for (; shard < block.shard; ++shard) {
        first_sample += shards[shard].samples;
        number = 0;
      }
      const uint64_t end = first_sample + shards[shard].samples;
      if (block.shard != shard || block.entry.first_sample != next || next < first_sample ||
          block.entry.sample_count > end - std::min(end, next)) {
        return contradiction();
      }
      const uint64_t first = std::exchange(next, next + block.entry.sample_count);
      return take({static_cast<uint32_t>(shard), number++, first, block.entry.sample_count, block.entry.length});
    }));
    return next == stored_samples() ? absl::OkStatus() : contradiction();
  }
  for (size_t shard = 0; shard < shard_count(); ++shard) SHARDKIT_RETURN_IF_ERROR(TakeBlocks(shard, take));
  return absl::OkStatus();
}

// From the shard's own directory.
absl::Status AnyDatasetReader::TakeBlocks(size_t shard, const TakeBlock& take) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
  SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard listed, list_->Get(shard));
  for (uint32_t i = 0; i < open->reader->blocks().size(); ++i) {
    const BlockInfo& block = open->reader->blocks()[i];
    SHARDKIT_RETURN_IF_ERROR(take({static_cast<uint32_t>(shard), i, listed.first_sample + block.first_sample,
                                   block.sample_count, block.length, open->reader->forward_only()}));
  }
  return absl::OkStatus();
}

absl::Status AnyDatasetReader::TakeSeen(const DatasetBlock& stored, const TakeBlock& take) const {
  DatasetBlock block = stored;
  const uint64_t before = removed_.Before(stored.first_sample);
  block.first_sample -= before;
  block.sample_count -= static_cast<uint32_t>(removed_.Before(stored.first_sample + stored.sample_count) - before);
  return take(block);
}

absl::Status AnyDatasetReader::ForEachBlock(const TakeBlock& take) const {
  return ForEachStoredBlock([&](const DatasetBlock& block) { return TakeSeen(block, take); });
}

absl::Status AnyDatasetReader::ForEachBlockOf(std::span<const SampleRange> shards, const TakeBlock& take) const {
  std::vector<SampleRange> whole;
  for (const SampleRange& range : shards) {
    if (range.count == 0) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(range.first));
    SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard place, list_->Get(location.shard));
    whole.push_back({place.first_sample, place.shard.samples});
    if (!index_) {
      SHARDKIT_RETURN_IF_ERROR(
          TakeBlocks(location.shard, [&](const DatasetBlock& block) { return TakeSeen(block, take); }));
    }
  }
  if (!index_) return absl::OkStatus();
  size_t shard = SIZE_MAX;
  uint32_t number = 0;
  return index_->ForEachBlockOf(whole, [&](const IndexedBlock& block) {
    if (std::exchange(shard, block.shard) != block.shard) number = 0;
    return TakeSeen({static_cast<uint32_t>(shard), number++, block.entry.first_sample, block.entry.sample_count,
                     block.entry.length},
                    take);
  });
}

absl::Status AnyDatasetReader::Read(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                                    BlockDamage* damage) const {
  SHARDKIT_RETURN_IF_ERROR(CheckShard(shard));
  SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
  buffer->state().Pin(open);
  const ErrorPlace place{.path = path_, .shard = shard, .block = block};
  SHARDKIT_RETURN_IF_ERROR(At(open->ReadBlock(block, buffer, view, damage), place));
  if (as_stored_) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard listed, list_->Get(shard));
  uint64_t first_sample = listed.first_sample + view->first_sample();
  return At(Complete(&first_sample, buffer, view, damage), place);
}

absl::Status AnyDatasetReader::Complete(uint64_t* first_sample, BlockBuffer* buffer, BlockView* view,
                                        BlockDamage* damage) const {
  const uint64_t first = *first_sample;
  const std::span<const uint64_t> removed = removed_.Within(first, first + view->sample_count());
  *first_sample = first - removed_.Before(first);
  if (removed.size() < view->sample_count()) {
    SHARDKIT_RETURN_IF_ERROR(files_->Complete(first, buffer, view, damage));
  }
  if (!removed.empty()) LeaveOutRemoved(first, removed, buffer, view, damage);
  return absl::OkStatus();
}

void AnyDatasetReader::LeaveOutRemoved(uint64_t first, std::span<const uint64_t> removed, BlockBuffer* buffer,
                                       BlockView* view, BlockDamage* damage) const {
  std::vector<uint32_t> kept;
  for (uint32_t i = 0, next = 0; i < view->sample_count(); ++i) {
    if (next < removed.size() && removed[next] == first + i) {
      ++next;
    } else {
      kept.push_back(i);
    }
  }
  std::vector<ColumnView> stored;
  uint64_t words = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    stored.push_back(kept.empty() ? ColumnView::Missing(0) : view->column(i));
    words += WordsToSelect(stored.back(), kept);
  }
  BlockBuffer::State& state = buffer->state();
  if (state.selected.size() < words) state.selected.resize(words);
  uint64_t* memory = state.selected.data();
  container::BlockAssembler::Reset(view, view->first_sample(), static_cast<uint32_t>(kept.size()), columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    container::BlockAssembler::Set(view, i, SelectRows(stored[i], kept, &memory));
  }
  if (damage == nullptr) return;
  BlockDamage seen;
  if (!kept.empty()) seen.columns = std::move(damage->columns);
  for (auto& [place, why] : damage->values) {
    const auto found = std::ranges::lower_bound(kept, place.first);
    if (found == kept.end() || *found != place.first) continue;
    seen.values[{static_cast<uint32_t>(found - kept.begin()), place.second}] = std::move(why);
  }
  *damage = std::move(seen);
}

absl::StatusOr<std::unique_ptr<BlockScanner>> AnyDatasetReader::Scan(const ScanOptions& options) const {
  if (as_stored_) return NewBlockScanner(*list_, *shards_, reserve_, options, summary_, {});
  ScanOptions stored = options;
  stored.first_sample = options.first_sample < sample_count() ? removed_.Stored(options.first_sample) : UINT64_MAX;
  stored.end_sample = options.end_sample < sample_count() ? removed_.Stored(options.end_sample) : UINT64_MAX;
  if (options.samples != nullptr) {
    auto samples = std::make_shared<std::vector<uint64_t>>();
    for (const uint64_t sample : *options.samples) {
      if (sample < sample_count()) samples->push_back(removed_.Stored(sample));
    }
    stored.samples = std::move(samples);
  }
  return NewBlockScanner(*list_, *shards_, reserve_, stored, summary_,
                         [this](uint64_t* first_sample, BlockBuffer* buffer, BlockView* view) {
                           return Complete(first_sample, buffer, view, nullptr);
                         });
}

absl::StatusOr<std::unique_ptr<DatasetReader>> OpenWithRemoved(ReadableFileSystem& file_system, const std::string& path,
                                                               const DatasetOptions& options) {
  auto reader = std::make_unique<AnyDatasetReader>();
  SHARDKIT_RETURN_IF_ERROR(At(reader->Open(file_system, path, options, /*with_removed=*/true), {.path = path}));
  return reader;
}

}  // namespace shardkit::dataset

namespace shardkit {

absl::StatusOr<std::unique_ptr<DatasetReader>> DatasetReader::Open(ReadableFileSystem& file_system,
                                                                   const std::string& path,
                                                                   const DatasetOptions& options) {
  auto reader = std::make_unique<dataset::AnyDatasetReader>();
  SHARDKIT_RETURN_IF_ERROR(At(reader->Open(file_system, path, options, /*with_removed=*/false), {.path = path}));
  return reader;
}

absl::StatusOr<size_t> DatasetReader::FindColumn(std::string_view name) const {
  for (size_t i = 0; i < columns().size(); ++i) {
    if (columns()[i].name == name) return i;
  }
  return Annotate(dataset::NoSuchColumn(name, columns()), path());
}

absl::StatusOr<std::vector<DatasetBlock>> DatasetReader::ReadBlockDirectory() const {
  std::vector<DatasetBlock> blocks;
  SHARDKIT_RETURN_IF_ERROR(ForEachBlock([&](const DatasetBlock& block) {
    blocks.push_back(block);
    return absl::OkStatus();
  }));
  return blocks;
}

}  // namespace shardkit
