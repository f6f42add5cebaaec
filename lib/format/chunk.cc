#include "format/chunk.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/constants.h"

namespace shardkit::format {
namespace {

absl::Status CheckPresence(uint32_t sample_count, std::string_view presence) {
  const uint64_t whole_bytes = sample_count / 8;
  const bool partial = sample_count % 8 != 0;
  if (partial && (static_cast<uint8_t>(presence[whole_bytes]) >> (sample_count % 8)) != 0) {
    return DataLoss("presence bits after the last sample are not zero");
  }
  if (!AllZero(presence.substr(whole_bytes + (partial ? 1 : 0)))) {
    return DataLoss("presence bits after the last sample are not zero");
  }
  return absl::OkStatus();
}

absl::Status CheckEnds(uint32_t sample_count, const char* ends, uint64_t values_length) {
  uint64_t previous = 0;
  for (uint32_t i = 0; i < sample_count; ++i) {
    const uint64_t end = LoadLittle<uint64_t>(ends + 8 * uint64_t{i});
    if (end < previous || end > values_length) [[unlikely]] {
      return DataLoss("ends: value of sample ", i, " of the block ends at ", end, ", before it begins at ", previous,
                      " or after the values' ", values_length, " bytes");
    }
    previous = end;
  }
  if (previous != values_length) {
    return DataLoss("ends: the last value ends at ", previous, ", not at the values' ", values_length, " bytes");
  }
  return absl::OkStatus();
}

// Checks that an absent value has no bytes, and that a present value of a blob column has at least its checksum.
absl::Status CheckLengths(const ColumnView& view, bool blob) {
  uint64_t previous = 0;
  for (uint32_t i = 0; i < view.size(); ++i) {
    const uint64_t length = view.end(i) - previous;
    previous = view.end(i);
    if (!view.present(i)) {
      if (length != 0) return DataLoss("sample ", i, " of the block: an absent value has ", length, " bytes");
    } else if (blob && length < kValueChecksumBytes) {
      return DataLoss("sample ", i, " of the block: a record of ", length, " bytes is too short for its checksum");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCodec(const Column& column) {
  if (IsKnownCodec(column.codec)) return absl::OkStatus();
  return Unimplemented(
      "column \"", column.name, "\" has ", CodecName(column.codec),
      ", which this version does not know: leave the column out (shardctl: --columns of convert, --column of cat), "
      "or read it with a newer version");
}

bool AllZero(std::string_view bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    if (LoadLittle<uint64_t>(bytes.data() + i) != 0) return false;
  }
  for (; i < bytes.size(); ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

HeadLayout::HeadLayout(const Column& column, uint32_t sample_count) {
  if (column.nullable) presence_bytes = RoundUp((uint64_t{sample_count} + 7) / 8, 8);
  if (!column.fixed_size().has_value() && !column.is_paged()) ends_bytes = 8 * uint64_t{sample_count};
  values_offset = presence_bytes + ends_bytes;
}

uint64_t StructureLength(const Column& column, uint32_t sample_count, uint64_t raw_length) {
  return column.is_paged() ? raw_length : HeadLayout(column, sample_count).values_offset;
}

absl::StatusOr<ColumnView> ParseColumn(const Column& column, uint32_t sample_count, std::string_view head,
                                       std::string_view values, uint64_t values_length, const char* structure) {
  const HeadLayout layout(column, sample_count);
  if (structure == nullptr) structure = head.data();
  const char* const presence = column.nullable ? structure : nullptr;
  if (column.nullable) {
    if (absl::Status status = CheckPresence(sample_count, {presence, layout.presence_bytes}); !status.ok())
      return status;
  }
  const char* const ends = layout.ends_bytes != 0 ? structure + layout.presence_bytes : nullptr;
  const bool blob = column.is_blob();
  const char* const data = blob ? values.data() : head.data() + layout.values_offset;
  const ColumnView view(sample_count, presence, ends, data, column.fixed_size().value_or(0),
                        blob ? kValueChecksumBytes : 0);
  if (ends != nullptr) {
    const uint64_t length = blob ? values_length : head.size() - layout.values_offset;
    if (absl::Status status = CheckEnds(sample_count, ends, length); !status.ok()) return status;
    if (column.nullable || blob) {
      if (absl::Status status = CheckLengths(view, blob); !status.ok()) return status;
    }
  }
  return view;
}

absl::StatusOr<PageTable> ParsePagedHead(const Column& column, uint32_t sample_count, std::string_view head,
                                         uint64_t values_length) {
  const HeadLayout layout(column, sample_count);
  if (column.nullable) {
    SHARDKIT_RETURN_IF_ERROR(CheckPresence(sample_count, head.substr(0, layout.presence_bytes)));
  }
  return PageTable::Parse(sample_count, column.nullable ? head.data() : nullptr, head.substr(layout.values_offset),
                          values_length);
}

absl::StatusOr<std::string_view> OpenRecord(std::string_view record) {
  if (record.size() < kValueChecksumBytes) return DataLoss("the record is too short for its checksum");
  const std::string_view bytes = record.substr(0, record.size() - kValueChecksumBytes);
  if (Hash64(bytes) != LoadLittle<uint64_t>(record.data() + bytes.size())) {
    return DataLoss("value checksum is wrong");
  }
  return bytes;
}

absl::Status CheckRecord(const ColumnView& view, uint32_t i) {
  if (!view.present(i)) return absl::OkStatus();
  const std::string_view bytes = view.bytes(i);
  if (Hash64(bytes) == LoadLittle<uint64_t>(bytes.data() + bytes.size())) return absl::OkStatus();
  return DataLoss("sample ", i, " of the block: value checksum is wrong");
}

absl::Status CheckRecords(const ColumnView& view) {
  for (uint32_t i = 0; i < view.size(); ++i) SHARDKIT_RETURN_IF_ERROR(CheckRecord(view, i));
  return absl::OkStatus();
}

absl::Status CheckAbsentSlots(const ColumnView& view) {
  for (uint32_t i = 0; i < view.size(); ++i) {
    if (!view.present(i) && !AllZero(view.bytes(i))) {
      return DataLoss("sample ", i, " of the block: the slot of an absent value is not zero");
    }
  }
  return absl::OkStatus();
}

ChunkChecker::ChunkChecker(const Schema& schema, const BlockHeader& header) {
  for (size_t i = 0; i < header.columns.size(); ++i) {
    const ColumnEntry& entry = header.columns[i];
    chunks_.push_back({i, RoundUp(entry.stored_length, kChunkAlignment), entry.checksum});
  }
  for (const size_t i : schema.values_columns()) {
    const ColumnEntry& entry = header.columns[i];
    chunks_.push_back({i, RoundUp(entry.values_length, kChunkAlignment), entry.values_checksum});
  }
  EndChunks();
}

void ChunkChecker::Update(std::string_view bytes) {
  while (!bytes.empty() && next_ < chunks_.size()) {
    const std::string_view piece = bytes.substr(0, chunks_[next_].length - done_);
    hash_.Update(piece);
    done_ += piece.size();
    bytes.remove_prefix(piece.size());
    EndChunks();
  }
}

// A loop, because chunks may be empty.
void ChunkChecker::EndChunks() {
  for (; next_ < chunks_.size() && done_ == chunks_[next_].length; ++next_, done_ = 0) {
    const Chunk& chunk = chunks_[next_];
    if (hash_.Digest() != chunk.checksum) {
      const auto place = std::ranges::lower_bound(damaged_, chunk.column);
      if (place == damaged_.end() || *place != chunk.column) damaged_.insert(place, chunk.column);
    }
    hash_.Reset();
  }
}

}  // namespace shardkit::format
