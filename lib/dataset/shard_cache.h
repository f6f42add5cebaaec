// The open shards of a dataset, in limited number.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {

struct CachedShard {
  std::unique_ptr<ShardReader> reader;
  // For each column that is read from the dataset: its position in the shard's schema, or kMissing.
  std::vector<size_t> columns;
  // The positions that are not missing, for ReadBlock.
  std::vector<size_t> wanted;

  static constexpr size_t kMissing = SIZE_MAX;

  // Reads a block into *buffer; *view has the dataset's columns. With `damage`, works like ShardReader::SalvageBlock.
  absl::Status ReadBlock(size_t block, BlockBuffer* buffer, BlockView* view, BlockDamage* damage = nullptr) const;
};

// Opens shard `i` of a manifest. NotFound when its file is missing.
using OpenShardFunction = std::function<absl::StatusOr<std::unique_ptr<ShardReader>>(size_t i)>;

// Thread-safe. When too many shards are open, the least recently used one is dropped. It is closed once nobody uses it.
class ShardCache {
 public:
  ShardCache(OpenShardFunction open, const Manifest& manifest, const std::vector<Column>& columns, bool all_columns,
             size_t max_open);

  // Opens the shard if it is not open, and checks that it is the one that the manifest lists.
  absl::StatusOr<std::shared_ptr<const CachedShard>> Get(size_t shard);

  std::string fallback_reason() const;

 private:
  absl::StatusOr<std::shared_ptr<const CachedShard>> Open(size_t shard) const;

  const OpenShardFunction open_;
  const Manifest& manifest_;
  const std::vector<Column>& columns_;
  const bool all_columns_;
  const size_t max_open_;

  struct Slot {
    std::shared_ptr<const CachedShard> open;
    std::list<size_t>::iterator use;
  };
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;   // per shard
  std::list<size_t> in_use_;  // most recently used first
  std::string fallback_reason_;
};

}  // namespace shardkit
