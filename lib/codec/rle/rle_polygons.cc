// Polygons -> runs, as pycocotools makes them (common/maskApi.c, rleFrPoly and rleMerge).
//
// Corners are rounded to a grid of five points per pixel. An edge becomes grid points, one for each step along its
// longer side. Where two neighbouring points lie on both sides of the middle of a pixel column, the mask changes at the
// smaller of their rows, rounded to pixels. pycocotools lists all points of an edge; here the points at the middles of
// columns are computed alone.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/errors.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace {

constexpr int64_t kGrid = 5;              // points per pixel
constexpr double kMostPixels = 1 << 21;   // of a coordinate; below, the grid's points are computed without jumps
constexpr size_t kMostChanges = 1 << 24;  // of one mask, 16 bytes each

struct Point {
  int64_t x = 0, y = 0;  // on the grid
};

// Where the union's cover changes: by `step` polygons, at a pixel in column-major order.
struct Change {
  uint64_t pixel = 0;
  int step = 0;
};

// A point of an edge, `steps` from its beginning. The product is volatile because a compiler for ARM would fuse it with
// the sum, which rounds differently.
int64_t Along(int64_t begin, double slope, int64_t steps) {
  const volatile double offset = slope * static_cast<double>(steps);
  return static_cast<int64_t>(static_cast<double>(begin) + offset + .5);
}

// Calls take(column, row) for each column of pixels whose middle the edge crosses. The row is on the grid.
template <typename Take>
void CrossColumns(Point from, Point to, int64_t width, Take take) {
  const int64_t dx = std::abs(to.x - from.x);
  const int64_t dy = std::abs(to.y - from.y);
  if (dx == 0) return;
  if (dx >= dy ? from.x > to.x : from.y > to.y) std::swap(from, to);
  const int64_t last_x =
      dx >= dy ? to.x : Along(from.x, static_cast<double>(to.x - from.x) / static_cast<double>(dy), dy);
  // The middle of column c lies between the points 5c + 2 and 5c + 3.
  const int64_t left = std::max<int64_t>(std::min(from.x, last_x), 0);
  const int64_t right = std::max(from.x, last_x);
  const int64_t end = std::min(right < 3 ? 0 : (right - 3) / kGrid + 1, width);
  const int64_t begin = std::max<int64_t>((left + 2) / kGrid, 0);
  if (dx >= dy) {
    const double slope = static_cast<double>(to.y - from.y) / static_cast<double>(dx);
    for (int64_t column = begin; column < end; ++column) {
      const int64_t steps = kGrid * column + 2 - from.x;
      take(column, std::min(Along(from.y, slope, steps), Along(from.y, slope, steps + 1)));
    }
    return;
  }
  const double slope = static_cast<double>(to.x - from.x) / static_cast<double>(dy);
  for (int64_t column = begin; column < end; ++column) {
    // The first point behind the middle.
    int64_t before = 0, behind = dy;
    while (behind - before > 1) {
      const int64_t middle = before + (behind - before) / 2;
      const bool is_right = Along(from.x, slope, middle) >= kGrid * column + 3;
      (is_right == (slope > 0) ? behind : before) = middle;
    }
    take(column, from.y + behind - 1);
  }
}

absl::StatusOr<std::vector<Point>> Corners(std::span<const double> polygon) {
  if (polygon.size() % 2 != 0) {
    return InvalidArgument("has ", polygon.size(), " numbers, an odd count: corners are pairs of x and y");
  }
  std::vector<Point> corners(polygon.size() / 2);
  for (size_t i = 0; i < polygon.size(); ++i) {
    if (!(std::fabs(polygon[i]) <= kMostPixels)) {
      return InvalidArgument("number ", i, " is beyond 2,097,152 pixels, the limit of a coordinate");
    }
    const double scaled = kGrid * polygon[i];
    (i % 2 == 0 ? corners[i / 2].x : corners[i / 2].y) = static_cast<int64_t>(scaled + .5);
  }
  return corners;
}

}  // namespace

absl::StatusOr<Rle> RleFromPolygons(std::span<const std::vector<double>> polygons, uint32_t height, uint32_t width) {
  const uint64_t total = uint64_t{height} * width;
  if (total > kMaxMaskPixels) {
    return InvalidArgument("a mask of ", height, " x ", width, " pixels is above the limit of ", kMaxMaskPixels,
                           " pixels");
  }
  std::vector<Change> changes;
  std::vector<uint64_t> pixels;  // where one polygon changes
  for (size_t number = 0; number < polygons.size(); ++number) {
    const absl::StatusOr<std::vector<Point>> corners = Corners(polygons[number]);
    if (!corners.ok()) return Annotate(corners.status(), StrCat("polygon ", number));
    pixels.clear();
    for (size_t i = 0; i < corners->size(); ++i) {
      if (pixels.size() + changes.size() > kMostChanges) {
        return ResourceExhausted("polygon ", number, ": the polygons cross more than ", kMostChanges,
                                 " columns of pixels");
      }
      CrossColumns((*corners)[i], (*corners)[(i + 1) % corners->size()], width, [&](int64_t column, int64_t row) {
        // (row + 0.5) / 5 - 0.5, rounded up.
        const int64_t pixel = row <= 2 ? 0 : (row + 2) / kGrid;
        const uint64_t place = static_cast<uint64_t>(column) * height + std::min<uint64_t>(pixel, height);
        if (place < total) pixels.push_back(place);
      });
    }
    std::ranges::sort(pixels);
    int step = 1;
    for (const uint64_t pixel : pixels) changes.push_back({pixel, std::exchange(step, -step)});
  }
  std::ranges::stable_sort(changes, {}, &Change::pixel);
  Rle mask{height, width, {}};
  uint64_t last = 0;
  int covered = 0;
  for (size_t i = 0; i < changes.size();) {
    const uint64_t pixel = changes[i].pixel;
    const bool before = covered > 0;
    for (; i < changes.size() && changes[i].pixel == pixel; ++i) covered += changes[i].step;
    if ((covered > 0) == before) continue;
    mask.runs.push_back(static_cast<uint32_t>(pixel - last));
    last = pixel;
  }
  mask.runs.push_back(static_cast<uint32_t>(total - last));
  return mask;
}

}  // namespace shardkit
