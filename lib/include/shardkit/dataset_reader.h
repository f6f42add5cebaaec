// Reading a dataset: a directory with a manifest, an offset index and shards. A single shard file opens as a dataset of
// one shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/manifest.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

struct DatasetOptions : ReadOptions {
  // Names of the columns to read; empty means all.
  std::vector<std::string> columns;

  // Shards kept open at once.
  size_t max_open_shards = 256;

  // Of tars that are damaged or were cut off, takes the samples before that place, instead of failing: see
  // DatasetReader::cut_tars.
  bool keep_cut_tars = false;
};

// A tar that can be read up to some place only.
struct CutTar {
  size_t shard = 0;
  std::string key;      // of the sample that lies there, or the tar's name
  absl::Status status;  // where that is, why, and how many samples stand before it
};

struct ScanOptions {
  // Threads that read, check and decompress ahead of the consumer; 0 does all in Next().
  int threads = 1;

  // Blocks read ahead, at least 1 and at least `threads`; memory for one more is kept.
  int blocks_ahead = 4;

  // Samples to be scanned: [first_sample, end_sample) rounded out to whole blocks.
  uint64_t first_sample = 0;
  uint64_t end_sample = UINT64_MAX;
};

// Where a block of the dataset is.
struct DatasetBlock {
  uint32_t shard = 0;
  uint32_t block = 0;         // within the shard
  uint64_t first_sample = 0;  // ordinal in the dataset
  uint32_t sample_count = 0;
  uint64_t length = 0;        // bytes in the file
  bool forward_only = false;  // its shard is; see ShardReader
};

// A block of the dataset and the memory it lies in, which goes back to the scanner when it is destroyed. May outlive
// scanner and reader.
class ScannedBlock {
 public:
  virtual ~ScannedBlock() = default;
  virtual const BlockView& view() const = 0;  // columns in the order of DatasetReader::columns()
  virtual uint64_t first_sample() const = 0;  // ordinal in the dataset
  virtual size_t shard() const = 0;
  virtual size_t block() const = 0;  // within the shard

  // As BlockBuffer::CheckMapped, for the values of view().
  virtual absl::Status CheckMapped() const = 0;
};

// Blocks in order. One thread at a time. Destroying it stops the threads within one block each. Its reader must outlive
// it.
class BlockScanner {
 public:
  virtual ~BlockScanner() = default;

  // The next block, or null at the end. After an error the scanner is finished. At most ScanOptions::blocks_ahead + 1
  // blocks may be held by the caller: one more would wait for itself, so that Next returns FailedPrecondition instead.
  virtual absl::StatusOr<std::unique_ptr<ScannedBlock>> Next() = 0;
};

// Thread-safe after Open; each thread brings its own BlockBuffer. The file system must outlive the reader, and the
// shards, buffers and blocks got from it; these may outlive the reader. What a function returns by reference belongs to
// the reader.
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;

  // `path` is a dataset's directory or a shard; or, of other containers, what format-spec/interop.md lists. Opens the
  // manifest and, if it is there and belongs to the manifest, the offset index; shards are opened when first used.
  // Memory and time are proportional to the number of shards only.
  static absl::StatusOr<std::unique_ptr<DatasetReader>> Open(FileSystem& file_system, const std::string& path,
                                                             const DatasetOptions& options = {});

  virtual const std::string& path() const = 0;

  // "shard", "mds" or "webdataset": what the samples are stored in.
  virtual std::string_view container() const = 0;

  virtual const Manifest& manifest() const = 0;
  virtual uint64_t sample_count() const = 0;

  // The columns read: those of DatasetOptions::columns in that order, or the manifest's.
  virtual const std::vector<Column>& columns() const = 0;

  // Position in columns(), or OutOfRange that lists the columns there are.
  absl::StatusOr<size_t> FindColumn(std::string_view name) const;

  // Empty when the offset index is used; else why not ("dataset.idx is missing: run shardctl index PATH").
  virtual std::string index_problem() const = 0;

  // The shard and its reader for a sample; `local` is the ordinal within it. OutOfRange past the end.
  struct Location {
    size_t shard = 0;
    uint64_t local = 0;
  };
  virtual absl::StatusOr<Location> Locate(uint64_t sample) const = 0;
  virtual absl::StatusOr<std::shared_ptr<const ShardReader>> OpenShard(size_t shard) const = 0;

  // One value of sample `sample`, column at position `column` of columns(); empty when absent. Borrows *buffer (or, in
  // kMapped mode, the map, for as long as the shard stays open) until its next use. With the offset index a blob takes
  // one read.
  virtual absl::StatusOr<std::optional<std::string_view>> ReadValue(uint64_t sample, size_t column,
                                                                    BlockBuffer* buffer) const = 0;

  // Blob values of many samples with up to `depth` reads in flight; absent ones are null views. Without the index, or
  // for another kind of column, FailedPrecondition. The views borrow *buffer together.
  virtual absl::Status ReadValues(std::span<const uint64_t> samples, size_t column, int depth, BlockBuffer* buffer,
                                  std::span<std::string_view> values) const = 0;

  // A value of any size; see ShardReader::CopyValue.
  virtual absl::StatusOr<bool> CopyValue(uint64_t sample, size_t column, const ByteSink& sink) const = 0;

  // Ordinal of the first sample with this key, or empty. Looks through the shards' key indexes in order.
  virtual absl::StatusOr<std::optional<uint64_t>> FindKey(std::string_view key, BlockBuffer* buffer) const = 0;

  // All blocks in order. From the offset index where it is used; else every shard is opened.
  virtual absl::StatusOr<std::vector<DatasetBlock>> ReadBlockDirectory() const = 0;

  // Block `block` of shard `shard` with columns(). The view borrows *buffer (or the memory map, which *buffer keeps
  // open) until its next use. OutOfRange for a place that is not there.
  virtual absl::Status ReadBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view) const = 0;

  // As ShardReader::SalvageBlock, with columns().
  virtual absl::Status SalvageBlock(size_t shard, size_t block, BlockBuffer* buffer, BlockView* view,
                                    BlockDamage* damage) const = 0;

  // Ascending by shard; none unless DatasetOptions::keep_cut_tars.
  virtual const std::vector<CutTar>& cut_tars() const = 0;

  virtual absl::StatusOr<std::unique_ptr<BlockScanner>> Scan(const ScanOptions& options = {}) const = 0;

  // Statistics of all shards merged, in the order of columns(). Reads every shard's footer.
  virtual absl::StatusOr<std::vector<ColumnStatistics>> ReadStatistics() const = 0;

  // As ShardReader's, of the first shard that has one.
  virtual std::string fallback_reason() const = 0;
};

}  // namespace shardkit
