#include "dataset/index_reader.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"

namespace shardkit {

using format::IndexBlock;
using format::IndexShard;
using format::kIndexEntryBytes;
using format::kIndexHeaderBytes;
using format::kIndexPageBytes;

absl::StatusOr<std::unique_ptr<IndexReader>> IndexReader::Open(FileSystem& file_system, const std::string& path) {
  std::unique_ptr<IndexReader> reader(new IndexReader());
  reader->path_ = path;
  SHARDKIT_ASSIGN_OR_RETURN(reader->file_, file_system.OpenForReading(path, ReadMode::kMapped));
  if (const auto mapped = reader->file_->Mapped()) {
    reader->bytes_ = *mapped;
  } else {
    reader->memory_.resize(reader->file_->size());
    SHARDKIT_RETURN_IF_ERROR(reader->file_->ReadAt(0, {reader->memory_.data(), reader->memory_.size()}));
    reader->bytes_ = reader->memory_;
  }
  auto header = format::DecodeIndexHeader(reader->bytes_.substr(0, kIndexHeaderBytes), reader->bytes_.size());
  SHARDKIT_RETURN_IF_ERROR(reader->file_->CheckMapped());
  if (!header.ok()) return Annotate(header.status(), path);
  reader->header_ = *header;
  const std::string_view pages = reader->bytes_.substr(header->pages_offset());
  const bool right = Hash64(pages) == header->pages_checksum;
  SHARDKIT_RETURN_IF_ERROR(reader->file_->CheckMapped());
  if (!right) return DataLoss(path, ": index: the checksum of the page checksums is wrong");
  reader->checked_pages_ = std::vector<std::atomic<uint8_t>>(header->page_count());
  return reader;
}

// A truncated file is reported in place of any result: everything read from the map may then be wrong.
template <typename T>
T IndexReader::Checked(T found) const {
  SHARDKIT_RETURN_IF_ERROR(file_->CheckMapped());
  return found;
}

absl::Status IndexReader::Touch(uint64_t offset, uint64_t length) const {
  const uint64_t first = (offset - kIndexHeaderBytes) / kIndexPageBytes;
  const uint64_t last = (offset + length - 1 - kIndexHeaderBytes) / kIndexPageBytes;
  for (uint64_t page = first; page <= last; ++page) {
    if (checked_pages_[page].load(std::memory_order_acquire) != 0) [[likely]]
      continue;
    const uint64_t begin = kIndexHeaderBytes + page * kIndexPageBytes;
    const uint64_t size = std::min(kIndexPageBytes, header_.pages_offset() - begin);
    if (Hash64(bytes_.substr(begin, size)) != LoadLittle<uint64_t>(bytes_.data() + header_.pages_offset() + 8 * page)) {
      return DataLoss(path_, ": index page ", page, " at byte ", begin,
                      ": checksum is wrong; run shardctl index to make the index anew");
    }
    checked_pages_[page].store(1, std::memory_order_release);
  }
  return absl::OkStatus();
}

absl::StatusOr<IndexBlock> IndexReader::LoadBlock(uint64_t index) const {
  if (index >= header_.block_count) return DataLoss(path_, ": index: block ", index, " lies past the table of blocks");
  const uint64_t offset = header_.blocks_offset() + kIndexEntryBytes * index;
  SHARDKIT_RETURN_IF_ERROR(Touch(offset, kIndexEntryBytes));
  return format::LoadIndexBlock(bytes_.data() + offset);
}

absl::StatusOr<IndexShard> IndexReader::LoadShard(uint64_t index) const {
  if (index >= header_.shard_count) return DataLoss(path_, ": index: shard ", index, " lies past the table of shards");
  const uint64_t offset = header_.shards_offset() + kIndexEntryBytes * index;
  SHARDKIT_RETURN_IF_ERROR(Touch(offset, kIndexEntryBytes));
  return format::LoadIndexShard(bytes_.data() + offset);
}

absl::StatusOr<std::string_view> IndexReader::LoadShardName(const IndexShard& shard) const {
  if (!RangeWithin(shard.name_offset, shard.name_length, header_.names_length) || shard.name_length == 0) {
    return DataLoss(path_, ": index: a shard's name does not lie among the names");
  }
  const uint64_t offset = header_.names_offset() + shard.name_offset;
  SHARDKIT_RETURN_IF_ERROR(Touch(offset, shard.name_length));
  return bytes_.substr(offset, shard.name_length);
}

absl::StatusOr<IndexBlock> IndexReader::FindBlock(uint64_t sample) const {
  uint64_t low = 0, high = header_.block_count;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    const uint64_t offset = header_.blocks_offset() + kIndexEntryBytes * middle;
    SHARDKIT_RETURN_IF_ERROR(Touch(offset, kIndexEntryBytes));
    if (LoadLittle<uint64_t>(bytes_.data() + offset + 24) <= sample) {
      low = middle;
    } else {
      high = middle;
    }
  }
  if (header_.block_count == 0) return DataLoss(path_, ": index: has no blocks");
  SHARDKIT_ASSIGN_OR_RETURN(const IndexBlock block, LoadBlock(low));
  if (sample < block.first_sample || sample - block.first_sample >= block.sample_count ||
      block.shard >= header_.shard_count) {
    return DataLoss(path_, ": index: no block holds sample ", sample, "; run shardctl index to make the index anew");
  }
  return block;
}

absl::StatusOr<uint64_t> IndexReader::LoadEnd(uint64_t position) const {
  if (position >= header_.sample_count * header_.blob_column_count) {
    return DataLoss(path_, ": index: an entry lies past the table of ends");
  }
  const uint64_t offset = header_.ends_offset() + 8 * position;
  SHARDKIT_RETURN_IF_ERROR(Touch(offset, 8));
  return LoadLittle<uint64_t>(bytes_.data() + offset);
}

absl::Status IndexReader::LoadEnds(uint64_t position, std::span<uint64_t> ends) const {
  if (ends.empty()) return absl::OkStatus();
  if (!RangeWithin(position, ends.size(), header_.sample_count * header_.blob_column_count)) {
    return DataLoss(path_, ": index: entries lie past the table of ends");
  }
  const uint64_t offset = header_.ends_offset() + 8 * position;
  SHARDKIT_RETURN_IF_ERROR(Touch(offset, 8 * ends.size()));
  for (size_t i = 0; i < ends.size(); ++i) ends[i] = LoadLittle<uint64_t>(bytes_.data() + offset + 8 * i);
  return absl::OkStatus();
}

absl::StatusOr<std::pair<uint64_t, uint64_t>> IndexReader::FindRecord(const IndexBlock& block, uint32_t local,
                                                                      uint32_t blob_column) const {
  const uint64_t first = block.ends_begin + uint64_t{blob_column} * block.sample_count;
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t end, LoadEnd(first + local));
  uint64_t begin;
  if (local > 0) {
    SHARDKIT_ASSIGN_OR_RETURN(begin, LoadEnd(first + local - 1));
  } else {
    std::vector<uint64_t> last_ends(header_.blob_column_count);
    for (uint32_t k = 0; k < header_.blob_column_count; ++k) {
      const uint64_t last = block.ends_begin + uint64_t{k} * block.sample_count + block.sample_count - 1;
      SHARDKIT_ASSIGN_OR_RETURN(last_ends[k], LoadEnd(last));
    }
    begin = format::FirstRecordOffset(block.offset + block.front_length, last_ends, blob_column);
    if (begin > end) begin = end;  // the column has no value in this block up to this sample
  }
  if (begin > end) return DataLoss(path_, ": index: a record ends before it begins");
  return std::make_pair(begin, end);
}

absl::Status IndexReader::CheckTables() const {
  if (header_.pages_offset() > kIndexHeaderBytes) {
    SHARDKIT_RETURN_IF_ERROR(Touch(kIndexHeaderBytes, header_.pages_offset() - kIndexHeaderBytes));
  }
  if (bytes_
          .substr(header_.names_offset() + header_.names_length,
                  header_.pages_offset() - header_.names_offset() - header_.names_length)
          .find_first_not_of('\0') != std::string_view::npos) {
    return DataLoss(path_, ": index: padding before the page checksums is not zero");
  }
  uint64_t sample = 0, block_index = 0;
  for (uint64_t s = 0; s < header_.shard_count; ++s) {
    SHARDKIT_ASSIGN_OR_RETURN(const IndexShard shard, LoadShard(s));
    if (shard.first_sample != sample || shard.first_block != block_index ||
        shard.block_count > header_.block_count - block_index) {
      return DataLoss(path_, ": index: entry of shard ", s, " does not follow from the one before");
    }
    for (uint64_t b = 0; b < shard.block_count; ++b, ++block_index) {
      SHARDKIT_ASSIGN_OR_RETURN(const IndexBlock block, LoadBlock(block_index));
      if (block.shard != s || block.first_sample != sample || block.sample_count == 0 ||
          block.ends_begin != sample * header_.blob_column_count) {
        return DataLoss(path_, ": index: entry of block ", block_index, " does not follow from the one before");
      }
      sample += block.sample_count;
    }
    if (sample - shard.first_sample != shard.sample_count) {
      return DataLoss(path_, ": index: shard ", s, " has another number of samples than its blocks");
    }
  }
  if (sample != header_.sample_count || block_index != header_.block_count) {
    return DataLoss(path_, ": index: the shards do not add up to the totals");
  }
  return absl::OkStatus();
}

absl::StatusOr<IndexBlock> IndexReader::Block(uint64_t index) const { return Checked(LoadBlock(index)); }
absl::StatusOr<IndexShard> IndexReader::Shard(uint64_t index) const { return Checked(LoadShard(index)); }
absl::StatusOr<std::string_view> IndexReader::ShardName(const IndexShard& shard) const {
  return Checked(LoadShardName(shard));
}
absl::StatusOr<IndexBlock> IndexReader::BlockOfSample(uint64_t sample) const { return Checked(FindBlock(sample)); }
absl::StatusOr<uint64_t> IndexReader::End(uint64_t position) const { return Checked(LoadEnd(position)); }
absl::Status IndexReader::Ends(uint64_t position, std::span<uint64_t> ends) const {
  return Checked(LoadEnds(position, ends));
}
absl::Status IndexReader::CheckAll() const { return Checked(CheckTables()); }
absl::StatusOr<std::pair<uint64_t, uint64_t>> IndexReader::Record(const IndexBlock& block, uint32_t local,
                                                                  uint32_t blob_column) const {
  return Checked(FindRecord(block, local, blob_column));
}

}  // namespace shardkit
