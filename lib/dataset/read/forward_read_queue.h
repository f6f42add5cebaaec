// Decides which thread reads next from a shard that can only be read forward.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace shardkit::dataset {

// Blocks must be announced in the order in which they are wanted. The task of a block must start no later than the
// tasks of the blocks announced after it, and must read its block or give it up. So a waiting task always waits for a
// running one. Thread-safe.
class ForwardReadQueue {
 public:
  // A block's place in the queue. The destructor gives the place up. Movable.
  class Turn {
   public:
    Turn(ForwardReadQueue& turns, size_t shard, size_t block) : turns_(&turns), place_(shard, block) {
      std::lock_guard lock(turns_->mutex_);
      turns_->announced_.insert(place_);
    }
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)), place_(other.place_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() { End(); }

    // Waits until no earlier block of the same shard is announced.
    void Await() {
      std::unique_lock lock(turns_->mutex_);
      turns_->moved_.wait(lock, [this] { return *turns_->announced_.lower_bound({place_.first, 0}) == place_; });
    }

    // Call when the block has been read. Idempotent.
    void End() {
      ForwardReadQueue* const turns = std::exchange(turns_, nullptr);
      if (turns == nullptr) return;
      {
        std::lock_guard lock(turns->mutex_);
        turns->announced_.erase(place_);
      }
      turns->moved_.notify_all();
    }

   private:
    ForwardReadQueue* turns_;
    std::pair<size_t, size_t> place_;  // shard and block
  };

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::set<std::pair<size_t, size_t>> announced_;
};

}  // namespace shardkit::dataset
