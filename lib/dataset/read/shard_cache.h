// The open shards of a dataset, in limited number.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/read/column_files.h"
#include "dataset/read/shard_list_reader.h"
#include "format/footer.h"
#include "io/spare_files.h"
#include "io/started_read.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/shard.h"

namespace shardkit::dataset {

// Block memory kept between scans of a dataset, so that an epoch does not begin with page faults. Thread-safe.
class BufferPool {
 public:
  BufferPool() { free_.reserve(kKept); }  // destructors call Give, so it must not throw

  BlockBuffer Take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return BlockBuffer();
    BlockBuffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  void Give(BlockBuffer buffer) {
    std::lock_guard lock(mutex_);
    if (free_.size() < kKept) free_.push_back(std::move(buffer));
  }

 private:
  static constexpr size_t kKept = 8;
  std::mutex mutex_;
  std::vector<BlockBuffer> free_;
};

// The comparison of a shard that is open for its records alone with what the manifest lists. The shard's trailer is
// read while its first record is. Thread-safe.
class TrailerComparison {
 public:
  // Begins to read. The file and the dataset's manifest must outlive this.
  TrailerComparison(const RandomAccessFile& file, const PlacedShard& listed, const ManifestSummary& dataset);

  // Ends the comparison. DataLoss: the file is another shard. An error of reading is forgotten, and the next call reads
  // again.
  absl::Status Finish();

 private:
  const RandomAccessFile& file_;
  const PlacedShard listed_;
  const ManifestSummary& dataset_;
  std::array<char, format::kTrailerBytes> trailer_;
  std::atomic<bool> same_ = false;
  std::mutex mutex_;
  std::optional<io::StartedRead> read_;  // before Finish
};

struct CachedShard {
  std::unique_ptr<ShardReader> reader;            // null where the shard is open for its records alone
  std::unique_ptr<RandomAccessFile> file;         // null where there is a reader
  std::unique_ptr<TrailerComparison> comparison;  // the same; to be finished before a record is given to the caller
  ReadOptions options;
  // For each column that is read from the dataset: its position in the shard's schema, or kMissing.
  std::vector<size_t> columns;
  // The positions that are not missing, for ReadBlock; empty also when all columns are wanted.
  std::vector<size_t> wanted;

  static constexpr size_t kMissing = SIZE_MAX;

  // Where its records lie. REQUIRES: a native shard.
  const RandomAccessFile& record_file() const { return reader ? *reader->record_file() : *file; }
  // Whether it is the shard that the manifest lists. With a reader it was compared when it was opened.
  absl::Status CheckIdentity() const { return comparison ? comparison->Finish() : absl::OkStatus(); }

  // As container::ReadRecordAt. REQUIRES: a native shard.
  absl::StatusOr<std::string_view> ReadRecord(uint64_t begin, uint64_t end, BlockBuffer* buffer) const;

  // Reads a block into *buffer; *view has the dataset's columns. Reads nothing if the shard has
  // none of them. With `damage`, works like ShardReader::SalvageBlock.
  absl::Status ReadBlock(size_t block, BlockBuffer* buffer, BlockView* view, BlockDamage* damage = nullptr) const;
};

// Opens a shard of a manifest. NotFound when its file is missing.
using OpenShardFunction = std::function<absl::StatusOr<std::unique_ptr<ShardReader>>(const PlacedShard& shard)>;

// Opens the file of a shard of a manifest, and nothing else. NotFound when it is missing.
using OpenFileFunction = std::function<absl::StatusOr<std::unique_ptr<RandomAccessFile>>(const PlacedShard& shard)>;

// Thread-safe. When too many shards are open, of the dataset or in the process, the least recently used one is dropped.
// It is closed once nobody uses it.
class ShardCache final : io::SpareFiles {
 public:
  // `open_file` is for GetForRecords. `shards`, `summary` and `files` are those of the dataset, of whose columns
  // `columns` are read: these must outlive the cache. Of `options`, those of the reading and of the columns are used.
  ShardCache(OpenShardFunction open, OpenFileFunction open_file, const ShardListReader& shards,
             const ManifestSummary& summary, const ColumnFiles& files, const std::vector<Column>& columns,
             const DatasetOptions& options);
  ~ShardCache() override;

  // Opens the shard if it is not open, and checks that it is the one that the manifest lists.
  absl::StatusOr<std::shared_ptr<const CachedShard>> Get(size_t shard);

  // A shard of which only records are to be read, whose incompatible flags are known. If it is not open yet, opens its
  // file, compares its length with the manifest's, and begins to compare its trailer.
  absl::StatusOr<std::shared_ptr<const CachedShard>> GetForRecords(size_t shard);

  std::string fallback_reason() const;

 private:
  absl::StatusOr<std::shared_ptr<const CachedShard>> Open(const PlacedShard& listed) const;
  absl::StatusOr<std::shared_ptr<const CachedShard>> OpenFile(const PlacedShard& listed) const;
  absl::StatusOr<std::shared_ptr<const CachedShard>> Find(size_t shard, bool for_records);
  std::shared_ptr<const CachedShard> DropOldest();  // REQUIRES: mutex_ is held, and a shard is open

  size_t count() const override { return count_.load(std::memory_order_relaxed); }
  std::shared_ptr<const void> TakeOldest() override;

  const OpenShardFunction open_;
  const OpenFileFunction open_file_;
  const ReadOptions options_;
  const ShardListReader& shards_;
  const ManifestSummary& summary_;
  const ColumnFiles& files_;
  const std::vector<Column>& columns_;
  const bool all_columns_;
  const size_t max_open_;

  struct Slot {
    std::shared_ptr<const CachedShard> open;
    std::list<size_t>::iterator use;
  };
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  std::unordered_set<size_t> opening_;      // each by one thread; the others wait for it
  std::unordered_map<size_t, Slot> slots_;  // of the open shards
  std::list<size_t> in_use_;                // most recently used first
  std::atomic<size_t> count_ = 0;           // of them
  std::string fallback_reason_;
};

}  // namespace shardkit::dataset
