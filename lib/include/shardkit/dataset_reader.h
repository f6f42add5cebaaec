// Reading a dataset: a directory with a manifest, segments and shards. A single shard file opens as a dataset of
// one shard.
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

  // Where columns are named, the key column comes after them, if there is one and it is not among them.
  bool key_column = false;

  // Shards kept open at once; fewer where the process would have more than half of the files open that it may have
  // (RLIMIT_NOFILE): then those that were not used for the longest time are closed, of any dataset.
  size_t max_open_shards = 256;

  // Of tars, leave out samples that cannot be taken (a name that is not UTF-8, a member twice or sparse), and of
  // damaged or cut ones what follows the damage, instead of failing. See DatasetReader::lost_samples.
  bool skip_lost_samples = false;

  // The generation to read; 0 is the newest. NotFound for one that is not kept (see ReadHistory), InvalidArgument for a
  // dataset of another container and for a single shard. Of those before the last two, the segments may be gone:
  // samples are then read through the shards.
  uint64_t generation = 0;
};

// A sample of a tar that cannot be taken, or the damage behind which nothing of a tar can.
struct LostSample {
  size_t shard = 0;
  std::string key;      // as it stands in the tar, perhaps not UTF-8; the tar's name where damage is in no sample
  absl::Status status;  // the place and the reason; of damage also how many samples precede it
};

struct ScanOptions {
  // Threads that read, check and decompress ahead of the consumer; with 0, Next() does all of it.
  int threads = 1;

  // Blocks read ahead, at least 1 and at least `threads`. There is memory for one more.
  int blocks_ahead = 4;

  // Samples to scan: [first_sample, end_sample), extended to whole blocks.
  uint64_t first_sample = 0;
  uint64_t end_sample = UINT64_MAX;

  // Leaves out blocks of which the shards' ranges tell that no sample fulfils this condition (Predicate::MayMatch), and
  // does not read them. The blocks that remain have other samples, too: see Predicate::Select. Where ranges are missing
  // or damaged, no block is left out.
  std::optional<Predicate> where = std::nullopt;

  // Leaves out blocks that have none of these samples, ordinals that ascend, and does not read them. Null: no block.
  std::shared_ptr<const std::vector<uint64_t>> samples = nullptr;
};

// Where a block of the dataset is.
struct DatasetBlock {
  uint32_t shard = 0;
  uint32_t block = 0;         // within the shard
  uint64_t first_sample = 0;  // ordinal in the dataset
  uint32_t sample_count = 0;
  uint64_t length = 0;        // bytes in the file
  bool forward_only = false;  // ShardReader::forward_only of its shard
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
  // ScanOptions::blocks_ahead + 1 blocks. Next would wait forever for one more, so it returns FailedPrecondition.
  virtual absl::StatusOr<std::unique_ptr<ScannedBlock>> Next() = 0;
};

// Thread-safe after Open; each thread uses its own BlockBuffer. Shards, buffers and blocks from the reader may outlive
// it. The file system must outlive all of them. References that a function returns are valid while the reader lives.
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;

  // Shards are opened when they are needed, so where the process changes its directory a relative `path` is lost.
  // `path` is a dataset's directory or a shard, or one of the other containers listed in format-spec/interop.md. Reads
  // the manifest, and together the roots of the segments; one that is missing, damaged or another than the manifest
  // names is not used, and index_problem() says why. Shards are opened when first used. Where only the segments list
  // the shards, 256 of them are read at once; NotFound when such a segment is missing, DataLoss when it is damaged.
  static absl::StatusOr<std::unique_ptr<DatasetReader>> Open(ReadableFileSystem& file_system, const std::string& path,
                                                             const DatasetOptions& options = {});

  virtual const std::string& path() const = 0;

  // The container of the samples: "shard", "mds" or "webdataset".
  virtual std::string_view container() const = 0;

  // All that is known without a look at the shards one by one: columns, metadata, and sums. Columns and number of
  // samples are those that readers see.
  virtual const ManifestSummary& summary() const = 0;

  // Whether samples and columns are just those of the shards: no column was changed, and no sample removed. What
  // OpenShard gives is not what readers see otherwise: it has stored names and stored samples.
  bool plain() const { return summary().shards_have_columns() && !summary().removed; }
  uint64_t sample_count() const { return summary().sample_count; }
  uint64_t shard_count() const { return summary().shard_count; }

  // What the dataset says of shard `shard`; its samples are those that readers see. Takes one read for 256 shards where
  // only the segments list them, of which the last 64 pages are kept. OutOfRange past the end, DataLoss when the page
  // is damaged.
  virtual absl::StatusOr<ManifestShard> Shard(size_t shard) const = 0;

  // Calls `take` for each shard in order, reading lists in pieces of up to 16 MiB, in memory that does not grow with
  // the number of shards. Stops at the first error of `take` and returns it.
  virtual absl::Status ForEachShard(const std::function<absl::Status(const ManifestShard&)>& take) const = 0;

  // The manifest as it is published, with all shards, and with what is stored rather than seen. Reads the lists whole,
  // in pieces of up to 16 MiB.
  virtual absl::StatusOr<Manifest> ReadManifest() const = 0;

  // The columns read: those of DatasetOptions::columns in that order, or the manifest's.
  virtual const std::vector<Column>& columns() const = 0;

  // Position in columns(), or OutOfRange with a list of the columns.
  absl::StatusOr<size_t> FindColumn(std::string_view name) const;

  // Empty when the offset index is used; else the reason why not ("the segment is missing; run shardctl index PATH").
  virtual std::string index_problem() const = 0;

  // The shard of a sample; `local` is the sample's ordinal in it, where removed samples count. OutOfRange past the end.
  struct Location {
    size_t shard = 0;
    uint64_t local = 0;
  };
  virtual absl::StatusOr<Location> Locate(uint64_t sample) const = 0;
  virtual absl::StatusOr<std::shared_ptr<const ShardReader>> OpenShard(size_t shard) const = 0;

  // The value of sample `sample` in column `column`, a position in columns(); empty when absent. Borrows *buffer until
  // its next use (in kMapped mode, it may borrow the map while the shard stays open). A blob takes one read when the
  // offset index is used.
  virtual absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, size_t column,
                                                                    BlockBuffer* buffer) const = 0;

  // Values of many samples, of a column of codec none whose values differ in size; absent values are null views. Blobs
  // are read at once, from all shards that have them, pages one after another. FailedPrecondition without the index or
  // for another kind of column. All views borrow *buffer.
  virtual absl::Status ReadValues(std::span<const uint64_t> samples, size_t column, BlockBuffer* buffer,
                                  std::span<std::string_view> values) const = 0;

  // A value of any size; see ShardReader::CopyValue.
  virtual absl::StatusOr<bool> CopyValue(uint64_t sample, size_t column, const ByteSink& sink) const = 0;

  // Ordinal of the first sample with this key that is seen, or empty. Asks the keys of each segment of the dataset
  // (there are few, however many shards): one page of each, at most three reads when it is asked first; and reads the
  // sample. Where a table is missing or damaged, searches the shards of its segment in order, and so do single shards
  // and other containers. FailedPrecondition when no column is the key.
  virtual absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const = 0;

  // Calls `take` for each block in order (one whose samples were all removed has none), from the offset index when it
  // is used; otherwise opens every shard. Stops at the first error of `take` and returns it.
  virtual absl::Status ForEachBlock(const std::function<absl::Status(const DatasetBlock&)>& take) const = 0;

  // The same with the blocks of some shards, given by their samples, of which each has some, and ascending. Of the
  // index it reads the pages that have them, many at once.
  virtual absl::Status ForEachBlockOf(std::span<const SampleRange> shards,
                                      const std::function<absl::Status(const DatasetBlock&)>& take) const = 0;

  // All of them.
  absl::StatusOr<std::vector<DatasetBlock>> ReadBlockDirectory() const;

  // Block `block` of shard `shard` with columns(). The view borrows *buffer (or the memory map, which *buffer keeps
  // open) until its next use. OutOfRange when there is no such block.
  virtual absl::Status ReadBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view) const = 0;

  // Like ShardReader::SalvageBlock, with columns().
  virtual absl::Status SalvageBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                                    BlockDamage* damage) const = 0;

  // Ascending by shard; empty without DatasetOptions::skip_lost_samples.
  virtual std::span<const LostSample> lost_samples() const = 0;

  // What opening has shown that the user may not expect, one line each: of tars without an index, end marks between
  // members, what lies behind them and is no tar, and links that are passed over.
  virtual std::vector<std::string> notes() const = 0;

  virtual absl::StatusOr<std::unique_ptr<BlockScanner>> Scan(const ScanOptions& options = {}) const = 0;

  // Statistics of all shards and column files merged, in the order of columns(). Reads the footer of each. Removed
  // samples count as well.
  virtual absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const = 0;

  // ShardReader::fallback_reason of the first shard that has one.
  virtual std::string fallback_reason() const = 0;
};

}  // namespace shardkit
