// The formats of image files that are decoded: a table, so that a format is one file and one row. JPEG is not in it,
// because libjpeg also decodes at a fraction of the size, and its decoder is kept from image to image.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/image.h"

namespace shardkit::codec {

// What a file says before its pixels.
struct ImageHeader {
  uint32_t width = 0;    // pixels, as stored
  uint32_t height = 0;   // pixels
  int orientation = 0;   // EXIF, 1 to 8; 0 if the file does not say
  int channels = 3;      // of the pixels: 1 gray, 3 RGB
  int depth = 8;         // bits of a channel, or of an index into the palette
  bool palette = false;  // the pixels are indices of colors
  // Bytes that decoding takes beside the requested pixels, even of a part, and without `out`; some MB more are not
  // counted.
  uint64_t held_bytes = 0;
  uint64_t check_bytes = 0;
};

struct ImageCodec {
  ImageFormat format;
  // What this build lacks to decode the format; then there are no functions.
  std::string_view missing;
  // From the headers alone. DataLoss if they are damaged. Neither side of the image is 0.
  absl::StatusOr<ImageHeader> (*probe)(std::string_view bytes);
  // Fills `out` with the pixels from (left, top) on, which lie within the image of `header`, from `probe`. The channels
  // of `out` choose gray, RGB or RGBA, as in ImageDecoder. Without `out` decodes everything, keeps no pixels and takes
  // check_bytes. DataLoss for damage; below the last requested row it may not be found, unless that row is the last.
  absl::Status (*decode)(std::string_view bytes, const ImageHeader& header, uint32_t left, uint32_t top,
                         const MutableImageView* out);
  // Fills `out` with the rows of the whole image, without color: gray values as they are stored, whatever their number
  // of bits, or indices into the palette; transparency is dropped. Of a `depth` of 16 they are uint16_t of this
  // machine, else bytes. REQUIRES: a palette, or one channel. Null: files of this format hold no class numbers.
  absl::Status (*numbers)(std::string_view bytes, const ImageHeader& header, std::span<uint8_t> out);
};

// Gray, RGB or RGBA.
constexpr bool IsChannelCount(uint64_t channels) { return channels == 1 || channels == 3 || channels == 4; }

// By their names in the table; each is thread-safe.
extern const ImageCodec kAvifCodec;
extern const ImageCodec kBmpCodec;
extern const ImageCodec kGifCodec;
extern const ImageCodec kPngCodec;
extern const ImageCodec kTiffCodec;
extern const ImageCodec kWebpCodec;

// The row of the table for these bytes. DataLoss if they begin like no known format, Unimplemented if the format is not
// decoded, or not by this build. REQUIRES: no JPEG.
absl::StatusOr<const ImageCodec*> CodecOf(std::string_view bytes);

// Whether there is a decoder: for JPEG, and the rows of the table that this build has.
bool IsDecoded(ImageFormat format);

// ResourceExhausted if `pixel_bytes` and held_bytes together exceed `max_memory`, or a side exceeds kMaxImageSide.
absl::Status CheckDecodable(ImageFormat format, const ImageHeader& header, uint64_t pixel_bytes, uint64_t max_memory);

// Decodes everything, keeps no pixels. REQUIRES: no JPEG.
absl::Status CheckImage(std::string_view bytes, uint64_t max_memory);

// Colors of indices: red, green and blue of each. Those that the file does not give are black.
struct Palette {
  std::array<uint8_t, 3 * 256> colors{};
  int transparent = -1;  // the index of pixels that are not seen

  // Whether the first `count` colors are grays.
  bool IsGray(size_t count) const;
};

// Converts `width` pixels of 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA) channels to 1, 3 or 4 channels, as
// Pillow does. Transparency is dropped, or 255 where there is none.
void ConvertRow(const uint8_t* from, int from_channels, uint32_t width, int to_channels, uint8_t* to);

// The same for indices of colors.
void ConvertRow(const uint8_t* from, const Palette& palette, uint32_t width, int to_channels, uint8_t* to);

}  // namespace shardkit::codec
