// Counts requests, their bytes, and how many of them had to wait for each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace shardkit::io {

// What was sent for a read, where a cache answered some of it.
struct SentRequests {
  uint64_t requests = 0;
  uint64_t bytes = 0;
};

// Of the read that has just ended on this thread; set by files with a cache, and taken by those who count.
inline thread_local std::optional<SentRequests> sent_for_read;

// Thread-safe. A file system passes it every request that an object store would see.
class RequestCounter {
 public:
  // Lives as long as `requests` that are sent together are under way.
  class Scope {
   public:
    Scope(RequestCounter& counter, uint64_t requests, uint64_t bytes)
        : counter_(counter), depth_(counter.finished_depth_.load() + 1) {
      counter.requests_ += requests_ = requests;
      counter.bytes_ += bytes_ = bytes;
    }
    ~Scope() {
      if (requests_ == 0) return;
      uint64_t deepest = counter_.finished_depth_.load();
      while (deepest < depth_ && !counter_.finished_depth_.compare_exchange_weak(deepest, depth_)) {
      }
    }
    // Counts what was sent in place of what was asked for.
    void Correct(const SentRequests& sent) {
      counter_.requests_ += sent.requests - requests_;  // modulo 2^64
      counter_.bytes_ += sent.bytes - bytes_;
      requests_ = sent.requests;
      bytes_ = sent.bytes;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    RequestCounter& counter_;
    const uint64_t depth_;
    uint64_t requests_ = 0;
    uint64_t bytes_ = 0;
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
