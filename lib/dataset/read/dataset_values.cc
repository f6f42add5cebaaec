// Values and keys of single samples.
#include <algorithm>
#include <charconv>
#include <deque>
#include <tuple>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/block_buffer.h"
#include "container/read/record_reader.h"
#include "dataset/read/any_dataset_reader.h"
#include "dataset/sample_number.h"

namespace shardkit::dataset {

absl::Status AnyDatasetReader::CheckColumn(size_t column) const {
  if (column < columns_.size()) [[likely]]
    return absl::OkStatus();
  return InvalidArgument(path_, ": there is no column ", column);
}

absl::Status AnyDatasetReader::DescribeSample(const absl::Status& status, uint64_t sample, size_t column) const {
  return WithMessage(status,
                     StrCat(ToStd(status.message()), " (sample ", sample, ", column \"", columns_[column].name, "\")"));
}

ErrorPlace AnyDatasetReader::PlaceOfValue(uint64_t sample, size_t column) const {
  ErrorPlace place{.path = path_};
  if (column < columns_.size()) place.column = columns_[column].name;
  const auto location = Locate(sample);
  if (location.ok()) place.sample = sample, place.shard = location->shard;
  return place;
}

absl::StatusOr<std::optional<std::string_view>> AnyDatasetReader::ReadValue(uint64_t sample, size_t column,
                                                                            BlockBuffer* buffer) const {
  auto value = FindValue(sample, column, buffer);
  if (!value.ok()) return At(value.status(), PlaceOfValue(sample, column));
  return value;
}

absl::StatusOr<std::optional<std::string_view>> AnyDatasetReader::FindValue(uint64_t sample, size_t column,
                                                                            BlockBuffer* buffer) const {
  SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
  SHARDKIT_RETURN_IF_ERROR(CheckSample(sample));
  const uint64_t stored = removed_.Stored(sample);
  if (const auto place = files_->Find(stored, schema_positions_[column])) {
    return files_->ReadValue(stored, *place, buffer);
  }
  if (index_ && columns_[column].is_blob()) {
    // The pages of the list of shards and of the index are read at once.
    SHARDKIT_ASSIGN_OR_RETURN(auto shard_page, list_->StartReading({&stored, 1}));
    SHARDKIT_ASSIGN_OR_RETURN(const RecordPlace place, FindRecord(stored, column));
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
  SHARDKIT_ASSIGN_OR_RETURN(const Location location, LocateStored(stored));
  SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
  if (open->columns[column] == CachedShard::kMissing) return std::optional<std::string_view>();
  buffer->state().Pin(open);
  return open->reader->ReadValue(location.local, open->columns[column], buffer);
}

absl::StatusOr<bool> AnyDatasetReader::CopyValue(uint64_t sample, size_t column, const ByteSink& sink) const {
  SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
  SHARDKIT_RETURN_IF_ERROR(CheckSample(sample));
  const uint64_t stored = removed_.Stored(sample);
  if (const auto place = files_->Find(stored, schema_positions_[column])) {
    return files_->CopyValue(*place, sink);
  }
  SHARDKIT_ASSIGN_OR_RETURN(const Location location, LocateStored(stored));
  SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
  if (open->columns[column] == CachedShard::kMissing) return false;
  return open->reader->CopyValue(location.local, open->columns[column], sink);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> AnyDatasetReader::OpenValue(uint64_t sample, size_t column) const {
  auto opened = FindValueFile(sample, column);
  if (!opened.ok()) return At(opened.status(), PlaceOfValue(sample, column));
  return opened;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> AnyDatasetReader::FindValueFile(uint64_t sample,
                                                                                  size_t column) const {
  SHARDKIT_RETURN_IF_ERROR(CheckColumn(column));
  SHARDKIT_RETURN_IF_ERROR(CheckSample(sample));
  const uint64_t stored = removed_.Stored(sample);
  if (const auto place = files_->Find(stored, schema_positions_[column])) return files_->OpenValue(*place);
  if (index_ && columns_[column].is_blob()) {
    SHARDKIT_ASSIGN_OR_RETURN(const RecordPlace place, FindRecord(stored, column));
    if (place.kind == RecordPlace::kAbsent) return nullptr;
    if (place.kind == RecordPlace::kRecord) {
      SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->GetForRecords(place.shard));
      SHARDKIT_RETURN_IF_ERROR(open->CheckIdentity());
      std::shared_ptr<const RandomAccessFile> file(open, &open->record_file());
      return container::OpenRecordAt(std::move(file), place.begin, place.end);
    }
  }
  SHARDKIT_ASSIGN_OR_RETURN(const Location location, LocateStored(stored));
  SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
  if (open->columns[column] == CachedShard::kMissing) return nullptr;
  return open->reader->OpenValue(location.local, open->columns[column]);
}

absl::StatusOr<AnyDatasetReader::RecordPlace> AnyDatasetReader::FindRecord(uint64_t stored, size_t column) const {
  SHARDKIT_ASSIGN_OR_RETURN(const IndexedBlock block, index_->BlockOfSample(stored));
  RecordPlace place{.kind = RecordPlace::kElsewhere, .shard = block.shard};
  const std::optional<uint32_t> position = index_->FindColumn(block, schema_positions_[column]);
  if (!position) return place;
  const auto local = static_cast<uint32_t>(stored - block.entry.first_sample);
  SHARDKIT_ASSIGN_OR_RETURN(std::tie(place.begin, place.end), index_->Record(block, local, *position));
  place.kind = place.begin == place.end ? RecordPlace::kAbsent : RecordPlace::kRecord;
  return place;
}

// Reads the values of `order`, positions in `stored` in ascending order of samples, all of one shard that has the
// column in pages. A page is read once for all of its values, and these are copied, as the next page takes its place.
absl::Status AnyDatasetReader::CopyFromPages(const CachedShard& open, std::span<const uint64_t> stored,
                                             std::span<const size_t> order, size_t column, BlockBuffer* buffer,
                                             std::span<std::string_view> values) const {
  std::string& copies = buffer->state().converted;
  copies.clear();
  std::vector<std::pair<size_t, size_t>> places(order.size());  // begin and length in `copies`
  for (size_t i = 0; i < order.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const Location location, LocateStored(stored[order[i]]));
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
  std::vector<uint64_t> stored;  // of the samples whose values are in the shards
  std::vector<size_t> positions;
  std::vector<std::pair<uint64_t, size_t>> in_files;
  for (size_t i = 0; i < samples.size(); ++i) {
    SHARDKIT_RETURN_IF_ERROR(CheckSample(samples[i]));
    const uint64_t sample = removed_.Stored(samples[i]);
    if (files_->Find(sample, schema_positions_[column])) {
      in_files.emplace_back(sample, i);
    } else {
      stored.push_back(sample);
      positions.push_back(i);
    }
  }
  if (in_files.empty()) return ReadRecords(stored, column, buffer, values);
  // Of a file values are read one after another, each in the place of the one before.
  std::ranges::fill(values, std::string_view());
  std::ranges::sort(in_files);
  std::string gathered;
  std::vector<std::pair<size_t, size_t>> places(samples.size());  // begin and length
  for (const auto& [sample, i] : in_files) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto value,
                              files_->ReadValue(sample, *files_->Find(sample, schema_positions_[column]), buffer));
    if (!value) continue;
    values[i] = std::string_view("", 0);
    places[i] = {gathered.size(), value->size()};
    gathered += *value;
  }
  SHARDKIT_RETURN_IF_ERROR(buffer->CheckMapped());
  std::string& kept = buffer->state().gathered = std::move(gathered);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].data() != nullptr) values[i] = std::string_view(kept).substr(places[i].first, places[i].second);
  }
  std::vector<std::string_view> records(stored.size());
  SHARDKIT_RETURN_IF_ERROR(ReadRecords(stored, column, buffer, records));
  for (size_t i = 0; i < positions.size(); ++i) values[positions[i]] = records[i];
  return absl::OkStatus();
}

absl::Status AnyDatasetReader::ReadRecords(std::span<const uint64_t> stored, size_t column, BlockBuffer* buffer,
                                           std::span<std::string_view> values) const {
  SHARDKIT_ASSIGN_OR_RETURN(auto shard_pages, list_->StartReading(stored));
  SHARDKIT_RETURN_IF_ERROR(index_->Prefetch(stored));
  SHARDKIT_RETURN_IF_ERROR(list_->FinishReading(std::move(shard_pages)));
  std::vector<RecordPlace> places(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(places[i], FindRecord(stored[i], column));
    values[i] = {};
  }
  // One batch per shard. The views of a batch must survive later batches, so each shard has a buffer of its own, which
  // the caller's buffer owns.
  std::vector<size_t> order(stored.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(stored[i], i); });
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
      SHARDKIT_RETURN_IF_ERROR(CopyFromPages(*open, stored, std::span(elsewhere).subspan(begin, end - begin), column,
                                             next_buffer(open), values));
    }
    begin = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> AnyDatasetReader::HasKey(uint64_t stored, std::string_view key, BlockBuffer* buffer) const {
  SHARDKIT_ASSIGN_OR_RETURN(const Location location, LocateStored(stored));
  SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(location.shard));
  buffer->state().Pin(open);
  SHARDKIT_ASSIGN_OR_RETURN(const auto value,
                            open->reader->ReadValue(location.local, *open->reader->schema().key_column(), buffer));
  return value && *value == key;
}

absl::StatusOr<std::optional<uint64_t>> AnyDatasetReader::FindKey(std::string_view key, BlockBuffer* buffer) const {
  if (!summary_.schema.key_column()) {
    uint64_t number = 0;
    std::from_chars(key.data(), key.data() + key.size(), number);
    return number < sample_count() && key == NumberAsKey(number) ? std::optional(number) : std::nullopt;
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> stored, FindStoredKey(key, buffer));
  if (!stored) return stored;
  return std::optional<uint64_t>(*stored - removed_.Before(*stored));
}

absl::StatusOr<std::optional<uint64_t>> AnyDatasetReader::FindStoredKey(std::string_view key,
                                                                        BlockBuffer* buffer) const {
  if (keys_.empty()) return FindKeyInShards(0, shard_count(), key, buffer);
  const uint64_t hash = Hash64(key);
  size_t shard = 0;
  uint64_t first_sample = 0;
  for (size_t i = 0; i < summary_.segments.size(); ++i) {
    const size_t shards_end = shard + summary_.segments[i].shards;
    std::optional<uint64_t> found;
    SHARDKIT_ASSIGN_OR_RETURN(const bool complete,
                              FindInKeys(keys_[i].get(), hash, [&](uint64_t ordinal) -> absl::StatusOr<bool> {
                                const uint64_t sample = first_sample + ordinal;
                                if (removed_.Has(sample)) return false;
                                SHARDKIT_ASSIGN_OR_RETURN(const bool has, HasKey(sample, key, buffer));
                                if (has) found = sample;
                                return has;
                              }));
    if (!complete) {
      SHARDKIT_ASSIGN_OR_RETURN(found, FindKeyInShards(shard, shards_end, key, buffer));
    }
    if (found) return found;
    shard = shards_end;
    first_sample += summary_.segments[i].samples;
  }
  return std::optional<uint64_t>();
}

absl::StatusOr<std::optional<uint64_t>> AnyDatasetReader::FindKeyInShards(size_t begin, size_t end,
                                                                          std::string_view key,
                                                                          BlockBuffer* buffer) const {
  for (size_t shard = begin; shard < end; ++shard) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_->Get(shard));
    buffer->state().Pin(open);
    SHARDKIT_ASSIGN_OR_RETURN(const auto local, open->reader->FindKey(key, buffer));
    if (!local) continue;
    SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard listed, list_->Get(shard));
    uint64_t sample = listed.first_sample + *local;
    if (!removed_.Has(sample)) return std::optional<uint64_t>(sample);
    for (++sample; sample < listed.first_sample + listed.shard.samples; ++sample) {
      if (removed_.Has(sample)) continue;
      SHARDKIT_ASSIGN_OR_RETURN(const bool has, HasKey(sample, key, buffer));
      if (has) return std::optional<uint64_t>(sample);
    }
  }
  return std::optional<uint64_t>();
}

}  // namespace shardkit::dataset
