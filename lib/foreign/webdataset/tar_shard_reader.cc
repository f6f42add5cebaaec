#include "foreign/webdataset/tar_shard_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/read/decompression_limit.h"
#include "container/read/value_file.h"

namespace shardkit::foreign {
namespace {

// Position 0 of the schema; the columns of the index follow.
constexpr size_t kKeyColumn = 0;

// Bytes for one column of a block: where each value begins, where each value ends, and a presence bit per sample.
uint64_t SlotBytes(uint64_t samples) { return RoundUp(16 * samples + (samples + 7) / 8, 8); }

}  // namespace

absl::StatusOr<std::unique_ptr<TarShardReader>> TarShardReader::Open(ReadableFileSystem& file_system,
                                                                     const std::string& path,
                                                                     const ReadOptions& options,
                                                                     std::shared_ptr<const TarContents> contents) {
  std::unique_ptr<TarShardReader> reader(new TarShardReader());
  reader->path_ = path;
  reader->options_ = options;
  if (contents == nullptr) {
    SHARDKIT_ASSIGN_OR_RETURN(contents, LoadTarContents(file_system, path, options.max_decompression));
  }
  const TarIndex& index = contents->index;
  const bool compressed = contents->compression != TarCompression::kNone;
  SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file,
                            file_system.OpenForReading(path, compressed ? ReadMode::kBuffered : options.mode));
  reader->file_length_ = file->size();
  if (reader->file_length_ != index.tar_length) {
    return DataLoss(path, ": has ", reader->file_length_, " bytes, but had ", index.tar_length,
                    " when it was looked through: it was changed; open it again");
  }
  reader->fallback_reason_ = file->fallback_reason();
  if (compressed) {
    SHARDKIT_ASSIGN_OR_RETURN(file,
                              OpenDecompressed(std::move(file), contents->compression, index.blocks.back().offset));
    reader->fallback_reason_ =
        StrCat(path, ": is compressed, and is read from its beginning: decompress it for reading in any order");
  }
  reader->file_ = std::move(file);
  SHARDKIT_ASSIGN_OR_RETURN(reader->schema_, TarSchema(index));
  reader->sample_count_ = index.blocks.back().first_sample;
  for (size_t i = 0; i + 1 < index.blocks.size(); ++i) {
    const TarBlock& block = index.blocks[i];
    const TarBlock& next = index.blocks[i + 1];
    reader->blocks_.push_back({.offset = block.offset,
                               .length = next.offset - block.offset,
                               .first_sample = block.first_sample,
                               .sample_count = static_cast<uint32_t>(next.first_sample - block.first_sample)});
  }
  if (contents->stored) {
    SHARDKIT_ASSIGN_OR_RETURN(reader->stored_, TarBlocks::Open(file_system, path, contents));
  }
  reader->contents_ = std::move(contents);
  if (options.verify == Verify::kFirst) {
    const uint64_t chunks = reader->blocks_.size() * reader->schema_.size();
    reader->verified_ = container::VerifiedChunks::Of(reader->file_->identity(), chunks);
  }
  return reader;
}

absl::StatusOr<TarShardReader::Samples> TarShardReader::SamplesOf(size_t block) const {
  Samples samples{.count = blocks_[block].sample_count};
  if (stored_) {
    SHARDKIT_ASSIGN_OR_RETURN(samples.all, stored_->Block(block));
  } else {
    samples.all = std::shared_ptr<const TarSamples>(contents_, &contents_->index);
    samples.first = blocks_[block].first_sample;
  }
  return samples;
}

const TarValue* TarShardReader::Samples::Find(uint64_t i, size_t column) const {
  const auto of_sample = values(i);
  const auto found = std::ranges::find(of_sample, column - 1, &TarValue::column);
  return found == of_sample.end() ? nullptr : &*found;
}

absl::Status TarShardReader::WrongChecksum(const TarValue& value, uint64_t sample, std::string_view key) const {
  return DataLoss(path_, ": sample ", sample, " '", key, "', column \"", schema_[value.column + 1].name, "\", ",
                  value.length, " bytes at byte ", value.offset,
                  ": differ from what they were when the tar was indexed; get the tar again");
}

// The stretches of the tar that hold the wanted values, in the order of the tar.
std::vector<TarShardReader::Stretch> TarShardReader::FindStretches(std::span<const TarValue> values,
                                                                   const Wanted& wanted) const {
  const uint64_t alignment = file_->alignment();
  const uint64_t gap = file_->hints().bridge_gap_bytes;
  std::vector<Stretch> stretches;
  uint64_t position = 0;
  std::vector<TarValue> sorted;
  if (!std::ranges::is_sorted(values, {}, &TarValue::offset)) {  // with links
    sorted.assign(values.begin(), values.end());
    std::ranges::stable_sort(sorted, {}, &TarValue::offset);
    values = sorted;
  }
  for (const TarValue& value : values) {
    if (wanted[value.column + 1] == 0 || value.length == 0) continue;
    const uint64_t end = value.offset + value.length;
    if (!stretches.empty() && value.offset - std::min(value.offset, stretches.back().end) <= gap) {
      stretches.back().bridged += value.offset - std::min(value.offset, stretches.back().end);
      stretches.back().end = std::max(end, stretches.back().end);
    } else {
      stretches.push_back({value.offset / alignment * alignment, end});
    }
  }
  for (Stretch& stretch : stretches) {
    stretch.position = position;
    stretch.end = std::min(RoundUp(stretch.end, alignment), file_->size());
    position += RoundUp(stretch.end - stretch.begin, std::max<uint64_t>(alignment, 8));
  }
  return stretches;
}

absl::Status TarShardReader::CheckMemory(uint64_t bytes, std::string_view what) const {
  return forward_only() ? container::CheckDecompression(options_, file_length_, bytes)
                        : container::CheckBlockMemory(options_, bytes, what);
}

absl::Status TarShardReader::ReadStretches(std::vector<Stretch>& stretches, Buffer* memory) const {
  const uint64_t total =
      stretches.empty() ? 0 : stretches.back().position + (stretches.back().end - stretches.back().begin);
  SHARDKIT_RETURN_IF_ERROR(CheckMemory(total, "what is wanted of it has"));
  memory->resize_discard(total);
  std::vector<ReadRequest> requests;
  for (const Stretch& stretch : stretches) {
    requests.push_back(
        {stretch.begin, {memory->data() + stretch.position, stretch.end - stretch.begin}, stretch.bridged});
  }
  return requests.empty() ? absl::OkStatus() : file_->ReadBatch(requests);
}

// `base` holds the stretches, each at its position. Without stretches, `base` is the start of the tar.
absl::Status TarShardReader::FillView(const BlockInfo& block, const Samples& samples,
                                      std::span<const Stretch> stretches, const char* base, BlockBuffer::State& state,
                                      BlockView* view, BlockDamage* damage) const {
  const uint64_t count = block.sample_count;
  container::BlockAssembler::Reset(view, block.first_sample, block.sample_count, schema_.size());
  if (state.wanted[kKeyColumn] != 0) {
    const auto* const ends = reinterpret_cast<const char*>(samples.all->key_ends.data() + samples.first);
    container::BlockAssembler::Set(
        view, kKeyColumn, ColumnView::Scattered(block.sample_count, nullptr, ends, ends + 8, samples.all->keys.data()));
    state.listed = samples.all;
  }

  // Columns that the block lacks share slot 0, which stays zero.
  std::vector<uint32_t> slots(schema_.size());
  uint32_t slot_count = 1;
  for (const TarValue& value : samples.values(0, count)) {
    uint32_t& slot = slots[value.column + 1];
    if (slot == 0 && state.wanted[value.column + 1] != 0) slot = slot_count++;
  }
  const uint64_t slot_bytes = SlotBytes(count);
  state.raw.resize_discard(slot_bytes * slot_count);
  std::memset(state.raw.data(), 0, state.raw.size());
  for (size_t column = 1; column < schema_.size(); ++column) {
    if (state.wanted[column] == 0) continue;
    const char* const begins = state.raw.data() + slot_bytes * slots[column];
    container::BlockAssembler::Set(
        view, column, ColumnView::Scattered(block.sample_count, begins + 16 * count, begins, begins + 8 * count, base));
  }

  const auto number = [&](size_t column) {
    return static_cast<uint64_t>(&block - blocks_.data()) * schema_.size() + column;
  };
  std::vector<uint8_t> to_verify(schema_.size(), options_.verify != Verify::kNever);
  for (size_t column = 0; verified_ && damage == nullptr && column < schema_.size(); ++column) {
    to_verify[column] = !verified_->Contains(number(column));
  }
  size_t stretch = 0;
  for (uint64_t i = 0; i < count; ++i) {
    for (const TarValue& value : samples.values(i)) {
      if (state.wanted[value.column + 1] == 0) continue;
      uint64_t position = value.length == 0 ? 0 : value.offset;
      if (value.length != 0 && !stretches.empty()) {
        if (value.offset < stretches[stretch].begin) stretch = 0;  // of a link
        while (value.offset >= stretches[stretch].end) ++stretch;
        position = value.offset - stretches[stretch].begin + stretches[stretch].position;
      }
      const uint64_t* const checksum = to_verify[value.column + 1] != 0 ? samples.checksum(value) : nullptr;
      if (checksum != nullptr && Hash64(base + position, value.length) != *checksum) {
        absl::Status status = WrongChecksum(value, block.first_sample + i, samples.key(i));
        if (damage == nullptr) return status;
        damage->values[{static_cast<uint32_t>(i), value.column + size_t{1}}] = std::move(status);
      }
      char* const begins = state.raw.data() + slot_bytes * slots[value.column + 1];
      const uint64_t end = position + value.length;
      std::memcpy(begins + 8 * i, &position, 8);
      std::memcpy(begins + 8 * (count + i), &end, 8);
      begins[16 * count + i / 8] = static_cast<char>(begins[16 * count + i / 8] | (1 << (i % 8)));
    }
  }
  for (size_t column = 0; verified_ && damage == nullptr && column < schema_.size(); ++column) {
    if (state.wanted[column] != 0) verified_->Add(number(column));
  }
  return absl::OkStatus();
}

absl::Status TarShardReader::Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                                  BlockDamage* damage) const {
  if (index >= blocks_.size()) return OutOfRange(path_, ": has ", blocks_.size(), " blocks; there is no block ", index);
  BlockBuffer::State& state = buffer->state();
  state.owner = 0;
  state.mapped = nullptr;
  state.shown = file_.get();
  state.wanted.assign(schema_.size(), columns.empty() ? 1 : 0);
  for (const size_t column : columns) {
    if (column >= schema_.size()) return InvalidArgument(path_, ": there is no column ", column);
    state.wanted[column] = 1;
  }
  const BlockInfo& block = blocks_[index];
  SHARDKIT_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(index));
  // The keys are in the index, so damage of the tar does not lose them.
  const auto lost = [&](const absl::Status& status) {
    if (damage == nullptr || !absl::IsDataLoss(status)) return status;
    for (size_t column = 1; column < schema_.size(); ++column) {
      if (std::exchange(state.wanted[column], 0) != 0) damage->columns[column] = status;
    }
    return FillView(block, samples, {}, "", state, view, nullptr);
  };
  if (const auto mapped = file_->Mapped()) {
    state.mapped = file_.get();
    state.file_offset = block.offset;
    state.read_length = block.length;
    const absl::Status status = FillView(block, samples, {}, mapped->data(), state, view, damage);
    SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
    return status;
  }
  std::vector<Stretch> stretches = FindStretches(samples.values(0, samples.count), state.wanted);
  if (absl::Status status = ReadStretches(stretches, &state.stored); !status.ok()) {
    if (!absl::IsResourceExhausted(status)) return lost(status);
    return Annotate(status, StrCat(path_, ": block ", index, " (samples ", block.first_sample, " to ",
                                   block.first_sample + block.sample_count - 1, ") at byte ", block.offset));
  }
  return FillView(block, samples, stretches, state.stored.data(), state, view, damage);
}

absl::StatusOr<std::optional<std::string_view>> TarShardReader::ReadValue(uint64_t ordinal, size_t column,
                                                                          BlockBuffer* buffer) const {
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  const size_t block = BlockOfSample(ordinal);
  SHARDKIT_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(block));
  const uint64_t i = ordinal - blocks_[block].first_sample;
  BlockBuffer::State& state = buffer->state();
  state.listed = samples.all;
  if (column == kKeyColumn) return std::optional(samples.key(i));
  const TarValue* const value = samples.Find(i, column);
  if (value == nullptr) return std::optional<std::string_view>();
  std::string_view bytes("");
  state.shown = file_.get();
  if (const auto mapped = file_->Mapped()) {
    bytes = mapped->substr(value->offset, value->length);
  } else if (value->length > 0) {
    if (const absl::Status status = CheckMemory(value->length, "has"); !status.ok()) {
      return Annotate(status, StrCat(path_, ": sample ", ordinal, ", column \"", schema_[column].name, "\""));
    }
    state.record.resize_discard(value->length);
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(value->offset, {state.record.data(), state.record.size()}));
    bytes = state.record.view();
  }
  const uint64_t* const checksum = options_.verify != Verify::kNever ? samples.checksum(*value) : nullptr;
  const bool right = checksum == nullptr || Hash64(bytes) == *checksum;
  SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
  if (!right) return WrongChecksum(*value, ordinal, samples.key(i));
  return std::optional(bytes);
}

absl::StatusOr<bool> TarShardReader::CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const {
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  const size_t block = BlockOfSample(ordinal);
  SHARDKIT_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(block));
  const uint64_t i = ordinal - blocks_[block].first_sample;
  if (column == kKeyColumn) {
    SHARDKIT_RETURN_IF_ERROR(sink(samples.key(i)));
    return true;
  }
  const TarValue* const value = samples.Find(i, column);
  if (value == nullptr) return false;
  if (forward_only()) {  // without the limit, a few compressed bytes could fill a disk
    if (const absl::Status status = container::CheckGrowth(options_, file_length_, value->length); !status.ok()) {
      return Annotate(status, StrCat(path_, ": sample ", ordinal, ", column \"", schema_[column].name, "\""));
    }
  }
  const uint64_t* const checksum = options_.verify != Verify::kNever ? samples.checksum(*value) : nullptr;
  StreamingHash hash;
  Buffer memory;
  for (uint64_t done = 0; done < value->length; done += memory.size()) {
    memory.resize_discard(std::min(kCopyPiece, value->length - done));
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(value->offset + done, {memory.data(), memory.size()}));
    if (checksum != nullptr) hash.Update(memory.view());
    SHARDKIT_RETURN_IF_ERROR(sink(memory.view()));
  }
  if (checksum != nullptr && hash.Digest() != *checksum) return WrongChecksum(*value, ordinal, samples.key(i));
  return true;
}

// Of a compressed tar, each read before the last one would begin at the front again.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> TarShardReader::OpenValue(uint64_t ordinal, size_t column) const {
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  if (forward_only() || column == kKeyColumn) return ForeignShardReader::OpenValue(ordinal, column);
  const size_t block = BlockOfSample(ordinal);
  SHARDKIT_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(block));
  const TarValue* const value = samples.Find(ordinal - blocks_[block].first_sample, column);
  if (value == nullptr) return nullptr;
  return std::make_unique<container::ValueFile>(file_, value->offset, value->length);
}

absl::StatusOr<std::optional<uint64_t>> TarShardReader::FindKey(std::string_view key, BlockBuffer* /*buffer*/) const {
  if (stored_) {
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<uint64_t> found, stored_->FindKey(key));
    // A key with a percent sign may stand in the tar as no escaping makes it, and so at another place of the table.
    if (found || !contents_->escaped_keys || key.find('%') == key.npos) return found;
  }
  for (size_t block = 0; block < blocks_.size(); ++block) {
    SHARDKIT_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(block));
    for (uint64_t i = 0; i < samples.count; ++i) {
      if (samples.key(i) == key) return std::optional(blocks_[block].first_sample + i);
    }
  }
  return std::optional<uint64_t>();
}

absl::StatusOr<std::vector<ColumnStatistics>> TarShardReader::ReadStatistics() const {
  std::vector<ColumnStatistics> statistics(schema_.size());
  for (size_t block = 0; block < blocks_.size(); ++block) {
    SHARDKIT_ASSIGN_OR_RETURN(const Samples samples, SamplesOf(block));
    for (uint64_t i = 0; i < samples.count; ++i) {
      statistics[kKeyColumn].Add(schema_[kKeyColumn], nullptr, samples.key(i).size());
    }
    for (const TarValue& value : samples.values(0, samples.count)) {
      statistics[value.column + 1].Add(schema_[value.column + 1], nullptr, value.length);
    }
  }
  for (ColumnStatistics& column : statistics) column.stored_bytes = column.value_bytes;
  return statistics;
}

}  // namespace shardkit::foreign
