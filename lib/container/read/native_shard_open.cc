// Opening a shard: trailer, section table, header, block directory; and the sections that are read on demand.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "container/read/native_shard_reader.h"
#include "format/chunk.h"
#include "io/read_again.h"

namespace shardkit {
namespace {

// The footers of most shards fit in this, so that opening takes two reads: a directory of 64 blocks has 3 KiB.
constexpr uint64_t kTailRead = 16384;

// Headers without dictionaries or hundreds of columns fit in this.
constexpr uint64_t kHeadRead = 4096;

// Copies of block headers that pass this are not kept in memory, since many shards may be open at once: blocks are then
// read with their own headers. 16 MiB are those of 85 GB of blocks with ten columns.
constexpr uint64_t kMaxHeaderCopies = uint64_t{16} << 20;

// Of a section that is only checked.
constexpr uint64_t kCheckedPiece = uint64_t{4} << 20;

absl::StatusOr<std::string> ReadRange(const RandomAccessFile& file, uint64_t offset, uint64_t length) {
  std::string bytes(length, '\0');
  SHARDKIT_RETURN_IF_ERROR(file.ReadAt(offset, {bytes.data(), bytes.size()}));
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<container::NativeShardReader>> container::NativeShardReader::Open(
    ReadableFileSystem& file_system, const std::string& path, const ReadOptions& options,
    std::optional<uint64_t> size) {
  std::unique_ptr<container::NativeShardReader> reader(new container::NativeShardReader());
  reader->options_ = options;
  SHARDKIT_ASSIGN_OR_RETURN(reader->file_, file_system.OpenForReading(path, options.mode, size));
  const absl::Status status = io::RetryIfDamaged(*reader->file_, [&] { return reader->Initialise(); });
  if (!status.ok()) {
    // Errors of the file itself name the path already.
    return absl::StartsWith(status.message(), ToAbsl(path)) ? status : Annotate(status, path);
  }
  return reader;
}

absl::StatusOr<std::unique_ptr<ShardReader>> ShardReader::Open(ReadableFileSystem& file_system, const std::string& path,
                                                               const ReadOptions& options,
                                                               std::optional<uint64_t> size) {
  return container::NativeShardReader::Open(file_system, path, options, size);
}

absl::Status container::NativeShardReader::Initialise() {
  const uint64_t size = file_->size();
  std::string head(std::min(size, kHeadRead), '\0'), tail(std::min(size, kTailRead), '\0');
  const uint64_t tail_offset = size - tail.size();
  const ReadRequest ends[] = {{0, head}, {tail_offset, tail}};
  SHARDKIT_RETURN_IF_ERROR(file_->ReadBatch(ends));
  SHARDKIT_ASSIGN_OR_RETURN(const uint64_t header_length, format::PeekFileHeaderLength(head));
  if (header_length > size) return DataLoss("header: the file ends at byte ", size, " within the header");
  if (header_length > head.size()) {
    SHARDKIT_ASSIGN_OR_RETURN(head, ReadRange(*file_, 0, header_length));
  }
  SHARDKIT_ASSIGN_OR_RETURN(header_, format::DecodeFileHeader(std::string_view(head).substr(0, header_length)));
  LoadDictionaries();

  if (size < format::kTrailerBytes) return DataLoss("trailer: the file is too short to be a shard");
  const auto tail_view = [&](uint64_t offset, uint64_t length) -> absl::StatusOr<std::string> {
    if (offset >= tail_offset) return tail.substr(offset - tail_offset, length);
    return ReadRange(*file_, offset, length);
  };
  SHARDKIT_ASSIGN_OR_RETURN(
      trailer_, format::DecodeTrailer(std::string_view(tail).substr(tail.size() - format::kTrailerBytes), size));
  if (trailer_.shard_id != header_.shard_id) {
    return DataLoss("trailer: shard id differs from the header's: front and back are of different shards");
  }
  SHARDKIT_ASSIGN_OR_RETURN(const std::string table,
                            tail_view(trailer_.table_offset(), format::kSectionEntryBytes * trailer_.section_count));
  SHARDKIT_ASSIGN_OR_RETURN(sections_,
                            format::DecodeSectionTable(table, trailer_, header_.schema.key_column().has_value()));
  const format::Section& directory = *std::ranges::find(
      sections_, static_cast<uint32_t>(format::SectionKind::kBlockDirectory), &format::Section::kind);
  SHARDKIT_ASSIGN_OR_RETURN(const std::string directory_bytes,
                            tail_view(directory.offset, format::PaddedLength(directory)));
  SHARDKIT_RETURN_IF_ERROR(format::CheckSection(directory, directory_bytes));
  SHARDKIT_ASSIGN_OR_RETURN(
      blocks_, format::DecodeBlockDirectory(std::string_view(directory_bytes).substr(0, directory.length), trailer_,
                                            RoundUp(header_.length, header_.alignment), header_.alignment));
  const uint64_t block_header_length = format::BlockHeaderLength(header_.schema.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].front_length >= block_header_length) continue;
    return DataLoss("block directory: front length of block ", i, " is shorter than its header");
  }
  if (options_.verify == Verify::kFirst) {
    verified_ = container::VerifiedChunks::Of(file_->identity(), 2 * blocks_.size() * header_.schema.size());
  }
  return absl::OkStatus();
}

void container::NativeShardReader::LoadDictionaries() {
  dictionaries_.resize(header_.schema.size(), DataLoss("encoded with a dictionary that the header does not have"));
  for (const format::Dictionary& dictionary : header_.dictionaries) {
    dictionaries_[dictionary.column] = codec::ZstdDictionary::CreateForReading(dictionary.bytes);
  }
}

std::vector<std::pair<size_t, absl::Status>> container::NativeShardReader::damaged_dictionaries() const {
  std::vector<std::pair<size_t, absl::Status>> damaged;
  for (const size_t column : dictionary_columns()) {
    if (!dictionaries_[column].ok()) damaged.emplace_back(column, dictionaries_[column].status());
  }
  return damaged;
}

absl::StatusOr<std::unique_ptr<container::NativeShardReader>> container::NativeShardReader::OpenBlocks(
    std::unique_ptr<RandomAccessFile> file, format::FileHeader header, std::vector<BlockInfo> blocks,
    const ReadOptions& options) {
  std::unique_ptr<container::NativeShardReader> reader(new container::NativeShardReader());
  reader->file_ = std::move(file);
  reader->header_ = std::move(header);
  reader->options_ = options;
  // The length of every block is a multiple of this, so no padding is expected after a block.
  reader->header_.alignment = format::kMinAlignment;
  reader->trailer_.file_length = reader->file_->size();
  if (!blocks.empty()) reader->trailer_.sample_count = blocks.back().first_sample + blocks.back().sample_count;
  reader->trailer_.block_count = blocks.size();
  reader->blocks_ = std::move(blocks);
  reader->LoadDictionaries();
  return reader;
}

std::vector<size_t> container::NativeShardReader::dictionary_columns() const {
  std::vector<size_t> columns;
  for (const format::Dictionary& dictionary : header_.dictionaries) columns.push_back(dictionary.column);
  return columns;
}

absl::StatusOr<std::string> container::NativeShardReader::ReadSection(format::SectionKind kind) const {
  const auto section = std::ranges::find(sections_, static_cast<uint32_t>(kind), &format::Section::kind);
  if (section == sections_.end()) return NotFound(path(), ": has no such section");
  if (kind == format::SectionKind::kMetadata && section->length > format::kMaxMetadataLength) {
    return DataLoss(path(), ": metadata: over 64 MiB");
  }
  const uint64_t header_length = format::BlockHeaderLength(header_.schema.size());
  if (kind == format::SectionKind::kBlockHeaders && section->length != header_length * trailer_.block_count) {
    return DataLoss(path(), ": block headers: their length does not fit ", trailer_.block_count, " blocks");
  }
  if (kind == format::SectionKind::kHeader && section->length != header_.length) {
    return DataLoss(path(), ": header copy: its length is not that of the header");
  }
  std::string bytes;
  const absl::Status status = io::RetryIfDamaged(*file_, [&]() -> absl::Status {
    SHARDKIT_ASSIGN_OR_RETURN(bytes, ReadRange(*file_, section->offset, format::PaddedLength(*section)));
    return Annotate(format::CheckSection(*section, bytes), StrCat(path(), ": byte ", section->offset));
  });
  SHARDKIT_RETURN_IF_ERROR(status);
  bytes.resize(section->length);
  return bytes;
}

absl::Status container::NativeShardReader::CheckSection(const format::Section& section) const {
  return io::RetryIfDamaged(*file_, [&]() -> absl::Status {
    StreamingHash hash;
    std::string piece;
    const uint64_t length = format::PaddedLength(section);
    for (uint64_t done = 0; done < length; done += piece.size()) {
      SHARDKIT_ASSIGN_OR_RETURN(piece,
                                ReadRange(*file_, section.offset + done, std::min(kCheckedPiece, length - done)));
      hash.Update(piece);
    }
    const std::string_view padding = std::string_view(piece).substr(piece.size() - (length - section.length));
    return Annotate(format::CheckSection(section, hash.Digest(), padding), StrCat(path(), ": byte ", section.offset));
  });
}

absl::StatusOr<Metadata> container::NativeShardReader::ReadMetadata() const {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, ReadSection(format::SectionKind::kMetadata));
  absl::StatusOr<Metadata> metadata = format::DecodeMetadata(bytes);
  if (!metadata.ok()) return Annotate(metadata.status(), path());
  return metadata;
}

absl::StatusOr<std::vector<ColumnStatistics>> container::NativeShardReader::ReadStatistics() const {
  SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, ReadSection(format::SectionKind::kStatistics));
  auto statistics = format::DecodeStatistics(header_.schema, bytes);
  if (!statistics.ok()) return Annotate(statistics.status(), path());
  return statistics;
}

absl::StatusOr<BlockRanges> ShardReader::ReadBlockRanges() const {
  return NotFound(path(), ": has no ranges of its blocks");
}

absl::StatusOr<BlockRanges> container::NativeShardReader::ReadBlockRanges() const {
  // Which columns have a range, and so where they stand, is not known then.
  if (!format::TypesAreKnown(header_.schema)) return ShardReader::ReadBlockRanges();
  SHARDKIT_ASSIGN_OR_RETURN(const std::string bytes, ReadSection(format::SectionKind::kBlockRanges));
  SHARDKIT_ASSIGN_OR_RETURN(const auto statistics, ReadStatistics());
  auto ranges = format::DecodeBlockRanges(header_.schema, blocks_, bytes);
  const absl::Status status =
      ranges.ok() ? format::CompareBlockRanges(header_.schema, *ranges, statistics) : ranges.status();
  if (!status.ok()) return Annotate(status, path());
  return ranges;
}

// Does nothing when there are no copies, or too many to keep in memory.
absl::Status container::NativeShardReader::LoadHeaderCopies() const {
  const auto section =
      std::ranges::find(sections_, static_cast<uint32_t>(format::SectionKind::kBlockHeaders), &format::Section::kind);
  if (section == sections_.end() || section->length > kMaxHeaderCopies) return absl::OkStatus();
  std::lock_guard lock(sections_mutex_);
  if (header_copies_) return absl::OkStatus();
  SHARDKIT_ASSIGN_OR_RETURN(std::string bytes, ReadSection(format::SectionKind::kBlockHeaders));
  header_copies_ = std::make_shared<const std::string>(std::move(bytes));
  return absl::OkStatus();
}

// Null when they are not loaded.
std::shared_ptr<const std::string> container::NativeShardReader::LoadedHeaderCopies() const {
  std::lock_guard lock(sections_mutex_);
  return header_copies_;
}

std::optional<format::TablePlace> container::NativeShardReader::key_table_place() const {
  const auto section =
      std::ranges::find(sections_, static_cast<uint32_t>(format::SectionKind::kKeyIndex), &format::Section::kind);
  if (section == sections_.end()) return std::nullopt;
  return format::TablePlace{.offset = section->offset, .length = section->length};
}

absl::StatusOr<std::shared_ptr<const container::KeyTable>> container::NativeShardReader::OpenKeyTable() const {
  const std::optional<format::TablePlace> place = key_table_place();
  if (!place) return FailedPrecondition(path(), ": has no key column");
  std::lock_guard lock(sections_mutex_);
  if (!key_table_) {
    SHARDKIT_ASSIGN_OR_RETURN(key_table_, container::KeyTable::Open(file_, *place, trailer_.sample_count));
  }
  return key_table_;
}

absl::StatusOr<std::optional<uint64_t>> container::NativeShardReader::FindKey(std::string_view key,
                                                                              BlockBuffer* buffer) const {
  SHARDKIT_ASSIGN_OR_RETURN(const auto table, OpenKeyTable());
  const size_t key_column = *header_.schema.key_column();
  std::optional<uint64_t> found;
  SHARDKIT_RETURN_IF_ERROR(table->Find(Hash64(key), [&](uint64_t ordinal) -> absl::StatusOr<bool> {
    SHARDKIT_ASSIGN_OR_RETURN(const auto value, ReadValue(ordinal, key_column, buffer));
    if (value && *value == key) found = ordinal;
    return found.has_value();
  }));
  return found;
}

size_t ShardReader::BlockOfSample(uint64_t ordinal) const {
  const std::span<const BlockInfo> all = blocks();
  const auto after = std::ranges::upper_bound(all, ordinal, {}, &BlockInfo::first_sample);
  return static_cast<size_t>(after - all.begin()) - 1;
}

}  // namespace shardkit
