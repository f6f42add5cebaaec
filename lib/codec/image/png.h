// PNG files (ISO 15948), through libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/image.h"

namespace shardkit::codec {

// From the header chunk only.
struct PngInfo {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 0;  // as decoded: 1 gray, 3 RGB
  int depth = 0;     // bits of a channel, or of an index into the palette
  bool palette = false;
  bool interlaced = false;

  // Bytes that a decoder must hold for the whole image, even to decode a part of it: all pixels of an interlaced image.
  uint64_t held_bytes() const { return interlaced ? uint64_t{width} * height * static_cast<uint64_t>(channels) : 0; }
};

// DataLoss when the bytes do not begin like a PNG. Thread-safe.
absl::StatusOr<PngInfo> ProbePng(std::string_view bytes);

// Decodes the whole image, row by row, and keeps no pixels. DataLoss when the file is damaged or truncated. Takes
// memory for one row and for libpng's chunks: at most 8 MB each. Thread-safe.
absl::Status CheckPng(std::string_view bytes);

// Fills `out` with the pixels from (left, top) on, within the image of `info`, which is from ProbePng. The channels of
// `out` choose gray or RGB, as in ImageDecoder. Takes memory as CheckPng, and held_bytes(). Damage below the last
// requested row may not be found, unless that row is the image's last. Thread-safe.
absl::Status DecodePng(std::string_view bytes, const PngInfo& info, uint32_t left, uint32_t top,
                       const MutableImageView& out);

// Fills `out` with the rows of the whole image, without color: gray values as they are stored, whatever their number of
// bits, or indices into the palette; transparency is dropped. Of a `depth` of 16 they are uint16_t of this machine,
// else bytes. REQUIRES: a palette, or no color. Takes memory as CheckPng, and held_bytes(). Thread-safe.
absl::Status DecodePngNumbers(std::string_view bytes, const PngInfo& info, std::span<uint8_t> out);

}  // namespace shardkit::codec
