// Shapes of the synthetic objects, and which pixels they hold. Integers only.
#pragma once

#include <cstdint>
#include <vector>

#include "synth/random.h"

namespace shardctl {

// Positions are in 1/256 pixel; the centre of pixel i is at 256 * i + 128.
inline constexpr int64_t kShapeUnit = 256;

struct ShapePoint {
  int64_t x = 0;
  int64_t y = 0;
};

// A region bounded by closed polygons. A point is inside when a ray from it crosses the polygons an odd number of
// times.
struct Shape {
  std::vector<std::vector<ShapePoint>> rings;
};

enum class ShapeKind { kBlob, kEllipse, kPolygon };

struct ShapeOptions {
  ShapeKind kind = ShapeKind::kBlob;
  int64_t center_x = 0;  // 1/256 pixel
  int64_t center_y = 0;
  int64_t radius = 0;    // 1/256 pixel, along the long axis; up to 2^22
  int64_t aspect = 256;  // short axis over long axis, in 1/256
  uint32_t angle = 0;    // of the long axis; 65536 is a full turn
  bool hole = false;
};

Shape MakeShape(const ShapeOptions& options, SynthRandom& random);

// Rows [begin, end) of column `x`.
struct ColumnSpan {
  uint32_t x = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
};

// The pixels whose centre is inside the shape. Spans are sorted by column, then from the top down. No span is empty,
// and spans of one column do not touch.
struct SynthMask {
  std::vector<ColumnSpan> spans;
  std::vector<uint32_t> runs;  // COCO's, as in shardkit/rle.h
  uint64_t area = 0;           // pixels
  // Extreme pixels, both included; meaningless when the area is 0.
  uint32_t min_x = 0, max_x = 0, min_y = 0, max_y = 0;
};

// Replaces *mask by the part of the shape inside a picture of width x height pixels, each 1 to 2^20.
void RasterizeShape(const Shape& shape, uint32_t width, uint32_t height, SynthMask* mask);

// sin(angle) * 32768 to within 0.2 %; 65536 is a full turn.
int64_t SineQ15(uint32_t angle);
inline int64_t CosineQ15(uint32_t angle) { return SineQ15(angle + 16384); }

}  // namespace shardctl
