// Remembers which chunks of a file this process has found right (Verify::kFirst).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardkit::container {

// Thread-safe.
class VerifiedChunks {
 public:
  // Those of the file with this identity, shared by all its readers in the process and kept after them. The file has
  // `count` chunks, numbered from 0. Null when the identity is empty, or when no more can be remembered: each file
  // takes a bit per chunk, and all of them together 64 MiB at most.
  static std::shared_ptr<VerifiedChunks> Of(const std::string& identity, uint64_t count);

  bool Contains(uint64_t chunk) const {
    return (bits_[chunk / 64].load(std::memory_order_relaxed) >> chunk % 64 & 1) != 0;
  }
  void Add(uint64_t chunk) { bits_[chunk / 64].fetch_or(uint64_t{1} << chunk % 64, std::memory_order_relaxed); }

 private:
  explicit VerifiedChunks(uint64_t words) : bits_(words) {}

  std::vector<std::atomic<uint64_t>> bits_;
};

}  // namespace shardkit::container
