// EXIF orientations as exchange and mirroring of axes, for turning an image and what lies on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "shardkit/image.h"

namespace shardkit::codec {

// Before the TIFF structure of EXIF in a JPEG; some writers put it into other files, too.
inline constexpr std::string_view kExifSignature("Exif\0\0", 6);

// The orientation that EXIF gives, 1 to 8, of a TIFF structure with or without the signature; 0 when it gives none or
// is malformed, which does no harm.
int ExifOrientation(std::string_view exif);

// How to turn a stored image upright: exchange the axes first, then mirror.
struct Turn {
  bool transpose = false;
  bool mirror_x = false;
  bool mirror_y = false;
};

// `orientation` is 1 to 8 (Exif 2.32, 4.6.4: where row 0 and column 0 of the stored image belong).
constexpr Turn TurnOf(int orientation) {
  return {orientation >= 5, orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7,
          orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8};
}

// The same region and sizes before the image is turned.
struct StoredGeometry {
  Turn turn;           // mirror_x includes the geometry's flip
  Box source;          // in pixels of the stored image
  uint32_t width = 0;  // the content's size in the axes of the stored image
  uint32_t height = 0;
};

inline StoredGeometry InStoredAxes(const Geometry& geometry) {
  const Turn turn = TurnOf(geometry.orientation);
  Box box = geometry.source;
  if (turn.mirror_x) box.x = geometry.upright_width() - (box.x + box.width);
  if (turn.mirror_y) box.y = geometry.upright_height() - (box.y + box.height);
  StoredGeometry stored{turn, box, geometry.content_width, geometry.content_height};
  if (turn.transpose) {
    stored.source = {box.y, box.x, box.height, box.width};
    stored.width = geometry.content_height;
    stored.height = geometry.content_width;
  }
  stored.turn.mirror_x ^= geometry.flip;
  return stored;
}

// Scales `begin` and `length` by scale / 8, within [0, size]. The result is never empty, in spite of rounding.
inline void ScaleSpan(int scale, uint32_t size, double* begin, double* length) {
  constexpr double kLeast = 1e-9;
  const double end = std::min((*begin + *length) * scale / 8, static_cast<double>(size));
  *begin = std::clamp(*begin * scale / 8, 0.0, size - kLeast);
  *length = std::max(end - *begin, kLeast);
}

// The stored position nearest to the centre of output `i` of `count`. The outputs show [from, from + length) of an
// upright axis of `size` pixels. The order of operations is part of MaskRasterizer's specification.
inline uint32_t NearestStored(uint32_t size, double from, double length, uint32_t count, uint32_t i,
                              bool mirror_stored) {
  const double upright = std::floor(from + (i + 0.5) * length / count);
  const auto position = static_cast<uint32_t>(std::clamp(upright, 0.0, size - 1.0));
  return mirror_stored ? size - 1 - position : position;
}

// Fills `out`, which has the size and channels of the turned `image` and does not overlap it.
void CopyTurned(const ImageView& image, const Turn& turn, const MutableImageView& out);

}  // namespace shardkit::codec
