// Resizes in two passes, with the weights of lib/codec and its rounding to 8 bits after each pass.
#pragma once

#include <cstdint>

#include "codec/image/pixel_values.h"
#include "gpu/kernels/block_grid.h"
#include "gpu/kernels/kernels.h"

namespace shardkit::gpu {

// Place of a value in an output of images of one size.
struct OutputPlace {
  uint64_t height = 0, width = 0, channels = 0;
  bool planar = false;

  SHARDKIT_HOST_DEVICE uint64_t operator()(uint64_t image, uint64_t y, uint64_t x, uint64_t channel) const {
    return planar ? ((image * channels + channel) * height + y) * width + x
                  : ((image * height + y) * width + x) * channels + channel;
  }
};

// Weight bits of AxisFilter (codec/image/resize.h).
inline constexpr int kResampleWeightBits = 22;

// A block makes kResampleSide x kResampleSide pixels at a time, in each pass.
inline constexpr uint32_t kResampleSide = 32;
inline constexpr uint32_t kResampleRows = kBlockThreads / kResampleSide;  // rows of threads
inline constexpr uint32_t kResamplePerThread = kResampleSide / kResampleRows;

// One output position of a filter: the first input, and the weights.
struct FilterRecord {
  uint32_t first;
  uint32_t taps;
  const int32_t* weights;

  SHARDKIT_HOST_DEVICE FilterRecord(const int32_t* filter, uint32_t padded_taps, uint32_t position) {
    const int32_t* const record = filter + uint64_t{position} * (padded_taps + 2);
    first = static_cast<uint32_t>(record[0]);
    taps = static_cast<uint32_t>(record[1]);
    weights = record + 2;
  }
};

SHARDKIT_HOST_DEVICE inline uint8_t RoundWeighted(int32_t sum) {
  return static_cast<uint8_t>(Most(Least(sum >> kResampleWeightBits, 255), 0));
}

inline GridSize HorizontalGrid(const ResampleImages& arguments) {
  return MakeGrid(DivideUp(arguments.most_width, kResampleSide), DivideUp(arguments.most_rows, kResampleSide),
                  arguments.count);
}

// Resizes the rows that the vertical pass reads: pixels to scratch.
template <int kChannels>
SHARDKIT_HOST_DEVICE void ResizeAlongRows(const ResampleImages& arguments, const ResampleImage& image, uint32_t left,
                                          uint32_t top, uint32_t thread) {
  const uint32_t x = left + thread % kResampleSide;
  const uint32_t row = top + thread / kResampleSide * kResamplePerThread;
  if (x >= image.width || row >= image.rows) return;
  const uint32_t rows = Least(kResamplePerThread, image.rows - row);
  const FilterRecord filter(arguments.filters + image.horizontal, image.horizontal_taps, x);
  const uint64_t row_bytes = uint64_t{image.stored_width} * kChannels;
  int32_t sums[kResamplePerThread][kChannels];
  const uint8_t* from[kResamplePerThread];
  SHARDKIT_UNROLL
  for (uint32_t r = 0; r < kResamplePerThread; ++r) {
    // Rows beyond the last one repeat it, and are not kept.
    const uint32_t source = image.top + row + Least(r, rows - 1);
    from[r] = arguments.pixels + image.pixels + source * row_bytes + uint64_t{filter.first} * kChannels;
    SHARDKIT_UNROLL
    for (int c = 0; c < kChannels; ++c) sums[r][c] = 1 << (kResampleWeightBits - 1);
  }
  for (uint32_t j = 0; j < filter.taps; ++j) {
    const int32_t weight = filter.weights[j];
    SHARDKIT_UNROLL
    for (uint32_t r = 0; r < kResamplePerThread; ++r) {
      SHARDKIT_UNROLL
      for (int c = 0; c < kChannels; ++c) sums[r][c] += weight * from[r][j * kChannels + static_cast<uint32_t>(c)];
    }
  }
  uint8_t* const to = arguments.scratch + image.scratch + (uint64_t{row} * image.width + x) * kChannels;
  SHARDKIT_UNROLL
  for (uint32_t r = 0; r < kResamplePerThread; ++r) {
    if (r >= rows) continue;
    SHARDKIT_UNROLL
    for (int c = 0; c < kChannels; ++c)
      to[uint64_t{r} * image.width * kChannels + static_cast<uint32_t>(c)] = RoundWeighted(sums[r][c]);
  }
}

template <int kChannels, typename Threads>
SHARDKIT_HOST_DEVICE void HorizontalBlock(const ResampleImages& arguments, const BlockPlace& place,
                                          const Threads& threads) {
  for (uint64_t index = place.block.z; index < arguments.count; index += place.grid.z) {
    const ResampleImage& image = arguments.images[index];
    if (image.stored_width == 0) continue;
    for (uint64_t top = uint64_t{place.block.y} * kResampleSide; top < image.rows;
         top += uint64_t{place.grid.y} * kResampleSide) {
      for (uint64_t left = uint64_t{place.block.x} * kResampleSide; left < image.width;
           left += uint64_t{place.grid.x} * kResampleSide) {
        threads([&](uint32_t thread) {
          ResizeAlongRows<kChannels>(arguments, image, static_cast<uint32_t>(left), static_cast<uint32_t>(top), thread);
        });
      }
    }
  }
}

// A square of the output. It is written in the order in which scratch is read, and read in the order of the output:
// with `transpose` these differ. The rows' length keeps the threads of a warp in different banks in both orders.
template <int kChannels>
struct VerticalShared {
  uint8_t pixels[kChannels][kResampleSide][kResampleSide + 4];
};

inline GridSize VerticalGrid(const ResampleImages& arguments) {
  return MakeGrid(DivideUp(arguments.output_width, kResampleSide), DivideUp(arguments.output_height, kResampleSide),
                  arguments.count);
}

// Makes the square of the content at (left, top), which are modulo 2^32: the square may begin before the content.
template <int kChannels>
SHARDKIT_HOST_DEVICE void ResizeAlongColumns(const ResampleImages& arguments, const ResampleImage& image, uint32_t left,
                                             uint32_t top, uint32_t thread, VerticalShared<kChannels>& shared) {
  const bool transpose = image.transpose != 0;
  const uint64_t row_bytes = uint64_t{image.width} * kChannels;
  const uint32_t across = thread % kResampleSide;
  const uint32_t x = (transpose ? top : left) + across;
  if (x >= image.width) return;
  const uint8_t* const column = arguments.scratch + image.scratch + uint64_t{x} * kChannels;
  for (uint32_t along = thread / kResampleSide; along < kResampleSide; along += kResampleRows) {
    const uint32_t y = (transpose ? left : top) + along;
    if (y >= image.height) continue;
    const FilterRecord filter(arguments.filters + image.vertical, image.vertical_taps, y);
    const uint8_t* from = column + (filter.first - image.top) * row_bytes;
    int32_t sums[kChannels];
    SHARDKIT_UNROLL
    for (int c = 0; c < kChannels; ++c) sums[c] = 1 << (kResampleWeightBits - 1);
    for (uint32_t j = 0; j < filter.taps; ++j, from += row_bytes) {
      const int32_t weight = filter.weights[j];
      SHARDKIT_UNROLL
      for (int c = 0; c < kChannels; ++c) sums[c] += weight * from[c];
    }
    SHARDKIT_UNROLL
    for (int c = 0; c < kChannels; ++c)
      shared.pixels[c][transpose ? across : along][transpose ? along : across] = RoundWeighted(sums[c]);
  }
}

template <typename Pixel, int kChannels>
SHARDKIT_HOST_DEVICE void StoreSquare(const ResampleImages& arguments, uint64_t index, uint32_t left, uint32_t top,
                                      uint32_t thread, const VerticalShared<kChannels>& shared) {
  const ResampleImage& image = arguments.images[index];
  const bool present = image.stored_width != 0;
  const OutputPlace at{arguments.output_height, arguments.output_width, kChannels, arguments.output.planar};
  typename Pixel::Element* const out = static_cast<typename Pixel::Element*>(arguments.out);
  const uint32_t column = thread % kResampleSide;
  const uint32_t x = left + column;
  if (x >= arguments.output_width) return;
  for (uint32_t row = thread / kResampleSide; row < kResampleSide; row += kResampleRows) {
    const uint32_t y = top + row;
    if (y >= arguments.output_height) return;
    // Modulo 2^32, as above.
    const bool content =
        present && x - image.content_left < image.content_width && y - image.content_top < image.content_height;
    SHARDKIT_UNROLL
    for (int c = 0; c < kChannels; ++c) {
      const uint8_t around = present ? arguments.fill[c] : uint8_t{0};
      const uint8_t pixel = content ? shared.pixels[c][row][column] : around;
      out[at(index, y, x, static_cast<uint64_t>(c))] = Pixel::Make(arguments.output, pixel, c);
    }
  }
}

template <typename Pixel, int kChannels, typename Threads>
SHARDKIT_HOST_DEVICE void VerticalBlock(const ResampleImages& arguments, const BlockPlace& place,
                                        VerticalShared<kChannels>& shared, const Threads& threads) {
  for (uint64_t index = place.block.z; index < arguments.count; index += place.grid.z) {
    const ResampleImage& image = arguments.images[index];
    for (uint64_t top = uint64_t{place.block.y} * kResampleSide; top < arguments.output_height;
         top += uint64_t{place.grid.y} * kResampleSide) {
      for (uint64_t left = uint64_t{place.block.x} * kResampleSide; left < arguments.output_width;
           left += uint64_t{place.grid.x} * kResampleSide) {
        const auto x = static_cast<uint32_t>(left), y = static_cast<uint32_t>(top);
        if (image.stored_width != 0) {
          threads([&](uint32_t thread) {
            ResizeAlongColumns<kChannels>(arguments, image, x - image.content_left, y - image.content_top, thread,
                                          shared);
          });
        }
        threads([&](uint32_t thread) { StoreSquare<Pixel, kChannels>(arguments, index, x, y, thread, shared); });
      }
    }
  }
}

}  // namespace shardkit::gpu
