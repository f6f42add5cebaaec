// Checks that a target stays within the memory limits that the library promises.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardkit::fuzz {

// Reports a finding when the heap grows by more than the input's size plus 256 MiB during the lifetime of this object.
// The library promises this maximum for its default limits (SECURITY.md); here it includes the target's own memory.
// Does nothing unless a sanitizer that can measure the heap is linked. Only one object may exist at a time.
class MemoryBound {
 public:
  explicit MemoryBound(size_t input_size);
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
};

}  // namespace shardkit::fuzz
