#include "codec/image/image_codec.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/jpeg_pixels.h"

namespace shardkit::codec {
namespace {

constexpr std::array kCodecs = {&kPngCodec, &kWebpCodec, &kGifCodec, &kBmpCodec, &kTiffCodec, &kAvifCodec};

// Null for formats that are not in the table.
const ImageCodec* Find(ImageFormat format) {
  const auto found = std::ranges::find(kCodecs, format, &ImageCodec::format);
  return found == kCodecs.end() ? nullptr : *found;
}

absl::Status TooLarge(ImageFormat format, const ImageHeader& header, uint64_t max_memory) {
  return ResourceExhausted(ImageFormatName(format), ": decoding ", header.width, " x ", header.height,
                           " pixels takes more than ", max_memory, " bytes of memory");
}

}  // namespace

absl::StatusOr<const ImageCodec*> CodecOf(std::string_view bytes) {
  const ImageFormat format = DetectImageFormat(bytes);
  if (format == ImageFormat::kUnknown) return DataLoss("image: no signature of a known format at byte 0");
  const ImageCodec* const codec = Find(format);
  if (codec == nullptr) return Unimplemented("image: ", ImageFormatName(format), " is not decoded to pixels");
  if (!codec->missing.empty()) {
    return Unimplemented("image: this build cannot decode ", ImageFormatName(format), ": install ", codec->missing,
                         " and build again");
  }
  return codec;
}

bool IsDecoded(ImageFormat format) {
  if (format == ImageFormat::kJpeg) return true;
  const ImageCodec* const codec = Find(format);
  return codec != nullptr && codec->missing.empty();
}

absl::Status CheckDecodable(ImageFormat format, const ImageHeader& header, uint64_t pixel_bytes, uint64_t max_memory) {
  if (header.width <= kMaxImageSide && header.height <= kMaxImageSide && header.held_bytes <= max_memory &&
      pixel_bytes <= max_memory - header.held_bytes) {
    return absl::OkStatus();
  }
  return TooLarge(format, header, max_memory);
}

absl::Status CheckImage(std::string_view bytes, uint64_t max_memory) {
  SHARDKIT_ASSIGN_OR_RETURN(const ImageCodec* const codec, CodecOf(bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const ImageHeader header, codec->probe(bytes));
  if (header.check_bytes > max_memory) return TooLarge(codec->format, header, max_memory);
  return codec->decode(bytes, header, 0, 0, nullptr);
}

bool Palette::IsGray(size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const color = &colors[3 * i];
    if (color[0] != color[1] || color[1] != color[2]) return false;
  }
  return true;
}

void ConvertRow(const uint8_t* from, int from_channels, uint32_t width, int to_channels, uint8_t* to) {
  if (from_channels == to_channels) {
    std::memcpy(to, from, width * static_cast<size_t>(to_channels));
    return;
  }
  const bool gray = from_channels <= 2;
  for (uint32_t x = 0; x < width; ++x, from += from_channels, to += to_channels) {
    if (to_channels == 1) {
      *to = gray ? *from : LumaOf(from[0], from[1], from[2]);
    } else if (gray) {
      std::memset(to, *from, 3);
    } else {
      std::memcpy(to, from, 3);
    }
    if (to_channels == 4) to[3] = from_channels == 2 ? from[1] : uint8_t{255};
  }
}

void ConvertRow(const uint8_t* from, const Palette& palette, uint32_t width, int to_channels, uint8_t* to) {
  for (uint32_t x = 0; x < width; ++x, to += to_channels) {
    const uint8_t* const color = &palette.colors[size_t{3} * from[x]];
    if (to_channels == 1) {
      *to = LumaOf(color[0], color[1], color[2]);
    } else {
      std::memcpy(to, color, 3);
    }
    if (to_channels == 4) to[3] = from[x] == palette.transparent ? 0 : 255;
  }
}

}  // namespace shardkit::codec
