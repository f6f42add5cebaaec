// Resizing in two steps, so that only the needed part of the image must be in memory: coefficients, and the inner
// loops for different processors.
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
void ResizeRows(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, size_t rows, int channels,
                uint8_t* tail);

// Bytes of the scratch for copies of row ends with zeros behind them.
constexpr size_t TailBytes(const AxisFilter& filter) { return kRowGroup * 4 * (2 * filter.padded_taps + 16); }

// to[x] = weighted sum of from[j][x] over the `taps` rows, for x < bytes.
void BlendRows(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps, size_t bytes,
               uint8_t* to);

// Reuses its memory. One thread at a time.
class FilterResizer {
 public:
  // `source` is not empty and lies within [0, width] x [0, height]. It becomes out_width x out_height, both above 0,
  // mirrored as requested.
  void Prepare(uint32_t width, uint32_t height, const Box& source, uint32_t out_width, uint32_t out_height,
               Interpolation interpolation, bool mirror_x, bool mirror_y);

  // The part of the image that Run needs.
  uint32_t left() const { return horizontal_.begin; }
  uint32_t right() const { return horizontal_.end; }
  uint32_t top() const { return vertical_.begin; }
  uint32_t bottom() const { return vertical_.end; }

  // part.pixels[0] is pixel (x, y) of the image, at most (left(), top()); `part` reaches right() and bottom(). `out`
  // has the prepared size and the same channels, and does not overlap `part`.
  void Run(const ImageView& part, uint32_t x, uint32_t y, const MutableImageView& out);

 private:
  void ResizeGroup(const uint8_t* from, size_t stride, uint8_t* const* to, size_t rows, int channels);

  AxisFilter horizontal_;
  AxisFilter vertical_;
  std::vector<uint8_t> ring_;  // rows after the horizontal pass, enough for one output row
  std::vector<uint8_t> tail_;
  std::vector<const uint8_t*> rows_;
};

}  // namespace shardkit::codec
