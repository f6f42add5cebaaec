// Reader of MDS shards (format-spec/interop.md), plain or compressed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codec/decompress.h"
#include "foreign/foreign_shard_reader.h"
#include "foreign/mds/listed_hash.h"
#include "foreign/mds/mds_encoding.h"

namespace shardkit::foreign {

// What the dataset's index says about a shard.
struct MdsShardFile {
  std::string path;
  uint64_t bytes = 0;      // of the file at `path`
  uint64_t raw_bytes = 0;  // equal to `bytes` unless the shard is compressed
  uint64_t samples = 0;
  std::optional<codec::Compression> compression;
  // `hash` is of the file. `raw_hash` is of the decompressed bytes; it is set when no hash of a compressed file is
  // listed. Null: none. Compared before bytes of samples are used.
  std::shared_ptr<ListedHash> hash;
  std::shared_ptr<ListedHash> raw_hash;

  // The number of blocks that the shard's reader shows. Blocks have about kForeignBlockBytes. A compressed shard is one
  // block (more only above kMaxBlockSamples samples), because reading a part of it costs as much as reading all.
  uint64_t block_count() const;
};

// Returns bytes [offset, offset + length), which must lie in the file. They stay valid until the next call.
using ReadMdsBytes = std::function<absl::StatusOr<std::string_view>(uint64_t offset, uint64_t length)>;

// What comes before the samples of an uncompressed shard.
struct MdsHead {
  std::vector<uint32_t> offsets;  // of the samples, and the end of the last one
  std::vector<MdsColumn> columns;
  std::string place;  // of the description of the columns, for messages
};

// Checks all of it against the shard's `length` in bytes. DataLoss on damage.
absl::StatusOr<MdsHead> ReadMdsHead(uint64_t length, const ReadMdsBytes& read);

// The shard's columns are those of `columns` that have no refusal, in the same order. A compressed shard is
// decompressed into the caller's buffer, so it takes no memory while nobody holds a block of it.
class MdsShardReader : public ForeignShardReader {
 public:
  static absl::StatusOr<std::unique_ptr<MdsShardReader>> Open(ReadableFileSystem& file_system, MdsShardFile file,
                                                              std::shared_ptr<const std::vector<MdsColumn>> columns,
                                                              const Schema& schema, const ReadOptions& options);

  absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                            BlockBuffer* buffer) const override;
  absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const override;

 protected:
  absl::Status Read(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                    BlockDamage* damage) const override;

 private:
  absl::Status Initialise(const Schema& schema, const ReadOptions& options);
  absl::StatusOr<std::vector<uint32_t>> ReadHeader(const ReadMdsBytes& read) const;
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

  // `base` points to the byte at `base_offset` of the raw shard. `offsets` has an entry for each sample of the block
  // and one more.
  absl::Status Fill(const BlockInfo& info, std::span<const uint32_t> offsets, const char* base, uint64_t base_offset,
                    std::span<const size_t> wanted, BlockBuffer::State& state, BlockView* view,
                    BlockDamage* damage) const;
  absl::Status DescribeSample(const absl::Status& status, uint64_t ordinal, uint64_t offset) const;
  absl::Status DescribeValue(const absl::Status& status, uint64_t ordinal, uint64_t offset, size_t column) const;
  absl::Status CheckMemory(uint64_t bytes, std::string_view what) const;

  const MdsColumn& mds_column(size_t column) const { return (*columns_)[positions_[column]]; }

  MdsShardFile described_;
  std::shared_ptr<const std::vector<MdsColumn>> columns_;
  std::vector<size_t> positions_;  // per column of the schema, its position in *columns_
  std::vector<size_t> all_;        // 0, 1, … for each of the schema's columns
  ReadOptions options_;
  std::unique_ptr<RandomAccessFile> file_;
  std::vector<uint32_t> offsets_;  // of samples; empty when compressed
};

}  // namespace shardkit::foreign
