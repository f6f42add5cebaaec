// Keeps the memory of batches for later batches.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "loader/engine/batch_storage.h"

namespace shardkit::loader {

// Thread-safe. Outlives the loader while batches are held. Lock order: `closing_`, which others than the consumer
// hardly take, then the engine's lock or `mutex_`. While the engine holds its own lock, it calls only functions that do
// not wait for these.
//
// A batch is charged its estimated bytes when it is begun (Reserve), and its real bytes once it is laid out (Charge).
class BatchPool {
 public:
  using BlockList = std::vector<std::shared_ptr<BlockEntry>>;

  // `returned` is called each time a batch comes back, with the blocks that the batch held, until Close.
  BatchPool(uint64_t limit, std::function<void(const BlockList&)> returned)
      : limit_(limit), returned_(std::move(returned)) {
    free_.reserve(kMostFree);
  }

  // Whether one more batch of `bytes` may be laid out. Takes no lock.
  bool HasRoom(uint64_t bytes) const { return used_ + bytes <= Limit(); }
  // Takes no lock.
  void Reserve(uint64_t bytes) { used_ += bytes; }
  // Bytes of batches beyond the limit. Takes no lock.
  uint64_t over() const {
    const uint64_t used = used_;
    return used > limit_ ? used - limit_ : 0;
  }

  // Lends `bytes` of the limit to blocks, until called again. Frees kept memory beyond what is left. Does not wait for
  // the lock: when another thread holds it, the next call frees the memory. True when batches have more room than
  // before.
  bool Lend(uint64_t bytes) {
    const bool more_room = lent_.exchange(bytes) > bytes;
    if (bytes == 0) return more_room;
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock) DropFree();
    return more_room;
  }

  // Memory for a batch that was charged `bytes`: the smallest kept memory that is large enough, otherwise the largest.
  std::unique_ptr<BatchStorage> Take(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      auto storage = std::make_unique<BatchStorage>();
      storage->charged_ = bytes;
      return storage;
    }
    const auto best = std::ranges::min_element(free_, {}, [bytes](const std::unique_ptr<BatchStorage>& storage) {
      const uint64_t memory = storage->memory();
      return memory >= bytes ? std::pair(uint64_t{0}, memory) : std::pair(uint64_t{1}, UINT64_MAX - memory);
    });
    std::unique_ptr<BatchStorage> storage = std::move(*best);
    free_.erase(best);
    free_bytes_ -= storage->memory();
    storage->charged_ = bytes;
    return storage;
  }

  // Changes the charge of a batch to `bytes`. Frees kept memory beyond the limit.
  void Charge(BatchStorage& storage, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    used_ += bytes - std::exchange(storage.charged_, bytes);
    DropFree();
    peak_ = std::max(peak_, used_ + free_bytes_);
  }

  // Takes back the memory of a batch, which is not charged any more.
  void Give(std::unique_ptr<BatchStorage> storage) {
    const uint64_t memory = storage->memory(), charged = storage->charged_;
    const BlockList held = std::exchange(storage->held_, {});
    {
      std::lock_guard lock(mutex_);
      if (!closed_ && free_.size() < free_.capacity() && used_ - charged + free_bytes_ + memory <= Limit()) {
        used_ -= charged;
        free_bytes_ += memory;
        free_.push_back(std::move(storage));
      }
    }
    if (storage != nullptr) {
      storage.reset();  // without the lock: it takes milliseconds for a large batch
      used_ -= charged;
    }
    std::lock_guard lock(closing_);
    if (!closed_) returned_(held);
  }

  // Frees kept memory. Memory that comes back later is freed at once.
  void Close() {
    std::scoped_lock lock(closing_, mutex_);
    closed_ = true;
    free_.clear();
    free_bytes_ = 0;
  }

  uint64_t memory() const {
    std::lock_guard lock(mutex_);
    return used_ + free_bytes_;
  }
  uint64_t peak() const {
    std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  static constexpr size_t kMostFree = 256;  // reserved once, because Give must not throw

  uint64_t Limit() const { return limit_ - std::min<uint64_t>(limit_, lent_); }

  void DropFree() {
    while (!free_.empty() && used_ + free_bytes_ > Limit()) {
      free_bytes_ -= free_.back()->memory();
      free_.pop_back();
    }
  }

  std::mutex closing_;  // held during a call of returned_
  mutable std::mutex mutex_;
  const uint64_t limit_;
  const std::function<void(const BlockList&)> returned_;
  bool closed_ = false;  // written with both locks
  std::vector<std::unique_ptr<BatchStorage>> free_;
  uint64_t free_bytes_ = 0;
  std::atomic<uint64_t> used_ = 0;
  std::atomic<uint64_t> lent_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace shardkit::loader
