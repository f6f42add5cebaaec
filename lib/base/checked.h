// Overflow-checked arithmetic on u64 sizes that come from files.
#pragma once

#include <cstdint>

namespace shardkit {

// False when the result does not fit in 64 bits; *out is then unspecified.
[[nodiscard]] inline bool CheckedAdd(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}
[[nodiscard]] inline bool CheckedMultiply(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}

// `alignment` is a power of two. The caller ensures that `value` is below 2^63.
constexpr uint64_t RoundUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

// True when [offset, offset + length) lies within [0, size), also when offset + length would overflow.
[[nodiscard]] constexpr bool RangeWithin(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

}  // namespace shardkit
