// What a JPEG file says about itself, and decoding it to pixels (libjpeg-turbo).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit {

// From the markers alone (ITU-T T.81, Annex B; Exif 2.32, 4.6); no pixel is decoded.
struct JpegInfo {
  uint32_t width = 0;        // pixels, as coded (before any EXIF rotation)
  uint32_t height = 0;       // pixels
  int components = 0;        // 1 gray, 3 YCbCr or RGB, 4 CMYK or YCCK
  int bits = 8;              // per sample
  bool progressive = false;  // SOF2, SOF6, SOF10 or SOF14
  bool lossless = false;     // SOF3, SOF7, SOF11 or SOF15
  bool arithmetic = false;   // arithmetic entropy coding
  int exif_orientation = 0;  // 1 to 8; 0 when the file does not say
};

// DataLoss when the bytes are not a JPEG or end before the frame header. Thread-safe.
absl::StatusOr<JpegInfo> ProbeJpeg(std::string_view bytes);

struct DecodedImage {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 0;             // 1 or 3
  std::vector<uint8_t> pixels;  // height x width x channels, row-major
};

// Decodes whole images, reusing its memory. One thread at a time; use one per thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Decodes to RGB, or gray for one-component files, into *image, whose memory is reused. DataLoss when the
  // file is damaged or truncated (libjpeg-turbo's warnings count as damage); Unimplemented, naming the
  // feature, for what the library cannot decode (lossless, 12 or 16 bits); ResourceExhausted above
  // `max_pixels` (default 2^28).
  absl::Status Decode(std::string_view bytes, DecodedImage* image);

  void set_max_pixels(uint64_t max_pixels) { max_pixels_ = max_pixels; }

 private:
  void* handle_ = nullptr;
  uint64_t max_pixels_ = uint64_t{1} << 28;
};

struct JpegEncodeOptions {
  int quality = 90;         // 1 to 100
  bool subsample = true;    // 4:2:0 chroma
};

// Encodes height x width x 3 RGB bytes, row-major, replacing *out. InvalidArgument on a size mismatch.
absl::Status EncodeJpeg(const uint8_t* rgb, uint32_t width, uint32_t height, const JpegEncodeOptions& options,
                        std::string* out);

}  // namespace shardkit
