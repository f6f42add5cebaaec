// Interleaved pixels to planes. A block takes kNormalizePixels pixels of one image at a time, through shared memory, so
// that global memory is read and written in wide pieces.
#pragma once

#include <cstdint>
#include <cstring>

#include "codec/image/pixel_values.h"
#include "gpu/kernels/block_grid.h"
#include "gpu/kernels/kernels.h"

namespace shardkit::gpu {

inline constexpr uint32_t kNormalizePixels = 4 * kBlockThreads;

template <int kChannels>
struct NormalizeShared {
  alignas(16) uint8_t bytes[kNormalizePixels * kChannels + 16];
};

inline GridSize NormalizeGrid(const NormalizeImages& arguments) {
  const uint64_t plane = uint64_t{arguments.height} * arguments.width;
  return MakeGrid(DivideUp<uint64_t>(plane, kNormalizePixels), arguments.count);
}

// Packs four elements in the order that they have in memory.
SHARDKIT_HOST_DEVICE inline Vector<1> PackFour(const uint8_t (&elements)[4]) {
  return {{elements[0] | uint32_t{elements[1]} << 8 | uint32_t{elements[2]} << 16 | uint32_t{elements[3]} << 24}};
}
SHARDKIT_HOST_DEVICE inline Vector<2> PackFour(const uint16_t (&elements)[4]) {
  return {{elements[0] | uint32_t{elements[1]} << 16, elements[2] | uint32_t{elements[3]} << 16}};
}
SHARDKIT_HOST_DEVICE inline Vector<4> PackFour(const float (&elements)[4]) {
  Vector<4> vector;
  memcpy(vector.words, elements, sizeof(vector.words));
  return vector;
}

// Reads pixels [4 * thread, 4 * thread + 4) into registers. `pixels` points to the first of them.
template <int kChannels>
SHARDKIT_HOST_DEVICE void ReadFourPixels(const uint8_t* pixels, uint8_t (&values)[4 * kChannels]) {
  if (MisalignmentOf(pixels, 4) == 0) {
    SHARDKIT_UNROLL
    for (int i = 0; i < kChannels; ++i) {
      const uint32_t word = reinterpret_cast<const Vector<1>*>(pixels + 4 * i)->words[0];
      for (int byte = 0; byte < 4; ++byte) values[4 * i + byte] = static_cast<uint8_t>(word >> (8 * byte));
    }
  } else {
    SHARDKIT_UNROLL
    for (int i = 0; i < 4 * kChannels; ++i) values[i] = pixels[i];
  }
}

// `pixels` are `count` pixels of one image from pixel `first` on.
template <typename Pixel, int kChannels>
SHARDKIT_HOST_DEVICE void StorePlanes(const NormalizeImages& arguments, uint64_t image, uint64_t first, uint32_t count,
                                      const uint8_t* pixels, uint32_t thread) {
  using Element = typename Pixel::Element;
  const uint64_t plane = uint64_t{arguments.height} * arguments.width;
  Element* const out = static_cast<Element*>(arguments.out) + image * kChannels * plane + first;
  const uint32_t mine = 4 * thread;
  uint8_t values[4 * kChannels];
  const bool whole = mine + 4 <= count;
  if (whole) ReadFourPixels<kChannels>(pixels + mine * kChannels, values);
  SHARDKIT_UNROLL
  for (int channel = 0; channel < kChannels; ++channel) {
    Element* const to = out + channel * plane;
    if (MisalignmentOf(to, 4 * sizeof(Element)) == 0) {
      if (whole) {
        Element four[4];
        SHARDKIT_UNROLL
        for (int i = 0; i < 4; ++i) four[i] = Pixel::Make(arguments.output, values[i * kChannels + channel], channel);
        StoreGlobal(to + mine, PackFour(four));
      } else {
        SHARDKIT_NO_UNROLL
        for (uint32_t i = mine; i < count; ++i) {
          to[i] = Pixel::Make(arguments.output, pixels[i * kChannels + channel], channel);
        }
      }
    } else {
      // The threads of a warp still write next to one another.
      SHARDKIT_NO_UNROLL
      for (uint32_t i = thread; i < count; i += kBlockThreads) {
        to[i] = Pixel::Make(arguments.output, pixels[i * kChannels + channel], channel);
      }
    }
  }
}

template <typename Pixel, int kChannels, typename Threads>
SHARDKIT_HOST_DEVICE void NormalizeBlock(const NormalizeImages& arguments, const BlockPlace& place,
                                         NormalizeShared<kChannels>& shared, const Threads& threads) {
  const uint64_t plane = uint64_t{arguments.height} * arguments.width;
  for (uint64_t image = place.block.y; image < arguments.count; image += place.grid.y) {
    for (uint64_t first = uint64_t{place.block.x} * kNormalizePixels; first < plane;
         first += uint64_t{place.grid.x} * kNormalizePixels) {
      const uint8_t* const from = arguments.pixels + (image * plane + first) * kChannels;
      const auto count = static_cast<uint32_t>(Least<uint64_t>(plane - first, kNormalizePixels));
      threads([&](uint32_t thread) { LoadShifted(from, count * kChannels, thread, shared.bytes); });
      threads([&](uint32_t thread) {
        StorePlanes<Pixel, kChannels>(arguments, image, first, count, shared.bytes + MisalignmentOf(from, 16), thread);
      });
    }
  }
}

}  // namespace shardkit::gpu
