// How a block is read:
//
//   wanted columns ── Read: a column is wanted whole, by its head chunk alone, as stored, or not at all
//     │
//     │ mapped file                    │ all columns, by pieces          │ some columns
//     ▼                                ▼                                 ▼
//   ReadStored: the block lies       ReadUpTo: the front, then         ReadWantedParts: the header, or its copy in the
//   in the map; its header is        each chunk when it is             footer; then the wanted chunks, neighbours in
//   copied                           checked                           one request
//     └────────────────┬───────────────┴─────────────────────────────────┘
//                      ▼
//   CheckHeader: checksum, place and shard id; else DataLoss of the block
//                      ▼
//   ParseColumns, for each wanted column: the checksum of its chunk, decompression, presence and places; a blob's
//   values chunk is compared (CheckValues), left in the page cache (PageCacheRead), or divided into pages (PlacePages)
//                      │                                       │ DataLoss
//                      ▼                                       ▼
//   CheckPadding, if all was read                            LocateDamage: which values. SalvageBlock goes on with the
//                      │                                     others; ReadBlock reads once more past all caches (Load),
//                      ▼                                     and then fails
//   the view, and the buffer knows whose block it holds
#include "container/read/native_shard_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "base/buffer.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/read/decompression_limit.h"
#include "container/read/record_reader.h"
#include "container/read/value_file.h"
#include "format/chunk.h"
#include "io/read_again.h"

namespace shardkit::container {
namespace {

using format::ColumnEntry;
using format::Encoding;

// Without a copy of its header, a front up to this size is read whole even when not all of it is wanted: this saves the
// request for the header.
constexpr uint64_t kSmallFront = 65536;

// Pages looked at to tell whether a block is in the page cache. Each look costs about a microsecond, as much as 4 KiB.
constexpr uint64_t kLooks = 4;

// Half of the second-level cache of the smallest processors in use.
constexpr uint64_t kCachePiece = uint64_t{128} << 10;

bool LeavesBlobs(const BlockBuffer::State& state) { return state.page_cache != nullptr && state.page_cache->leave; }

uint64_t Padded(uint64_t length) { return RoundUp(length, format::kChunkAlignment); }

}  // namespace

std::string NativeShardReader::DescribeBlock(size_t index) const {
  const BlockInfo& info = blocks_[index];
  return StrCat(path(), ": block ", index, " (samples ", info.first_sample, " to ",
                info.first_sample + info.sample_count - 1, ") at byte ", info.offset);
}

absl::Status NativeShardReader::PaddingDamage(size_t index) const {
  return DataLoss("padding after the block, before ",
                  index + 1 < blocks_.size() ? StrCat("block ", index + 1) : "the footer", ", is not zero");
}

absl::Status NativeShardReader::CheckHeader(const BlockInfo& info, std::string_view bytes,
                                            BlockBuffer::State& state) const {
  SHARDKIT_RETURN_IF_ERROR(format::DecodeBlockHeader(header_.schema, bytes, &state.header));
  const format::BlockHeader& header = state.header;
  if (header.checksum != info.header_checksum || header.block_length != info.length ||
      header.front_length != info.front_length || header.first_sample != info.first_sample ||
      header.sample_count != info.sample_count) {
    return DataLoss("block header differs from its entry in the block directory: this is another block");
  }
  if (header.shard_id != header_.shard_id) {
    return DataLoss("block header: shard id differs from the header's: this is a block of another shard");
  }
  return absl::OkStatus();
}

// Fills state.stored with the wanted chunks, each at its offset in the block.
absl::Status NativeShardReader::ReadWantedParts(size_t index, bool with_copy, BlockBuffer::State& state) const {
  const BlockInfo& info = blocks_[index];
  bool all_heads = true, any_values = false;
  for (size_t i = 0; i < state.wanted.size(); ++i) {
    all_heads = all_heads && static_cast<Part>(state.wanted[i]) != Part::kNothing;
    any_values =
        any_values || (static_cast<Part>(state.wanted[i]) == Part::kAll && header_.schema[i].has_values_chunk());
  }
  const uint64_t header_length = format::BlockHeaderLength(header_.schema.size());
  // The heads of all columns lie behind the header: the block's own costs no request then.
  const auto copies = with_copy && !all_heads ? LoadedHeaderCopies() : nullptr;
  const bool whole_front = !copies && (all_heads || info.front_length <= kSmallFront);
  const uint64_t first = whole_front ? info.front_length : header_length;
  SHARDKIT_RETURN_IF_ERROR(CheckBlockMemory(options_, first, "its front has"));
  state.stored.resize_discard(first);
  if (copies) {
    std::memcpy(state.stored.data(), copies->data() + header_length * index, header_length);
    if (absl::Status status = CheckHeader(info, state.stored.view(), state); !status.ok()) {
      return Annotate(status, "copy in the block headers section");
    }
  } else {
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(info.offset, {state.stored.data(), first}));
    SHARDKIT_RETURN_IF_ERROR(CheckHeader(info, state.stored.view(), state));
  }

  struct Range {
    uint64_t begin, end, bridged;
  };
  std::vector<Range> ranges;
  uint64_t total = first;
  const ReadHints hints = file_->hints();
  const auto want = [&](uint64_t begin, uint64_t length) {
    const uint64_t end = begin + Padded(length);
    if (end <= first || length == 0) return;
    if (!ranges.empty() && begin - ranges.back().end <= hints.bridge_gap_bytes) {
      total += end - ranges.back().end;
      ranges.back().bridged += begin - ranges.back().end;
      ranges.back().end = end;
    } else {
      total += end - begin;
      ranges.push_back({begin, end, 0});
    }
  };
  for (size_t i = 0; i < state.wanted.size(); ++i) {
    const ColumnEntry& entry = state.header.columns[i];
    if (static_cast<Part>(state.wanted[i]) != Part::kNothing) want(entry.offset, entry.stored_length);
  }
  for (const size_t i : header_.schema.values_columns()) {
    const ColumnEntry& entry = state.header.columns[i];
    if (any_values && static_cast<Part>(state.wanted[i]) == Part::kAll) want(entry.values_offset, entry.values_length);
  }
  if (ranges.empty()) return absl::OkStatus();
  SHARDKIT_RETURN_IF_ERROR(CheckBlockMemory(options_, total, "the columns wanted have"));
  state.stored.resize(ranges.back().end);
  std::vector<ReadRequest> requests;
  for (const Range& range : ranges) {
    requests.push_back(
        {info.offset + range.begin, {state.stored.data() + range.begin, range.end - range.begin}, range.bridged});
  }
  return file_->ReadBatch(requests);
}

// Reads what is wanted of the block and checks its header. Returns the address of the block's first byte. If all
// columns are wanted, this may read only the beginning, and ReadUpTo reads the rest.
absl::StatusOr<const char*> NativeShardReader::ReadStored(size_t index, bool with_copy,
                                                          BlockBuffer::State& state) const {
  const BlockInfo& info = blocks_[index];
  const uint64_t padded = RoundUp(info.length, header_.alignment);
  const bool everything =
      std::ranges::all_of(state.wanted, [](uint8_t part) { return static_cast<Part>(part) >= Part::kAll; });
  if (const auto mapped = file_->Mapped()) {
    const std::string_view block = mapped->substr(info.offset, padded);
    state.mapped = file_.get();
    state.file_offset = info.offset;
    state.read_length = padded;
    // The header is copied, so that it stays as it was checked even if the file is truncated meanwhile.
    const std::string_view header = block.substr(0, format::BlockHeaderLength(header_.schema.size()));
    state.stored.resize_discard(header.size());
    std::memcpy(state.stored.data(), header.data(), header.size());
    SHARDKIT_RETURN_IF_ERROR(CheckHeader(info, state.stored.view(), state));
    return block.data();
  }
  state.mapped = nullptr;
  state.file_offset = info.offset;
  if (!everything) {
    SHARDKIT_RETURN_IF_ERROR(ReadWantedParts(index, with_copy, state));
    state.read_length = padded;  // nothing is left for ReadUpTo to read
    return state.stored.data();
  }
  SHARDKIT_RETURN_IF_ERROR(CheckBlockMemory(options_, padded, "it has"));
  state.stored.resize_discard(padded);
  state.read_length = 0;
  SHARDKIT_RETURN_IF_ERROR(ReadUpTo(std::min(padded, info.front_length), state));
  SHARDKIT_RETURN_IF_ERROR(CheckHeader(info, state.stored.view(), state));
  return state.stored.data();
}

// Makes sure that state.stored has the first `end` bytes of the block. Reads as much as the file prefers, so that where
// requests are cheap the bytes are hashed while they are in the processor's cache.
absl::Status NativeShardReader::ReadUpTo(uint64_t end, BlockBuffer::State& state) const {
  if (end <= state.read_length) return absl::OkStatus();
  const uint64_t left = state.stored.size() - state.read_length;
  end = std::max(end, state.read_length + std::min(left, file_->hints().preferred_bytes));
  char* const to = state.stored.data() + state.read_length;
  SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(state.file_offset + state.read_length, {to, end - state.read_length}));
  state.read_length = end;
  return absl::OkStatus();
}

// What is damaged is looked at again: another part of the block may have failed.
bool NativeShardReader::ToVerify(Chunk chunk, size_t column, const BlockBuffer::State& state,
                                 const BlockDamage* damage) const {
  if (options_.verify == Verify::kNever) return false;
  return verified_ == nullptr || damage != nullptr || !verified_->Contains(NumberOf(chunk, column, state));
}

absl::StatusOr<bool> NativeShardReader::CheckValues(size_t column, const char* base, BlockBuffer::State& state,
                                                    const BlockDamage* damage) const {
  const ColumnEntry& entry = state.header.columns[column];
  const uint64_t begin = entry.values_offset, end = begin + Padded(entry.values_length);
  if (!ToVerify(Chunk::kValues, column, state, damage)) {
    SHARDKIT_RETURN_IF_ERROR(ReadUpTo(end, state));
    return true;
  }
  const auto compare = [&](uint64_t checksum) {
    if (checksum == entry.values_checksum) SetVerified(Chunk::kValues, column, state);
    return checksum == entry.values_checksum;
  };
  if (state.read_length >= end) return compare(Hash64(base + begin, end - begin));
  state.hash.Reset();
  for (uint64_t position = begin; position < end;) {
    const uint64_t next = std::min(end, position + kCachePiece);
    SHARDKIT_RETURN_IF_ERROR(ReadUpTo(next, state));
    state.hash.Update({base + position, next - position});
    position = next;
  }
  return compare(state.hash.Digest());
}

// Finds the values for which the checksum of a values chunk is wrong. With `damage`, records them and ignores damage
// outside of values, such as in the padding.
absl::Status NativeShardReader::LocateDamage(size_t column, const ColumnView& view, BlockDamage* damage) const {
  if (damage != nullptr) {
    for (uint32_t i = 0; i < view.size(); ++i) {
      if (absl::Status status = format::CheckRecord(view, i); !status.ok()) {
        damage->values[{i, column}] =
            At(Annotate(status, StrCat("column ", column, " \"", header_.schema[column].name, "\"")),
               {.column = header_.schema[column].name});
      }
    }
    return absl::OkStatus();
  }
  const absl::Status records = format::CheckRecords(view);
  return At(DataLoss("column ", column, " \"", header_.schema[column].name, "\": values chunk checksum is wrong",
                     records.ok() ? "" : StrCat("; ", ToStd(records.message()))),
            {.column = header_.schema[column].name});
}

absl::Status NativeShardReader::ParseColumns(const char* base, BlockBuffer::State& state, BlockDamage* damage) const {
  const Schema& schema = header_.schema;
  const format::BlockHeader& header = state.header;
  BlockAssembler::Reset(&state.view, header.first_sample, header.sample_count, schema.size());
  // Bytes of column i in state.raw. From a memory map, presence and ends are copied there: if the file is truncated
  // later, the values become zeros, but their places stay as they were checked.
  const auto raw_of = [&](size_t i) -> uint64_t {
    const Part part = static_cast<Part>(state.wanted[i]);
    if (part == Part::kNothing || part == Part::kStored || !IsKnownCodec(schema[i].codec)) return 0;
    if (header.columns[i].encoding != Encoding::kRaw) return Padded(header.columns[i].raw_length);
    if (state.mapped == nullptr) return 0;
    return Padded(format::StructureLength(schema[i], header.sample_count, header.columns[i].raw_length));
  };
  uint64_t raw_bytes = 0, stored_bytes = 0, places = 0;
  for (size_t i = 0; i < schema.size(); ++i) {
    raw_bytes += raw_of(i);
    if (raw_of(i) != 0) stored_bytes += Padded(header.columns[i].stored_length);
    if (schema[i].is_paged() && static_cast<Part>(state.wanted[i]) == Part::kAll) places += 2 * header.sample_count;
  }
  SHARDKIT_RETURN_IF_ERROR(CheckDecompression(options_, stored_bytes, raw_bytes));
  SHARDKIT_RETURN_IF_ERROR(CheckBlockMemory(options_, 8 * places + raw_bytes, "the places of its values have"));
  state.raw.resize_discard(raw_bytes);
  state.places.clear();
  state.places.reserve(places);
  state.paged.assign(schema.size(), {});
  uint64_t raw_begin = 0;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (static_cast<Part>(state.wanted[i]) == Part::kNothing) continue;
    absl::Status status = ParseColumn(i, base, {state.raw.data() + raw_begin, raw_of(i)}, state, damage);
    raw_begin += raw_of(i);
    if (status.ok()) continue;
    if (damage == nullptr || !absl::IsDataLoss(status)) return status;
    damage->columns[i] = std::move(status);
  }
  return absl::OkStatus();
}

// `raw` receives decompressed bytes, or the copy of presence and ends when the block lies in a memory map.
absl::Status NativeShardReader::ParseColumn(size_t i, const char* base, std::span<char> raw, BlockBuffer::State& state,
                                            BlockDamage* damage) const {
  const Column& column = header_.schema[i];
  const ColumnEntry& entry = state.header.columns[i];
  const auto damaged = [&](const absl::Status& status) {
    return At(Annotate(status, StrCat("column ", i, " \"", column.name, "\"")), {.column = column.name});
  };
  const std::string_view chunk(base + entry.offset, Padded(entry.stored_length));
  if (ToVerify(Chunk::kHead, i, state, damage)) {
    if (Hash64(chunk) != entry.checksum) return damaged(DataLoss("chunk checksum is wrong"));
    SetVerified(Chunk::kHead, i, state);
  }
  if (!format::AllZero(chunk.substr(entry.stored_length))) {
    return damaged(DataLoss("padding after the chunk is not zero"));
  }
  const bool with_values = static_cast<Part>(state.wanted[i]) >= Part::kAll && column.has_values_chunk();
  const std::string_view values =
      with_values ? std::string_view(base + entry.values_offset, Padded(entry.values_length)) : std::string_view();
  if (!IsKnownCodec(column.codec) || static_cast<Part>(state.wanted[i]) == Part::kStored) {
    if (!with_values) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const bool right, CheckValues(i, base, state, damage));
    if (!right) return damaged(DataLoss("values chunk checksum is wrong"));
    return format::AllZero(values.substr(entry.values_length))
               ? absl::OkStatus()
               : damaged(DataLoss("padding after the values chunk is not zero"));
  }
  std::string_view head = chunk.substr(0, entry.stored_length);
  const char* structure = nullptr;
  if (entry.encoding == Encoding::kRaw && !raw.empty()) {
    std::memcpy(raw.data(), head.data(), format::StructureLength(column, state.header.sample_count, entry.raw_length));
    structure = raw.data();
  } else if (entry.encoding != Encoding::kRaw) {
    const codec::ZstdDictionary* dictionary = nullptr;
    if (entry.encoding == Encoding::kZstdDictionary) {
      if (!dictionaries_[i].ok()) return damaged(dictionaries_[i].status());
      dictionary = dictionaries_[i]->get();
    }
    absl::Status status = state.decompressor.Decompress(head, dictionary, {raw.data(), entry.raw_length});
    if (!status.ok()) return damaged(status);
    head = {raw.data(), entry.raw_length};
  }
  if (column.is_paged()) {
    const std::string_view kept = structure == nullptr ? head : std::string_view(structure, head.size());
    auto table = format::ParsePagedHead(column, state.header.sample_count, kept, entry.values_length);
    if (!table.ok()) return damaged(table.status());
    state.paged[i] = {*table, values.substr(0, with_values ? entry.values_length : 0)};
    SHARDKIT_ASSIGN_OR_RETURN(const ColumnView view, PlacePages(i, base, state, damage));
    BlockAssembler::Set(&state.view, i, view);
    return absl::OkStatus();
  }
  auto view = format::ParseColumn(column, state.header.sample_count, head, values, entry.values_length, structure);
  if (!view.ok()) return damaged(view.status());
  if (with_values) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool right, CheckValues(i, base, state, damage));
    if (!right) {
      SHARDKIT_RETURN_IF_ERROR(LocateDamage(i, *view, damage));
    } else if (!format::AllZero(values.substr(entry.values_length))) {
      return damaged(DataLoss("padding after the values chunk is not zero"));
    }
  } else if (column.is_blob() && LeavesBlobs(state)) {
    const uint64_t begin = state.file_offset + entry.values_offset;
    SHARDKIT_ASSIGN_OR_RETURN(const bool zero,
                              ZerosInFile(begin + entry.values_length, begin + Padded(entry.values_length)));
    if (!zero) {
      return damaged(options_.verify == Verify::kNever ? DataLoss("padding after the values chunk is not zero")
                                                       : DataLoss("values chunk checksum is wrong"));
    }
    *view = view->InFile(begin);
    state.page_cache->left_bytes += entry.values_length;
  }
  BlockAssembler::Set(&state.view, i, *view);
  return absl::OkStatus();
}

// Whether bytes [begin, end) of the file, which are padding, are zero.
absl::StatusOr<bool> NativeShardReader::ZerosInFile(uint64_t begin, uint64_t end) const {
  std::string bytes(end - begin, '\0');
  if (!bytes.empty()) SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(begin, bytes));
  return format::AllZero(bytes);
}

// Whether a block can be read without waiting for the device, as far as a look at a few of its pages tells. Looks at
// the end first: it is the part that is missing while the block is being read.
bool NativeShardReader::Cached(const BlockInfo& info) const {
  char byte;
  const std::span<char> buffer(&byte, 1);
  for (uint64_t i = kLooks; i > 0; --i) {
    if (!file_->ReadCached(info.offset + (info.length - 1) / kLooks * i, {&buffer, 1})) return false;
  }
  return true;
}

// Checks the padding after the block, if the whole block was wanted.
absl::Status NativeShardReader::CheckPadding(size_t index, const char* base, BlockBuffer::State& state) const {
  const BlockInfo& info = blocks_[index];
  const uint64_t padded = RoundUp(info.length, header_.alignment);
  bool left = false;
  for (size_t i = 0; i < state.wanted.size(); ++i) {
    const Part part = static_cast<Part>(state.wanted[i]);
    left = left || part == Part::kHead;
    if (part == Part::kNothing || (part == Part::kHead && !LeavesBlobs(state))) return absl::OkStatus();
  }
  if (left) {
    SHARDKIT_ASSIGN_OR_RETURN(const bool zero, ZerosInFile(info.offset + info.length, info.offset + padded));
    return zero ? absl::OkStatus() : PaddingDamage(index);
  }
  SHARDKIT_RETURN_IF_ERROR(ReadUpTo(padded, state));
  return format::AllZero({base + info.length, padded - info.length}) ? absl::OkStatus() : PaddingDamage(index);
}

absl::Status NativeShardReader::Load(size_t index, BlockBuffer::State& state, BlockDamage* damage) const {
  const auto load = [&] { return LoadOnce(index, state, damage); };
  return damage == nullptr ? io::RetryIfDamaged(*file_, load) : load();
}

absl::Status NativeShardReader::LoadOnce(size_t index, BlockBuffer::State& state, BlockDamage* damage) const {
  state.owner = 0;
  state.block = index;
  state.shown = file_.get();
  // What is damaged is read with as few other parts of the file as possible.
  absl::StatusOr<const char*> base = ReadStored(index, /*with_copy=*/damage == nullptr, state);
  absl::Status status = base.ok() ? ParseColumns(*base, state, damage) : base.status();
  if (status.ok() && damage == nullptr) status = CheckPadding(index, *base, state);
  status = ReadOfListed(status);
  SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
  if (!status.ok()) {
    const bool described = absl::StartsWith(status.message(), ToAbsl(path()));
    return At(described ? status : Annotate(status, DescribeBlock(index)), {.path = path(), .block = index});
  }
  if (damage != nullptr) {
    for (auto& [column, why] : damage->columns) why = Annotate(why, DescribeBlock(index));
    for (auto& [place, why] : damage->values) why = Annotate(why, DescribeBlock(index));
    return absl::OkStatus();
  }
  state.owner = identity_;
  return absl::OkStatus();
}

absl::Status NativeShardReader::Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                                     BlockView* view, BlockDamage* damage) const {
  if (index >= blocks_.size())
    return OutOfRange(path(), ": has ", blocks_.size(), " blocks; there is no block ", index);
  BlockBuffer::State& state = buffer->state();
  state.wanted.assign(header_.schema.size(), static_cast<uint8_t>(columns.empty() ? Part::kAll : Part::kNothing));
  for (const size_t column : columns) {
    if (column >= state.wanted.size()) return InvalidArgument(path(), ": there is no column ", column);
    state.wanted[column] = static_cast<uint8_t>(Part::kAll);
  }
  for (size_t i = 0; i < state.wanted.size(); ++i) {
    if (static_cast<Part>(state.wanted[i]) == Part::kNothing) continue;
    SHARDKIT_RETURN_IF_ERROR(Annotate(format::CheckCodec(header_.schema[i]), path()));
  }
  // A block that would be refused as a whole is refused whatever the cache holds.
  if (PageCacheRead* const asked = state.page_cache; asked != nullptr) {
    asked->cached = damage == nullptr && !file_->Mapped() && Cached(blocks_[index]);
    asked->leave =
        asked->leave && asked->cached && RoundUp(blocks_[index].length, header_.alignment) <= options_.max_block_memory;
    asked->left_bytes = 0;
  }
  // With Verify::kFirst, what was left in the file is not compared when it is copied.
  state.owner = 0;
  state.block = index;
  for (size_t i = 0; options_.verify == Verify::kFirst && i < state.wanted.size(); ++i) {
    const bool left = header_.schema[i].is_blob() && static_cast<Part>(state.wanted[i]) == Part::kAll;
    if (left && LeavesBlobs(state) && ToVerify(Chunk::kValues, i, state, damage)) state.page_cache->leave = false;
  }
  for (size_t i = 0; LeavesBlobs(state) && i < state.wanted.size(); ++i) {
    if (header_.schema[i].is_blob() && static_cast<Part>(state.wanted[i]) == Part::kAll) {
      state.wanted[i] = static_cast<uint8_t>(Part::kHead);
    }
  }
  // A map shows the header without a request. A single value is read with the copies if they are loaded, but for it
  // alone they would be one more request.
  const bool projected = std::ranges::find(state.wanted, static_cast<uint8_t>(Part::kNothing)) != state.wanted.end();
  if (projected && damage == nullptr && !file_->Mapped()) SHARDKIT_RETURN_IF_ERROR(LoadHeaderCopies());
  SHARDKIT_RETURN_IF_ERROR(Load(index, state, damage));
  *view = state.view;
  return absl::OkStatus();
}

absl::Status NativeShardReader::ReadBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                                          BlockView* view) const {
  return Read(index, columns, buffer, view, nullptr);
}

absl::Status NativeShardReader::SalvageBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                                             BlockView* view, BlockDamage* damage) const {
  *damage = {};
  return Read(index, columns, buffer, view, damage);
}

absl::Status NativeShardReader::ReadKnownColumns(size_t index, BlockBuffer* buffer, BlockView* view) const {
  BlockBuffer::State& state = buffer->state();
  state.wanted.assign(header_.schema.size(), static_cast<uint8_t>(Part::kAll));
  SHARDKIT_RETURN_IF_ERROR(Load(index, state));
  *view = state.view;
  return absl::OkStatus();
}

absl::Status NativeShardReader::ReadStoredBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                                                BlockView* view, std::string_view* stored) const {
  BlockBuffer::State& state = buffer->state();
  state.wanted.assign(header_.schema.size(), static_cast<uint8_t>(Part::kStored));
  for (const size_t column : columns) state.wanted[column] = static_cast<uint8_t>(Part::kAll);
  SHARDKIT_RETURN_IF_ERROR(Load(index, state));
  state.owner = 0;  // a value of another column is not there to be found
  *view = state.view;
  const auto mapped = state.mapped != nullptr ? file_->Mapped() : std::nullopt;
  *stored = mapped ? mapped->substr(blocks_[index].offset) : state.stored.view();
  *stored = stored->substr(0, blocks_[index].length);
  return absl::OkStatus();
}

absl::Status NativeShardReader::ReadHeads(size_t index, BlockBuffer* buffer, BlockView* view) const {
  BlockBuffer::State& state = buffer->state();
  state.wanted.assign(header_.schema.size(), static_cast<uint8_t>(Part::kHead));
  SHARDKIT_RETURN_IF_ERROR(Load(index, state));
  *view = state.view;
  return absl::OkStatus();
}

// Makes sure that state.view has the head of one column of a block.
absl::Status NativeShardReader::EnsureHead(size_t block, size_t column, BlockBuffer::State& state) const {
  SHARDKIT_RETURN_IF_ERROR(Annotate(format::CheckCodec(header_.schema[column]), path()));
  if (state.owner == identity_ && state.block == block && static_cast<Part>(state.wanted[column]) != Part::kNothing) {
    return absl::OkStatus();
  }
  // Columns that are loaded already are read again with the new one, so that a caller that goes through several columns
  // of one block keeps them all.
  if (state.owner != identity_ || state.block != block) state.wanted.assign(header_.schema.size(), 0);
  for (uint8_t& part : state.wanted) {
    if (static_cast<Part>(part) == Part::kAll) part = static_cast<uint8_t>(Part::kHead);
  }
  state.wanted[column] = static_cast<uint8_t>(Part::kHead);
  return Load(block, state);
}

absl::StatusOr<std::optional<std::string_view>> NativeShardReader::ReadValue(uint64_t ordinal, size_t column,
                                                                             BlockBuffer* buffer) const {
  if (ordinal >= sample_count()) {
    return OutOfRange(path(), ": has ", sample_count(), " samples; there is no sample ", ordinal);
  }
  if (column >= schema().size()) return InvalidArgument(path(), ": there is no column ", column);
  BlockBuffer::State& state = buffer->state();
  state.shown = file_.get();
  const size_t block = BlockOfSample(ordinal);
  SHARDKIT_RETURN_IF_ERROR(EnsureHead(block, column, state));
  const uint32_t i = static_cast<uint32_t>(ordinal - blocks_[block].first_sample);
  const ColumnView& view = state.view.column(column);
  if (!view.present(i)) return std::optional<std::string_view>();
  const bool with_values = static_cast<Part>(state.wanted[column]) == Part::kAll;
  if (!schema()[column].has_values_chunk() || (schema()[column].is_paged() && with_values)) {
    SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
    return view.value(i);
  }
  const uint64_t base = blocks_[block].offset + state.header.columns[column].values_offset;
  absl::StatusOr<std::string_view> value;
  if (schema()[column].is_paged()) {
    const format::PageTable& table = state.paged[column].table;
    const size_t k = table.PageOf(i);
    value = ReadPage(base + table.begin(k), base + table.end(k), state);
    if (value.ok()) value = table.Value(k, *value, i);
    SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
    if (!value.ok()) value = Annotate(value.status(), StrCat(DescribeBlock(block), ": ", table.Describe(k)));
  } else {
    const uint64_t begin = i == 0 ? 0 : view.end(i - 1);
    value = ReadRecordAt(*file_, options_, base + begin, base + view.end(i), buffer);
  }
  if (!value.ok()) {
    return Annotate(value.status(), StrCat("sample ", ordinal, ", column \"", schema()[column].name, "\""));
  }
  return std::optional<std::string_view>(*value);
}

absl::StatusOr<std::optional<std::pair<uint64_t, uint64_t>>> NativeShardReader::FindPlain(
    uint64_t ordinal, size_t column, BlockBuffer::State& state) const {
  std::optional<std::pair<uint64_t, uint64_t>> found;
  if (ordinal >= sample_count() || column >= schema().size() || !schema()[column].has_values_chunk()) return found;
  const size_t block = BlockOfSample(ordinal);
  SHARDKIT_RETURN_IF_ERROR(EnsureHead(block, column, state));
  const uint32_t i = static_cast<uint32_t>(ordinal - blocks_[block].first_sample);
  const ColumnView& view = state.view.column(column);
  if (!view.present(i)) return found;
  const uint64_t base = blocks_[block].offset + state.header.columns[column].values_offset;
  if (!schema()[column].is_paged()) {
    found.emplace(base + (i == 0 ? 0 : view.end(i - 1)), base + view.end(i) - format::kValueChecksumBytes);
    return found;
  }
  const format::PageTable& table = state.paged[column].table;
  const size_t k = table.PageOf(i);
  // A page of one value is the value and its checksum, as a record is.
  if (table.count(k) == 1) found.emplace(base + table.begin(k), base + table.end(k) - format::kPageChecksumBytes);
  return found;
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> NativeShardReader::OpenValue(uint64_t ordinal, size_t column) const {
  BlockBuffer buffer;
  SHARDKIT_ASSIGN_OR_RETURN(const auto place, FindPlain(ordinal, column, buffer.state()));
  if (place) return std::make_unique<ValueFile>(file_, place->first, place->second - place->first);
  SHARDKIT_ASSIGN_OR_RETURN(const auto value, ReadValue(ordinal, column, &buffer));
  if (!value) return nullptr;
  auto copy = std::make_unique<ValueFile>(path(), std::string(*value));
  SHARDKIT_RETURN_IF_ERROR(buffer.CheckMapped());
  return copy;
}

absl::StatusOr<bool> NativeShardReader::CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const {
  BlockBuffer buffer;
  BlockBuffer::State& state = buffer.state();
  SHARDKIT_ASSIGN_OR_RETURN(const auto place, FindPlain(ordinal, column, state));
  if (!place) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto value, ReadValue(ordinal, column, &buffer));
    if (!value) return false;
    SHARDKIT_RETURN_IF_ERROR(sink(*value));
    return true;
  }
  auto [position, end] = *place;
  StreamingHash hash;
  // The last piece has the checksum, too: a value of one piece takes one request.
  for (bool last = false; !last;) {
    const uint64_t left = end - position;
    last = left <= kCopyPiece;
    const uint64_t piece = last ? left : kCopyPiece;
    state.record.resize_discard(piece + (last ? format::kValueChecksumBytes : 0));
    SHARDKIT_RETURN_IF_ERROR(file_->ReadAt(position, {state.record.data(), state.record.size()}));
    hash.Update(state.record.view().substr(0, piece));
    if (piece != 0) SHARDKIT_RETURN_IF_ERROR(sink(state.record.view().substr(0, piece)));
    position += piece;
  }
  const char* const checksum = state.record.data() + state.record.size() - format::kValueChecksumBytes;
  if (options_.verify != Verify::kNever && hash.Digest() != LoadLittle<uint64_t>(checksum)) {
    return DataLoss(DescribeBlock(BlockOfSample(ordinal)), ": sample ", ordinal, ", column \"", schema()[column].name,
                    "\": value checksum is wrong");
  }
  return true;
}

// Makes the view of a paged column: without the values if only its head was wanted. With `damage`, what a damaged page
// held is recorded there.
absl::StatusOr<ColumnView> NativeShardReader::PlacePages(size_t i, const char* base, BlockBuffer::State& state,
                                                         BlockDamage* damage) const {
  const format::ColumnEntry& entry = state.header.columns[i];
  const uint64_t padded_length = RoundUp(entry.values_length, format::kChunkAlignment);
  const format::PageTable& table = state.paged[i].table;
  const uint32_t sample_count = state.header.sample_count;
  const char* const presence = table.presence();
  if (static_cast<Part>(state.wanted[i]) != Part::kAll) {
    return ColumnView(sample_count, presence, nullptr, nullptr, 0, 0);
  }
  const auto damaged = [&](const absl::Status& status) {
    return Annotate(status, StrCat("column ", i, " \"", header_.schema[i].name, "\""));
  };
  SHARDKIT_ASSIGN_OR_RETURN(const bool whole, CheckValues(i, base, state, damage));
  const std::string_view padding(base + entry.values_offset + entry.values_length, padded_length - entry.values_length);
  if (whole && !format::AllZero(padding)) return damaged(DataLoss("padding after the values chunk is not zero"));

  const size_t place = state.places.size();
  state.places.resize(place + 2 * size_t{sample_count});
  uint64_t* const begins = state.places.data() + place;
  uint64_t* const ends = begins + sample_count;
  for (size_t k = 0; k < table.size(); ++k) {
    const uint32_t first = table.first(k);
    const std::string_view page = state.paged[i].values.substr(table.begin(k), table.length(k));
    absl::Status status = whole ? absl::OkStatus() : format::CheckPageChecksum(page);
    if (status.ok()) status = table.Place(k, page, begins + first, ends + first);
    if (status.ok()) continue;
    const std::string chunk_is = whole || damage != nullptr ? "" : "values chunk checksum is wrong; ";
    status = damaged(Annotate(status, StrCat(chunk_is, table.Describe(k))));
    if (damage == nullptr) return status;
    for (uint32_t sample = first; sample < table.last(k); ++sample) {
      begins[sample] = ends[sample] = 0;
      if (table.present(sample)) damage->values[{sample, i}] = status;
    }
  }
  if (!whole && damage == nullptr) return damaged(DataLoss("values chunk checksum is wrong"));
  return ColumnView::Scattered(sample_count, presence, reinterpret_cast<const char*>(begins),
                               reinterpret_cast<const char*>(ends), state.paged[i].values.data());
}

// Reads the page of a paged column that lies at these bytes of the file, which the block's header has shown to lie in
// it, and checks its checksum.
absl::StatusOr<std::string_view> NativeShardReader::ReadPage(uint64_t begin, uint64_t end,
                                                             BlockBuffer::State& state) const {
  const bool known = state.page_owner == identity_ && state.page_begin == begin;
  state.page_owner = 0;
  std::string_view page;
  const auto read = [&]() -> absl::Status {
    if (const auto mapped = file_->Mapped()) {
      page = mapped->substr(begin, end - begin);
    } else {
      if (!known) {
        SHARDKIT_RETURN_IF_ERROR(CheckBlockMemory(options_, end - begin, "the page has"));
        state.page.resize_discard(end - begin);
        SHARDKIT_RETURN_IF_ERROR(ReadOfListed(file_->ReadAt(begin, {state.page.data(), state.page.size()})));
      }
      page = state.page.view();
    }
    return known || options_.verify == Verify::kNever ? absl::OkStatus() : format::CheckPageChecksum(page);
  };
  SHARDKIT_RETURN_IF_ERROR(io::RetryIfDamaged(*file_, read));
  state.page_owner = identity_;
  state.page_begin = begin;
  return page;
}

}  // namespace shardkit::container
