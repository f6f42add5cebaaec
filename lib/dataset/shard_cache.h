// The open shards of a dataset, in limited number.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/shard_list_reader.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {

struct CachedShard {
  std::unique_ptr<ShardReader> reader;     // null where the shard is open for its records alone
  std::unique_ptr<RandomAccessFile> file;  // null where there is a reader
  ReadOptions options;
  // For each column that is read from the dataset: its position in the shard's schema, or kMissing.
  std::vector<size_t> columns;
  // The positions that are not missing, for ReadBlock; empty also when all columns are wanted.
  std::vector<size_t> wanted;

  static constexpr size_t kMissing = SIZE_MAX;

  // Where its records lie. REQUIRES: a native shard.
  const RandomAccessFile& record_file() const { return reader ? *reader->record_file() : *file; }

  // Reads a block into *buffer; *view has the dataset's columns. Reads nothing if the shard has
  // none of them. With `damage`, works like ShardReader::SalvageBlock.
  absl::Status ReadBlock(size_t block, BlockBuffer* buffer, BlockView* view, BlockDamage* damage = nullptr) const;
};

// Opens a shard of a manifest. NotFound when its file is missing.
using OpenShardFunction = std::function<absl::StatusOr<std::unique_ptr<ShardReader>>(const PlacedShard& shard)>;

// Opens the file of a shard of a manifest, and nothing else. NotFound when it is missing.
using OpenFileFunction = std::function<absl::StatusOr<std::unique_ptr<RandomAccessFile>>(const PlacedShard& shard)>;

// Thread-safe. When too many shards are open, the least recently used one is dropped. It is closed once nobody uses it.
class ShardCache {
 public:
  // `open_file` is for GetForRecords. `shards` are those of the dataset, and `schema` has its columns, of which
  // `columns` are read: these must outlive the cache. Of `options`, those of the reading and of the columns are used.
  ShardCache(OpenShardFunction open, OpenFileFunction open_file, const ShardListReader& shards, const Schema& schema,
             const std::vector<Column>& columns, const DatasetOptions& options);

  // Opens the shard if it is not open, and checks that it is the one that the manifest lists.
  absl::StatusOr<std::shared_ptr<const CachedShard>> Get(size_t shard);

  // A shard of which only records are to be read, whose incompatible flags are known. If it is not open yet, opens its
  // file and compares only its length with the manifest's.
  absl::StatusOr<std::shared_ptr<const CachedShard>> GetForRecords(size_t shard);

  std::string fallback_reason() const;

 private:
  absl::StatusOr<std::shared_ptr<const CachedShard>> Open(const PlacedShard& listed) const;
  absl::StatusOr<std::shared_ptr<const CachedShard>> OpenFile(const PlacedShard& listed) const;
  absl::StatusOr<std::shared_ptr<const CachedShard>> Find(size_t shard, bool for_records);

  const OpenShardFunction open_;
  const OpenFileFunction open_file_;
  const ReadOptions options_;
  const ShardListReader& shards_;
  const Schema& schema_;
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
  std::string fallback_reason_;
};

}  // namespace shardkit::dataset
