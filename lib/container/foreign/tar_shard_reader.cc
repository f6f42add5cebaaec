#include "container/foreign/tar_shard_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/decompression_limit.h"
#include "container/foreign/tar_dali_index.h"

namespace shardkit {
namespace {

using format::TarIndex;
using format::TarValue;

constexpr uint64_t kCopyPiece = uint64_t{4} << 20;

// Most places of a block: its view needs a place in memory for every sample of every column.
constexpr uint64_t kMostPlaces = uint64_t{1} << 20;

// Position 0 of the schema; the columns of the index follow.
constexpr size_t kKeyColumn = 0;

// Bytes for one column of a block: where each value begins, where each value ends, and a presence bit per sample.
uint64_t SlotBytes(uint64_t samples) { return RoundUp(16 * samples + (samples + 7) / 8, 8); }

}  // namespace

absl::StatusOr<std::unique_ptr<TarShardReader>> TarShardReader::Open(ReadableFileSystem& file_system,
                                                                     const std::string& path,
                                                                     const ReadOptions& options,
                                                                     std::shared_ptr<const TarContents> contents,
                                                                     std::shared_ptr<ListedHash> hash) {
  std::unique_ptr<TarShardReader> reader(new TarShardReader());
  reader->path_ = path;
  reader->options_ = options;
  if (options.verify_listed_hashes) reader->hash_ = std::move(hash);
  if (contents == nullptr) {
    SHARDKIT_ASSIGN_OR_RETURN(contents, LoadTarContents(file_system, path, options.max_decompression));
  }
  const TarIndex& index = contents->index;
  const bool compressed = contents->compression != TarCompression::kNone;
  SHARDKIT_ASSIGN_OR_RETURN(reader->file_,
                            file_system.OpenForReading(path, compressed ? ReadMode::kBuffered : options.mode));
  reader->file_length_ = reader->file_->size();
  if (reader->file_length_ != index.tar_length) {
    return DataLoss(path, ": has ", reader->file_length_, " bytes, but had ", index.tar_length,
                    " when it was looked through: it was changed; open it again");
  }
  reader->fallback_reason_ = reader->file_->fallback_reason();
  if (compressed) {
    if (reader->hash_) {
      SHARDKIT_ASSIGN_OR_RETURN(reader->compressed_, file_system.OpenForReading(path));
    }
    const uint64_t end = index.values.empty() ? 0 : index.values.back().offset + index.values.back().length;
    SHARDKIT_ASSIGN_OR_RETURN(reader->file_, OpenDecompressed(std::move(reader->file_), contents->compression, end));
    reader->fallback_reason_ =
        StrCat(path, ": is compressed, and is read from its beginning: decompress it for reading in any order");
  }
  SHARDKIT_ASSIGN_OR_RETURN(reader->schema_, TarSchema(index));
  reader->sample_count_ = index.sample_count();
  reader->contents_ = std::move(contents);
  reader->FormBlocks();
  if (!reader->contents_->dali_index.empty()) {
    reader->checked_ = std::make_unique<std::atomic<bool>[]>(reader->blocks_.size());
  }
  return reader;
}

// Makes blocks of a few MiB. A sample reaches from its first value to the first value of the next sample.
void TarShardReader::FormBlocks() {
  const TarIndex& index = contents_->index;
  if (sample_count_ == 0) return;
  std::vector<uint64_t> offsets;
  offsets.reserve(sample_count_ + 1);
  for (uint64_t i = 0; i < sample_count_; ++i) offsets.push_back(index.values[index.value_ends[i]].offset);
  offsets.push_back(index.values.back().offset + index.values.back().length);
  const uint64_t most = std::max<uint64_t>(kMostPlaces / schema_.size(), 1);
  SetBlocks(offsets, static_cast<uint32_t>(std::min<uint64_t>(most, kForeignBlockSamples)));
}

// Checks what must hold before bytes of a block are used. The hash listed for the file must match, unless only keys are
// wanted: keys come from headers, which have checksums. With a DALI index, which has no checksums, the headers of the
// block's members must match the index. Threads that come at the same time all check.
absl::Status TarShardReader::CheckBefore(size_t block, bool key_alone) const {
  if (hash_ && !key_alone) SHARDKIT_RETURN_IF_ERROR(hash_->Check(compressed_ ? *compressed_ : *file_));
  if (checked_ == nullptr || checked_[block].load(std::memory_order_relaxed)) return absl::OkStatus();
  const std::vector<uint64_t>& ends = contents_->index.value_ends;
  const uint64_t first = blocks_[block].first_sample;
  SHARDKIT_RETURN_IF_ERROR(
      CheckTarMembers(*file_, *contents_, ends[first], ends[first + blocks_[block].sample_count], /*to_end=*/false));
  checked_[block].store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

std::span<const TarValue> TarShardReader::ValuesOf(uint64_t first_sample, uint64_t sample_count) const {
  const TarIndex& index = contents_->index;
  const uint64_t begin = index.value_ends[first_sample];
  return std::span(index.values).subspan(begin, index.value_ends[first_sample + sample_count] - begin);
}

const TarValue* TarShardReader::FindValue(uint64_t ordinal, size_t column) const {
  const auto values = ValuesOf(ordinal, 1);
  const auto found = std::ranges::find(values, column - 1, &TarValue::column);
  return found == values.end() ? nullptr : &*found;
}

absl::Status TarShardReader::WrongChecksum(const TarValue& value, uint64_t sample) const {
  return DataLoss(path_, ": sample ", sample, " '", contents_->index.key(sample), "', column \"",
                  schema_[value.column + 1].name, "\", ", value.length, " bytes at byte ", value.offset,
                  ": differ from what they were when the tar was indexed; get the tar again");
}

absl::Status TarShardReader::CheckValue(const TarValue& value, std::string_view bytes, uint64_t sample) const {
  const TarIndex& index = contents_->index;
  if (!options_.verify_checksums || index.checksums.empty()) return absl::OkStatus();
  const auto position = static_cast<size_t>(&value - index.values.data());
  return Hash64(bytes) == index.checksums[position] ? absl::OkStatus() : WrongChecksum(value, sample);
}

// The stretches of the tar that hold the wanted values, in the order of the tar.
std::vector<TarShardReader::Stretch> TarShardReader::FindStretches(std::span<const TarValue> values,
                                                                   const Wanted& wanted) const {
  const uint64_t alignment = file_->alignment();
  const uint64_t gap = file_->hints().bridge_gap_bytes;
  std::vector<Stretch> stretches;
  uint64_t position = 0;
  for (const TarValue& value : values) {
    if (wanted[value.column + 1] == 0 || value.length == 0) continue;
    const uint64_t end = value.offset + value.length;
    if (!stretches.empty() && value.offset - std::min(value.offset, stretches.back().end) <= gap) {
      stretches.back().end = std::max(end, stretches.back().end);
    } else {
      stretches.push_back({value.offset / alignment * alignment, end, 0});
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
  return forward_only() ? CheckDecompression(options_, file_length_, bytes) : CheckBlockMemory(options_, bytes, what);
}

absl::Status TarShardReader::ReadStretches(std::vector<Stretch>& stretches, Buffer* memory) const {
  const uint64_t total =
      stretches.empty() ? 0 : stretches.back().position + (stretches.back().end - stretches.back().begin);
  SHARDKIT_RETURN_IF_ERROR(CheckMemory(total, "what is wanted of it has"));
  memory->resize_discard(total);
  std::vector<ReadRequest> requests;
  for (const Stretch& stretch : stretches) {
    requests.push_back({stretch.begin, {memory->data() + stretch.position, stretch.end - stretch.begin}});
  }
  if (requests.size() == 1) return file_->ReadAt(requests[0].offset, requests[0].buffer);
  return requests.empty() ? absl::OkStatus() : file_->ReadBatch(requests);
}

// `base` holds the stretches, each at its position. Without stretches, `base` is the start of the tar.
absl::Status TarShardReader::FillView(const BlockInfo& block, std::span<const Stretch> stretches, const char* base,
                                      BlockBuffer::State& state, BlockView* view, BlockDamage* damage) const {
  const TarIndex& index = contents_->index;
  const uint64_t count = block.sample_count;
  BlockAssembler::Reset(view, block.first_sample, block.sample_count, schema_.size());
  if (state.wanted[kKeyColumn] != 0) {
    const auto* const ends = reinterpret_cast<const char*>(index.key_ends.data() + block.first_sample);
    BlockAssembler::Set(view, kKeyColumn,
                        ColumnView::Scattered(block.sample_count, nullptr, ends, ends + 8, index.keys.data()));
  }

  // Columns that the block lacks share slot 0, which stays zero.
  std::vector<uint32_t> slots(schema_.size());
  uint32_t slot_count = 1;
  for (const TarValue& value : ValuesOf(block.first_sample, count)) {
    uint32_t& slot = slots[value.column + 1];
    if (slot == 0 && state.wanted[value.column + 1] != 0) slot = slot_count++;
  }
  const uint64_t slot_bytes = SlotBytes(count);
  state.raw.resize_discard(slot_bytes * slot_count);
  std::memset(state.raw.data(), 0, state.raw.size());
  for (size_t column = 1; column < schema_.size(); ++column) {
    if (state.wanted[column] == 0) continue;
    const char* const begins = state.raw.data() + slot_bytes * slots[column];
    BlockAssembler::Set(
        view, column, ColumnView::Scattered(block.sample_count, begins + 16 * count, begins, begins + 8 * count, base));
  }

  size_t stretch = 0;
  for (uint64_t i = 0; i < count; ++i) {
    for (const TarValue& value : ValuesOf(block.first_sample + i, 1)) {
      if (state.wanted[value.column + 1] == 0) continue;
      uint64_t position = value.length == 0 ? 0 : value.offset;
      if (value.length != 0 && !stretches.empty()) {
        while (value.offset >= stretches[stretch].end) ++stretch;
        position = value.offset - stretches[stretch].begin + stretches[stretch].position;
      }
      absl::Status status = CheckValue(value, {base + position, value.length}, block.first_sample + i);
      if (!status.ok()) {
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
  const bool key_alone = std::ranges::count(state.wanted, 1) == state.wanted[kKeyColumn];
  const BlockInfo& block = blocks_[index];
  // The keys are in the index, so damage of the tar does not lose them.
  const auto lost = [&](const absl::Status& status) {
    if (damage == nullptr || !absl::IsDataLoss(status)) return status;
    for (size_t column = 1; column < schema_.size(); ++column) {
      if (std::exchange(state.wanted[column], 0) != 0) damage->columns[column] = status;
    }
    return FillView(block, {}, "", state, view, nullptr);
  };
  if (absl::Status status = CheckBefore(index, key_alone); !status.ok()) return lost(status);
  if (const auto mapped = file_->Mapped()) {
    state.mapped = file_.get();
    state.file_offset = block.offset;
    state.read_length = block.length;
    const absl::Status status = FillView(block, {}, mapped->data(), state, view, damage);
    SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
    return status;
  }
  std::vector<Stretch> stretches = FindStretches(ValuesOf(block.first_sample, block.sample_count), state.wanted);
  if (absl::Status status = ReadStretches(stretches, &state.stored); !status.ok()) {
    if (!absl::IsResourceExhausted(status)) return lost(status);
    return Annotate(status, StrCat(path_, ": block ", index, " (samples ", block.first_sample, " to ",
                                   block.first_sample + block.sample_count - 1, ") at byte ", block.offset));
  }
  return FillView(block, stretches, state.stored.data(), state, view, damage);
}

absl::StatusOr<std::optional<std::string_view>> TarShardReader::ReadValue(uint64_t ordinal, size_t column,
                                                                          BlockBuffer* buffer) const {
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  SHARDKIT_RETURN_IF_ERROR(CheckBefore(BlockOfSample(ordinal), column == kKeyColumn));
  if (column == kKeyColumn) return std::optional(contents_->index.key(ordinal));
  const TarValue* const value = FindValue(ordinal, column);
  if (value == nullptr) return std::optional<std::string_view>();
  std::string_view bytes("");
  buffer->state().shown = file_.get();
  if (const auto mapped = file_->Mapped()) {
    bytes = mapped->substr(value->offset, value->length);
  } else if (value->length > 0) {
    if (const absl::Status status = CheckMemory(value->length, "has"); !status.ok()) {
      return Annotate(status, StrCat(path_, ": sample ", ordinal, ", column \"", schema_[column].name, "\""));
    }
    Buffer& memory = buffer->state().record;
    memory.resize_discard(value->length);
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(value->offset, {memory.data(), memory.size()}));
    bytes = memory.view();
  }
  const absl::Status status = CheckValue(*value, bytes, ordinal);
  SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
  SHARDKIT_RETURN_IF_ERROR(status);
  return std::optional(bytes);
}

absl::StatusOr<bool> TarShardReader::CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const {
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  SHARDKIT_RETURN_IF_ERROR(CheckBefore(BlockOfSample(ordinal), column == kKeyColumn));
  if (column == kKeyColumn) {
    SHARDKIT_RETURN_IF_ERROR(sink(contents_->index.key(ordinal)));
    return true;
  }
  const TarValue* const value = FindValue(ordinal, column);
  if (value == nullptr) return false;
  const TarIndex& index = contents_->index;
  const bool verify = options_.verify_checksums && !index.checksums.empty();
  StreamingHash64 hash;
  Buffer memory;
  for (uint64_t done = 0; done < value->length; done += memory.size()) {
    memory.resize_discard(std::min(kCopyPiece, value->length - done));
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(value->offset + done, {memory.data(), memory.size()}));
    if (verify) hash.Update(memory.view());
    SHARDKIT_RETURN_IF_ERROR(sink(memory.view()));
  }
  if (verify && hash.Digest() != index.checksums[static_cast<size_t>(value - index.values.data())]) {
    return WrongChecksum(*value, ordinal);
  }
  return true;
}

absl::StatusOr<std::optional<uint64_t>> TarShardReader::FindKey(std::string_view key, BlockBuffer* /*buffer*/) const {
  for (uint64_t i = 0; i < sample_count_; ++i) {
    if (contents_->index.key(i) == key) return std::optional(i);
  }
  return std::optional<uint64_t>();
}

absl::StatusOr<std::vector<ColumnStatistics>> TarShardReader::ReadStatistics() const {
  const TarIndex& index = contents_->index;
  std::vector<ColumnStatistics> statistics(schema_.size());
  for (uint64_t i = 0; i < sample_count_; ++i)
    statistics[kKeyColumn].Add(schema_[kKeyColumn], nullptr, index.key(i).size());
  for (const TarValue& value : index.values)
    statistics[value.column + 1].Add(schema_[value.column + 1], nullptr, value.length);
  for (ColumnStatistics& column : statistics) column.stored_bytes = column.value_bytes;
  return statistics;
}

}  // namespace shardkit
