#include "shardkit/dataset_reader.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "container/block_buffer.h"
#include "dataset/block_scanner.h"
#include "dataset/foreign/foreign_dataset.h"
#include "dataset/index_reader.h"
#include "dataset/schema_mapper.h"
#include "dataset/shard_cache.h"

namespace shardkit {
namespace {

constexpr size_t kNoBlob = SIZE_MAX;

class AnyDatasetReader : public DatasetReader {
 public:
  absl::Status Open(FileSystem& file_system, const std::string& path, const DatasetOptions& options) {
    path_ = path;
    SHARDKIT_ASSIGN_OR_RETURN(const FileInfo info, file_system.Stat(path));
    std::string directory = path;
    SHARDKIT_ASSIGN_OR_RETURN(foreign_, OpenForeign(file_system, path, info, options));
    if (foreign_ != nullptr) {
      manifest_ = foreign_->manifest();
      index_problem_ = StrCat("datasets of ", foreign_->container(), " have no offset index of ours");
    } else if (info.type == FileType::kDirectory) {
      absl::StatusOr<Manifest> manifest = ReadManifest(file_system, path);
      if (absl::IsNotFound(manifest.status())) return DescribeNoDataset(file_system, path);
      if (!manifest.ok()) return manifest.status();
      manifest_ = *std::move(manifest);
      OpenIndex(file_system);
    } else {
      SHARDKIT_ASSIGN_OR_RETURN(directory, DescribeShard(file_system, options));
      index_problem_ = "a single shard has no offset index";
    }
    SHARDKIT_RETURN_IF_ERROR(ChooseColumns(options.columns));
    first_samples_.reserve(manifest_.shards.size());
    uint64_t sample = 0;
    for (const ManifestShard& shard : manifest_.shards) {
      first_samples_.push_back(sample);
      sample += shard.samples;
    }
    sample_count_ = sample;
    OpenShardFunction open;
    if (foreign_ != nullptr) {
      open = [foreign = foreign_.get(), read = ReadOptions(options)](size_t shard) {
        return foreign->OpenShard(shard, read);
      };
    } else {
      open = [this, &file_system, directory, read = ReadOptions(options)](size_t shard) {
        return OpenNative(file_system, directory, shard, read);
      };
    }
    shards_ = std::make_unique<ShardCache>(std::move(open), manifest_, columns_, options.columns.empty(),
                                           options.max_open_shards);
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }
  std::string_view container() const override { return foreign_ ? foreign_->container() : "shard"; }
  const Manifest& manifest() const override { return manifest_; }
  uint64_t sample_count() const override { return sample_count_; }
  const std::vector<Column>& columns() const override { return columns_; }
  std::string index_problem() const override { return index_problem_; }
  std::string fallback_reason() const override { return shards_->fallback_reason(); }

  absl::StatusOr<Location> Locate(uint64_t sample) const override {
    if (sample >= sample_count_) {
      return OutOfRange(path_, ": has ", sample_count_, " samples; there is no sample ", sample);
    }
    const auto after = std::ranges::upper_bound(first_samples_, sample);
    const size_t shard = static_cast<size_t>(after - first_samples_.begin()) - 1;
    return Location{shard, sample - first_samples_[shard]};
  }

  absl::StatusOr<std::shared_ptr<const ShardReader>> OpenShard(size_t shard) const override {
    if (shard >= manifest_.shards.size()) {
      return OutOfRange(path_, ": has ", manifest_.shards.size(), " shards; there is no shard ", shard);
    }
    SHARDKIT_ASSIGN_OR_RETURN(auto open, shards_->Get(shard));
    return std::shared_ptr<const ShardReader>(open, open->reader.get());
  }

  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, size_t column,
                                                            BlockBuffer* buffer) const override {
    SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
    if (index_ && blob_positions_[column] != kNoBlob) {
      if (sample >= sample_count_) return Locate(sample).status();
      SHARDKIT_ASSIGN_OR_RETURN(const Place place, FindRecord(sample, column));
      if (place.begin != place.end) {
        SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(place.shard));
        buffer->state().Pin(open);
        auto value = open->reader->ReadRecord(place.begin, place.end, buffer);
        if (!value.ok()) return DescribeSample(value.status(), sample, column);
        return std::optional<std::string_view>(*value);
      }
      // The value is absent, or the shard has the column in pages.
    }
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(sample));
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
    if (open->columns[column] == CachedShard::kMissing) return std::optional<std::string_view>();
    buffer->state().Pin(open);
    return open->reader->ReadValue(location.local, open->columns[column], buffer);
  }

  absl::Status ReadValues(std::span<const uint64_t> samples, size_t column, int depth, BlockBuffer* buffer,
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
    if (!manifest_.schema.key_column()) return FailedPrecondition(path_, ": has no key column");
    for (size_t shard = 0; shard < manifest_.shards.size(); ++shard) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
      buffer->state().Pin(open);
      SHARDKIT_ASSIGN_OR_RETURN(const auto local, open->reader->FindKey(key, buffer));
      if (local) return std::optional<uint64_t>(first_samples_[shard] + *local);
    }
    return std::optional<uint64_t>();
  }

  absl::StatusOr<std::vector<DatasetBlock>> ReadBlockDirectory() const override;

  absl::Status ReadBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view) const override {
    if (shard >= manifest_.shards.size()) return OpenShard(shard).status();
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
    buffer->state().Pin(open);
    return open->ReadBlock(block, buffer, view);
  }

  absl::Status SalvageBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                            BlockDamage* damage) const override {
    if (shard >= manifest_.shards.size()) return OpenShard(shard).status();
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
    buffer->state().Pin(open);
    return open->ReadBlock(block, buffer, view, damage);
  }

  const std::vector<CutTar>& cut_tars() const override {
    static const std::vector<CutTar> none;
    return foreign_ ? foreign_->cut_tars() : none;
  }

  absl::StatusOr<std::unique_ptr<BlockScanner>> Scan(const ScanOptions& options) const override {
    return NewBlockScanner(manifest_, *shards_, reserve_, options);
  }

  absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const override {
    std::vector<ColumnStatistics> merged(columns_.size());
    for (size_t shard = 0; shard < manifest_.shards.size(); ++shard) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
      SHARDKIT_ASSIGN_OR_RETURN(const auto statistics, open->reader->ReadStatistics());
      for (size_t i = 0; i < columns_.size(); ++i) {
        if (open->columns[i] != CachedShard::kMissing) merged[i].Merge(statistics[open->columns[i]]);
      }
    }
    return merged;
  }

 private:
  struct Place {
    size_t shard = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  absl::StatusOr<Place> FindRecord(uint64_t sample, size_t column) const {
    SHARDKIT_ASSIGN_OR_RETURN(const format::IndexBlock block, index_->BlockOfSample(sample));
    SHARDKIT_ASSIGN_OR_RETURN(const auto record,
                              index_->Record(block, static_cast<uint32_t>(sample - block.first_sample),
                                             static_cast<uint32_t>(blob_positions_[column])));
    return Place{block.shard, record.first, record.second};
  }

  absl::Status CheckColumn(size_t column) const {
    if (column < columns_.size()) [[likely]]
      return absl::OkStatus();
    return InvalidArgument(path_, ": there is no column ", column);
  }

  absl::Status DescribeSample(const absl::Status& status, uint64_t sample, size_t column) const {
    return absl::Status(status.code(), ToAbsl(StrCat(ToStd(status.message()), " (sample ", sample, ", column \"",
                                                     columns_[column].name, "\")")));
  }

  absl::StatusOr<std::unique_ptr<ShardReader>> OpenNative(FileSystem& file_system, const std::string& directory,
                                                          size_t shard, const ReadOptions& options) const {
    const std::string path = JoinPath(directory, manifest_.shards[shard].name);
    absl::StatusOr<std::unique_ptr<ShardReader>> opened = ShardReader::Open(file_system, path, options);
    if (absl::IsNotFound(opened.status())) {
      return NotFound(path, ": shard ", shard, " of the manifest is missing; copy it again, or shardctl repair ",
                      directory, " -o OUT keeps the others");
    }
    return opened;
  }

  void OpenIndex(FileSystem& file_system) {
    const std::string path = JoinPath(path_, kIndexName);
    auto index = IndexReader::Open(file_system, path);
    if (!index.ok()) {
      index_problem_ = absl::IsNotFound(index.status())
                           ? StrCat(path, ": is missing; run shardctl index ", path_)
                           : StrCat(ToStd(index.status().message()), "; run shardctl index ", path_);
      return;
    }
    const format::IndexHeader& header = (*index)->header();
    if (header.dataset_hash != manifest_.dataset_hash() || header.sample_count != manifest_.samples() ||
        header.block_count != manifest_.blocks() || header.shard_count != manifest_.shards.size() ||
        header.blob_column_count != manifest_.schema.indexed_columns().size()) {
      index_problem_ = StrCat(path, ": belongs to other shards than the manifest lists; run shardctl index ", path_);
      return;
    }
    index_ = *std::move(index);
  }

  // Makes a manifest for a single shard. Returns the directory that the shard lies in.
  absl::StatusOr<std::string> DescribeShard(FileSystem& file_system, const ReadOptions& options) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(file_system, path_, options));
    SHARDKIT_ASSIGN_OR_RETURN(manifest_.metadata, reader->ReadMetadata());
    manifest_.schema = reader->schema();
    const size_t slash = path_.rfind('/');
    manifest_.shards.push_back({slash == path_.npos ? path_ : path_.substr(slash + 1), reader->file_length(),
                                reader->sample_count(), reader->blocks().size(), reader->content_hash()});
    if (slash == path_.npos) return std::string(".");
    return slash == 0 ? std::string("/") : path_.substr(0, slash);
  }

  absl::Status ChooseColumns(const std::vector<std::string>& names) {
    const Schema& schema = manifest_.schema;
    if (names.empty()) columns_ = schema.columns();
    for (const std::string& name : names) {
      const std::optional<size_t> position = schema.Find(name);
      if (!position) return Annotate(NoSuchColumn(name, schema.columns()), path_);
      columns_.push_back(schema[*position]);
    }
    for (const Column& column : columns_) {
      const auto& blobs = schema.indexed_columns();
      const auto found = std::ranges::find(blobs, *schema.Find(column.name));
      blob_positions_.push_back(found == blobs.end() ? kNoBlob : static_cast<size_t>(found - blobs.begin()));
    }
    return absl::OkStatus();
  }

  std::string path_;
  std::unique_ptr<ForeignDataset> foreign_;  // of another container
  Manifest manifest_;
  std::vector<Column> columns_;
  std::vector<size_t> blob_positions_;   // for each column, its position among the manifest's blob columns
  std::vector<uint64_t> first_samples_;  // per shard
  uint64_t sample_count_ = 0;
  std::unique_ptr<IndexReader> index_;
  std::string index_problem_;
  std::unique_ptr<ShardCache> shards_;
  const std::shared_ptr<BufferReserve> reserve_ = std::make_shared<BufferReserve>();
};

absl::StatusOr<std::vector<DatasetBlock>> AnyDatasetReader::ReadBlockDirectory() const {
  std::vector<DatasetBlock> blocks;
  if (index_) blocks.reserve(index_->header().block_count);
  for (uint32_t shard = 0; shard < manifest_.shards.size(); ++shard) {
    const uint64_t first_sample = first_samples_[shard];
    if (index_) {
      SHARDKIT_ASSIGN_OR_RETURN(const format::IndexShard entry, index_->Shard(shard));
      // In a forged index shards could share blocks, which would make far more entries than the index has bytes.
      if (entry.first_block != blocks.size()) {
        return DataLoss(path_, ": the offset index contradicts itself at shard ", shard, "; run shardctl index ",
                        path_);
      }
      for (uint64_t i = 0; i < entry.block_count; ++i) {
        SHARDKIT_ASSIGN_OR_RETURN(const format::IndexBlock block, index_->Block(entry.first_block + i));
        blocks.push_back({shard, static_cast<uint32_t>(i), block.first_sample, block.sample_count, block.length});
      }
    } else {
      SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
      for (uint32_t i = 0; i < open->reader->blocks().size(); ++i) {
        const BlockInfo& block = open->reader->blocks()[i];
        blocks.push_back({shard, i, first_sample + block.first_sample, block.sample_count, block.length,
                          open->reader->forward_only()});
      }
    }
  }
  uint64_t next = 0;
  for (const DatasetBlock& block : blocks) {
    if (block.first_sample != next)
      return DataLoss(path_, ": the offset index contradicts the manifest; run shardctl index ", path_);
    next += block.sample_count;
  }
  if (next != sample_count_)
    return DataLoss(path_, ": the offset index contradicts the manifest; run shardctl index ", path_);
  return blocks;
}

// Reads the values of `order`, positions in `samples` in ascending order of samples, all of one shard that has the
// column in pages. A page is read once for all of its values, and these are copied, as the next page takes its place.
absl::Status AnyDatasetReader::CopyFromPages(const CachedShard& open, std::span<const uint64_t> samples,
                                             std::span<const size_t> order, size_t column, BlockBuffer* buffer,
                                             std::span<std::string_view> values) const {
  constexpr size_t kAbsent = SIZE_MAX;
  std::string& copies = buffer->state().converted;
  copies.clear();
  std::vector<std::pair<size_t, size_t>> places(order.size());  // begin and length in `copies`
  for (size_t i = 0; i < order.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, Locate(samples[order[i]]));
    auto value = open.reader->ReadValue(location.local, open.columns[column], buffer);
    if (!value.ok()) return value.status();
    places[i] = {copies.size(), *value ? (*value)->size() : kAbsent};
    if (*value) copies += **value;
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (places[i].second == kAbsent) continue;
    values[order[i]] = std::string_view(copies).substr(places[i].first, places[i].second);
  }
  return absl::OkStatus();
}

absl::Status AnyDatasetReader::ReadValues(std::span<const uint64_t> samples, size_t column, int depth,
                                          BlockBuffer* buffer, std::span<std::string_view> values) const {
  SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
  if (!index_ || blob_positions_[column] == kNoBlob) {
    return FailedPrecondition(
        path_, ": reading many values at once needs the offset index and a column of codec none; ", index_problem_);
  }
  if (values.size() != samples.size()) return InvalidArgument(path_, ": as many views as samples are needed");
  std::vector<Place> places(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] >= sample_count_) return Locate(samples[i]).status();
    SHARDKIT_ASSIGN_OR_RETURN(places[i], FindRecord(samples[i], column));
    values[i] = {};
  }
  // One batch per shard. The views of a batch must survive later batches, so each shard has a buffer of its own, which
  // the caller's buffer owns.
  std::vector<size_t> order(samples.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(samples[i], i); });
  std::vector<BlockBuffer>& buffers = buffer->state().batch;
  size_t batch = 0;
  for (size_t begin = 0; begin < order.size(); ++batch) {
    size_t end = begin;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    std::vector<size_t> present;
    for (; end < order.size() && places[order[end]].shard == places[order[begin]].shard; ++end) {
      const Place& place = places[order[end]];
      if (place.begin == place.end) continue;
      ranges.emplace_back(place.begin, place.end);
      present.push_back(order[end]);
    }
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(places[order[begin]].shard));
    if (buffers.size() <= batch) buffers.emplace_back();
    buffers[batch].state().Pin(open);
    const size_t stored = open->columns[column];
    if (stored != CachedShard::kMissing && open->reader->schema()[stored].is_paged()) {
      SHARDKIT_RETURN_IF_ERROR(
          CopyFromPages(*open, samples, std::span(order).subspan(begin, end - begin), column, &buffers[batch], values));
      begin = end;
      continue;
    }
    std::vector<std::string_view> read(ranges.size());
    SHARDKIT_RETURN_IF_ERROR(open->reader->ReadRecords(ranges, depth, &buffers[batch], read));
    for (size_t i = 0; i < present.size(); ++i) values[present[i]] = read[i];
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> DatasetReader::FindColumn(std::string_view name) const {
  for (size_t i = 0; i < columns().size(); ++i) {
    if (columns()[i].name == name) return i;
  }
  return Annotate(NoSuchColumn(name, columns()), path());
}

absl::StatusOr<std::unique_ptr<DatasetReader>> DatasetReader::Open(FileSystem& file_system, const std::string& path,
                                                                   const DatasetOptions& options) {
  auto reader = std::make_unique<AnyDatasetReader>();
  SHARDKIT_RETURN_IF_ERROR(reader->Open(file_system, path, options));
  return reader;
}

}  // namespace shardkit
