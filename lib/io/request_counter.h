// Counts requests, their bytes, and how many of them had to wait for each other.
#pragma once

#include <atomic>
#include <cstdint>

namespace shardkit::io {

// Thread-safe. A file system passes it every request that an object store would see.
class RequestCounter {
 public:
  // Lives as long as `requests` that are sent together are under way.
  class Scope {
   public:
    Scope(RequestCounter& counter, uint64_t requests, uint64_t bytes)
        : counter_(counter), depth_(counter.finished_depth_.load() + 1) {
      counter.requests_ += requests;
      counter.bytes_ += bytes;
    }
    ~Scope() {
      uint64_t deepest = counter_.finished_depth_.load();
      while (deepest < depth_ && !counter_.finished_depth_.compare_exchange_weak(deepest, depth_)) {
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RequestCounter& counter_;
    const uint64_t depth_;
  };

  // Bytes of a request whose length was not known when it was sent.
  void AddBytes(uint64_t bytes) { bytes_ += bytes; }

  uint64_t requests() const { return requests_.load(); }
  uint64_t bytes() const { return bytes_.load(); }

  // The length of the longest chain of requests of which each began after the one before it had ended.
  uint64_t round_trips() const { return finished_depth_.load(); }

 private:
  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> finished_depth_ = 0;
};

}  // namespace shardkit::io
