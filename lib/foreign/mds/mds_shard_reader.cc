#include "foreign/mds/mds_shard_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/named_hash.h"
#include "base/status_macros.h"
#include "container/read/decompression_limit.h"
#include "container/read/value_file.h"
#include "foreign/mds/mds_index.h"
#include "foreign/mds/mds_layout.h"
#include "foreign/mds/mds_values.h"
#include "format/constants.h"

namespace shardkit::foreign {
namespace {

// Tables and headers of most shards fit in this, so that opening takes one read.
constexpr uint64_t kMdsHeadRead = 65536;

// Most samples of a block on average: with more tiny samples, places would need more memory than the values.
constexpr uint64_t kUsualBlockSamples = 65536;

uint64_t Ceiling(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

uint64_t MdsShardFile::block_count() const {
  if (samples == 0) return 0;
  if (compression) return Ceiling(samples, format::kMaxBlockSamples);
  return std::min(samples, std::max(Ceiling(raw_bytes, kForeignBlockBytes), Ceiling(samples, kUsualBlockSamples)));
}

absl::StatusOr<std::unique_ptr<MdsShardReader>> MdsShardReader::Open(
    ReadableFileSystem& file_system, MdsShardFile file, std::shared_ptr<const std::vector<MdsColumn>> columns,
    const Schema& schema, const ReadOptions& options) {
  std::unique_ptr<MdsShardReader> reader(new MdsShardReader());
  reader->path_ = file.path;
  reader->described_ = std::move(file);
  reader->columns_ = std::move(columns);
  SHARDKIT_ASSIGN_OR_RETURN(reader->file_, file_system.OpenForReading(reader->path_, options.mode));
  if (absl::Status status = reader->Initialise(schema, options); !status.ok()) {
    // Errors of the file itself name the path already.
    return absl::StartsWith(status.message(), ToAbsl(reader->path_)) ? status : Annotate(status, reader->path_);
  }
  return reader;
}

absl::Status MdsShardReader::Initialise(const Schema& schema, const ReadOptions& options) {
  options_ = options;
  schema_ = schema;
  sample_count_ = described_.samples;
  file_length_ = file_->size();
  fallback_reason_ = file_->fallback_reason();
  for (size_t i = 0; i < columns_->size(); ++i) {
    if (!(*columns_)[i].how.refusal.empty()) continue;
    all_.push_back(positions_.size());
    positions_.push_back(i);
  }
  if (file_length_ != described_.bytes) {
    return DataLoss("the file has ", file_length_, " bytes, but index.json says ", described_.bytes,
                    file_length_ < described_.bytes ? ": it is cut short; fetch it again" : ": it is another file");
  }
  if (described_.compression) {
    CutByCount();
    return absl::OkStatus();
  }
  std::string memory;
  uint64_t have = 0;  // bytes from the start of the file that are in `memory`
  const auto read = [&](uint64_t offset, uint64_t length) -> absl::StatusOr<std::string_view> {
    if (offset + length <= have) return std::string_view(memory).substr(offset, length);
    const bool start = have == 0 && offset == 0;
    const uint64_t wanted = start ? std::min(file_length_, std::max(length, kMdsHeadRead)) : length;
    memory.resize(wanted);
    have = 0;
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(offset, {memory.data(), memory.size()}));
    if (start) have = wanted;
    return std::string_view(memory).substr(0, length);
  };
  SHARDKIT_ASSIGN_OR_RETURN(offsets_, ReadHeader(read));
  CutByBytes();
  return absl::OkStatus();
}

absl::StatusOr<MdsHead> ReadMdsHead(uint64_t length, const ReadMdsBytes& read) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view count, read(0, std::min(length, kMdsCountBytes)));
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t table_length, MdsTableLength(count, length));
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view table, read(0, table_length));
  MdsHead head;
  SHARDKIT_ASSIGN_OR_RETURN(head.offsets, DecodeMdsOffsets(table, length));
  head.place = StrCat("header: byte ", table_length);
  const uint64_t json_length = head.offsets[0] - table_length;
  if (json_length > kMaxMdsHeaderBytes) {
    return DataLoss(head.place, ": a description of ", json_length, " bytes; at most ", kMaxMdsHeaderBytes,
                    " are read");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view json, read(table_length, json_length));
  auto columns = ParseMdsHeader(json);
  if (!columns.ok()) return Annotate(columns.status(), head.place);
  head.columns = *std::move(columns);
  return head;
}

absl::StatusOr<std::vector<uint32_t>> MdsShardReader::ReadHeader(const ReadMdsBytes& read) const {
  SHARDKIT_ASSIGN_OR_RETURN(MdsHead head, ReadMdsHead(described_.raw_bytes, read));
  if (head.offsets.size() - 1 != sample_count_) {
    return DataLoss("header: byte 0 announces ", head.offsets.size() - 1, " samples, but index.json says ",
                    sample_count_);
  }
  if (head.columns != *columns_) {
    return DataLoss(head.place,
                    ": the shard has other columns, encodings or sizes than index.json says: it is of another dataset");
  }
  return std::move(head.offsets);
}

// Makes block_count() blocks with about equal numbers of bytes.
void MdsShardReader::CutByBytes() {
  const uint64_t count = described_.block_count(), begin = offsets_.front(), total = offsets_.back() - begin;
  uint64_t first = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t left = count - i - 1;  // blocks after this one; each needs at least one sample
    const auto at =
        std::ranges::lower_bound(offsets_, begin + total / count * (i + 1) + total % count * (i + 1) / count);
    const uint64_t most = std::min(first + format::kMaxBlockSamples, sample_count_ - left);
    const uint64_t least =
        std::max(first + 1, sample_count_ - std::min(sample_count_, left * format::kMaxBlockSamples));
    const uint64_t end =
        left == 0 ? sample_count_ : std::clamp(static_cast<uint64_t>(at - offsets_.begin()), least, most);
    BlockInfo block;
    block.offset = offsets_[first];
    block.length = offsets_[end] - offsets_[first];
    block.first_sample = first;
    block.sample_count = static_cast<uint32_t>(end - first);
    blocks_.push_back(block);
    first = end;
  }
}

// Makes the blocks of a compressed shard: before decompressing, only its numbers of samples and bytes are known.
void MdsShardReader::CutByCount() {
  const uint64_t count = described_.block_count();
  for (uint64_t i = 0; i < count; ++i) {
    BlockInfo block;
    block.first_sample = sample_count_ * i / count;
    block.sample_count = static_cast<uint32_t>(sample_count_ * (i + 1) / count - block.first_sample);
    block.offset = described_.raw_bytes * i / count;
    block.length = described_.raw_bytes * (i + 1) / count - block.offset;
    blocks_.push_back(block);
  }
}

absl::Status MdsShardReader::CheckMemory(uint64_t bytes, std::string_view what) const {
  return Annotate(container::CheckBlockMemory(options_, bytes, StrCat(what, " needs")), path_);
}

absl::Status MdsShardReader::DescribeSample(const absl::Status& status, uint64_t ordinal, uint64_t offset) const {
  return Annotate(status, StrCat(path_, ": sample ", ordinal, " at byte ", offset,
                                 described_.compression ? " of the decompressed shard" : ""));
}

absl::Status MdsShardReader::DescribeValue(const absl::Status& status, uint64_t ordinal, uint64_t offset,
                                           size_t column) const {
  return DescribeSample(Annotate(status, StrCat("column \"", schema_[column].name, "\"")), ordinal, offset);
}

absl::Status MdsShardReader::Fill(const BlockInfo& info, std::span<const uint32_t> offsets, const char* base,
                                  uint64_t base_offset, std::span<const size_t> wanted, BlockBuffer::State& state,
                                  BlockView* view, BlockDamage* damage) const {
  const std::vector<MdsColumn>& columns = *columns_;
  const uint64_t count = info.sample_count, head_length = MdsHeadLength(columns);
  container::BlockAssembler::Reset(view, info.first_sample, info.sample_count, schema_.size());
  state.places.resize(2 * count * wanted.size());
  state.converted.clear();
  std::vector<uint64_t> places(columns.size() + 1);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t begin = offsets[i] - base_offset, length = offsets[i + 1] - offsets[i];
    const std::string_view sample(base + begin, length);
    if (absl::Status status = SplitMdsSample(columns, sample.substr(0, head_length), length, places); !status.ok()) {
      status = DescribeSample(status, info.first_sample + i, offsets[i]);
      if (damage == nullptr) return status;
      for (const size_t column : wanted) damage->values[{static_cast<uint32_t>(i), column}] = status;
      places.assign(places.size(), 0);
    }
    for (size_t k = 0; k < wanted.size(); ++k) {
      const size_t position = positions_[wanted[k]];
      uint64_t from = begin + places[position], to = begin + places[position + 1];
      if (columns[position].how.form != MdsForm::kPlain) {
        const std::string_view payload(base + from, to - from);
        from = state.converted.size();
        if (absl::Status status = AppendFromMds(columns[position].how, payload, &state.converted); !status.ok()) {
          status = DescribeValue(status, info.first_sample + i, offsets[i], wanted[k]);
          if (damage == nullptr) return status;
          damage->values.emplace(std::pair(static_cast<uint32_t>(i), wanted[k]), std::move(status));
          state.converted.resize(from);
        }
        to = state.converted.size();
      }
      state.places[2 * k * count + i] = from;
      state.places[(2 * k + 1) * count + i] = to;
    }
  }
  for (size_t k = 0; k < wanted.size(); ++k) {
    const auto numbers = [&](size_t row) { return reinterpret_cast<const char*>(state.places.data() + row * count); };
    const bool plain = mds_column(wanted[k]).how.form == MdsForm::kPlain;
    const char* const values = plain ? base : state.converted.data();
    container::BlockAssembler::Set(
        view, wanted[k], ColumnView::Scattered(info.sample_count, nullptr, numbers(2 * k), numbers(2 * k + 1), values));
  }
  return absl::OkStatus();
}

// For a plain shard, which is read in parts. ReadCompressed reads and hashes the whole file.
absl::Status MdsShardReader::CheckFileHash() const {
  if (!options_.verify_listed_hashes || described_.hash == nullptr) return absl::OkStatus();
  return described_.hash->Check(*file_);
}

absl::Status MdsShardReader::ReadPlain(const BlockInfo& info, std::span<const size_t> wanted, BlockBuffer::State& state,
                                       BlockView* view, BlockDamage* damage) const {
  SHARDKIT_RETURN_IF_ERROR(CheckFileHash());
  const auto offsets = std::span(offsets_).subspan(info.first_sample, info.sample_count + uint64_t{1});
  if (const auto mapped = file_->Mapped()) {
    state.mapped = file_.get();
    state.file_offset = info.offset;
    state.read_length = info.length;
    const absl::Status status =
        Fill(info, offsets, mapped->data() + info.offset, info.offset, wanted, state, view, damage);
    SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
    return status;
  }
  // Reads from the aligned offset before the block, so that direct I/O needs no copy.
  const uint64_t alignment = file_->alignment();
  const uint64_t from = info.offset / alignment * alignment;
  const uint64_t to =
      std::max(info.offset + info.length, std::min(file_length_, RoundUp(info.offset + info.length, alignment)));
  state.stored.resize_discard(to - from);
  SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(from, {state.stored.data(), state.stored.size()}));
  return Fill(info, offsets, state.stored.data() + (info.offset - from), info.offset, wanted, state, view, damage);
}

absl::Status MdsShardReader::ReadCompressed(const BlockInfo& info, std::span<const size_t> wanted,
                                            BlockBuffer::State& state, BlockView* view, BlockDamage* damage) const {
  std::string_view compressed;
  if (const auto mapped = file_->Mapped()) {
    compressed = *mapped;
  } else {
    state.stored.resize_discard(file_length_);
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(0, {state.stored.data(), state.stored.size()}));
    compressed = state.stored.view();
  }
  state.raw.resize_discard(described_.raw_bytes);
  const bool verify = options_.verify_listed_hashes;
  absl::Status status;
  if (verify && described_.hash != nullptr) status = described_.hash->Check(path_, compressed);
  if (status.ok()) {
    status =
        Annotate(codec::Decompress(*described_.compression, compressed, {state.raw.data(), state.raw.size()}), path_);
  }
  SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
  SHARDKIT_RETURN_IF_ERROR(status);
  state.stored = Buffer();
  const std::string_view raw = state.raw.view();
  if (verify && described_.raw_hash != nullptr) {
    SHARDKIT_RETURN_IF_ERROR(described_.raw_hash->Check(StrCat(path_, ": decompressed"), raw));
  }
  auto offsets = ReadHeader(
      [&](uint64_t offset, uint64_t length) -> absl::StatusOr<std::string_view> { return raw.substr(offset, length); });
  if (!offsets.ok()) return Annotate(offsets.status(), StrCat(path_, ": decompressed"));
  const auto of_block = std::span(*offsets).subspan(info.first_sample, info.sample_count + uint64_t{1});
  return Fill(info, of_block, raw.data(), 0, wanted, state, view, damage);
}

// Upper bound on the memory for a block with these columns.
uint64_t MdsShardReader::MemoryOf(const BlockInfo& info, std::span<const size_t> wanted) const {
  uint64_t bytes = info.length + 16 * uint64_t{info.sample_count} * wanted.size();
  if (described_.compression) bytes = described_.bytes + described_.raw_bytes + 4 * sample_count_ + bytes - info.length;
  for (const size_t column : wanted) {
    const MdsForm form = mds_column(column).how.form;
    if (form == MdsForm::kPlain) continue;
    bytes += info.length * (form == MdsForm::kPixelsList ? kMdsListGrowth : 1) + kMdsValueRoom * info.sample_count;
  }
  return bytes;
}

absl::Status MdsShardReader::Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                                  BlockDamage* damage) const {
  if (index >= blocks_.size()) return OutOfRange(path_, ": has ", blocks_.size(), " blocks; there is no block ", index);
  std::vector<size_t> wanted(columns.begin(), columns.end());
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  if (wanted.empty()) wanted = all_;
  if (wanted.back() >= schema_.size()) return InvalidArgument(path_, ": there is no column ", wanted.back());
  const BlockInfo& info = blocks_[index];
  // All columns of a compressed shard are read: reading another one later would decompress the shard again.
  if (described_.compression) {
    wanted = all_;
    if (absl::Status status = container::CheckDecompression(options_, file_length_, described_.raw_bytes);
        !status.ok()) {
      return Annotate(status, path_);
    }
  }
  SHARDKIT_RETURN_IF_ERROR(CheckMemory(MemoryOf(info, wanted), StrCat("block ", index)));
  BlockBuffer::State& state = buffer->state();
  state.owner = 0;
  state.mapped = nullptr;
  state.shown = file_.get();
  return described_.compression ? ReadCompressed(info, wanted, state, view, damage)
                                : ReadPlain(info, wanted, state, view, damage);
}

absl::StatusOr<std::optional<std::string_view>> MdsShardReader::ReadValue(uint64_t ordinal, size_t column,
                                                                          BlockBuffer* buffer) const {
  if (described_.compression) return ForeignShardReader::ReadValue(ordinal, column, buffer);
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  BlockBuffer::State& state = buffer->state();
  state.shown = file_.get();
  auto value = ReadPlainValue(ordinal, column, state);
  SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
  return value;
}

absl::StatusOr<std::optional<std::string_view>> MdsShardReader::ReadPlainValue(uint64_t ordinal, size_t column,
                                                                               BlockBuffer::State& state) const {
  SHARDKIT_RETURN_IF_ERROR(CheckFileHash());
  const uint64_t offset = offsets_[ordinal], length = offsets_[ordinal + 1] - offset;
  std::string_view sample;
  if (const auto mapped = file_->Mapped()) {
    sample = mapped->substr(offset, length);
  } else {
    if (state.page_owner != identity_ || state.page_begin != offset || state.page.size() != length) {
      SHARDKIT_RETURN_IF_ERROR(CheckMemory(length, StrCat("sample ", ordinal)));
      state.page_owner = 0;
      state.page.resize_discard(length);
      SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(offset, {state.page.data(), state.page.size()}));
      state.page_owner = identity_;
      state.page_begin = offset;
    }
    sample = state.page.view();
  }
  std::vector<uint64_t> places(columns_->size() + 1);
  const std::string_view head = sample.substr(0, MdsHeadLength(*columns_));
  if (absl::Status status = SplitMdsSample(*columns_, head, length, places); !status.ok()) {
    state.page_owner = 0;  // to be read again if this was not what the file holds
    return DescribeSample(status, ordinal, offset);
  }
  const size_t position = positions_[column];
  std::string_view value = sample.substr(places[position], places[position + 1] - places[position]);
  if (const MdsEncoding& how = mds_column(column).how; how.form != MdsForm::kPlain) {
    const uint64_t most = value.size() * (how.form == MdsForm::kPixelsList ? kMdsListGrowth : 1) + kMdsValueRoom;
    SHARDKIT_RETURN_IF_ERROR(CheckMemory(most, StrCat("sample ", ordinal)));
    state.owner = 0;  // the block in the buffer may have its values in state.converted
    state.converted.clear();
    if (absl::Status status = AppendFromMds(how, value, &state.converted); !status.ok()) {
      state.page_owner = 0;
      return DescribeValue(status, ordinal, offset, column);
    }
    value = state.converted;
  }
  return std::optional<std::string_view>(value);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> MdsShardReader::OpenValue(uint64_t ordinal, size_t column) const {
  SHARDKIT_RETURN_IF_ERROR(CheckPlace(ordinal, column));
  if (described_.compression || mds_column(column).how.form != MdsForm::kPlain) {
    return ForeignShardReader::OpenValue(ordinal, column);
  }
  SHARDKIT_RETURN_IF_ERROR(CheckFileHash());
  const uint64_t offset = offsets_[ordinal], length = offsets_[ordinal + 1] - offset;
  std::string head(std::min(length, MdsHeadLength(*columns_)), '\0');
  SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(offset, {head.data(), head.size()}));
  std::vector<uint64_t> places(columns_->size() + 1);
  if (absl::Status status = SplitMdsSample(*columns_, head, length, places); !status.ok()) {
    return DescribeSample(status, ordinal, offset);
  }
  const size_t at = positions_[column];
  return std::make_unique<container::ValueFile>(file_, offset + places[at], places[at + 1] - places[at]);
}

std::shared_ptr<ListedHash> ListedHash::Choose(std::span<const std::pair<std::string, std::string>> names_and_digits,
                                               std::string_view listed_by) {
  const auto first = [&](auto&& suits) { return std::ranges::find_if(names_and_digits, suits); };
  auto chosen = first([](const auto& hash) { return IsXxHashName(hash.first); });
  if (chosen == names_and_digits.end())
    chosen = first([](const auto& hash) { return NamedHash::Create(hash.first).ok(); });
  if (chosen == names_and_digits.end()) return nullptr;
  return std::make_shared<ListedHash>(chosen->first, chosen->second, listed_by);
}

absl::Status ListedHash::Compare(std::string_view place, std::string_view found) const {
  if (found == digits_) return absl::OkStatus();
  return DataLoss(place, ": ", name_, " is ", found, ", but ", listed_by_, " says ", digits_,
                  ": the file was damaged or replaced; get it again, or read it as it is (--no-verify-hashes)");
}

absl::Status ListedHash::Check(const RandomAccessFile& file) {
  if (right_.load(std::memory_order_relaxed)) return absl::OkStatus();
  std::lock_guard lock(mutex_);
  if (right_.load(std::memory_order_relaxed) || !wrong_.ok()) return wrong_;
  SHARDKIT_ASSIGN_OR_RETURN(const std::unique_ptr<NamedHash> hash, NamedHash::Create(name_));
  Buffer piece;
  for (uint64_t position = 0; position < file.size(); position += piece.size()) {
    piece.resize_discard(std::min(kCopyPiece, file.size() - position));
    SHARDKIT_RETURN_IF_ERROR(file.ReadAt(position, {piece.data(), piece.size()}));
    hash->Update(piece.view());
  }
  wrong_ = Compare(file.path(), hash->HexDigest());
  right_.store(wrong_.ok(), std::memory_order_relaxed);
  return wrong_;
}

absl::Status ListedHash::Check(std::string_view place, std::string_view bytes) {
  if (right_.load(std::memory_order_relaxed) && !IsXxHashName(name_)) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(const std::string found, HexDigestOf(name_, bytes));
  SHARDKIT_RETURN_IF_ERROR(Compare(place, found));
  right_.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace shardkit::foreign
