// A kernel is written once, as a function for a block. It gets the block's place in the grid, the memory that the
// block's threads share, and `threads`, which runs a function in each thread and then waits for all of them. On the
// device these are threads and a barrier, in tests on the host a loop.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace shardkit::gpu {

inline constexpr uint32_t kBlockThreads = 256;

// Blocks of a grid in each dimension. A block takes further work in strides of the grid, so any grid does all work.
struct GridSize {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

// What CUDA allows.
inline constexpr uint64_t kMostBlocksX = 0x7fffffff;
inline constexpr uint64_t kMostBlocksYz = 0xffff;

inline GridSize MakeGrid(uint64_t x, uint64_t y = 1, uint64_t z = 1) {
  return {static_cast<uint32_t>(Least(x, kMostBlocksX)), static_cast<uint32_t>(Least(y, kMostBlocksYz)),
          static_cast<uint32_t>(Least(z, kMostBlocksYz))};
}

struct BlockPlace {
  GridSize block;
  GridSize grid;
};

// 4, 8 or 16 bytes that are read or written at once, aligned to their number.
template <int kWords>
struct alignas(4 * kWords) SHARDKIT_MAY_ALIAS Vector {
  uint32_t words[kWords];
};
using Vector16 = Vector<4>;

template <int kWords>
SHARDKIT_HOST_DEVICE void StoreGlobal(void* to, const Vector<kWords>& vector) {
#ifdef __CUDA_ARCH__
  // The compiler would make an assignment store single words when the vector was made word by word.
  if constexpr (kWords == 4) {
    __stcg(static_cast<uint4*>(to), make_uint4(vector.words[0], vector.words[1], vector.words[2], vector.words[3]));
  } else if constexpr (kWords == 2) {
    __stcg(static_cast<uint2*>(to), make_uint2(vector.words[0], vector.words[1]));
  } else {
    __stcg(static_cast<uint32_t*>(to), vector.words[0]);
  }
#else
  *static_cast<Vector<kWords>*>(to) = vector;
#endif
}

// Reads global memory that no block writes while the kernel runs.
SHARDKIT_HOST_DEVICE inline uint32_t LoadConstant(const uint32_t* from) {
#ifdef __CUDA_ARCH__
  return __ldg(from);
#else
  return *from;
#endif
}

SHARDKIT_HOST_DEVICE inline uint32_t MisalignmentOf(const void* memory, uint32_t alignment) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(memory)) & (alignment - 1);
}

// Copies `bytes` bytes between global memory at any address and shared memory aligned to 16, 16 bytes at a time. In
// shared memory they begin at shared + MisalignmentOf(global, 16), so that both sides have the same alignment. No bytes
// before or after them are touched on either side.
template <typename Move16, typename Move1>
SHARDKIT_HOST_DEVICE void ForShiftedVectors(uint32_t shift, uint32_t bytes, uint32_t thread, const Move16& move16,
                                            const Move1& move1) {
  const uint32_t end = shift + bytes;
  for (uint32_t begin = 16 * thread; begin < end; begin += 16 * kBlockThreads) {
    if (begin >= shift && begin + 16 <= end) {
      move16(begin, begin - shift);
    } else {
      const uint32_t last = Least(begin + 16, end);
      SHARDKIT_NO_UNROLL
      for (uint32_t i = Most(begin, shift); i < last; ++i) move1(i, i - shift);
    }
  }
}

SHARDKIT_HOST_DEVICE inline void LoadShifted(const uint8_t* global, uint32_t bytes, uint32_t thread, uint8_t* shared) {
  ForShiftedVectors(
      MisalignmentOf(global, 16), bytes, thread,
      [&](uint32_t to, uint32_t from) {
        *reinterpret_cast<Vector16*>(shared + to) = *reinterpret_cast<const Vector16*>(global + from);
      },
      [&](uint32_t to, uint32_t from) { shared[to] = global[from]; });
}

SHARDKIT_HOST_DEVICE inline void StoreShifted(const uint8_t* shared, uint32_t bytes, uint32_t thread, uint8_t* global) {
  ForShiftedVectors(
      MisalignmentOf(global, 16), bytes, thread,
      [&](uint32_t from, uint32_t to) {
        *reinterpret_cast<Vector16*>(global + to) = *reinterpret_cast<const Vector16*>(shared + from);
      },
      [&](uint32_t from, uint32_t to) { global[to] = shared[from]; });
}

}  // namespace shardkit::gpu
