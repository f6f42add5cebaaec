// Reading a dataset: a directory with a manifest, segments and shards. A single shard opens as a dataset of one shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/job.h"
#include "shardkit/manifest.h"
#include "shardkit/select.h"
#include "shardkit/shard.h"

namespace shardkit {

struct DatasetOptions : ReadOptions {
  // Names of the columns to read; empty means all.
  std::vector<std::string> columns;

  // If `columns` is not empty, the key column comes after them, if there is one and `columns` lacks it.
  bool key_column = false;

  // The most shards kept open at once. The limit is lower if the process would use more than half of its open files
  // (RLIMIT_NOFILE): then the least recently used shards of any dataset are closed.
  size_t max_open_shards = 256;

  // In tars, skips unusable samples (a name that is not UTF-8, a duplicate or sparse member), and everything after
  // damage or truncation, instead of failing. See DatasetReader::lost_samples.
  bool skip_lost_samples = false;

  // In MDS, values that are otherwise converted (str_int, str_float, pil, list[pil], ndarray without a dtype) are texts
  // and bytes as they are stored (format-spec/interop.md).
  bool mds_as_stored = false;

  // The generation to read; 0 is the newest. NotFound if it is not kept (see ReadHistory), InvalidArgument for a
  // dataset of another container and for a single shard. Generations before the last two may have lost their segments:
  // samples are then read through the shards.
  uint64_t generation = 0;
};

// An unusable sample of a tar, or damage behind which a tar cannot be read.
struct LostSample {
  size_t shard = 0;
  std::string key;      // as in the tar, perhaps not UTF-8; the tar's name if the damage is in no sample
  absl::Status status;  // the place and the reason; for damage also the number of samples before it
};

struct ScanOptions {
  // Threads that read, check and decompress ahead of the consumer; with 0, Next() does all of it.
  int threads = 1;

  // Blocks read ahead, at least 1 and at least `threads`.
  int blocks_ahead = 4;

  // Blocks that the caller may hold, beside those read ahead.
  int most_held = 1;

  // Samples to scan: [first_sample, end_sample), extended to whole blocks.
  uint64_t first_sample = 0;
  uint64_t end_sample = UINT64_MAX;

  // Skips blocks in which no sample can fulfil this condition, according to the shards' ranges (Predicate::MayMatch).
  // The remaining blocks contain other samples, too: see Predicate::Select. If ranges are missing or damaged, no block
  // is skipped.
  std::optional<Predicate> where = std::nullopt;

  // Skips blocks that have none of these samples (ascending ordinals). Null: skips no block.
  std::shared_ptr<const std::vector<uint64_t>> samples = nullptr;
};

// The place of a block of the dataset.
struct DatasetBlock {
  uint32_t shard = 0;
  uint32_t block = 0;         // within the shard
  uint64_t first_sample = 0;  // ordinal in the dataset
  uint32_t sample_count = 0;
  uint64_t length = 0;        // bytes in the file
  bool forward_only = false;  // as ShardReader::forward_only of its shard
};

// Ordinals in the dataset: `count` samples from `first` on.
struct SampleRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// A block of the dataset and its memory. Destroying it returns the memory to the scanner. May outlive the scanner and
// the reader.
class ScannedBlock {
 public:
  ScannedBlock(std::shared_ptr<const BlockBuffer> buffer, BlockView view, uint64_t first_sample, size_t shard,
               size_t block)
      : buffer_(std::move(buffer)), view_(std::move(view)), first_sample_(first_sample), shard_(shard), block_(block) {}

  const BlockView& view() const { return view_; }          // columns in the order of DatasetReader::columns()
  uint64_t first_sample() const { return first_sample_; }  // ordinal in the dataset
  size_t shard() const { return shard_; }
  size_t block() const { return block_; }  // within the shard

  // Like BlockBuffer::CheckMapped, for the values of view().
  absl::Status CheckMapped() const { return buffer_->CheckMapped(); }

 private:
  std::shared_ptr<const BlockBuffer> buffer_;  // its deleter returns the memory
  BlockView view_;
  uint64_t first_sample_;
  size_t shard_;
  size_t block_;
};

// Blocks in order. One thread at a time. The destructor stops the scanner's threads; each first finishes its block. The
// reader must outlive the scanner.
class BlockScanner {
 public:
  virtual ~BlockScanner() = default;

  // The next block, or null at the end. After an error the scanner is finished. The caller may hold at most
  // blocks_ahead + most_held blocks (ScanOptions); for one more, Next returns FailedPrecondition instead of waiting
  // forever.
  virtual absl::StatusOr<std::unique_ptr<ScannedBlock>> Next() = 0;
};

// Thread-safe after Open; each thread uses its own BlockBuffer. Shards, buffers and blocks from the reader may outlive
// it. The file system must outlive all of them. Returned references are valid while the reader lives.
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;

  // `path` is a dataset's directory, a shard, or another container of format-spec/interop.md; where nothing has that
  // name, tars, shards or datasets of one container by braces and wildcards, as x-{000..099}.tar or **/x-*.tar, read as
  // one. Shards are opened when first used, so a relative `path` is lost if the process changes its directory. Open
  // reads the manifest and the roots of the segments, together. A segment that is missing, damaged or another than the
  // manifest names is not used, and index_problem() says why. If only the segments list the shards, 256 shards are read
  // at once; then NotFound if such a segment is missing, DataLoss if it is damaged.
  static absl::StatusOr<std::unique_ptr<DatasetReader>> Open(ReadableFileSystem& file_system, const std::string& path,
                                                             const DatasetOptions& options = {});

  virtual const std::string& path() const = 0;

  // The container of the samples: "shard", "mds" or "webdataset".
  virtual std::string_view container() const = 0;

  // Everything that is known without the list of shards: columns, metadata, and sums. Columns and number of samples are
  // as readers see them.
  virtual const ManifestSummary& summary() const = 0;

  // Whether the shards store samples and columns as readers see them: no column was changed and no sample removed.
  // Otherwise shards from OpenShard differ from the reader: they have stored names and stored samples.
  bool plain() const { return summary().shards_have_columns() && !summary().removed; }
  uint64_t sample_count() const { return summary().sample_count; }
  uint64_t shard_count() const { return summary().shard_count; }

  // The manifest entry of shard `shard`, with the samples that readers see. If only the segments list the shards, takes
  // one read for 256 shards and keeps the last 64 pages. OutOfRange past the end, DataLoss if the page is damaged.
  virtual absl::StatusOr<ManifestShard> Shard(size_t shard) const = 0;

  // Calls `take` for each shard in order. Reads lists in pieces of up to 16 MiB, in memory that does not grow with the
  // number of shards. Stops at the first error of `take` and returns it.
  virtual absl::Status ForEachShard(const std::function<absl::Status(const ManifestShard&)>& take) const = 0;

  // The published manifest, with all shards, and stored samples and names. Reads the lists whole, in pieces of up to 16
  // MiB.
  virtual absl::StatusOr<Manifest> ReadManifest() const = 0;

  // The columns read: DatasetOptions::columns in that order, or the manifest's columns.
  virtual const std::vector<Column>& columns() const = 0;

  // Position in columns(), or OutOfRange with a list of the columns.
  absl::StatusOr<size_t> FindColumn(std::string_view name) const;

  // Empty if the offset index is used; else the reason why not ("the segment is missing; run shardctl index PATH").
  virtual std::string index_problem() const = 0;

  // The shard of a sample. `local` is the sample's ordinal in the shard, removed samples included. OutOfRange past the
  // end.
  struct Location {
    size_t shard = 0;
    uint64_t local = 0;
  };
  virtual absl::StatusOr<Location> Locate(uint64_t sample) const = 0;
  virtual absl::StatusOr<std::shared_ptr<const ShardReader>> OpenShard(size_t shard) const = 0;

  // The value of sample `sample` in column `column`, a position in columns(); empty when absent. Borrows *buffer until
  // its next use (in kMapped mode, it may borrow the map while the shard stays open). With the offset index, a blob
  // takes one read.
  virtual absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, size_t column,
                                                                    BlockBuffer* buffer) const = 0;

  // Values of many samples, of a column of codec none with values of variable size; absent values are null views. Blobs
  // are read at once, from all their shards; pages are read one after another. FailedPrecondition without the offset
  // index or for another kind of column. All views borrow *buffer.
  virtual absl::Status ReadValues(std::span<const uint64_t> samples, size_t column, BlockBuffer* buffer,
                                  std::span<std::string_view> values) const = 0;

  // A value of any size; see ShardReader::CopyValue.
  virtual absl::StatusOr<bool> CopyValue(uint64_t sample, size_t column, const ByteSink& sink) const = 0;

  // A value as a file, null if absent, to read parts of it; see ShardReader::OpenValue.
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenValue(uint64_t sample, size_t column) const = 0;

  // Ordinal of the first visible sample with this key, or empty. Looks in the key table of each segment (there are few,
  // however many shards): one page of each, at most three reads the first time. Then reads the sample. If a table is
  // missing or damaged, searches the shards of its segment in order. Single shards and other containers are searched
  // like this, too. Without a key column, keys are the samples' ordinals in twelve digits.
  virtual absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const = 0;

  // Calls `take` for each block in order, except blocks whose samples were all removed. Uses the offset index,
  // otherwise opens every shard. Stops at the first error of `take` and returns it.
  virtual absl::Status ForEachBlock(const std::function<absl::Status(const DatasetBlock&)>& take) const = 0;

  // As ForEachBlock, for the blocks of some shards. `shards` has the samples of each, at least one per shard,
  // ascending. Reads only the index pages with these blocks, many at once.
  virtual absl::Status ForEachBlockOf(std::span<const SampleRange> shards,
                                      const std::function<absl::Status(const DatasetBlock&)>& take) const = 0;

  // All blocks, as by ForEachBlock.
  absl::StatusOr<std::vector<DatasetBlock>> ReadBlockDirectory() const;

  // Block `block` of shard `shard` with columns(). Until the next use of *buffer, the view borrows *buffer or the
  // memory map, which *buffer keeps open. OutOfRange if there is no such block.
  virtual absl::Status ReadBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view) const = 0;

  // Like ShardReader::SalvageBlock, with columns().
  virtual absl::Status SalvageBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                                    BlockDamage* damage) const = 0;

  // Ascending by shard; empty without DatasetOptions::skip_lost_samples.
  virtual std::span<const LostSample> lost_samples() const = 0;

  // Unexpected findings of Open, one line each: tars without an index, end marks between members, data behind them that
  // is no tar, and ignored links; columns of MDS that are left out, because their encoding is not read.
  virtual std::vector<std::string> notes() const = 0;

  virtual absl::StatusOr<std::unique_ptr<BlockScanner>> Scan(const ScanOptions& options = {}) const = 0;

  // Merged statistics of all shards and column files, in the order of columns(). Reads the footer of each. Removed
  // samples count as well.
  virtual absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const = 0;

  // ShardReader::fallback_reason of the first shard that has one.
  virtual std::string fallback_reason() const = 0;
};

}  // namespace shardkit
