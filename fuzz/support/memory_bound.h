// Holds a target to the memory that the library promises to need.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardkit::fuzz {

// A finding when, while this lives, the heap grows by more than the input's size and 256 MiB: all that the library
// promises to need with its default limits (SECURITY.md), what the target itself keeps included. Measures where a
// sanitizer that can is linked, else does nothing. One at a time.
class MemoryBound {
 public:
  explicit MemoryBound(size_t input_size);
  ~MemoryBound();
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
};

}  // namespace shardkit::fuzz
