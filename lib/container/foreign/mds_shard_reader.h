// Reader of MDS shards (format-spec/interop.md), as they are or compressed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codec/decompress.h"
#include "container/foreign/foreign_shard_reader.h"
#include "container/foreign/listed_hash.h"
#include "format/foreign/mds_encoding.h"

namespace shardkit {

// What the dataset's index says of a shard.
struct MdsShardFile {
  std::string path;
  uint64_t bytes = 0;      // of the file at `path`
  uint64_t raw_bytes = 0;  // the same unless it is compressed
  uint64_t samples = 0;
  std::optional<Compression> compression;
  // Of the file, or, where none is listed for a compressed one, of what it decompresses to. Null: none. Compared
  // before the first bytes of a sample are believed.
  std::shared_ptr<ListedHash> hash;
  std::shared_ptr<ListedHash> raw_hash;

  // How many blocks its reader shows: of about kForeignBlockBytes, or the whole shard when it is compressed, for any
  // part of it costs as much.
  uint64_t block_count() const;
};

// A shard's columns are those of `columns` without a refusal, in their order. A compressed shard takes no memory while
// no block of it is held: it is decompressed into the buffer of whoever reads it.
class MdsShardReader : public ForeignShardReader {
 public:
  static absl::StatusOr<std::unique_ptr<MdsShardReader>> Open(
      FileSystem& file_system, MdsShardFile file, std::shared_ptr<const std::vector<format::MdsColumn>> columns,
      const Schema& schema, const ReadOptions& options);

  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                            BlockBuffer* buffer) const override;
  absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const override;
  void WillNeedBlock(size_t index) const override;

 protected:
  absl::Status Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                    BlockDamage* damage) const override;

 private:
  // Bytes [offset, offset + length) of the file, which it has, for as long as the next call.
  using ReadBytes = std::function<absl::StatusOr<std::string_view>(uint64_t offset, uint64_t length)>;

  absl::Status Initialise(const Schema& schema, const ReadOptions& options);
  absl::StatusOr<std::vector<uint32_t>> ReadHeader(const ReadBytes& read) const;
  void CutByBytes();
  void CutByCount();
  absl::StatusOr<std::optional<std::string_view>> ReadPlainValue(uint64_t ordinal, size_t column,
                                                                 BlockBuffer::State& state) const;
  absl::Status ReadPlain(const BlockInfo& info, std::span<const size_t> wanted, BlockBuffer::State& state,
                         BlockView* view, BlockDamage* damage) const;
  absl::Status ReadCompressed(const BlockInfo& info, std::span<const size_t> wanted, BlockBuffer::State& state,
                              BlockView* view, BlockDamage* damage) const;
  uint64_t MemoryOf(const BlockInfo& info, std::span<const size_t> wanted) const;
  absl::Status CheckFileHash() const;

  // `base` is what lies at byte `base_offset`; `offsets` has an entry for each sample of the block and one more.
  absl::Status Fill(const BlockInfo& info, std::span<const uint32_t> offsets, const char* base, uint64_t base_offset,
                    std::span<const size_t> wanted, BlockBuffer::State& state, BlockView* view,
                    BlockDamage* damage) const;
  absl::Status DescribeSample(const absl::Status& status, uint64_t ordinal, uint64_t offset) const;
  absl::Status DescribeValue(const absl::Status& status, uint64_t ordinal, uint64_t offset, size_t column) const;
  absl::Status CheckMemory(uint64_t bytes, std::string_view what) const;

  const format::MdsColumn& mds_column(size_t column) const { return (*columns_)[positions_[column]]; }

  MdsShardFile described_;
  std::shared_ptr<const std::vector<format::MdsColumn>> columns_;
  std::vector<size_t> positions_;  // of the schema's columns in *columns_
  std::vector<size_t> all_;        // 0, 1, … for each of the schema's columns
  ReadOptions options_;
  std::unique_ptr<RandomAccessFile> file_;
  std::vector<uint32_t> offsets_;  // of samples; empty when compressed
};

}  // namespace shardkit
