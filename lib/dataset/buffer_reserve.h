// Block memory kept between scans of a dataset, so that an epoch does not begin with page faults.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "shardkit/shard.h"

namespace shardkit::dataset {

// Thread-safe.
class BufferReserve {
 public:
  BufferReserve() { free_.reserve(kKept); }  // destructors call Give, so it must not throw

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

}  // namespace shardkit::dataset
