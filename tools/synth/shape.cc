#include "synth/shape.h"

#include <algorithm>
#include <utility>

namespace shardctl {
namespace {

constexpr int64_t kOne = 4096;  // 1.0 in the radius profile

int64_t CeilDivide(int64_t numerator, int64_t denominator) {
  const int64_t quotient = numerator / denominator;
  return quotient + (numerator % denominator > 0 ? 1 : 0);
}

// Row whose centre is the first at or below `y`.
int64_t FirstRow(int64_t y) { return (y - kShapeUnit / 2 + kShapeUnit - 1) >> 8; }

// Adds to *profile a smooth closed curve through `knots` random values of up to +-amplitude.
void AddWaves(size_t knots, int64_t amplitude, SynthRandom& random, std::vector<int64_t>* profile) {
  std::vector<int64_t> values(knots);
  for (int64_t& value : values) value = random.Between(-amplitude, amplitude);
  const size_t points = profile->size();
  for (size_t i = 0; i < points; ++i) {
    const size_t position = i * knots * 256 / points;
    const size_t knot = position / 256;
    const int64_t t = static_cast<int64_t>(position % 256);
    const int64_t smooth = t * t * (768 - 2 * t) >> 16;  // 3t^2 - 2t^3, of 256
    const int64_t from = values[knot];
    const int64_t to = values[(knot + 1) % knots];
    (*profile)[i] += from + (to - from) * smooth / 256;
  }
}

// Distance of each vertex from the centre, as a share of the radius.
std::vector<int64_t> RadiusProfile(const ShapeOptions& options, SynthRandom& random) {
  if (options.kind == ShapeKind::kPolygon) {
    std::vector<int64_t> profile(static_cast<size_t>(random.Between(3, 8)));
    for (int64_t& distance : profile) distance = random.Between(kOne * 8 / 10, kOne);
    return profile;
  }
  // One vertex per about five pixels of outline: fine enough to look smooth, coarse enough to be quick.
  const size_t points = static_cast<size_t>(std::clamp<int64_t>(options.radius / kShapeUnit * 5 / 4, 16, 512));
  std::vector<int64_t> profile(points, kOne * 3 / 4);
  int64_t amplitude = options.kind == ShapeKind::kBlob ? random.Between(kOne / 8, kOne * 2 / 5) : kOne / 24;
  for (size_t knots = 3; knots * 2 <= points; knots *= 2) {
    AddWaves(knots, amplitude, random, &profile);
    amplitude = amplitude * 9 / 16;
  }
  for (int64_t& distance : profile) distance = std::clamp(distance, kOne / 6, kOne * 3 / 2);
  return profile;
}

}  // namespace

int64_t SineQ15(uint32_t angle) {
  // Bhaskara's approximation, 16 x (h - x) / (5 h^2 - 4 x (h - x)) for a half turn h.
  const int64_t x = angle & 0x7fff;
  const int64_t product = x * (32768 - x);
  const int64_t sine = (product << 19) / ((int64_t{5} << 30) - 4 * product);
  return (angle & 0x8000) != 0 ? -sine : sine;
}

Shape MakeShape(const ShapeOptions& options, SynthRandom& random) {
  const std::vector<int64_t> profile = RadiusProfile(options, random);
  const uint32_t points = static_cast<uint32_t>(profile.size());
  const uint32_t start = static_cast<uint32_t>(random.Below(65536));
  const int64_t cosine = CosineQ15(options.angle);
  const int64_t sine = SineQ15(options.angle);
  Shape shape;
  // A hole has the outline's own form at half its size, so the two never cross.
  for (int64_t scale = 256; scale >= (options.hole ? 128 : 256); scale -= 128) {
    std::vector<ShapePoint>& ring = shape.rings.emplace_back(points);
    for (uint32_t i = 0; i < points; ++i) {
      const uint32_t direction = start + i * 65536 / points;
      const int64_t distance = options.radius * profile[i] / kOne * scale / 256;
      const int64_t along = distance * CosineQ15(direction) / 32768;
      const int64_t across = distance * SineQ15(direction) / 32768 * options.aspect / 256;
      ring[i] = {options.center_x + (along * cosine - across * sine) / 32768,
                 options.center_y + (along * sine + across * cosine) / 32768};
    }
  }
  return shape;
}

void RasterizeShape(const Shape& shape, uint32_t width, uint32_t height, SynthMask* mask) {
  // (column, first row whose centre is at or below the point where an edge crosses the column's centre line). Rounding
  // that point up does not change the row, because row centres are whole numbers.
  std::vector<std::pair<uint32_t, int64_t>> crossings;
  for (const std::vector<ShapePoint>& ring : shape.rings) {
    for (size_t i = 0; i < ring.size(); ++i) {
      ShapePoint left = ring[i];
      ShapePoint right = ring[i + 1 == ring.size() ? 0 : i + 1];
      if (left.x > right.x) std::swap(left, right);
      // An edge owns its left end and not its right one, so a vertex on a centre line counts once.
      const int64_t begin = std::max<int64_t>(FirstRow(left.x), 0);
      const int64_t end = std::min<int64_t>(FirstRow(right.x), width);
      for (int64_t x = begin; x < end; ++x) {
        const int64_t center = x * kShapeUnit + kShapeUnit / 2;
        const int64_t y = left.y + CeilDivide((right.y - left.y) * (center - left.x), right.x - left.x);
        crossings.emplace_back(static_cast<uint32_t>(x), std::clamp<int64_t>(FirstRow(y), 0, height));
      }
    }
  }
  std::sort(crossings.begin(), crossings.end());

  *mask = {};
  mask->min_x = width;
  mask->min_y = height;
  for (size_t i = 0; i + 1 < crossings.size(); i += 2) {
    const uint32_t x = crossings[i].first;
    const uint32_t begin = static_cast<uint32_t>(crossings[i].second);
    const uint32_t end = static_cast<uint32_t>(crossings[i + 1].second);
    if (begin == end) continue;
    if (!mask->spans.empty() && mask->spans.back().x == x && mask->spans.back().end == begin) {
      mask->spans.back().end = end;
    } else {
      mask->spans.push_back({x, begin, end});
    }
    mask->area += end - begin;
    mask->min_x = std::min(mask->min_x, x);
    mask->max_x = std::max(mask->max_x, x);
    mask->min_y = std::min(mask->min_y, begin);
    mask->max_y = std::max(mask->max_y, end - 1);
  }

  uint64_t position = 0;  // end of the last run written
  for (const ColumnSpan& span : mask->spans) {
    const uint64_t begin = uint64_t{span.x} * height + span.begin;
    if (begin == position && !mask->runs.empty()) {
      mask->runs.back() += span.end - span.begin;  // continues from the bottom of one column at the top of the next
    } else {
      mask->runs.push_back(static_cast<uint32_t>(begin - position));
      mask->runs.push_back(span.end - span.begin);
    }
    position = begin + (span.end - span.begin);
  }
  const uint64_t pixels = uint64_t{width} * height;
  if (position < pixels) mask->runs.push_back(static_cast<uint32_t>(pixels - position));
}

}  // namespace shardctl
