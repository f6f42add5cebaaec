#include "format/block_header.h"

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "format/chunk.h"
#include "format/pages.h"

namespace shardkit::format {
namespace {

absl::Status CheckEntry(const Column& column, uint32_t sample_count, const ColumnEntry& entry, size_t index) {
  const auto damaged = [&](std::string_view what) {
    return DataLoss("block header: column ", index, " \"", column.name, "\": ", what);
  };
  if (entry.stored_length > kMaxLength || entry.raw_length > kMaxLength || entry.values_length > kMaxLength) {
    return damaged("a length passes 2^62");
  }
  if (!column.has_values_chunk() &&
      (entry.values_offset != 0 || entry.values_length != 0 || entry.values_checksum != 0)) {
    return damaged("a values chunk on a column that has none");
  }
  if (!IsKnownCodec(column.codec))
    return absl::OkStatus();  // what encoding and raw length mean is the codec's business
  switch (entry.encoding) {
    case Encoding::kRaw:
      if (entry.stored_length != entry.raw_length) return damaged("stored and raw length of a raw chunk differ");
      break;
    case Encoding::kZstd:
    case Encoding::kZstdDictionary:
      if (column.codec != Codec::kZstd) return damaged("compressed though the column's codec is none");
      if (entry.raw_length == 0) return damaged("compressed though the raw length is 0");
      if (!ZstdLengthsAllowed(entry.stored_length, entry.raw_length)) {
        return damaged("the raw length of the compressed chunk passes the limit");
      }
      break;
    default:
      return damaged("unknown encoding");
  }
  const HeadLayout layout(column, sample_count);
  if (entry.raw_length < layout.values_offset) return damaged("the chunk is shorter than its tables");
  const uint64_t value_bytes = entry.raw_length - layout.values_offset;
  bool fits = true;
  if (column.is_paged()) {
    fits = value_bytes != 0 && value_bytes % kPageEntryBytes == 0 && value_bytes / kPageEntryBytes <= sample_count;
  } else if (column.is_blob()) {
    fits = value_bytes == 0;
  } else if (column.fixed_size()) {
    fits = value_bytes == *column.fixed_size() * sample_count;
  }
  if (!fits) return damaged("the chunk's length does not fit its values");
  return absl::OkStatus();
}

}  // namespace

void LayOutBlock(const Schema& schema, BlockHeader& header) {
  uint64_t position = BlockHeaderLength(schema.size());
  for (ColumnEntry& entry : header.columns) {
    entry.offset = position;
    position += RoundUp(entry.stored_length, kChunkAlignment);
  }
  header.front_length = position;
  for (const size_t i : schema.values_columns()) {
    header.columns[i].values_offset = position;
    position += RoundUp(header.columns[i].values_length, kChunkAlignment);
  }
  header.block_length = position;
}

absl::Status CheckBlockLayout(const Schema& schema, const BlockHeader& header) {
  uint64_t position = BlockHeaderLength(schema.size());
  const auto misplaced = [&](size_t i, std::string_view chunk) {
    return DataLoss("block header: column ", i, " \"", schema[i].name, "\": ", chunk, " offset is wrong");
  };
  // Lengths are at most 2^62 each: the sum is bounded after every step so that it cannot wrap.
  for (size_t i = 0; i < schema.size(); ++i) {
    if (header.columns[i].offset != position) return misplaced(i, "chunk");
    position += RoundUp(header.columns[i].stored_length, kChunkAlignment);
    if (position > kMaxLength) return DataLoss("block header: the block passes 2^62 bytes");
  }
  if (header.front_length != position) return DataLoss("block header: front length is wrong");
  for (const size_t i : schema.values_columns()) {
    if (header.columns[i].values_offset != position) return misplaced(i, "values chunk");
    position += RoundUp(header.columns[i].values_length, kChunkAlignment);
    if (position > kMaxLength) return DataLoss("block header: the block passes 2^62 bytes");
  }
  if (header.block_length != position) return DataLoss("block header: block length is wrong");
  return absl::OkStatus();
}

std::string EncodeColumnEntries(const BlockHeader& header) {
  std::string out;
  for (const ColumnEntry& entry : header.columns) {
    AppendLittle(out, entry.offset);
    AppendLittle(out, entry.stored_length);
    AppendLittle(out, entry.raw_length);
    AppendLittle(out, entry.checksum);
    AppendLittle(out, entry.values_offset);
    AppendLittle(out, entry.values_length);
    AppendLittle(out, entry.values_checksum);
    AppendLittle(out, static_cast<uint64_t>(entry.encoding));
  }
  return out;
}

void EncodeBlockHeader(BlockHeader& header, std::string* out) {
  const size_t begin = out->size();
  out->append(kBlockMagic);
  AppendLittle(*out, static_cast<uint32_t>(BlockHeaderLength(header.columns.size())));
  AppendLittle(*out, static_cast<uint32_t>(header.columns.size()));
  AppendLittle(*out, header.block_length);
  AppendLittle(*out, header.front_length);
  AppendLittle(*out, header.first_sample);
  AppendLittle(*out, header.sample_count);
  AppendLittle<uint32_t>(*out, 0);
  AppendLittle(*out, header.shard_id);
  *out += EncodeColumnEntries(header);
  header.checksum = Hash64(out->data() + begin, out->size() - begin);
  AppendLittle(*out, header.checksum);
}

absl::Status DecodeBlockHeader(const Schema& schema, std::string_view bytes, BlockHeader* header) {
  const uint64_t length = BlockHeaderLength(schema.size());
  if (bytes.size() < length) return DataLoss("block header is cut short");
  const char* const p = bytes.data();
  if (bytes.substr(0, 8) != kBlockMagic) return DataLoss("block header magic is wrong");
  header->checksum = LoadLittle<uint64_t>(p + length - 8);
  if (Hash64(p, length - 8) != header->checksum) return DataLoss("block header checksum is wrong");
  if (LoadLittle<uint32_t>(p + 8) != length || LoadLittle<uint32_t>(p + 12) != schema.size()) {
    return DataLoss("block header: length or column count does not fit the schema");
  }
  header->block_length = LoadLittle<uint64_t>(p + 16);
  header->front_length = LoadLittle<uint64_t>(p + 24);
  header->first_sample = LoadLittle<uint64_t>(p + 32);
  header->sample_count = LoadLittle<uint32_t>(p + 40);
  header->shard_id = LoadLittle<uint64_t>(p + 48);
  if (header->sample_count == 0 || header->sample_count > kMaxBlockSamples) {
    return DataLoss("block header: sample count ", header->sample_count, " is not allowed");
  }
  if (header->first_sample > kMaxShardSamples) {
    return DataLoss("block header: first sample ", header->first_sample, " is not allowed");
  }
  if (LoadLittle<uint32_t>(p + 44) != 0) return DataLoss("block header: reserved bytes at offset 44 are not zero");

  header->columns.resize(schema.size());
  for (size_t i = 0; i < schema.size(); ++i) {
    const char* const q = p + 56 + 64 * i;
    ColumnEntry& entry = header->columns[i];
    entry.offset = LoadLittle<uint64_t>(q);
    entry.stored_length = LoadLittle<uint64_t>(q + 8);
    entry.raw_length = LoadLittle<uint64_t>(q + 16);
    entry.checksum = LoadLittle<uint64_t>(q + 24);
    entry.values_offset = LoadLittle<uint64_t>(q + 32);
    entry.values_length = LoadLittle<uint64_t>(q + 40);
    entry.values_checksum = LoadLittle<uint64_t>(q + 48);
    const uint64_t encoding = LoadLittle<uint64_t>(q + 56);
    if (encoding > 0xff) {
      return DataLoss("block header: column ", i, " \"", schema[i].name, "\": reserved bytes are not zero");
    }
    entry.encoding = static_cast<Encoding>(encoding);
    SHARDKIT_RETURN_IF_ERROR(CheckEntry(schema[i], header->sample_count, entry, i));
  }
  return CheckBlockLayout(schema, *header);
}

}  // namespace shardkit::format
