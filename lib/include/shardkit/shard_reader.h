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

// What stands in few bytes may decompress to very many. Writers keep blocks within this, so that every reader takes
// them.
inline constexpr uint64_t kDefaultMaxDecompression = uint64_t{128} << 20;

struct ReadOptions {
  // Checksums of all that is read are compared. Turning this off trades safety for speed; offsets and sizes are
  // checked all the same, so that damaged data cannot lead out of its buffer.
  bool verify_checksums = true;

  // Of other containers: a hash that an index lists for a whole file (index.json of MDS, md5sum of wids) is compared
  // before the first value of the file is handed out. That reads the whole file, once for each DatasetReader. One hash
  // is compared: the first of the xxHash family, else the first that this build can compute; without such a one, none.
  // Turning this off makes the first value of a large file come sooner, and lets damage through as if it were data:
  // those containers have no other checksums of values. Validate compares every hash.
  bool verify_listed_hashes = true;

  ReadMode mode = ReadMode::kBuffered;

  // ResourceExhausted instead of a buffer, for stored and decompressed bytes of one block, larger than this. CopyValue
  // and ValidateShard work within a few MiB whatever the size of a value. A loader allows no more than its
  // LoaderOptions::memory_bytes.
  uint64_t max_block_memory = uint64_t{8} << 30;

  // ResourceExhausted when the chunks wanted of a block decompress to more bytes than this beyond those they are stored
  // in. The same for what is wanted of a compressed tar, and for a compressed MDS shard, which is decompressed whole,
  // against the bytes of their files.
  uint64_t max_decompression = kDefaultMaxDecompression;
};

// Memory for one block, reused from block to block, and the decompressor. One thread at a time. Remembers the block it
// holds, so that reading several values of one block reads it once.
class BlockBuffer {
 public:
  BlockBuffer();
  ~BlockBuffer();
  BlockBuffer(BlockBuffer&&) noexcept;
  BlockBuffer& operator=(BlockBuffer&&) noexcept;

  // Bytes of memory it holds: room for later blocks, the decompressor, and in kMapped mode the pages of the block.
  uint64_t memory() const;

  // For values that kMapped mode showed of the map itself, to be asked after they were used and while the shard is
  // open, or the dataset they were read from: DataLoss when the file has been cut meanwhile, so that they may have been
  // zeros. OK in other modes.
  absl::Status CheckMapped() const;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// What of a block cannot be read, and why. Columns by their position in the schema or dataset that was read.
struct BlockDamage {
  std::map<size_t, absl::Status> columns;                      // of which no value can be read,
  std::map<std::pair<uint32_t, size_t>, absl::Status> values;  // of the others: sample of the block, column

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

// Receives consecutive pieces of a value. A returned error ends the copy and is passed on.
using ByteSink = std::function<absl::Status(std::string_view piece)>;

// Thread-safe after Open; each thread brings its own BlockBuffer. Damage is DataLoss with the path, the byte offset
// and, where they are known, block, column and sample.
class ShardReader {
 public:
  virtual ~ShardReader() = default;

  // Reads trailer, block directory and header; the other sections when first asked for. NotFound when there is no such
  // file; DataLoss when it is no shard or was never finished; Unimplemented when it needs a newer version.
  static absl::StatusOr<std::unique_ptr<ShardReader>> Open(FileSystem& file_system, const std::string& path,
                                                           const ReadOptions& options = {});

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

  // Reads block `index` (below blocks().size()) with the columns at `columns`, positions in the schema; an empty span
  // means all. The view borrows *buffer (or the memory map) until the buffer's next use. Reading every column is one
  // request for the whole block; otherwise only the header and the chunks wanted are read.
  virtual absl::Status ReadBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                                 BlockView* view) const = 0;

  // The same for a block that may be damaged: what can be read is, and *damage, cleared first, names the rest, whose
  // values in the view mean nothing. An error concerns the block as a whole.
  virtual absl::Status SalvageBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                                    BlockDamage* damage) const = 0;

  // One value, empty when absent. Borrows *buffer until its next use. At most two reads. OutOfRange for an ordinal not
  // below sample_count(), InvalidArgument for a column not in the schema.
  virtual absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                                    BlockBuffer* buffer) const = 0;

  // The record of a blob value at a place known from the offset index: [begin, end) of the file. One read. Borrows as
  // ReadValue.
  virtual absl::StatusOr<std::string_view> ReadRecord(uint64_t begin, uint64_t end, BlockBuffer* buffer) const = 0;

  // Several such records at once, with up to `depth` reads in flight. The views borrow *buffer together.
  virtual absl::Status ReadRecords(std::span<const std::pair<uint64_t, uint64_t>> places, int depth,
                                   BlockBuffer* buffer, std::span<std::string_view> values) const = 0;

  // A value of any size, in pieces of a few MiB, false when it is absent. A wrong checksum is known only after the last
  // piece: what the sink received is good only when this returns OK.
  virtual absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const = 0;

  // Ordinal of the sample with this key, or empty. FailedPrecondition when the shard has no key column.
  virtual absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const = 0;

  // Whether reading what lies before the bytes read last costs reading all that lies before those again, as in a
  // compressed tar. Who reads many blocks of such a shard lets one thread at a time do it, in their order.
  virtual bool forward_only() const { return false; }

  // Hints that block `index` is wanted soon.
  virtual void WillNeedBlock(size_t index) const = 0;

  // Why another read mode than the one asked for is in use, or empty.
  virtual std::string fallback_reason() const = 0;

  // Block that holds sample `ordinal`, which is below sample_count().
  size_t BlockOfSample(uint64_t ordinal) const;
};

}  // namespace shardkit
