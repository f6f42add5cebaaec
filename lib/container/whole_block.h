// Reads blocks of shards to copy them as they are stored.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "container/read/native_shard_reader.h"
#include "container/write/block_encoder.h"

namespace shardkit::container {

// Whether blocks of the shard may be copied into another shard with these columns, if that has their storages.
bool BlocksCanBeCopied(const NativeShardReader& shard, const Schema& schema);

// Thread-safe. Uses the memory of blocks again when nobody has them any more.
class WholeBlocks {
 public:
  // Reads block `index` into memory and compares its checksums. Decodes what its statistics, keys and ends need:
  // nothing of blobs but where they end, and nothing of arrays of one shape. REQUIRES: BlocksCanBeCopied.
  absl::StatusOr<StoredBlock> Read(std::shared_ptr<const NativeShardReader> shard, size_t index);

 private:
  struct Memory {
    std::shared_ptr<const NativeShardReader> shard;
    BlockBuffer buffer;
  };
  struct Pool {
    std::mutex mutex;
    std::vector<std::unique_ptr<Memory>> free;
  };
  std::shared_ptr<Memory> Take() const;

  const std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

}  // namespace shardkit::container
