// Reading one shard: by block, by ordinal, by key.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/block.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard_info.h"

namespace shardkit {

// Limits memory because few bytes may decompress to very many. Writers keep blocks within this, so that every reader
// accepts them.
inline constexpr uint64_t kDefaultMaxDecompression = uint64_t{128} << 20;

// Which checksums of our own shards, and of a tar's index, are compared. Whatever it is, offsets and sizes are checked:
// damaged data cannot cause reads outside its buffer.
enum class Verify {
  kEvery,  // of all that is read, each time (the default)
  // Of the columns of each block when this process reads them for the first time: what was right then is believed
  // afterwards, in every reader of the process, until the file's identity changes (RandomAccessFile::identity). Damage
  // done meanwhile to memory, to the page cache or to the device goes unnoticed. For files without an identity, and for
  // values that are read one by one, as kEvery.
  kFirst,
  kNever,
};

struct ReadOptions {
  Verify verify = Verify::kEvery;

  // For MDS: compare a hash that index.json lists for a whole file before the first value of the file is returned. This
  // reads the whole file, once for each DatasetReader. One hash is compared: the first of the xxHash family, otherwise
  // the first that this build can compute; if there is none, no hash. False returns the first value of a large file
  // sooner, but passes damage on as data: those containers have no other checksums of values. Validate compares every
  // hash.
  bool verify_listed_hashes = true;

  ReadMode mode = ReadMode::kAuto;

  // Limit of a buffer for the stored and decompressed bytes of one block; ResourceExhausted above it. CopyValue and
  // ValidateShard take a few MiB for a value of any size. A loader lowers it to LoaderOptions::memory_bytes.
  uint64_t max_block_memory = uint64_t{8} << 30;

  // ResourceExhausted when the decompressed bytes of the requested chunks of a block exceed their stored bytes by more
  // than this. The same limit applies to the requested part of a compressed tar, and to a compressed MDS shard, which
  // is decompressed completely, compared with the bytes of their files.
  uint64_t max_decompression = kDefaultMaxDecompression;
};

// Memory for one block, reused for later blocks, and the decompressor. One thread at a time. It remembers its block, so
// reading several values of one block reads the block once.
class BlockBuffer {
 public:
  BlockBuffer();
  ~BlockBuffer();
  BlockBuffer(BlockBuffer&&) noexcept;
  BlockBuffer& operator=(BlockBuffer&&) noexcept;

  // Bytes of memory that it holds: room for later blocks, the decompressor, and in kMapped mode the pages of the block.
  uint64_t memory() const;

  // Checks values that kMapped mode returned as views of the map. Call it after using them, while the shard or dataset
  // that they were read from is open. DataLoss when the file has been cut since, so that they may have been zeros. OK
  // in other modes.
  absl::Status CheckMapped() const;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// The unreadable parts of a block, and the reasons. Columns are positions in the schema or dataset that was read.
struct BlockDamage {
  std::map<size_t, absl::Status> columns;                      // columns without any readable value
  std::map<std::pair<uint32_t, size_t>, absl::Status> values;  // in other columns: {sample in the block, column}

  bool Has(uint32_t sample, size_t column) const {
    return columns.contains(column) || values.contains({sample, column});
  }

  // OK when all values of the sample can be read.
  absl::Status OfSample(uint32_t sample) const {
    const auto value = values.lower_bound({sample, 0});
    if (value != values.end() && value->first.first == sample) return value->second;
    return columns.empty() ? absl::OkStatus() : columns.begin()->second;
  }
};

// Receives consecutive pieces of a value. An error ends the copy, which returns it.
using ByteSink = std::function<absl::Status(std::string_view piece)>;

// Thread-safe after Open; each thread uses its own BlockBuffer. Damage is DataLoss with the path, the byte offset and,
// where known, block, column and sample.
class ShardReader {
 public:
  virtual ~ShardReader() = default;

  // Reads trailer, block directory and header, and the other sections when they are first needed. NotFound when there
  // is no such file; DataLoss when it is no shard or was never finished; Unimplemented when it needs a newer version.
  // `size`: as of FileSystem::OpenForReading.
  static absl::StatusOr<std::unique_ptr<ShardReader>> Open(ReadableFileSystem& file_system, const std::string& path,
                                                           const ReadOptions& options = {},
                                                           std::optional<uint64_t> size = std::nullopt);

  virtual const std::string& path() const = 0;
  virtual const Schema& schema() const = 0;
  virtual uint64_t sample_count() const = 0;
  virtual uint64_t file_length() const = 0;  // bytes
  virtual const ContentHash& content_hash() const = 0;
  virtual std::span<const BlockInfo> blocks() const = 0;
  virtual uint32_t alignment() const = 0;  // of blocks, bytes

  // Columns whose chunks were compressed with a trained dictionary.
  virtual std::vector<size_t> dictionary_columns() const = 0;

  virtual absl::StatusOr<Metadata> ReadMetadata() const = 0;
  virtual absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const = 0;

  // Smallest and largest value of each numeric column in each block. A filter skips the blocks whose range excludes
  // what it looks for. Compares the ranges with the statistics of the shard; DataLoss when they disagree. NotFound when
  // the shard has no ranges: then no block may be skipped. The default is NotFound.
  virtual absl::StatusOr<BlockRanges> ReadBlockRanges() const;

  // Reads block `index` (below blocks().size()) with the columns at `columns`, positions in the schema; empty means
  // all. Unimplemented when the codec of one of them is not known. The view borrows *buffer (or the memory map) until
  // the buffer's next use. Reading every column is one request for the whole block. Otherwise only the requested chunks
  // are read, and what lies between two of them when that is little: the first such call for a shard also reads the
  // copy of all block headers in the footer. In a shard without that copy, each call reads the block's header, too.
  virtual absl::Status ReadBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                                 BlockView* view) const = 0;

  // The same for a block that may be damaged. Reads what is readable; clears *damage and lists the rest there. Values
  // listed there mean nothing in the view. An error is about the block as a whole.
  virtual absl::Status SalvageBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                                    BlockDamage* damage) const = 0;

  // One value, empty when absent. Borrows *buffer until its next use. At most two reads. OutOfRange for an ordinal not
  // below sample_count(), InvalidArgument for a column not in the schema.
  virtual absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                                    BlockBuffer* buffer) const = 0;

  // Passes a value of any size to the sink in pieces of a few MiB; false when it is absent. A wrong checksum is found
  // only after the last piece, so the received bytes are valid only when this returns OK. What is decompressed for it
  // has the limit of ReadOptions::max_decompression.
  virtual absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const = 0;

  // Ordinal of the sample with this key, or empty. FailedPrecondition when the shard has no key column.
  virtual absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const = 0;

  // Where the records lie that a dataset's offset index lists; null when the container has none.
  virtual const RandomAccessFile* record_file() const { return nullptr; }

  // True when reading backwards means reading all that comes before again, as in a compressed tar. Read many blocks of
  // such a shard in their order, on one thread at a time.
  virtual bool forward_only() const { return false; }

  // The reason when the read mode differs from the requested one; else empty.
  virtual std::string fallback_reason() const = 0;

  // The block of sample `ordinal`, which must be below sample_count().
  size_t BlockOfSample(uint64_t ordinal) const;
};

}  // namespace shardkit
