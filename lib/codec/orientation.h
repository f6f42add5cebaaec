// EXIF orientations taken apart, for all that turns an image or what lies on it.
#pragma once

#include <cstdint>

#include "shardkit/image.h"

namespace shardkit::internal {

// Upright pixel (x, y) of a stored image: the axes are exchanged first, then mirrored.
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
  Turn turn;           // mirror_x with the geometry's flip
  Box source;          // in pixels of the stored image
  uint32_t width = 0;  // the content's size with the axes of the stored image
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

// Fills `out`, whose size and channels are those of `image` turned, and which does not overlap it.
void CopyTurned(const ImageView& image, const Turn& turn, const MutableImageView& out);

}  // namespace shardkit::internal
