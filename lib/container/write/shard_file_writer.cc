#include "container/write/shard_file_writer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "container/sha256.h"
#include "format/chunk.h"
#include "format/footer.h"
#include "format/key_table.h"
#include "io/publish_file.h"

namespace shardkit::container {
namespace {

// Writeback of dirty pages is started after so many bytes, so that the final flush has little left to do.
constexpr uint64_t kWritebackInterval = uint64_t{16} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<ShardFileWriter>> ShardFileWriter::Create(
    FileSystem& file_system, const std::string& path, const BlockEncoding& plan, const ShardOptions& options,
    std::unique_ptr<NamedHash> sha256, const std::string& temporary) {
  format::FileHeader header;
  header.alignment = options.alignment;
  header.schema = plan.schema;
  for (size_t i = 0; i < plan.schema.size(); ++i) {
    if (plan.dictionaries[i]) header.dictionaries.push_back({static_cast<uint32_t>(i), plan.dictionaries[i]->bytes()});
  }
  return CreateWithHeader(file_system, path, std::move(header), options, std::move(sha256), temporary);
}

absl::StatusOr<std::unique_ptr<ShardFileWriter>> ShardFileWriter::CreateWithHeader(
    FileSystem& file_system, const std::string& path, format::FileHeader header, ShardOptions options,
    std::unique_ptr<NamedHash> sha256, const std::string& temporary) {
  std::unique_ptr<ShardFileWriter> writer(new ShardFileWriter());
  writer->file_system_ = &file_system;
  writer->path_ = path;
  writer->temporary_path_ = temporary.empty() ? StrCat(path, kTemporarySuffix) : temporary;
  writer->options_ = std::move(options);
  writer->options_.alignment = header.alignment;
  writer->statistics_.resize(header.schema.size());
  writer->sha256_ = std::move(sha256);
  writer->header_ = std::move(header);
  writer->position_ = RoundUp(format::EncodeFileHeader(writer->header_).size(), writer->header_.alignment);
  SHARDKIT_ASSIGN_OR_RETURN(writer->file_, file_system.CreateForStreaming(writer->temporary_path_));
  return writer;
}

ShardFileWriter::~ShardFileWriter() {
  (void)Guarded("giving up", [this] { return Abort(); });
}

absl::Status ShardFileWriter::Append(std::string_view bytes) {
  if (sha256_) sha256_->Update(bytes);
  return file_->Append(bytes);
}

absl::Status ShardFileWriter::Begin(const format::BlockHeader* first) {
  header_.shard_id = format::ShardId(header_, first != nullptr ? format::EncodeColumnEntries(*first) : "");
  encoded_header_ = format::EncodeFileHeader(header_);
  content_hash_.Update(encoded_header_);
  SHARDKIT_RETURN_IF_ERROR(Append(encoded_header_));
  return Append(std::string(position_ - encoded_header_.size(), '\0'));
}

absl::Status ShardFileWriter::BeginBlock(format::BlockHeader& block) {
  if (encoded_header_.empty()) SHARDKIT_RETURN_IF_ERROR(Begin(&block));
  block.first_sample = sample_count_;
  block.shard_id = header_.shard_id;
  header_bytes_.clear();
  format::EncodeBlockHeader(block, &header_bytes_);
  return absl::OkStatus();
}

absl::Status ShardFileWriter::Write(EncodedBlock& block, const Cancellation* cancellation) {
  if (std::ranges::any_of(block.raw.columns, [](const RawColumn& column) { return column.file != nullptr; })) {
    SHARDKIT_RETURN_IF_ERROR(WriteWithFiles(block, cancellation));
  } else {
    SHARDKIT_RETURN_IF_ERROR(BeginBlock(block.header));
    std::vector<std::string_view> pieces = {header_bytes_, block.heads.view()};
    pieces.insert(pieces.end(), block.values.begin(), block.values.end());
    SHARDKIT_RETURN_IF_ERROR(WritePieces(block, std::move(pieces)));
  }
  Remember(block);
  StartWritebackNowAndThen();
  return absl::OkStatus();
}

void ShardFileWriter::StartWritebackNowAndThen() {
  if (since_writeback_ < kWritebackInterval) return;
  file_->StartWriteback();
  since_writeback_ = 0;
}

absl::Status ShardFileWriter::Copy(StoredBlock stored, const Cancellation* cancellation) {
  EncodedBlock block;
  block.header = std::move(stored.header);
  block.statistics = std::move(stored.statistics);
  block.key_hashes = std::move(stored.key_hashes);
  SHARDKIT_RETURN_IF_ERROR(BeginBlock(block.header));
  if (stored.chunks.empty()) {
    SHARDKIT_RETURN_IF_ERROR(CopyPieces(block, stored, cancellation));
  } else {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("copying a block"));
    SHARDKIT_RETURN_IF_ERROR(WriteStored(block, stored));
    SHARDKIT_RETURN_IF_ERROR(stored.source->CheckMapped());
  }
  for (const uint64_t place : stored.places) index_.places.push_back(position_ + place);
  Remember(block);
  StartWritebackNowAndThen();
  return absl::OkStatus();
}

absl::Status ShardFileWriter::CopyPieces(const EncodedBlock& block, const StoredBlock& stored,
                                         const Cancellation* cancellation) {
  SHARDKIT_RETURN_IF_ERROR(Append(header_bytes_));
  format::ChunkChecker checker(header_.schema, block.header);
  Buffer piece;
  for (uint64_t done = header_bytes_.size(); done < block.length(); done += piece.size()) {
    if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("copying a block"));
    piece.resize_discard(std::min(kCopyPiece, block.length() - done));
    SHARDKIT_RETURN_IF_ERROR(stored.source->ReadAt(stored.offset + done, {piece.data(), piece.size()}));
    checker.Update(piece.view());
    SHARDKIT_RETURN_IF_ERROR(Append(piece.view()));
  }
  if (!checker.damaged_columns().empty()) {
    return DataLoss(stored.source->path(), ": block at byte ", stored.offset, ": column \"",
                    header_.schema[checker.damaged_columns()[0]].name,
                    "\": other bytes were read than a moment ago; copy the file to a sound disk first");
  }
  return Append(std::string(RoundUp(block.length(), options_.alignment) - block.length(), '\0'));
}

// The two shards share whole blocks of the file system where it can do so. What lies there was read, and its checksums
// were compared; only the block's header differs.
absl::Status ShardFileWriter::WriteStored(const EncodedBlock& block, const StoredBlock& stored) {
  constexpr uint64_t kUnit = 4096;
  const std::string_view chunks = stored.chunks;
  const uint64_t header = header_bytes_.size(), front = RoundUp(header, kUnit) - header;
  const bool fits = position_ % kUnit == 0 && stored.offset % kUnit == 0 && front + kUnit <= chunks.size();
  if (!may_share_ || !fits) return WritePieces(block, {header_bytes_, chunks});
  const std::string_view first[] = {header_bytes_, chunks.substr(0, front)};
  const std::string_view shared = chunks.substr(front, (chunks.size() - front) / kUnit * kUnit);
  SHARDKIT_RETURN_IF_ERROR(file_->AppendPieces(first));
  SHARDKIT_ASSIGN_OR_RETURN(may_share_,
                            file_->AppendShared(*stored.source, stored.offset + header + front, shared.size()));
  if (sha256_) {
    for (const std::string_view piece : first) sha256_->Update(piece);
    if (may_share_) sha256_->Update(shared);
  }
  return WritePieces(block, {chunks.substr(front + (may_share_ ? shared.size() : 0))});
}

absl::Status ShardFileWriter::WritePieces(const EncodedBlock& block, std::vector<std::string_view> pieces) {
  static constexpr char kZeros[65536] = {};
  uint64_t padding = RoundUp(block.length(), options_.alignment) - block.length();
  while (padding != 0) {
    const uint64_t piece = std::min<uint64_t>(padding, sizeof(kZeros));
    pieces.emplace_back(kZeros, piece);
    padding -= piece;
  }
  for (const std::string_view piece : pieces) {
    if (sha256_) sha256_->Update(piece);
  }
  return file_->AppendPieces(pieces);
}

// The checksums of a value that does not fit in memory stand before it, and a file may be an upload, which only goes
// forward. So the value is read twice.
absl::Status ShardFileWriter::WriteWithFiles(EncodedBlock& block, const Cancellation* cancellation) {
  const auto for_each_piece = [&](const RandomAccessFile& file,
                                  const std::function<absl::Status(std::string_view)>& take) -> absl::Status {
    Buffer piece;
    for (uint64_t done = 0; done < file.size(); done += piece.size()) {
      if (cancellation) SHARDKIT_RETURN_IF_ERROR(cancellation->Check("copying a large value"));
      piece.resize_discard(std::min(kCopyPiece, file.size() - done));
      SHARDKIT_RETURN_IF_ERROR(file.ReadAt(done, {piece.data(), piece.size()}));
      SHARDKIT_RETURN_IF_ERROR(take(piece.view()));
    }
    return absl::OkStatus();
  };
  struct Checksum {
    uint64_t value = 0;
    std::string tail;  // what follows the value: its checksum and padding
  };
  const std::vector<size_t>& columns = header_.schema.values_columns();
  std::vector<Checksum> checksums(columns.size());
  for (size_t k = 0; k < columns.size(); ++k) {
    const RandomAccessFile* const file = block.raw.columns[columns[k]].file.get();
    if (file == nullptr) continue;
    StreamingHash value_hash, chunk_hash;
    SHARDKIT_RETURN_IF_ERROR(for_each_piece(*file, [&](std::string_view piece) {
      value_hash.Update(piece);
      chunk_hash.Update(piece);
      return absl::OkStatus();
    }));
    format::ColumnEntry& entry = block.header.columns[columns[k]];
    auto& [value, tail] = checksums[k];
    value = value_hash.Digest();
    AppendLittle(tail, value);
    tail.resize(tail.size() + RoundUp(entry.values_length, format::kChunkAlignment) - entry.values_length, '\0');
    chunk_hash.Update(tail);
    entry.values_checksum = chunk_hash.Digest();
  }
  SHARDKIT_RETURN_IF_ERROR(BeginBlock(block.header));
  SHARDKIT_RETURN_IF_ERROR(Append(header_bytes_));
  SHARDKIT_RETURN_IF_ERROR(Append(block.heads.view()));
  for (size_t k = 0; k < columns.size(); ++k) {
    const RandomAccessFile* const file = block.raw.columns[columns[k]].file.get();
    if (file == nullptr) {
      SHARDKIT_RETURN_IF_ERROR(Append(block.values[k]));
      continue;
    }
    StreamingHash written_hash;
    SHARDKIT_RETURN_IF_ERROR(for_each_piece(*file, [&](std::string_view piece) {
      written_hash.Update(piece);
      return Append(piece);
    }));
    if (written_hash.Digest() != checksums[k].value) {
      return FailedPrecondition(file->path(), ": changed while it was copied; pack it again");
    }
    SHARDKIT_RETURN_IF_ERROR(Append(checksums[k].tail));
  }
  return Append(std::string(RoundUp(block.length(), options_.alignment) - block.length(), '\0'));
}

void ShardFileWriter::Remember(const EncodedBlock& block) {
  const format::BlockHeader& header = block.header;
  content_hash_.Update(header_bytes_);
  index_.blocks.push_back(
      {position_, header.block_length, header.front_length, header.first_sample, header.sample_count, header.checksum});
  for (const size_t column : IndexedColumns(header_.schema)) {
    if (block.raw.columns.empty()) break;  // a copy
    const uint64_t begin = position_ + header.columns[column].values_offset;
    index_.places.push_back(begin);
    for (uint32_t i = 0; i < header.sample_count; ++i) {
      index_.places.push_back(begin + LoadLittle<uint64_t>(block.raw.columns[column].ends.data() + 8 * size_t{i}));
    }
  }
  for (size_t i = 0; i < statistics_.size(); ++i) statistics_[i].Merge(block.statistics[i]);
  block_headers_ += header_bytes_;
  format::AppendBlockRanges(header_.schema, block.statistics, &block_ranges_);
  key_hashes_.insert(key_hashes_.end(), block.key_hashes.begin(), block.key_hashes.end());
  sample_count_ += header.sample_count;
  const uint64_t length = RoundUp(header.block_length, options_.alignment);
  position_ += length;
  since_writeback_ += length;
}

absl::StatusOr<ShardSummary> ShardFileWriter::Finish() {
  if (encoded_header_.empty()) SHARDKIT_RETURN_IF_ERROR(Begin(nullptr));
  format::FooterBuilder footer(position_);
  footer.Add(format::SectionKind::kHeader, encoded_header_);
  const bool ranged = std::ranges::any_of(
      header_.schema.columns(), [](const Column& column) { return RangeKindOf(column.type) != RangeKind::kNone; });
  if (ranged && format::RangesCanBeFound(header_.schema)) footer.Add(format::SectionKind::kBlockRanges, block_ranges_);
  footer.Add(format::SectionKind::kBlockHeaders, block_headers_);
  if (header_.schema.key_column()) {
    const std::string keys = format::EncodeKeyTable(std::exchange(key_hashes_, {}));
    index_.keys = format::TablePlace{.offset = footer.Add(format::SectionKind::kKeyIndex, keys), .length = keys.size()};
  }
  footer.Add(format::SectionKind::kMetadata, format::EncodeMetadata(options_.metadata));
  footer.Add(format::SectionKind::kStatistics, format::EncodeStatistics(statistics_));
  footer.Add(format::SectionKind::kBlockDirectory, format::EncodeBlockDirectory(index_.blocks));
  format::Trailer trailer;
  trailer.sample_count = sample_count_;
  trailer.block_count = index_.blocks.size();
  trailer.content_hash = content_hash_.Digest128();
  trailer.shard_id = header_.shard_id;
  const std::string bytes = footer.Finish(trailer);
  SHARDKIT_RETURN_IF_ERROR(Append(bytes));
  SHARDKIT_RETURN_IF_ERROR(file_->Sync());
  SHARDKIT_RETURN_IF_ERROR(file_->Close());
  if (sha256_) {
    SHARDKIT_ASSIGN_OR_RETURN(digest_, DigestOf(*sha256_));
  }
  SHARDKIT_RETURN_IF_ERROR(file_system_->Rename(temporary_path_, path_));
  file_.reset();
  SHARDKIT_RETURN_IF_ERROR(file_system_->SyncDirectory(io::ParentDirectory(path_)));
  return ShardSummary{position_ + bytes.size(), sample_count_, trailer.block_count, trailer.content_hash};
}

absl::Status ShardFileWriter::Abort() {
  if (!file_) return absl::OkStatus();
  (void)file_->Close();
  file_.reset();
  return file_system_->RemoveFile(temporary_path_);
}

}  // namespace shardkit::container
