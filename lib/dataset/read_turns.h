// Who reads next of a shard that can only be read forward, when many threads read blocks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace shardkit {

// Blocks are announced in the order in which they are wanted, and each of them is read, or given up, by a
// task that was started no later than those of the blocks announced after it: so that whoever waits, waits
// for one that is at work. Thread-safe.
class ReadTurns {
 public:
  // A block's place in the queue; leaves it when destroyed. Movable.
  class Turn {
   public:
    Turn(ReadTurns& turns, size_t shard, size_t block) : turns_(&turns), place_(shard, block) {
      std::lock_guard lock(turns_->mutex_);
      turns_->announced_.insert(place_);
    }
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)), place_(other.place_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() { End(); }

    // Returns when no block before this one of its shard is announced any more.
    void Await() {
      std::unique_lock lock(turns_->mutex_);
      turns_->moved_.wait(lock, [this] { return *turns_->announced_.lower_bound({place_.first, 0}) == place_; });
    }

    // Has been read. Idempotent.
    void End() {
      ReadTurns* const turns = std::exchange(turns_, nullptr);
      if (turns == nullptr) return;
      {
        std::lock_guard lock(turns->mutex_);
        turns->announced_.erase(place_);
      }
      turns->moved_.notify_all();
    }

   private:
    ReadTurns* turns_;
    std::pair<size_t, size_t> place_;  // shard and block
  };

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::set<std::pair<size_t, size_t>> announced_;
};

}  // namespace shardkit
