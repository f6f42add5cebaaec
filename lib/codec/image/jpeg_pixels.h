// Shared by the two ways to decode JPEGs: TurboJPEG for whole images, libjpeg for regions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "shardkit/image.h"

namespace shardkit::codec {

// Unimplemented for what the library or this project cannot decode. ResourceExhausted when `pixel_bytes` plus the
// memory of the decoder itself exceed max_memory.
absl::Status CheckDecodable(const JpegInfo& info, uint64_t pixel_bytes, uint64_t max_memory);

// The status for libjpeg-turbo's message: Unimplemented when it lacks a feature, else DataLoss.
absl::Status JpegError(std::string_view message);

// The gray value of a color: 0.299, 0.587 and 0.114, as in libjpeg and Pillow.
inline uint8_t LumaOf(unsigned red, unsigned green, unsigned blue) {
  return static_cast<uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

// `count` pixels of four bytes CMYK -> RGB (channels 3), RGBA (4) or gray (1). As in all CMYK JPEGs in use (Adobe's
// convention), a sample is the amount of light that passes: 255 is no ink. `to` may equal `from`.
void ConvertCmyk(const uint8_t* from, size_t count, int channels, uint8_t* to);

}  // namespace shardkit::codec
