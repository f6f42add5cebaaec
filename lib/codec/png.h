// PNG files (ISO 15948), through libpng.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/image.h"

namespace shardkit {

// From the header chunk alone.
struct PngInfo {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 0;  // as decoded: 1 gray, 3 RGB
  bool interlaced = false;

  // What a decoder holds of the whole image at once, whatever part of it is wanted: all pixels of an interlaced one.
  uint64_t held_bytes() const { return interlaced ? uint64_t{width} * height * static_cast<uint64_t>(channels) : 0; }
};

// DataLoss when the bytes do not begin as a PNG. Thread-safe.
absl::StatusOr<PngInfo> ProbePng(std::string_view bytes);

// Decodes the whole image, row by row, and keeps no pixel. DataLoss when the file is damaged or cut short. Takes memory
// for a row, and for what libpng reads of chunks: 8 MB each at most. Thread-safe.
absl::Status CheckPng(std::string_view bytes);

// Decodes the pixels from (left, top) on that fill `out`, within the image of `info`, which is ProbePng's: gray or RGB
// by the channels of `out`, as ImageDecoder says. Memory as CheckPng, and held_bytes(). Damage below the last row that
// is wanted can go unseen, unless that is the image's last. Thread-safe.
absl::Status DecodePng(std::string_view bytes, const PngInfo& info, uint32_t left, uint32_t top,
                       const MutableImageView& out);

}  // namespace shardkit
