// Makes the usual geometries, checks geometries, and applies them to points and boxes.
#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "codec/image/orientation.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

constexpr double kEdgeTolerance = 1e-6;

// Without box and sizes.
Geometry OfStored(const StoredSize& stored) {
  Geometry geometry;
  geometry.stored_width = stored.width;
  geometry.stored_height = stored.height;
  geometry.orientation = stored.orientation == 0 ? 1 : stored.orientation;
  return geometry;
}

void SetSize(Geometry* geometry, uint32_t width, uint32_t height) {
  geometry->content_width = geometry->output_width = width;
  geometry->content_height = geometry->output_height = height;
}

Box WholeUpright(const Geometry& geometry) {
  return {0, 0, static_cast<double>(geometry.upright_width()), static_cast<double>(geometry.upright_height())};
}

bool Inside(double begin, double length, uint32_t size) {
  // This form of the comparison makes NaN count as outside.
  return length > 0 && begin >= -kEdgeTolerance && begin + length <= size + kEdgeTolerance;
}

// Python's round(): halves to even, as in the default rounding mode.
double RoundHalfToEven(double value) { return std::nearbyint(value); }

}  // namespace

Geometry Geometry::WithoutPadding() const {
  Geometry content = *this;
  content.content_left = content.content_top = 0;
  content.output_width = content_width;
  content.output_height = content_height;
  return content;
}

bool Geometry::IsIdentity() const {
  return orientation == 1 && !flip && source == WholeUpright(*this) && content_width == stored_width &&
         content_height == stored_height && *this == WithoutPadding();
}

absl::Status CheckGeometry(const Geometry& geometry) {
  struct Side {
    const char* name;
    uint32_t value;
  };
  for (const Side& side :
       {Side{"stored_width", geometry.stored_width}, Side{"stored_height", geometry.stored_height},
        Side{"content_width", geometry.content_width}, Side{"content_height", geometry.content_height},
        Side{"output_width", geometry.output_width}, Side{"output_height", geometry.output_height}}) {
    if (side.value == 0 || side.value > kMaxImageSide) {
      return InvalidArgument("geometry: ", side.name, " is ", side.value, ", not 1 to ", kMaxImageSide);
    }
  }
  if (geometry.orientation < 1 || geometry.orientation > 8) {
    return InvalidArgument("geometry: orientation is ", geometry.orientation, ", not 1 to 8");
  }
  const Box& box = geometry.source;
  if (!Inside(box.x, box.width, geometry.upright_width()) || !Inside(box.y, box.height, geometry.upright_height())) {
    return InvalidArgument("geometry: source is ", box.width, " x ", box.height, " pixels at (", box.x, ", ", box.y,
                           "), empty or not inside the upright image of ", geometry.upright_width(), " x ",
                           geometry.upright_height());
  }
  if (uint64_t{geometry.content_left} + geometry.content_width > geometry.output_width ||
      uint64_t{geometry.content_top} + geometry.content_height > geometry.output_height) {
    return InvalidArgument("geometry: the content of ", geometry.content_width, " x ", geometry.content_height,
                           " pixels at (", geometry.content_left, ", ", geometry.content_top, ") leaves the output of ",
                           geometry.output_width, " x ", geometry.output_height);
  }
  return absl::OkStatus();
}

Geometry FullImage(const StoredSize& stored) {
  const Geometry size = OfStored(stored);
  return Resize(stored, size.upright_width(), size.upright_height());
}

Geometry Resize(const StoredSize& stored, uint32_t width, uint32_t height) {
  Geometry geometry = OfStored(stored);
  geometry.source = WholeUpright(geometry);
  SetSize(&geometry, width, height);
  return geometry;
}

Geometry CenterCrop(const StoredSize& stored, uint32_t resize, uint32_t crop) {
  Geometry geometry = OfStored(stored);
  SetSize(&geometry, crop, crop);
  const double width = geometry.upright_width();
  const double height = geometry.upright_height();
  const double shorter = std::min(width, height);
  if (shorter == 0 || resize == 0) return geometry;
  const double longer = std::floor(static_cast<double>(resize) * std::max(width, height) / shorter);
  const double resized_width = width <= height ? resize : longer;
  const double resized_height = width <= height ? longer : resize;
  geometry.source = {RoundHalfToEven((resized_width - crop) / 2) * width / resized_width,
                     RoundHalfToEven((resized_height - crop) / 2) * height / resized_height,
                     crop * width / resized_width, crop * height / resized_height};
  return geometry;
}

Geometry Letterbox(const StoredSize& stored, uint32_t width, uint32_t height) {
  Geometry geometry = OfStored(stored);
  geometry.source = WholeUpright(geometry);
  geometry.output_width = width;
  geometry.output_height = height;
  if (geometry.source.width == 0 || geometry.source.height == 0) return geometry;
  const double scale = std::min(width / geometry.source.width, height / geometry.source.height);
  const auto resized = [&](double side, uint32_t most) {
    // When a side would round to nothing, one pixel of it is kept.
    return std::clamp<uint32_t>(static_cast<uint32_t>(std::floor(side * scale + 0.5)), 1, std::max(most, 1u));
  };
  geometry.content_width = resized(geometry.source.width, width);
  geometry.content_height = resized(geometry.source.height, height);
  // Sizes of 0 are for CheckGeometry to refuse.
  geometry.content_left = (std::max(width, 1u) - geometry.content_width) / 2;
  geometry.content_top = (std::max(height, 1u) - geometry.content_height) / 2;
  return geometry;
}

Geometry ResizeLongestSide(const StoredSize& stored, uint32_t target) {
  Geometry geometry = Letterbox(stored, target, target);
  geometry.content_left = geometry.content_top = 0;
  return geometry;
}

Geometry FlipHorizontal(Geometry geometry) {
  geometry.flip = !geometry.flip;
  return geometry;
}

Geometry RandomResizedCrop(const StoredSize& stored, uint32_t width, uint32_t height, AugmentationRandom& random,
                           const RandomResizedCropOptions& options) {
  Geometry geometry = OfStored(stored);
  SetSize(&geometry, width, height);
  const double image_width = geometry.upright_width();
  const double image_height = geometry.upright_height();
  const double area = image_width * image_height;
  const double low = std::log(options.min_ratio);
  const double high = std::log(options.max_ratio);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double target_area = area * random.Uniform(options.min_scale, options.max_scale);
    const double ratio = std::exp(random.Uniform(low, high));
    const double box_width = RoundHalfToEven(std::sqrt(target_area * ratio));
    const double box_height = RoundHalfToEven(std::sqrt(target_area / ratio));
    if (box_width > 0 && box_width <= image_width && box_height > 0 && box_height <= image_height) {
      const uint64_t y = random.Below(static_cast<uint64_t>(image_height - box_height) + 1);
      const uint64_t x = random.Below(static_cast<uint64_t>(image_width - box_width) + 1);
      geometry.source = {static_cast<double>(x), static_cast<double>(y), box_width, box_height};
      return geometry;
    }
  }
  double box_width = image_width;
  double box_height = image_height;
  if (image_width < image_height * options.min_ratio) {
    box_height = std::min(image_height, RoundHalfToEven(image_width / options.min_ratio));
  } else if (image_width > image_height * options.max_ratio) {
    box_width = std::min(image_width, RoundHalfToEven(image_height * options.max_ratio));
  }
  geometry.source = {std::floor((image_width - box_width) / 2), std::floor((image_height - box_height) / 2), box_width,
                     box_height};
  return geometry;
}

namespace {

// One side of a random crop.
struct CropSpan {
  double begin = 0;  // of the source
  double length = 0;
  uint32_t content = 0;
  uint32_t before = 0;  // padding
};

CropSpan PlaceCrop(uint32_t size, double zoom, uint32_t crop, uint32_t padding, AugmentationRandom& random) {
  const auto zoomed = static_cast<int64_t>(std::max(RoundHalfToEven(size * zoom), 1.0));
  const int64_t first = -int64_t{padding}, last = zoomed + padding - crop;
  const int64_t from =
      std::min(first, last) + static_cast<int64_t>(random.Below(static_cast<uint64_t>(std::abs(last - first)) + 1));
  const int64_t begin = std::max<int64_t>(from, 0), end = std::min<int64_t>(from + crop, zoomed);
  const double scale = static_cast<double>(size) / static_cast<double>(zoomed);
  return {static_cast<double>(begin) * scale, static_cast<double>(end - begin) * scale,
          static_cast<uint32_t>(std::max<int64_t>(end - begin, 0)), static_cast<uint32_t>(begin - from)};
}

}  // namespace

Geometry RandomCrop(const StoredSize& stored, uint32_t width, uint32_t height, AugmentationRandom& random,
                    const RandomCropOptions& options) {
  Geometry geometry = OfStored(stored);
  SetSize(&geometry, width, height);
  const double longer = std::max(geometry.upright_width(), geometry.upright_height());
  const double zoom =
      std::min(random.Uniform(options.min_zoom, options.max_zoom), kMaxImageSide / std::max(longer, 1.0));
  const CropSpan y = PlaceCrop(geometry.upright_height(), zoom, height, options.padding, random);
  const CropSpan x = PlaceCrop(geometry.upright_width(), zoom, width, options.padding, random);
  geometry.source = {x.begin, y.begin, x.length, y.length};
  geometry.content_width = x.content;
  geometry.content_height = y.content;
  geometry.content_left = x.before;
  geometry.content_top = y.before;
  return geometry;
}

Point MapPoint(const Geometry& geometry, const Point& stored) {
  const codec::Turn turn = codec::TurnOf(geometry.orientation);
  Point point = turn.transpose ? Point{stored.y, stored.x} : stored;
  if (turn.mirror_x) point.x = geometry.upright_width() - point.x;
  if (turn.mirror_y) point.y = geometry.upright_height() - point.y;
  point.x = (point.x - geometry.source.x) * geometry.content_width / geometry.source.width;
  point.y = (point.y - geometry.source.y) * geometry.content_height / geometry.source.height;
  if (geometry.flip) point.x = geometry.content_width - point.x;
  return {point.x + geometry.content_left, point.y + geometry.content_top};
}

Box MapBox(const Geometry& geometry, const Box& stored) {
  const Point a = MapPoint(geometry, {stored.x, stored.y});
  const Point b = MapPoint(geometry, {stored.x + stored.width, stored.y + stored.height});
  return {std::min(a.x, b.x), std::min(a.y, b.y), std::abs(b.x - a.x), std::abs(b.y - a.y)};
}

}  // namespace shardkit
