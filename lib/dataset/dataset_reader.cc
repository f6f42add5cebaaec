#include "shardkit/dataset_reader.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <tuple>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/block_buffer.h"
#include "container/record_reader.h"
#include "dataset/block_scanner.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/index_reader.h"
#include "dataset/kept_manifests.h"
#include "dataset/key_tables.h"
#include "dataset/manifest_text.h"
#include "dataset/schema_mapper.h"
#include "dataset/shard_cache.h"
#include "dataset/shard_list_reader.h"
#include "dataset/view/seen_dataset.h"
#include "dataset/view/stored_dataset.h"
#include "format/file_header.h"

namespace shardkit::dataset {
namespace {

class AnyDatasetReader : public StoredDataset {
 public:
  absl::Status Open(ReadableFileSystem& file_system, const std::string& path, const DatasetOptions& options) {
    path_ = path;
    // The manifest first: where there is one, nothing else has to be asked for.
    absl::StatusOr<Manifest> manifest = options.generation == 0 ? ReadManifestText(file_system, path)
                                                                : ReadGeneration(file_system, path, options.generation);
    FileInfo info{FileType::kDirectory};
    std::string directory = path;
    if (!manifest.ok()) {
      SHARDKIT_ASSIGN_OR_RETURN(info, file_system.Stat(path));  // its error names the path that the caller gave
      if (!absl::IsNotFound(manifest.status())) return manifest.status();
      if (options.generation != 0) return DescribeNoGeneration(file_system, manifest.status());
      SHARDKIT_ASSIGN_OR_RETURN(foreign_, OpenForeign(file_system, path, info, options, /*has_manifest=*/false));
    }
    if (foreign_ != nullptr) {
      manifest = foreign_->manifest();
    } else if (info.type == FileType::kDirectory) {
      if (!manifest.ok()) return DescribeNoDataset(file_system, path);
    } else {
      SHARDKIT_ASSIGN_OR_RETURN(directory, DescribeShard(file_system, options, &manifest.emplace()));
    }
    // Lists and index are read at once.
    const bool ours = foreign_ == nullptr && info.type == FileType::kDirectory;
    absl::StatusOr<IndexReader::Files> index_files;
    if (ours) index_files = IndexReader::OpenFiles(file_system, path, manifest->segments);
    SHARDKIT_ASSIGN_OR_RETURN(list_, ShardListReader::Open(file_system, path, &*manifest));
    summary_ = *std::move(manifest);
    if (foreign_ != nullptr) {
      index_problem_ = StrCat("datasets of ", foreign_->container(), " have no offset index of ours");
    } else if (!ours) {
      index_problem_ = "a single shard has no offset index";
    } else {
      OpenIndex(std::move(index_files));
      if (!summary_.segments.empty()) keys_ = std::make_unique<KeyTables>(file_system, path_, summary_.segments);
    }
    SHARDKIT_RETURN_IF_ERROR(ChooseColumns(options));
    OpenShardFunction open;
    OpenFileFunction open_file;
    if (foreign_ != nullptr) {
      open = [foreign = foreign_.get(), read = ReadOptions(options)](const PlacedShard& shard) {
        return foreign->OpenShard(shard.number, read);
      };
    } else {
      open = [&file_system, directory, read = ReadOptions(options)](const PlacedShard& shard) {
        return OpenNative(directory, shard, [&](const std::string& file, uint64_t size) {
          return ShardReader::Open(file_system, file, read, size);
        });
      };
      open_file = [&file_system, directory, mode = options.mode](const PlacedShard& shard) {
        return OpenNative(directory, shard, [&](const std::string& file, uint64_t size) {
          return file_system.OpenForReading(file, mode, size);
        });
      };
    }
    shards_ =
        std::make_unique<ShardCache>(std::move(open), std::move(open_file), *list_, summary_.schema, columns_, options);
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }
  std::string_view container() const override { return foreign_ ? foreign_->container() : "shard"; }
  const ManifestSummary& summary() const override { return summary_; }
  const std::vector<Column>& columns() const override { return columns_; }
  std::string index_problem() const override { return index_problem_; }
  std::string fallback_reason() const override { return shards_->fallback_reason(); }

  absl::StatusOr<Location> Locate(uint64_t sample) const override {
    if (sample >= sample_count())
      return OutOfRange(path_, ": has ", sample_count(), " samples; there is no sample ", sample);
    SHARDKIT_ASSIGN_OR_RETURN(const ShardListReader::Place place, list_->Locate(sample));
    return Location{place.number, sample - place.first_sample};
  }

  absl::StatusOr<ManifestShard> Shard(size_t shard) const override {
    SHARDKIT_RETURN_IF_ERROR(CheckShard(shard));
    SHARDKIT_ASSIGN_OR_RETURN(PlacedShard listed, list_->Get(shard));
    return std::move(listed.shard);
  }

  absl::Status ForEachShard(const std::function<absl::Status(const ManifestShard&)>& take) const override {
    return list_->ForEach(take);
  }

  absl::StatusOr<Manifest> ReadManifest() const override {
    SHARDKIT_ASSIGN_OR_RETURN(std::vector<ManifestShard> shards, list_->ReadAll());
    return Manifest{summary_, std::move(shards)};
  }

  absl::StatusOr<std::shared_ptr<const ShardReader>> OpenShard(size_t shard) const override {
    SHARDKIT_RETURN_IF_ERROR(CheckShard(shard));
    SHARDKIT_ASSIGN_OR_RETURN(auto open, shards_->Get(shard));
    return std::shared_ptr<const ShardReader>(open, open->reader.get());
  }

  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, size_t column,
                                                            BlockBuffer* buffer) const override {
    auto value = FindValue(sample, column, buffer);
    if (!value.ok()) return At(value.status(), PlaceOfValue(sample, column));
    return value;
  }

  absl::StatusOr<std::optional<std::string_view>> FindValue(uint64_t sample, size_t column, BlockBuffer* buffer) const {
    SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
    if (index_ && columns_[column].is_blob() && sample < sample_count()) {
      // The pages of the list of shards and of the index are read at once.
      SHARDKIT_ASSIGN_OR_RETURN(auto shard_page, list_->StartReading({&sample, 1}));
      SHARDKIT_ASSIGN_OR_RETURN(const RecordPlace place, FindRecord(sample, column));
      SHARDKIT_RETURN_IF_ERROR(list_->FinishReading(std::move(shard_page)));
      if (place.kind == RecordPlace::kAbsent) return std::optional<std::string_view>();
      if (place.kind == RecordPlace::kRecord) {
        SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->GetForRecords(place.shard));
        buffer->state().Pin(open);
        auto value = open->ReadRecord(place.begin, place.end, buffer);
        if (!value.ok()) return DescribeSample(value.status(), sample, column);
        return std::optional<std::string_view>(*value);
      }
    }
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(sample));
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
    if (open->columns[column] == CachedShard::kMissing) return std::optional<std::string_view>();
    buffer->state().Pin(open);
    return open->reader->ReadValue(location.local, open->columns[column], buffer);
  }

  absl::Status ReadValues(std::span<const uint64_t> samples, size_t column, BlockBuffer* buffer,
                          std::span<std::string_view> values) const override;
  absl::Status CopyFromPages(const CachedShard& open, std::span<const uint64_t> samples, std::span<const size_t> order,
                             size_t column, BlockBuffer* buffer, std::span<std::string_view> values) const;

  absl::StatusOr<bool> CopyValue(uint64_t sample, size_t column, const ByteSink& sink) const override {
    SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(sample));
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
    if (open->columns[column] == CachedShard::kMissing) return false;
    return open->reader->CopyValue(location.local, open->columns[column], sink);
  }

  absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const override {
    return FindKeyWhere(key, buffer, [](uint64_t) { return true; });
  }

  absl::StatusOr<std::optional<uint64_t>> FindKeyWhere(std::string_view key, BlockBuffer* buffer,
                                                       const std::function<bool(uint64_t)>& accept) const override {
    if (!summary_.schema.key_column()) return FailedPrecondition(path_, ": has no key column");
    if (!keys_) return FindKeyInShards(0, shard_count(), key, buffer, accept);
    const uint64_t hash = Hash64(key);
    size_t shard = 0;
    uint64_t first_sample = 0;
    for (size_t i = 0; i < summary_.segments.size(); ++i) {
      const size_t shards_end = shard + summary_.segments[i].shards;
      std::optional<uint64_t> found;
      SHARDKIT_ASSIGN_OR_RETURN(const bool complete,
                                keys_->Find(i, hash, [&](uint64_t ordinal) -> absl::StatusOr<bool> {
                                  const uint64_t sample = first_sample + ordinal;
                                  if (!accept(sample)) return false;
                                  SHARDKIT_ASSIGN_OR_RETURN(const bool has, HasKey(sample, key, buffer));
                                  if (has) found = sample;
                                  return has;
                                }));
      if (!complete) {
        SHARDKIT_ASSIGN_OR_RETURN(found, FindKeyInShards(shard, shards_end, key, buffer, accept));
      }
      if (found) return found;
      shard = shards_end;
      first_sample += summary_.segments[i].samples;
    }
    return std::optional<uint64_t>();
  }

  absl::Status ForEachBlock(const std::function<absl::Status(const DatasetBlock&)>& take) const override;
  absl::Status ForEachBlockOf(std::span<const SampleRange> shards,
                              const std::function<absl::Status(const DatasetBlock&)>& take) const override;
  absl::Status TakeBlocks(size_t shard, const std::function<absl::Status(const DatasetBlock&)>& take) const;

  absl::Status ReadBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view) const override {
    SHARDKIT_RETURN_IF_ERROR(CheckShard(shard));
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
    buffer->state().Pin(open);
    return At(open->ReadBlock(block, buffer, view), {.path = path_, .shard = shard, .block = block});
  }

  absl::Status SalvageBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                            BlockDamage* damage) const override {
    SHARDKIT_RETURN_IF_ERROR(CheckShard(shard));
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
    buffer->state().Pin(open);
    return At(open->ReadBlock(block, buffer, view, damage), {.path = path_, .shard = shard, .block = block});
  }

  std::vector<std::string> notes() const override { return foreign_ ? foreign_->notes() : std::vector<std::string>(); }
  std::span<const LostSample> lost_samples() const override {
    return foreign_ ? foreign_->lost_samples() : std::span<const LostSample>();
  }

  absl::StatusOr<PlacedShard> Place(size_t shard) const override { return list_->Get(shard); }

  absl::StatusOr<std::unique_ptr<BlockScanner>> Scan(const ScanOptions& options) const override {
    return ScanWith(options, {});
  }

  absl::StatusOr<std::unique_ptr<BlockScanner>> ScanWith(const ScanOptions& options,
                                                         CompleteBlock complete) const override {
    return NewBlockScanner(*list_, *shards_, reserve_, options, summary_.view, std::move(complete));
  }

  absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const override {
    std::vector<ColumnStatistics> merged(columns_.size());
    for (size_t shard = 0; shard < shard_count(); ++shard) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
      SHARDKIT_ASSIGN_OR_RETURN(const auto statistics, open->reader->ReadStatistics());
      for (size_t i = 0; i < columns_.size(); ++i) {
        if (open->columns[i] != CachedShard::kMissing) merged[i].Merge(statistics[open->columns[i]]);
      }
    }
    return merged;
  }

 private:
  struct RecordPlace {
    // Elsewhere: the shard has no blob column of that name, and says what it has.
    enum Kind : uint8_t { kAbsent, kRecord, kElsewhere } kind = kAbsent;
    size_t shard = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  absl::StatusOr<RecordPlace> FindRecord(uint64_t sample, size_t column) const {
    SHARDKIT_ASSIGN_OR_RETURN(const IndexedBlock block, index_->BlockOfSample(sample));
    RecordPlace place{.kind = RecordPlace::kElsewhere, .shard = block.shard};
    const std::optional<uint32_t> position = index_->FindColumn(block, schema_positions_[column]);
    if (!position) return place;
    const auto local = static_cast<uint32_t>(sample - block.entry.first_sample);
    SHARDKIT_ASSIGN_OR_RETURN(std::tie(place.begin, place.end), index_->Record(block, local, *position));
    place.kind = place.begin == place.end ? RecordPlace::kAbsent : RecordPlace::kRecord;
    return place;
  }

  absl::StatusOr<bool> HasKey(uint64_t sample, std::string_view key, BlockBuffer* buffer) const {
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(sample));
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
    buffer->state().Pin(open);
    SHARDKIT_ASSIGN_OR_RETURN(const auto value,
                              open->reader->ReadValue(location.local, *open->reader->schema().key_column(), buffer));
    return value && *value == key;
  }

  absl::StatusOr<std::optional<uint64_t>> FindKeyInShards(size_t begin, size_t end, std::string_view key,
                                                          BlockBuffer* buffer,
                                                          const std::function<bool(uint64_t)>& accept) const {
    for (size_t shard = begin; shard < end; ++shard) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
      buffer->state().Pin(open);
      SHARDKIT_ASSIGN_OR_RETURN(const auto local, open->reader->FindKey(key, buffer));
      if (!local) continue;
      SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard listed, list_->Get(shard));
      uint64_t sample = listed.first_sample + *local;
      if (accept(sample)) return std::optional<uint64_t>(sample);
      for (++sample; sample < listed.first_sample + listed.shard.samples; ++sample) {
        if (!accept(sample)) continue;
        SHARDKIT_ASSIGN_OR_RETURN(const bool has, HasKey(sample, key, buffer));
        if (has) return std::optional<uint64_t>(sample);
      }
    }
    return std::optional<uint64_t>();
  }

  absl::Status CheckShard(size_t shard) const {
    if (shard < shard_count()) [[likely]]
      return absl::OkStatus();
    return OutOfRange(path_, ": has ", shard_count(), " shards; there is no shard ", shard);
  }

  absl::Status CheckColumn(size_t column) const {
    if (column < columns_.size()) [[likely]]
      return absl::OkStatus();
    return InvalidArgument(path_, ": there is no column ", column);
  }

  absl::Status DescribeSample(const absl::Status& status, uint64_t sample, size_t column) const {
    return Reworded(status,
                    StrCat(ToStd(status.message()), " (sample ", sample, ", column \"", columns_[column].name, "\")"));
  }

  ErrorPlace PlaceOfValue(uint64_t sample, size_t column) const {
    ErrorPlace place{.path = path_};
    if (column < columns_.size()) place.column = columns_[column].name;
    const auto location = Locate(sample);
    if (location.ok()) place.sample = sample, place.shard = location->shard;
    return place;
  }

  // `open` gets the path of the shard's file and its size.
  template <typename Open>
  static auto OpenNative(const std::string& directory, const PlacedShard& shard, const Open& open)
      -> decltype(open("", 0)) {
    const std::string path = JoinPath(directory, shard.shard.name);
    auto opened = open(path, shard.shard.bytes);
    if (opened.ok()) return opened;
    absl::Status failure = opened.status();
    if (absl::IsNotFound(failure)) {
      failure =
          NotFound(path, ": shard ", shard.number, " of the manifest is missing; copy it again, or shardctl repair ",
                   directory, " -o OUT keeps the others");
    }
    return At(failure, {.path = path, .shard = shard.number});
  }

  void OpenIndex(absl::StatusOr<IndexReader::Files> files) {
    if (summary_.segments.empty() && shard_count() > 0) {
      index_problem_ = StrCat(path_, ": ", kManifestName, " names no offset index; run shardctl index ", path_);
      return;
    }
    auto index = files.ok() ? IndexReader::Open(*std::move(files), summary_.schema, summary_.segments)
                            : absl::StatusOr<std::unique_ptr<IndexReader>>(files.status());
    if (index.ok()) {
      index_ = *std::move(index);
    } else {
      index_problem_ =
          StrCat(ToStd(index.status().message()), absl::IsNotFound(index.status()) ? ": the index is missing" : "",
                 "; run shardctl index ", path_);
    }
  }

  // `problem` says why there is no manifest of the generation that was asked for.
  absl::Status DescribeNoGeneration(ReadableFileSystem& file_system, const absl::Status& problem) const {
    if (file_system.Stat(JoinPath(path_, kManifestName)).ok()) return problem;
    return InvalidArgument(path_, ": has no generations, which only the datasets of Shardkit have");
  }

  // Makes a manifest for a single shard. Returns the directory that the shard lies in.
  absl::StatusOr<std::string> DescribeShard(ReadableFileSystem& file_system, const ReadOptions& options,
                                            Manifest* manifest) const {
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(file_system, path_, options));
    SHARDKIT_ASSIGN_OR_RETURN(Metadata metadata, reader->ReadMetadata());
    const size_t slash = path_.rfind('/');
    manifest->schema = reader->schema();
    manifest->metadata = std::move(metadata);
    manifest->AddShard({slash == path_.npos ? path_ : path_.substr(slash + 1), reader->file_length(),
                        reader->sample_count(), reader->blocks().size(), reader->content_hash()});
    if (slash == path_.npos) return std::string(".");
    return slash == 0 ? std::string("/") : path_.substr(0, slash);
  }

  absl::Status ChooseColumns(const DatasetOptions& options) {
    const Schema& schema = summary_.schema;
    const Schema& seen = summary_.view ? summary_.view->schema : schema;
    SHARDKIT_ASSIGN_OR_RETURN(columns_, ChosenColumns(seen, options, path_));
    if (summary_.view) columns_ = StoredColumns(summary_, columns_);
    for (const Column& column : columns_) schema_positions_.push_back(*schema.Find(column.name));
    return absl::OkStatus();
  }

  std::string path_;
  std::unique_ptr<ForeignDataset> foreign_;  // of another container
  ManifestSummary summary_;
  std::unique_ptr<ShardListReader> list_;
  std::vector<Column> columns_;
  std::vector<size_t> schema_positions_;  // for each column, its position in the manifest's schema
  std::unique_ptr<IndexReader> index_;
  std::string index_problem_;
  std::unique_ptr<KeyTables> keys_;  // null where there are no segments
  std::unique_ptr<ShardCache> shards_;
  const std::shared_ptr<BufferReserve> reserve_ = std::make_shared<BufferReserve>();
};

absl::Status AnyDatasetReader::ForEachBlock(const std::function<absl::Status(const DatasetBlock&)>& take) const {
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
    return next == sample_count() ? absl::OkStatus() : contradiction();
  }
  for (size_t shard = 0; shard < shard_count(); ++shard) SHARDKIT_RETURN_IF_ERROR(TakeBlocks(shard, take));
  return absl::OkStatus();
}

// From the shard's own directory.
absl::Status AnyDatasetReader::TakeBlocks(size_t shard,
                                          const std::function<absl::Status(const DatasetBlock&)>& take) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
  SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard listed, list_->Get(shard));
  for (uint32_t i = 0; i < open->reader->blocks().size(); ++i) {
    const BlockInfo& block = open->reader->blocks()[i];
    SHARDKIT_RETURN_IF_ERROR(take({static_cast<uint32_t>(shard), i, listed.first_sample + block.first_sample,
                                   block.sample_count, block.length, open->reader->forward_only()}));
  }
  return absl::OkStatus();
}

absl::Status AnyDatasetReader::ForEachBlockOf(std::span<const SampleRange> shards,
                                              const std::function<absl::Status(const DatasetBlock&)>& take) const {
  if (index_) {
    size_t shard = SIZE_MAX;
    uint32_t number = 0;
    return index_->ForEachBlockOf(shards, [&](const IndexedBlock& block) {
      if (std::exchange(shard, block.shard) != block.shard) number = 0;
      return take({static_cast<uint32_t>(shard), number++, block.entry.first_sample, block.entry.sample_count,
                   block.entry.length});
    });
  }
  for (const SampleRange& range : shards) {
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(range.first));
    SHARDKIT_RETURN_IF_ERROR(TakeBlocks(location.shard, take));
  }
  return absl::OkStatus();
}

// Reads the values of `order`, positions in `samples` in ascending order of samples, all of one shard that has the
// column in pages. A page is read once for all of its values, and these are copied, as the next page takes its place.
absl::Status AnyDatasetReader::CopyFromPages(const CachedShard& open, std::span<const uint64_t> samples,
                                             std::span<const size_t> order, size_t column, BlockBuffer* buffer,
                                             std::span<std::string_view> values) const {
  std::string& copies = buffer->state().converted;
  copies.clear();
  std::vector<std::pair<size_t, size_t>> places(order.size());  // begin and length in `copies`
  for (size_t i = 0; i < order.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(samples[order[i]]));
    auto value = open.reader->ReadValue(location.local, open.columns[column], buffer);
    if (!value.ok()) return value.status();
    places[i] = {copies.size(), *value ? (*value)->size() : CachedShard::kMissing};
    if (*value) copies += **value;
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (places[i].second == CachedShard::kMissing) continue;
    values[order[i]] = std::string_view(copies).substr(places[i].first, places[i].second);
  }
  return absl::OkStatus();
}

absl::Status AnyDatasetReader::ReadValues(std::span<const uint64_t> samples, size_t column, BlockBuffer* buffer,
                                          std::span<std::string_view> values) const {
  SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
  if (!index_ || !columns_[column].is_blob()) {
    return FailedPrecondition(
        path_, ": reading many values at once needs the offset index and a column of codec none; ", index_problem_);
  }
  if (values.size() != samples.size()) return InvalidArgument(path_, ": as many views as samples are needed");
  for (const uint64_t sample : samples) {
    if (sample >= sample_count()) return Locate(sample).status();
  }
  SHARDKIT_ASSIGN_OR_RETURN(auto shard_pages, list_->StartReading(samples));
  SHARDKIT_RETURN_IF_ERROR(index_->Prefetch(samples));
  SHARDKIT_RETURN_IF_ERROR(list_->FinishReading(std::move(shard_pages)));
  std::vector<RecordPlace> places(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(places[i], FindRecord(samples[i], column));
    values[i] = {};
  }
  // One batch per shard. The views of a batch must survive later batches, so each shard has a buffer of its own, which
  // the caller's buffer owns.
  std::vector<size_t> order(samples.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(samples[i], i); });
  std::deque<BlockBuffer>& buffers = buffer->state().batch;
  struct Batch {
    std::shared_ptr<const CachedShard> open;
    std::vector<size_t> present;
    std::unique_ptr<container::RecordsRead> read;
  };
  std::vector<Batch> batches;
  std::vector<size_t> elsewhere;
  size_t used = 0;
  const auto next_buffer = [&](std::shared_ptr<const CachedShard> open) {
    if (buffers.size() <= used) buffers.emplace_back();
    buffers[used].state().Pin(std::move(open));
    return &buffers[used++];
  };
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    Batch batch;
    for (; end < order.size() && places[order[end]].shard == places[order[begin]].shard; ++end) {
      const RecordPlace& place = places[order[end]];
      if (place.kind == RecordPlace::kElsewhere) elsewhere.push_back(order[end]);
      if (place.kind != RecordPlace::kRecord) continue;
      ranges.emplace_back(place.begin, place.end);
      batch.present.push_back(order[end]);
    }
    begin = end;
    if (batch.present.empty()) continue;
    SHARDKIT_ASSIGN_OR_RETURN(batch.open, shards_->GetForRecords(places[batch.present.front()].shard));
    SHARDKIT_ASSIGN_OR_RETURN(batch.read, container::RecordsRead::Start(batch.open->record_file(), batch.open->options,
                                                                        std::move(ranges), next_buffer(batch.open)));
    batches.push_back(std::move(batch));
  }
  for (const Batch& batch : batches) {
    std::vector<std::string_view> read(batch.present.size());
    SHARDKIT_RETURN_IF_ERROR(batch.open->CheckIdentity());
    SHARDKIT_RETURN_IF_ERROR(batch.read->Finish(read));
    for (size_t i = 0; i < read.size(); ++i) values[batch.present[i]] = read[i];
  }
  for (size_t begin = 0; begin < elsewhere.size();) {
    size_t end = begin;
    const size_t shard = places[elsewhere[begin]].shard;
    while (end < elsewhere.size() && places[elsewhere[end]].shard == shard) ++end;
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
    if (open->columns[column] != CachedShard::kMissing) {
      SHARDKIT_RETURN_IF_ERROR(CopyFromPages(*open, samples, std::span(elsewhere).subspan(begin, end - begin), column,
                                             next_buffer(open), values));
    }
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoredDataset>> StoredDataset::Open(ReadableFileSystem& file_system,
                                                                   const std::string& path,
                                                                   const DatasetOptions& options) {
  auto reader = std::make_unique<AnyDatasetReader>();
  SHARDKIT_RETURN_IF_ERROR(At(reader->Open(file_system, path, options), {.path = path}));
  return reader;
}

}  // namespace shardkit::dataset

namespace shardkit {

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
