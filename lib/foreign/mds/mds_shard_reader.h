// Reader of MDS shards (format-spec/interop.md), plain or compressed.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "codec/decompress.h"
#include "foreign/foreign_shard_reader.h"
#include "foreign/mds/mds_encoding.h"
#include "shardkit/filesystem.h"

namespace shardkit::foreign {

// A hash that an index lists for a whole file, for readers that read parts of the file. Thread-safe. All readers of a
// file share one object, so that the file is not hashed again when it is opened again.
class ListedHash {
 public:
  // Chooses the first hash of the xxHash family, else the first hash that this build can compute. Null when there is
  // none. `listed_by` is for messages.
  static std::shared_ptr<ListedHash> Choose(std::span<const std::pair<std::string, std::string>> names_and_digits,
                                            std::string_view listed_by);

  ListedHash(std::string_view name, std::string_view digits, std::string_view listed_by)
      : name_(name), digits_(digits), listed_by_(listed_by) {}

  // The first call reads the file, piece by piece; other threads wait. Later calls return the same result. DataLoss
  // when the digits differ from those listed, Unimplemented for a hash that this build cannot compute. After a read
  // error, the next call reads the file again.
  absl::Status Check(const RandomAccessFile& file);

  // The same for bytes in memory. A hash of the xxHash family is compared in every call, another one until it has
  // matched once.
  absl::Status Check(std::string_view place, std::string_view bytes);

 private:
  absl::Status Compare(std::string_view place, std::string_view found) const;

  const std::string name_;
  const std::string digits_;
  const std::string listed_by_;
  std::atomic<bool> right_ = false;
  std::mutex mutex_;    // held while the file is read
  absl::Status wrong_;  // the result for the file
};

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
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(uint64_t ordinal, size_t column) const override;

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
  std::shared_ptr<const RandomAccessFile> file_;
  std::vector<uint32_t> offsets_;  // of samples; empty when compressed
};

}  // namespace shardkit::foreign
