// Resizing in two steps, so that only the needed part of the image must be in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/resize_kernels.h"
#include "shardkit/image.h"

namespace shardkit::codec {

// Reuses its memory. One thread at a time.
class FilterResizer {
 public:
  struct Kernels {
    ResizeRowsFunction resize_rows;
    BlendRowsFunction blend_rows;
  };
  FilterResizer();
  explicit FilterResizer(const Kernels& kernels) : kernels_(kernels) {}

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
  void ResizeRows(const uint8_t* from, size_t stride, uint8_t* const* to, size_t rows, int channels);

  Kernels kernels_;
  AxisFilter horizontal_;
  AxisFilter vertical_;
  std::vector<uint8_t> ring_;  // rows after the horizontal pass, enough for one output row
  std::vector<uint8_t> tail_;
  std::vector<const uint8_t*> rows_;
};

}  // namespace shardkit::codec
