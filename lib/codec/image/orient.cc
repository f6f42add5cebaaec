// Finds orientations, and turns pixels upright.
#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "codec/image/image_codec.h"
#include "codec/image/orientation.h"
#include "shardkit/image.h"

namespace shardkit {
namespace codec {
namespace {

// Big- or little-endian reads that return false beyond the end.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, bool little) : bytes_(bytes), little_(little) {}

  bool Read16(uint64_t offset, uint32_t* out) const {
    if (offset > bytes_.size() || bytes_.size() - offset < 2) return false;
    const uint32_t a = At(offset);
    const uint32_t b = At(offset + 1);
    *out = little_ ? a | b << 8 : a << 8 | b;
    return true;
  }
  bool Read32(uint64_t offset, uint32_t* out) const {
    uint32_t a, b;
    if (!Read16(offset, &a) || !Read16(offset + 2, &b)) return false;
    *out = little_ ? a | b << 16 : a << 16 | b;
    return true;
  }

 private:
  uint32_t At(uint64_t offset) const { return static_cast<unsigned char>(bytes_[offset]); }
  std::string_view bytes_;
  bool little_;
};

}  // namespace

int ExifOrientation(std::string_view exif) {
  const std::string_view tiff = exif.starts_with(kExifSignature) ? exif.substr(kExifSignature.size()) : exif;
  const bool little = tiff.substr(0, 2) == "II";
  if (!little && tiff.substr(0, 2) != "MM") return 0;
  const ByteReader reader(tiff, little);
  uint32_t magic, directory, entries;
  if (!reader.Read16(2, &magic) || magic != 42 || !reader.Read32(4, &directory)) return 0;
  if (!reader.Read16(directory, &entries)) return 0;
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = uint64_t{directory} + 2 + uint64_t{i} * 12;
    uint32_t tag, type, value;
    if (!reader.Read16(entry, &tag)) return 0;
    if (tag != 0x0112) continue;
    constexpr uint32_t kShort = 3;
    if (!reader.Read16(entry + 2, &type) || type != kShort || !reader.Read16(entry + 8, &value)) return 0;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

namespace {

// `from` is the pixel for (0, 0) of `out`. `right` and `down` are the steps, in bytes, to its neighbours' pixels.
template <int kChannels>
void CopyPixels(const uint8_t* from, ptrdiff_t right, ptrdiff_t down, const MutableImageView& out) {
  // Works in squares, so that the cache lines of both sides stay in the cache while they are needed.
  constexpr uint32_t kSquare = 16;
  for (uint32_t top = 0; top < out.height; top += kSquare) {
    const uint32_t bottom = std::min(top + kSquare, out.height);
    for (uint32_t left = 0; left < out.width; left += kSquare) {
      const uint32_t end = std::min(left + kSquare, out.width);
      for (uint32_t y = top; y < bottom; ++y) {
        const uint8_t* pixel = from + left * right + y * down;
        uint8_t* to = out.pixels + y * out.row_stride + size_t{left} * kChannels;
        for (uint32_t x = left; x < end; ++x, pixel += right, to += kChannels) {
          for (int c = 0; c < kChannels; ++c) to[c] = pixel[c];
        }
      }
    }
  }
}

}  // namespace

void CopyTurned(const ImageView& image, const Turn& turn, const MutableImageView& out) {
  const auto row = static_cast<ptrdiff_t>(image.row_stride);
  const ptrdiff_t pixel = image.channels;
  // Along the output's axes.
  ptrdiff_t right = turn.transpose ? row : pixel;
  ptrdiff_t down = turn.transpose ? pixel : row;
  const uint8_t* from = image.pixels;
  if (turn.mirror_x) {
    from += right * (ptrdiff_t{out.width} - 1);
    right = -right;
  }
  if (turn.mirror_y) {
    from += down * (ptrdiff_t{out.height} - 1);
    down = -down;
  }
  if (right == pixel) {
    const size_t bytes = out.width * static_cast<size_t>(out.channels);
    for (uint32_t y = 0; y < out.height; ++y, from += down) std::memcpy(out.pixels + y * out.row_stride, from, bytes);
    return;
  }
  (out.channels == 1 ? CopyPixels<1> : out.channels == 3 ? CopyPixels<3> : CopyPixels<4>)(from, right, down, out);
}

}  // namespace codec

absl::Status ApplyOrientation(const ImageView& image, int orientation, bool flip, const MutableImageView& out) {
  if (orientation < 1 || orientation > 8) {
    return InvalidArgument("orientation: ", orientation, " is not 1 to 8");
  }
  codec::Turn turn = codec::TurnOf(orientation);
  turn.mirror_x ^= flip;
  const size_t row_bytes = out.width * static_cast<size_t>(out.channels);
  if (image.pixels == nullptr || out.pixels == nullptr || !codec::IsChannelCount(image.channels) ||
      out.channels != image.channels || out.row_stride < row_bytes ||
      image.row_stride < image.width * static_cast<size_t>(image.channels) ||
      out.width != (turn.transpose ? image.height : image.width) ||
      out.height != (turn.transpose ? image.width : image.height)) {
    return InvalidArgument("orientation ", orientation, ": ", image.width, " x ", image.height, " pixels of ",
                           image.channels, " channels do not become ", out.width, " x ", out.height, " of ",
                           out.channels);
  }
  codec::CopyTurned(image, turn, out);
  return absl::OkStatus();
}

}  // namespace shardkit
