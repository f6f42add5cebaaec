#include "format/index_layout.h"

#include <algorithm>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "format/chunk.h"
#include "format/constants.h"

namespace shardkit::format {

std::string EncodeIndexHeader(const IndexHeader& header) {
  std::string out(kIndexMagic);
  AppendLittle(out, kMajorVersion);
  AppendLittle(out, kMinorVersion);
  AppendLittle(out, header.blob_column_count);
  AppendLittle(out, header.shard_count);
  AppendLittle(out, header.block_count);
  AppendLittle(out, header.sample_count);
  AppendLittle(out, header.ends_offset());
  AppendLittle(out, header.blocks_offset());
  AppendLittle(out, header.shards_offset());
  AppendLittle(out, header.names_offset());
  AppendLittle(out, header.names_length);
  AppendLittle(out, header.pages_offset());
  AppendLittle(out, header.file_length());
  AppendLittle(out, header.dataset_hash);
  AppendLittle(out, header.pages_checksum);
  out.resize(kIndexHeaderBytes - 8, '\0');
  AppendLittle(out, Hash64(out));
  return out;
}

absl::StatusOr<IndexHeader> DecodeIndexHeader(std::string_view bytes, uint64_t file_length) {
  if (bytes.size() != kIndexHeaderBytes || bytes.substr(0, 8) != kIndexMagic) {
    return DataLoss("index magic is wrong or the file is too short: this is not an offset index");
  }
  const char* const p = bytes.data();
  if (Hash64(bytes.substr(0, kIndexHeaderBytes - 8)) != LoadLittle<uint64_t>(p + kIndexHeaderBytes - 8)) {
    return DataLoss("index header checksum is wrong");
  }
  if (LoadLittle<uint16_t>(p + 8) != kMajorVersion) {
    return Unimplemented("index: major version ", LoadLittle<uint16_t>(p + 8),
                         " is not supported (this version reads 1)");
  }
  IndexHeader header;
  header.blob_column_count = LoadLittle<uint32_t>(p + 12);
  header.shard_count = LoadLittle<uint64_t>(p + 16);
  header.block_count = LoadLittle<uint64_t>(p + 24);
  header.sample_count = LoadLittle<uint64_t>(p + 32);
  header.names_length = LoadLittle<uint64_t>(p + 72);
  header.dataset_hash = LoadLittle<uint64_t>(p + 96);
  header.pages_checksum = LoadLittle<uint64_t>(p + 104);
  // When no table is longer than the file, the sums in IndexHeader cannot overflow.
  uint64_t ends;
  if (!CheckedMultiply(header.sample_count, header.blob_column_count, &ends) || ends > file_length / 8 ||
      header.block_count > file_length / kIndexEntryBytes || header.shard_count > file_length / kIndexEntryBytes ||
      header.names_length > file_length || file_length > kMaxLength) {
    return DataLoss("index: a table is longer than the file");
  }
  const uint64_t offsets[] = {header.ends_offset(), header.blocks_offset(), header.shards_offset(),
                              header.names_offset()};
  for (size_t i = 0; i < 4; ++i) {
    if (LoadLittle<uint64_t>(p + 40 + 8 * i) != offsets[i])
      return DataLoss("index: the offset of table ", i, " is wrong");
  }
  if (LoadLittle<uint64_t>(p + 80) != header.pages_offset() || LoadLittle<uint64_t>(p + 88) != header.file_length()) {
    return DataLoss("index: the offset of the page checksums or the file length is wrong");
  }
  if (header.file_length() != file_length) {
    return DataLoss("index: file length is ", header.file_length(), " there but the file has ", file_length, " bytes");
  }
  if (!AllZero(bytes.substr(112, 72))) return DataLoss("index: reserved bytes are not zero");
  return header;
}

void AppendIndexBlock(const IndexBlock& block, std::string* out) {
  AppendLittle(*out, block.offset);
  AppendLittle(*out, block.length);
  AppendLittle(*out, block.front_length);
  AppendLittle(*out, block.first_sample);
  AppendLittle(*out, block.sample_count);
  AppendLittle(*out, block.shard);
  AppendLittle(*out, block.header_checksum);
  AppendLittle(*out, block.ends_begin);
  AppendLittle<uint64_t>(*out, 0);
}

void AppendIndexShard(const IndexShard& shard, std::string* out) {
  AppendLittle(*out, shard.first_sample);
  AppendLittle(*out, shard.sample_count);
  AppendLittle(*out, shard.first_block);
  AppendLittle(*out, shard.block_count);
  AppendLittle(*out, shard.file_length);
  AppendLittle(*out, shard.name_offset);
  AppendLittle(*out, shard.name_length);
  AppendLittle<uint32_t>(*out, 0);
  AppendLittle<uint64_t>(*out, 0);
}

IndexBlock LoadIndexBlock(const char* from) {
  IndexBlock block;
  block.offset = LoadLittle<uint64_t>(from);
  block.length = LoadLittle<uint64_t>(from + 8);
  block.front_length = LoadLittle<uint64_t>(from + 16);
  block.first_sample = LoadLittle<uint64_t>(from + 24);
  block.sample_count = LoadLittle<uint32_t>(from + 32);
  block.shard = LoadLittle<uint32_t>(from + 36);
  block.header_checksum = LoadLittle<uint64_t>(from + 40);
  block.ends_begin = LoadLittle<uint64_t>(from + 48);
  return block;
}

IndexShard LoadIndexShard(const char* from) {
  IndexShard shard;
  shard.first_sample = LoadLittle<uint64_t>(from);
  shard.sample_count = LoadLittle<uint64_t>(from + 8);
  shard.first_block = LoadLittle<uint64_t>(from + 16);
  shard.block_count = LoadLittle<uint64_t>(from + 24);
  shard.file_length = LoadLittle<uint64_t>(from + 32);
  shard.name_offset = LoadLittle<uint64_t>(from + 40);
  shard.name_length = LoadLittle<uint32_t>(from + 48);
  return shard;
}

uint64_t FirstRecordOffset(uint64_t front_end, std::span<const uint64_t> last_ends, size_t column) {
  uint64_t before = front_end;
  for (const uint64_t end : last_ends) {
    if (end < last_ends[column]) before = std::max(before, end);
  }
  return RoundUp(before, kChunkAlignment);
}

}  // namespace shardkit::format
