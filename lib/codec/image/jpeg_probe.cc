// Reads the markers of a JPEG file without a library: every byte is untrusted, every read is bounded.

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "codec/image/orientation.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

// SOF0 to SOF15, except DHT, JPG and DAC, which are in the same range.
bool IsFrameHeader(uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Bytes for all components, in whole MCUs (T.81, A.2.4): 64 coefficients of 2 bytes for each 8 x 8 block.
uint64_t CoefficientBytes(const JpegInfo& info, std::string_view segment) {
  const auto factors = [&](int component) {
    const auto both = static_cast<unsigned char>(segment[6 + 3 * static_cast<size_t>(component) + 1]);
    return std::pair<uint64_t, uint64_t>(both >> 4, both & 15);
  };
  uint64_t across = 1, down = 1;
  for (int i = 0; i < info.components; ++i) {
    across = std::max(across, factors(i).first);
    down = std::max(down, factors(i).second);
  }
  const uint64_t columns = (info.width + 8 * across - 1) / (8 * across),
                 rows = (info.height + 8 * down - 1) / (8 * down);
  uint64_t blocks = 0;
  for (int i = 0; i < info.components; ++i) blocks += columns * factors(i).first * rows * factors(i).second;
  return blocks * 128;
}

absl::Status ParseFrameHeader(uint8_t marker, std::string_view segment, size_t position, JpegInfo* info,
                              uint64_t* coefficient_bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(segment[i]); };
  if (segment.size() < 6 || segment.size() != 6u + 3u * byte(5)) {
    return DataLoss("JPEG: the frame header at byte ", position, " has ", segment.size(), " bytes");
  }
  info->bits = byte(0);
  info->height = static_cast<uint32_t>(byte(1) << 8 | byte(2));
  info->width = static_cast<uint32_t>(byte(3) << 8 | byte(4));
  info->components = byte(5);
  // The low two bits of the marker are the process, the next two differential and arithmetic coding.
  info->progressive = (marker & 3) == 2;
  info->lossless = (marker & 3) == 3;
  info->arithmetic = marker >= 0xc9;
  if (info->width == 0 || info->height == 0 || info->components == 0) {
    return DataLoss("JPEG: the frame header at byte ", position, " gives ", info->width, " x ", info->height,
                    " pixels of ", info->components, " components");
  }
  *coefficient_bytes = CoefficientBytes(*info, segment);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JpegInfo> ProbeJpeg(std::string_view bytes) {
  if (DetectImageFormat(bytes) != ImageFormat::kJpeg) return DataLoss("JPEG: no signature (FF D8 FF) at byte 0");
  JpegInfo info;
  bool have_frame = false;
  uint64_t coefficient_bytes = 0;
  size_t position = 2;
  const auto end = [&]() -> absl::StatusOr<JpegInfo> {
    if (have_frame) return info;
    return DataLoss("JPEG: no frame header in ", bytes.size(), " bytes, read up to byte ", position);
  };
  // Continues past the frame header only to find an orientation there; the first scan ends the search.
  for (;;) {
    // Decoders skip junk between segments, so this does too. FF may be repeated; FF 00 is no marker.
    position = bytes.find('\xff', position);
    if (position == std::string_view::npos) {
      position = bytes.size();
      return end();
    }
    while (position < bytes.size() && bytes[position] == '\xff') ++position;
    if (position == bytes.size()) return end();
    const uint8_t marker = static_cast<uint8_t>(bytes[position++]);
    const bool alone = marker == 0x00 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (alone) continue;
    constexpr uint8_t kEndOfImage = 0xd9;
    constexpr uint8_t kStartOfScan = 0xda;
    if (marker == kStartOfScan && have_frame && position + 2 < bytes.size() &&
        static_cast<unsigned char>(bytes[position + 2]) < info.components) {
      info.coefficient_bytes = coefficient_bytes;
    }
    if (marker == kEndOfImage || marker == kStartOfScan) return end();

    if (bytes.size() - position < 2) return end();
    const auto byte = [&](size_t at) { return size_t{static_cast<unsigned char>(bytes[at])}; };
    const size_t length = byte(position) << 8 | byte(position + 1);
    if (length < 2 || length > bytes.size() - position) return end();
    const std::string_view segment = bytes.substr(position + 2, length - 2);
    if (IsFrameHeader(marker) && !have_frame) {
      if (absl::Status status = ParseFrameHeader(marker, segment, position - 2, &info, &coefficient_bytes);
          !status.ok()) {
        return status;
      }
      if (info.progressive) info.coefficient_bytes = coefficient_bytes;
      have_frame = true;
    }
    constexpr uint8_t kApp1 = 0xe1;
    if (marker == kApp1 && info.exif_orientation == 0 && segment.starts_with(codec::kExifSignature)) {
      info.exif_orientation = codec::ExifOrientation(segment);
    }
    position += length;
  }
}

}  // namespace shardkit
