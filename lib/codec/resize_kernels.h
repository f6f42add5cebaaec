// Resizing: coefficients, and the inner loops for different processors.
//
// Weights are Pillow's: fixed point with 22 fractional bits, each pass rounded to 8 bits. They are stored in two
// halves, weight = high * 2^11 + low. Each half fits the 16-bit multiply-and-add, which is fast on vector units. So
// results are exact on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardkit/image.h"

namespace shardkit::codec {

inline constexpr int kWeightBits = 22;
inline constexpr int kLowBits = 11;

// Output i of one axis is the weighted sum of taps[i] positions from first[i] on, with weights high[i * padded_taps +
// j] and low[i * padded_taps + j]; the further weights are 0. Positions without weight are left out.
struct AxisFilter {
  std::vector<uint32_t> first;
  std::vector<uint32_t> taps;
  std::vector<int16_t> high;
  std::vector<int16_t> low;
  uint32_t padded_taps = 0;  // at least the largest of taps; a multiple of 8
  uint32_t begin = 0;        // all positions that outputs use
  uint32_t end = 0;
  bool identity = false;  // output i is position begin + i

  // The axis has `size` positions. [from, from + length) becomes `count` outputs, the last one first with `mirror`. 0 <
  // length; from and from + length lie within [0, size]; count > 0.
  void Build(uint32_t size, double from, double length, uint32_t count, Interpolation interpolation, bool mirror);
};

// Up to this many source rows are resized together, with the same weights.
inline constexpr size_t kRowGroup = 4;

// Makes one output row for each of `rows` (1 to kRowGroup) source rows. from[r] holds the positions filter.begin to
// filter.end of a row with `channels` bytes each; to[r] receives the outputs. `tail` is scratch of at least
// TailBytes().
using ResizeRowsFunction = void (*)(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to,
                                    size_t rows, int channels, uint8_t* tail);
void ResizeRowsPortable(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, size_t rows,
                        int channels, uint8_t* tail);
void ResizeRowsAvx2(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, size_t rows, int channels,
                    uint8_t* tail);

// Bytes of the scratch for copies of row ends with zeros behind them.
constexpr size_t TailBytes(const AxisFilter& filter) { return kRowGroup * 4 * (2 * filter.padded_taps + 16); }

// to[x] = weighted sum of from[j][x] over the `taps` rows, for x < bytes.
using BlendRowsFunction = void (*)(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps,
                                   size_t bytes, uint8_t* to);
void BlendRowsPortable(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps, size_t bytes,
                       uint8_t* to);
void BlendRowsAvx2(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps, size_t bytes,
                   uint8_t* to);

}  // namespace shardkit::codec
