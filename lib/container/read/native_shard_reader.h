// Reader of our own format. Besides the public interface, it has what validation needs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "container/block_buffer.h"
#include "container/read/key_table_reader.h"
#include "container/read/verified_chunks.h"
#include "format/file_header.h"
#include "format/footer.h"
#include "shardkit/shard.h"

namespace shardkit::container {

class NativeShardReader : public ShardReader {
 public:
  static absl::StatusOr<std::unique_ptr<NativeShardReader>> Open(ReadableFileSystem& file_system,
                                                                 const std::string& path, const ReadOptions& options,
                                                                 std::optional<uint64_t> size = std::nullopt);

  // Opens a file whose blocks were found without its block directory. Only the blocks can be read; the bytes between
  // them are not checked. `blocks` ascend by first sample, and their offsets are where they lie in the file.
  static absl::StatusOr<std::unique_ptr<NativeShardReader>> OpenBlocks(std::unique_ptr<RandomAccessFile> file,
                                                                       format::FileHeader header,
                                                                       std::vector<BlockInfo> blocks,
                                                                       const ReadOptions& options);

  const std::string& path() const override { return file_->path(); }
  const Schema& schema() const override { return header_.schema; }
  uint64_t sample_count() const override { return trailer_.sample_count; }
  uint64_t file_length() const override { return trailer_.file_length; }
  const ContentHash& content_hash() const override { return trailer_.content_hash; }
  std::span<const BlockInfo> blocks() const override { return blocks_; }
  uint32_t alignment() const override { return header_.alignment; }
  std::vector<size_t> dictionary_columns() const override;
  absl::StatusOr<Metadata> ReadMetadata() const override;
  absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const override;
  absl::StatusOr<BlockRanges> ReadBlockRanges() const override;
  absl::Status ReadBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                         BlockView* view) const override;
  absl::Status SalvageBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                            BlockDamage* damage) const override;
  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                            BlockBuffer* buffer) const override;
  absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const override;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(uint64_t ordinal, size_t column) const override;
  absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const override;
  std::string fallback_reason() const override { return file_->fallback_reason(); }

  const format::FileHeader& header() const { return header_; }
  const format::Trailer& trailer() const { return trailer_; }
  const std::vector<format::Section>& sections() const { return sections_; }
  const RandomAccessFile* record_file() const override { return file_.get(); }
  const RandomAccessFile& file() const { return *file_; }
  const ReadOptions& options() const { return options_; }

  // The columns whose dictionary is malformed, each with the DataLoss that reading a chunk with it gives. Chunks that
  // do not need it can be read.
  std::vector<std::pair<size_t, absl::Status>> damaged_dictionaries() const;

  // Reads the heads of all columns of block `index`, without the values of blob columns. Leaves the decoded header,
  // which is the block's own and not its copy, in buffer->state().header. Of columns whose codec is not known, here and
  // in ReadKnownColumns, only the checksums are compared: *view has no values of them.
  absl::Status ReadHeads(size_t index, BlockBuffer* buffer, BlockView* view) const;

  // Reads the whole block and leaves the header as ReadHeads does.
  absl::Status ReadKnownColumns(size_t index, BlockBuffer* buffer, BlockView* view) const;

  // Checks a section and its padding, and returns it without the padding. NotFound when the shard has none of that
  // kind. Not for the key index, which may be larger than memory.
  absl::StatusOr<std::string> ReadSection(format::SectionKind kind) const;

  // Checks a section and its padding piece by piece.
  absl::Status CheckSection(const format::Section& section) const;

  // Reads the whole block and compares its checksums, as ReadKnownColumns does, but decodes only `columns` of it, whose
  // codecs must be known. The block's bytes, header included, are *stored, which is valid like *view.
  absl::Status ReadStoredBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                               std::string_view* stored) const;

  // Where the key index lies; empty when the shard has no key column.
  std::optional<format::TablePlace> key_table_place() const;

  // The key index; it reads the root when it is first asked for. FailedPrecondition when the shard has no key column.
  absl::StatusOr<std::shared_ptr<const KeyTable>> OpenKeyTable() const;

  // "PATH: block K (samples A to B) at byte N"
  std::string DescribeBlock(size_t index) const;

  // The DataLoss which says that the bytes between block `index` and the next block or the footer are not zero.
  absl::Status PaddingDamage(size_t index) const;

 private:
  enum class Part : uint8_t { kNothing, kHead, kAll, kStored };  // kStored: all, with nothing decoded

  NativeShardReader() = default;
  absl::Status Initialise();
  void LoadDictionaries();
  absl::Status Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                    BlockDamage* damage) const;
  // Loads what state.wanted asks for. With `damage`, damaged columns and values are recorded there and are no error.
  absl::Status Load(size_t index, BlockBuffer::State& state, BlockDamage* damage = nullptr) const;
  absl::Status LoadOnce(size_t index, BlockBuffer::State& state, BlockDamage* damage) const;
  // `with_copy`: the block's header may be taken from the copies, if they are loaded.
  absl::StatusOr<const char*> ReadStored(size_t index, bool with_copy, BlockBuffer::State& state) const;
  absl::Status ReadUpTo(uint64_t end, BlockBuffer::State& state) const;
  // A chunk of the block that `state` is being read into: the head of a column, or its values.
  enum class Chunk : uint8_t { kHead, kValues };
  uint64_t NumberOf(Chunk chunk, size_t column, const BlockBuffer::State& state) const {
    return 2 * (state.block * header_.schema.size() + column) + static_cast<uint64_t>(chunk);
  }
  // Whether its checksum is to be compared, and that it was and is right. `damage` as in Load.
  bool ToVerify(Chunk chunk, size_t column, const BlockBuffer::State& state, const BlockDamage* damage) const;
  void SetVerified(Chunk chunk, size_t column, const BlockBuffer::State& state) const {
    if (verified_) verified_->Add(NumberOf(chunk, column, state));
  }
  // Whether the checksum of a values chunk is right, or not to be compared. Reads the chunk as far as it was not.
  absl::StatusOr<bool> CheckValues(size_t column, const char* base, BlockBuffer::State& state,
                                   const BlockDamage* damage) const;
  absl::StatusOr<bool> ZerosInFile(uint64_t begin, uint64_t end) const;
  bool Cached(const BlockInfo& info) const;
  absl::Status CheckPadding(size_t index, const char* base, BlockBuffer::State& state) const;
  absl::Status ReadWantedParts(size_t index, bool with_copy, BlockBuffer::State& state) const;
  absl::Status LoadHeaderCopies() const;
  std::shared_ptr<const std::string> LoadedHeaderCopies() const;
  absl::Status CheckHeader(const BlockInfo& info, std::string_view bytes, BlockBuffer::State& state) const;
  absl::Status ParseColumns(const char* base, BlockBuffer::State& state, BlockDamage* damage) const;
  absl::Status ParseColumn(size_t i, const char* base, std::span<char> raw, BlockBuffer::State& state,
                           BlockDamage* damage) const;
  absl::StatusOr<ColumnView> PlacePages(size_t i, const char* base, BlockBuffer::State& state,
                                        BlockDamage* damage) const;
  absl::Status LocateDamage(size_t column, const ColumnView& view, BlockDamage* damage) const;
  absl::StatusOr<std::string_view> ReadPage(uint64_t begin, uint64_t end, BlockBuffer::State& state) const;
  absl::Status EnsureHead(size_t block, size_t column, BlockBuffer::State& state) const;
  // Bytes [first, second) of the file, if a value is just these and its checksum follows. Otherwise empty, also where
  // there is no value: then ReadValue tells.
  absl::StatusOr<std::optional<std::pair<uint64_t, uint64_t>>> FindPlain(uint64_t ordinal, size_t column,
                                                                         BlockBuffer::State& state) const;

  const uint64_t identity_ = NewReaderIdentity();
  ReadOptions options_;
  std::shared_ptr<const RandomAccessFile> file_;
  format::FileHeader header_;
  std::vector<absl::StatusOr<std::shared_ptr<const codec::ZstdDictionary>>> dictionaries_;  // per column
  format::Trailer trailer_;
  std::vector<format::Section> sections_;
  std::vector<BlockInfo> blocks_;
  std::shared_ptr<VerifiedChunks> verified_;  // with Verify::kFirst, of a file that has an identity

  // Sections that are read when they are first needed.
  mutable std::mutex sections_mutex_;
  mutable std::shared_ptr<const KeyTable> key_table_;
  mutable std::shared_ptr<const std::string> header_copies_;
};

}  // namespace shardkit::container
