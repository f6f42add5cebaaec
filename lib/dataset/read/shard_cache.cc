#include "dataset/read/shard_cache.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "container/block_buffer.h"
#include "container/read/record_reader.h"
#include "dataset/bases.h"
#include "dataset/write/schema_mapper.h"
#include "io/read_again.h"

namespace shardkit::dataset {
namespace {

// Shards dropped when one more makes too many open files in the process.
constexpr int kDroppedAtOnce = 4;

// The rules of dataset.md, section 9.1, for the columns of a shard.
absl::Status CheckColumns(const ShardReader& reader, const PlacedShard& listed, const ManifestSummary& dataset,
                          const ColumnFiles& files) {
  const std::vector<Column>& columns = reader.schema().columns();
  std::vector<bool> known(columns.size());
  for (size_t i = 0; i < dataset.schema.size(); ++i) {
    const Column& column = dataset.schema[i];
    const std::optional<size_t> position = reader.schema().Find(dataset.StoredName(column.name));
    if (!position) {
      if (column.nullable || files.HaveAll(i, listed.first_sample, listed.shard.samples)) continue;
      return DataLoss(reader.path(), ": shard ", listed.number, " of the manifest lacks column \"", column.name,
                      "\", which the dataset says is always there");
    }
    known[*position] = true;
    const std::string_view difference = ColumnDifference(columns[*position], column);
    if (difference.empty()) continue;
    return DataLoss(reader.path(), ": column \"", column.name, "\" of shard ", listed.number,
                    " of the manifest does not fit the dataset's: its ", difference, " differs");
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if (known[i] || std::ranges::binary_search(dataset.dropped, columns[i].name)) continue;
    return DataLoss(reader.path(), ": shard ", listed.number, " of the manifest has a column \"", columns[i].name,
                    "\", which the dataset does not have");
  }
  return absl::OkStatus();
}

absl::Status IsAnotherShard(const std::string& path, const PlacedShard& listed, const ManifestSummary& dataset) {
  return InBase(DataLoss(path, ": is not shard ", listed.number,
                         " of the manifest: content hash, length or counts differ; "
                         "run shardctl index on the dataset if it was replaced on purpose"),
                dataset, listed.shard.name);
}

}  // namespace

TrailerComparison::TrailerComparison(const RandomAccessFile& file, const PlacedShard& listed,
                                     const ManifestSummary& dataset)
    : file_(file), listed_(listed), dataset_(dataset) {
  const ReadRequest request{file.size() - trailer_.size(), trailer_};
  read_.emplace(file, std::span(&request, 1));
}

absl::Status TrailerComparison::Finish() {
  if (same_.load(std::memory_order_acquire)) [[likely]]
    return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  if (same_) return absl::OkStatus();
  const auto read = [&]() -> absl::StatusOr<format::Trailer> {
    const absl::Status status =
        read_ ? read_->Wait() : file_.ReadAt(file_.size() - trailer_.size(), {trailer_.data(), trailer_.size()});
    read_.reset();
    SHARDKIT_RETURN_IF_ERROR(container::ReadOfListed(status));
    return format::DecodeTrailer({trailer_.data(), trailer_.size()}, file_.size());
  };
  const auto trailer = io::RetryIfDamaged(file_, read);
  if (!trailer.ok()) return Annotate(trailer.status(), file_.path());
  const ManifestShard& entry = listed_.shard;
  if (trailer->content_hash != entry.content_hash || trailer->sample_count != entry.samples ||
      trailer->block_count != entry.blocks) {
    return IsAnotherShard(file_.path(), listed_, dataset_);
  }
  same_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status CachedShard::ReadBlock(size_t block, BlockBuffer* buffer, BlockView* view, BlockDamage* damage) const {
  BlockView read;
  BlockDamage found;  // by columns of the shard
  if (std::ranges::all_of(columns, [](size_t column) { return column == kMissing; })) {
    const BlockInfo& place = reader->blocks()[block];
    container::BlockAssembler::Reset(&read, place.first_sample, place.sample_count, 0);
  } else {
    SHARDKIT_RETURN_IF_ERROR(damage == nullptr ? reader->ReadBlock(block, wanted, buffer, &read)
                                               : reader->SalvageBlock(block, wanted, buffer, &read, &found));
  }
  container::BlockAssembler::Reset(view, read.first_sample(), read.sample_count(), columns.size());
  if (damage != nullptr) {
    *damage = {};
    for (size_t i = 0; i < columns.size(); ++i) {
      if (const auto why = found.columns.find(columns[i]); why != found.columns.end()) damage->columns[i] = why->second;
    }
    for (const auto& [place, why] : found.values) {
      const auto column = std::ranges::find(columns, place.second);
      if (column == columns.end()) continue;
      damage->values[{place.first, static_cast<size_t>(column - columns.begin())}] = why;
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    container::BlockAssembler::Set(
        view, i, columns[i] == kMissing ? ColumnView::Missing(read.sample_count()) : read.column(columns[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> CachedShard::ReadRecord(uint64_t begin, uint64_t end, BlockBuffer* buffer) const {
  auto value = container::ReadRecordAt(record_file(), options, begin, end, buffer);
  SHARDKIT_RETURN_IF_ERROR(CheckIdentity());
  return value;
}

ShardCache::ShardCache(OpenShardFunction open, OpenFileFunction open_file, const ShardListReader& shards,
                       const ManifestSummary& summary, const ColumnFiles& files, const std::vector<Column>& columns,
                       const DatasetOptions& options)
    : open_(std::move(open)),
      open_file_(std::move(open_file)),
      options_(options),
      shards_(shards),
      summary_(summary),
      files_(files),
      columns_(columns),
      all_columns_(options.columns.empty() && summary.dropped.empty() && summary.column_files.empty()),
      max_open_(std::max<size_t>(options.max_open_shards, 1)) {
  io::AddSpareFiles(this);
}

ShardCache::~ShardCache() { io::RemoveSpareFiles(this); }

std::shared_ptr<const CachedShard> ShardCache::DropOldest() {
  auto slot = slots_.extract(in_use_.back());
  in_use_.pop_back();
  count_ = in_use_.size();
  return slot ? std::move(slot.mapped().open) : nullptr;
}

std::shared_ptr<const void> ShardCache::TakeOldest() {
  const std::lock_guard lock(mutex_);
  return in_use_.empty() ? nullptr : DropOldest();
}

absl::StatusOr<std::shared_ptr<const CachedShard>> ShardCache::OpenFile(const PlacedShard& listed) const {
  auto open = std::make_shared<CachedShard>();
  open->options = options_;
  SHARDKIT_ASSIGN_OR_RETURN(open->file, open_file_(listed));
  // Of another length: it cannot be the shard, and opening it says what is wrong with it.
  if (open->file->size() != listed.shard.bytes || open->file->size() < format::kTrailerBytes) return Open(listed);
  open->comparison = std::make_unique<TrailerComparison>(*open->file, listed, summary_);
  return open;
}

absl::StatusOr<std::shared_ptr<const CachedShard>> ShardCache::Open(const PlacedShard& listed) const {
  const ManifestShard& entry = listed.shard;
  auto open = std::make_shared<CachedShard>();
  open->options = options_;
  SHARDKIT_ASSIGN_OR_RETURN(open->reader, open_(listed));
  const ShardReader& reader = *open->reader;
  if (reader.content_hash() != entry.content_hash || reader.sample_count() != entry.samples ||
      reader.file_length() != entry.bytes || reader.blocks().size() != entry.blocks) {
    return IsAnotherShard(reader.path(), listed, summary_);
  }
  SHARDKIT_RETURN_IF_ERROR(CheckColumns(reader, listed, summary_, files_));
  for (const Column& column : columns_) {
    const std::optional<size_t> position = reader.schema().Find(summary_.StoredName(column.name));
    open->columns.push_back(position.value_or(CachedShard::kMissing));
    if (position) open->wanted.push_back(*position);
  }
  if (all_columns_) open->wanted.clear();
  return open;
}

absl::StatusOr<std::shared_ptr<const CachedShard>> ShardCache::Get(size_t shard) { return Find(shard, false); }

absl::StatusOr<std::shared_ptr<const CachedShard>> ShardCache::GetForRecords(size_t shard) { return Find(shard, true); }

absl::StatusOr<std::shared_ptr<const CachedShard>> ShardCache::Find(size_t shard, bool for_records) {
  std::unique_lock lock(mutex_);
  auto slot = slots_.end();
  const auto serves = [&] {
    slot = slots_.find(shard);
    return slot != slots_.end() && (for_records || slot->second.open->reader);
  };
  while (!serves() && opening_.contains(shard)) opened_.wait(lock);
  if (serves()) [[likely]] {
    if (slot->second.use != in_use_.begin()) in_use_.splice(in_use_.begin(), in_use_, slot->second.use);
    return slot->second.open;
  }
  // Opened outside the lock, for other shards. After an error, or an exception, the next thread tries.
  opening_.insert(shard);
  const absl::Cleanup end = [&] {
    if (!lock.owns_lock()) lock.lock();
    opening_.erase(shard);
    opened_.notify_all();
  };
  lock.unlock();
  SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard listed, shards_.Get(shard));
  SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<const CachedShard> open, for_records ? OpenFile(listed) : Open(listed));
  lock.lock();
  slot = slots_.find(shard);
  if (fallback_reason_.empty()) {
    fallback_reason_ = open->reader ? open->reader->fallback_reason() : open->file->fallback_reason();
  }
  if (slot != slots_.end()) {  // for its records alone; who uses it keeps it
    slot->second.open = open;
    return open;
  }
  in_use_.push_front(shard);  // both may throw; a use without a slot does no harm
  slots_.emplace(shard, Slot{open, in_use_.begin()});
  count_ = in_use_.size();
  std::shared_ptr<const CachedShard> dropped;
  if (in_use_.size() > max_open_) dropped = DropOldest();
  lock.unlock();
  dropped.reset();
  // Those that somebody uses stay open for now.
  for (int i = 0; i < kDroppedAtOnce && io::OpenDescriptors() > io::MostDescriptors(); ++i) io::CloseSpareFile();
  return open;
}

std::string ShardCache::fallback_reason() const {
  std::lock_guard lock(mutex_);
  return fallback_reason_;
}

}  // namespace shardkit::dataset
