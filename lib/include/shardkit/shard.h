// Single shards: their description, reading and writing.
#pragma once

#include <array>
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
#include "shardkit/filesystem.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit {

// The description of a shard, readable without its samples.

// XXH3-128 in canonical byte order, as printed by `xxh128sum`.
using ContentHash = std::array<uint8_t, 16>;

// SHA-256 of a shard's file, as printed by `sha256sum`.
using Sha256 = std::array<uint8_t, 32>;

// Lower-case hexadecimal digits, two for each byte.
std::string ToHex(const ContentHash& hash);
std::string ToHex(const Sha256& hash);

// An entry of the block directory (format-spec/spec.md, section 5).
struct BlockInfo {
  uint64_t offset = 0;        // bytes from the start of the file
  uint64_t length = 0;        // bytes, without the padding up to the alignment
  uint64_t front_length = 0;  // bytes of header and head chunks
  uint64_t first_sample = 0;  // ordinal in the shard
  uint32_t sample_count = 0;
  uint64_t header_checksum = 0;

  bool operator==(const BlockInfo&) const = default;
};

// The representation of a numeric column's minimum and maximum.
enum class RangeKind : uint32_t { kNone = 0, kI64 = 1, kU64 = 2, kF64 = 3 };

// The kind of ranges for columns of this type; kNone if they have none.
RangeKind RangeKindOf(Type type);

// Statistics of a column of a shard, or merged for a dataset (format-spec/spec.md, "Statistics").
struct ColumnStatistics {
  uint64_t present_count = 0;
  uint64_t value_bytes = 0;   // sum of the lengths of the present values
  uint64_t stored_bytes = 0;  // of the column's chunks, including offsets and checksums
  uint64_t min_length = 0;    // bytes; 0 if no value is present
  uint64_t max_length = 0;
  RangeKind range_kind = RangeKind::kNone;
  uint64_t minimum = 0;  // bits of an i64, u64 or f64, by range_kind
  uint64_t maximum = 0;
  // Entry k counts present values whose length has k significant bits.
  std::array<uint64_t, 65> length_histogram{};

  // Counts a present value of `column`.
  void Add(const Column& column, const char* value, uint64_t length);
  // Adds the values counted by `other`.
  void Merge(const ColumnStatistics& other);
  // Upper bound of the length below which `fraction` (0 to 1) of the present values lie, from the histogram: at most
  // twice the true length, and never above max_length.
  uint64_t LengthQuantile(double fraction) const;

  bool operator==(const ColumnStatistics&) const = default;
};

// The range of a column's values in a block (format-spec/spec.md, "Block ranges").
struct BlockRange {
  uint32_t present_count = 0;               // values present in the block
  RangeKind range_kind = RangeKind::kNone;  // kNone if all present values are NaN, or none is present
  uint64_t minimum = 0;                     // bits of an i64, u64 or f64, by range_kind; NaN does not count
  uint64_t maximum = 0;

  bool operator==(const BlockRange&) const = default;
};

// The ranges of all blocks of a shard.
struct BlockRanges {
  std::vector<size_t> columns;     // columns whose type has a range: positions in the schema, ascending
  std::vector<BlockRange> ranges;  // for each block, one for each of `columns`

  // Null if the column has no ranges. `block` is below the number of blocks.
  const BlockRange* Find(size_t block, size_t column) const;
};

// Reading one shard: by block, by ordinal, by key.

// Limits memory, because few bytes may decompress to very many. Writers keep blocks within this, so that every reader
// accepts them.
inline constexpr uint64_t kDefaultMaxDecompression = uint64_t{128} << 20;

// The checksums that are compared, of Shardkit's own shards and of a tar's index. In any case, offsets and sizes are
// checked: damaged data cannot cause reads outside its buffer.
enum class Verify {
  kEvery,  // of all data read, each time, but for parts of a value (OpenValue) (the default)
  // Of the columns of each block when this process reads them for the first time. Every reader of the process trusts
  // the result afterwards, until the file's identity changes (RandomAccessFile::identity). Later damage to memory, to
  // the page cache or to the device goes unnoticed. For files without an identity, and for values that are read one by
  // one, as kEvery.
  kFirst,
  kNever,
};

// Options of everything that reads samples.
struct InputOptions {
  // ResourceExhausted if the decompressed bytes of the requested chunks of a block exceed their stored bytes by more
  // than this. The limit also applies to the requested part of a compressed tar, and to a compressed MDS shard, which
  // is decompressed completely, compared with the bytes of their files.
  uint64_t max_decompression = kDefaultMaxDecompression;

  // For MDS: compares a hash that index.json lists for a whole file before the first value of the file is returned.
  // This reads the whole file, once for each DatasetReader. Compares one hash: the first of the xxHash family,
  // otherwise the first that this build can compute, if any. False returns the first value of a large file sooner, but
  // passes damage on as data, because MDS has no other checksums of values. Validate compares every hash.
  bool verify_listed_hashes = true;
};

struct ReadOptions : InputOptions {
  Verify verify = Verify::kEvery;

  ReadMode mode = ReadMode::kAuto;

  // Limit of a buffer for the stored and decompressed bytes of one block; ResourceExhausted above it. CopyValue and
  // ValidateShard take a few MiB for a value of any size. A loader lowers it to LoaderOptions::memory_bytes.
  uint64_t max_block_memory = uint64_t{8} << 30;
};

// Memory for one block, reused for later blocks, and the decompressor. One thread at a time. Remembers its block:
// reading several values of one block reads the block once.
class BlockBuffer {
 public:
  BlockBuffer();
  ~BlockBuffer();
  BlockBuffer(BlockBuffer&&) noexcept;
  BlockBuffer& operator=(BlockBuffer&&) noexcept;

  // Bytes of memory held: room for later blocks, the decompressor, and in kMapped mode the pages of the block.
  uint64_t memory() const;

  // Checks values that kMapped mode returned as views of the map. Call it after using them, while their shard or
  // dataset is open. DataLoss if the file was truncated since, so that they may have been zeros. OK in other modes.
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

  // OK if all values of the sample can be read.
  absl::Status OfSample(uint32_t sample) const {
    const auto value = values.lower_bound({sample, 0});
    if (value != values.end() && value->first.first == sample) return value->second;
    return columns.empty() ? absl::OkStatus() : columns.begin()->second;
  }
};

// Receives consecutive pieces of a value. An error ends the copy, which returns the error.
using ByteSink = std::function<absl::Status(std::string_view piece)>;

// Thread-safe after Open; each thread uses its own BlockBuffer. Damage is DataLoss with the path, the byte offset and,
// where known, block, column and sample.
class ShardReader {
 public:
  virtual ~ShardReader() = default;

  // Reads trailer, block directory and header; other sections when first needed. `size` as in
  // FileSystem::OpenForReading.
  //
  // - NotFound: there is no such file.
  // - DataLoss: the file is no shard, or was never finished.
  // - Unimplemented: the shard needs a newer version.
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

  // Columns with chunks compressed with a trained dictionary.
  virtual std::vector<size_t> dictionary_columns() const = 0;

  virtual absl::StatusOr<Metadata> ReadMetadata() const = 0;
  virtual absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const = 0;

  // Smallest and largest value of each numeric column in each block, so that a filter can skip blocks. DataLoss if the
  // ranges disagree with the statistics of the shard. NotFound if the shard has no ranges: then no block may be
  // skipped. The default is NotFound.
  virtual absl::StatusOr<BlockRanges> ReadBlockRanges() const;

  // Reads block `index` (below blocks().size()) with the columns at `columns`, positions in the schema; empty means
  // all. Unimplemented if the codec of a column is unknown. The view borrows *buffer (or the memory map) until the
  // buffer's next use. Reading every column is one request for the whole block. Otherwise only the requested chunks are
  // read, and small gaps between them. The first such call for a shard also reads the copy of all block headers in the
  // footer. In a shard without that copy, each call reads the block's header, too.
  virtual absl::Status ReadBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer,
                                 BlockView* view) const = 0;

  // As ReadBlock, for a block that may be damaged. Clears *damage and lists the unreadable parts there. Listed values
  // mean nothing in the view. An error is about the block as a whole.
  virtual absl::Status SalvageBlock(size_t index, std::span<const size_t> columns, BlockBuffer* buffer, BlockView* view,
                                    BlockDamage* damage) const = 0;

  // One value, empty if absent. Borrows *buffer until its next use. At most two reads. OutOfRange for an ordinal not
  // below sample_count(), InvalidArgument for a column not in the schema.
  virtual absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t ordinal, size_t column,
                                                                    BlockBuffer* buffer) const = 0;

  // Passes a value of any size to the sink in pieces of a few MiB; false if it is absent. A wrong checksum is found
  // only after the last piece, so the received bytes are valid only if this returns OK. Decompression has the limit of
  // ReadOptions::max_decompression.
  virtual absl::StatusOr<bool> CopyValue(uint64_t ordinal, size_t column, const ByteSink& sink) const = 0;

  // One value as a file, null if absent; `path` is the shard's. A value whose bytes lie in the shard as they are, such
  // as a blob, is read by ReadAt alone: as much of it as is asked for, of which no checksum is compared, as there is
  // none of a part. Any other is read, checked and decompressed now, and kept in memory. May outlive the reader.
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(uint64_t ordinal, size_t column) const = 0;

  // Ordinal of the sample with this key, or empty. FailedPrecondition if the shard has no key column.
  virtual absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const = 0;

  // The file with the records that a dataset's offset index lists; null if the container has none.
  virtual const RandomAccessFile* record_file() const { return nullptr; }

  // True if reading backwards means reading all previous data again, as in a compressed tar. Read many blocks of such a
  // shard in their order, on one thread at a time.
  virtual bool forward_only() const { return false; }

  // The reason if the read mode differs from the requested one; else empty.
  virtual std::string fallback_reason() const = 0;

  // The block of sample `ordinal`, which must be below sample_count().
  size_t BlockOfSample(uint64_t ordinal) const;
};

// Writing one shard.

struct ShardOptions {
  // A block is closed when the bytes of its values, before compression, reach this. A larger sample gets a separate
  // block.
  uint64_t block_size = uint64_t{4} << 20;

  // A block is also closed at this many samples (1 to 1,048,576).
  uint32_t max_block_samples = 65536;

  // Alignment of blocks in the file: a power of two from 64 to 1,048,576.
  uint32_t alignment = 4096;

  // Compression level of columns with codec zstd, by name; others use 1 for type rle and 3 for all other types.
  std::map<std::string, int> zstd_levels;

  // By column (codec zstd): trains a dictionary of at most this many bytes.
  std::map<std::string, uint32_t> dictionaries;

  // By column (codec none, values of variable size): kPaged packs values into pages, which suits many small ones; kBlob
  // gives each value a checksum and an entry in the offset index. Other such columns of a shard get kPaged if the
  // values present in the shard's first block have less than 1024 bytes on average, else kBlob. The schema's storage is
  // ignored.
  std::map<std::string, Storage> storage;

  Metadata metadata;
};

struct ShardSummary {
  uint64_t file_length = 0;
  uint64_t sample_count = 0;
  uint64_t block_count = 0;
  ContentHash content_hash{};
};

// Writes to "PATH.tmp" and renames it on success. One thread at a time. Destroying the writer without Finish aborts.
class ShardWriter {
 public:
  virtual ~ShardWriter() = default;

  // InvalidArgument for options that are out of range or name missing columns; AlreadyExists if `path` exists.
  static absl::StatusOr<std::unique_ptr<ShardWriter>> Create(FileSystem& file_system, const std::string& path,
                                                             const Schema& schema, const ShardOptions& options = {});

  // One value per column of the schema, in its order; absent values are empty. Copies the bytes. InvalidArgument,
  // naming the column, for an absent value that is not nullable, a fixed-size value of another size, or a key that is
  // not UTF-8. After any other error only Abort may be called.
  virtual absl::Status Append(std::span<const std::optional<Value>> values) = 0;

  // Writes the remaining samples, the footer and the trailer, flushes, renames, and flushes the directory.
  virtual absl::StatusOr<ShardSummary> Finish() = 0;

  // Removes the temporary file. Idempotent.
  virtual absl::Status Abort() = 0;
};

}  // namespace shardkit
