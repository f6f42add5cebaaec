// Reads the headers of JPEG files and decodes them to pixels (libjpeg-turbo).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/image.h"

namespace shardkit {

// From the markers only (ITU-T T.81, Annex B; Exif 2.32, 4.6); no pixel is decoded.
struct JpegInfo {
  uint32_t width = 0;        // pixels, as coded (before any EXIF rotation)
  uint32_t height = 0;       // pixels
  int components = 0;        // 1 gray, 3 YCbCr or RGB, 4 CMYK or YCCK
  int bits = 8;              // per sample
  bool progressive = false;  // SOF2, SOF6, SOF10 or SOF14
  bool lossless = false;     // SOF3, SOF7, SOF11 or SOF15
  bool arithmetic = false;   // arithmetic entropy coding
  // Bytes of DCT coefficients, 2 bytes each, that a decoder must hold for the whole image, even to decode a part of it.
  // Not 0 when the first scan has only some of them: progressive files, and sequential ones with a scan per component.
  uint64_t coefficient_bytes = 0;
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

// The part of an image to decode, and how.
struct JpegRegionOptions {
  // The region, in pixels of the whole image at full size, as coded; it must lie inside the image. A width of 0 means
  // all that is right of x, a height of 0 all that is below y.
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  int scale = 8;     // 1 to 8: decoded to scale / 8 of the size (libjpeg's DCT scaling)
  int channels = 0;  // 0 as in the file (3 for CMYK), 1 gray, 3 RGB
};

struct DecodedRegion {
  DecodedImage image;
  // Position of the first pixel of `image` in the whole image decoded at this scale, and the size of that whole image:
  // ceil(size * scale / 8).
  uint32_t left = 0;
  uint32_t top = 0;
  uint32_t whole_width = 0;
  uint32_t whole_height = 0;
};

// Decodes images or parts of them. Reuses its memory. One thread at a time; use one decoder per thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Decodes to RGB, or gray for one-component files, into *image, and reuses its memory. DataLoss when the file is
  // damaged so that libjpeg-turbo does not decode it; of damage that it only warns of, see warning(). Unimplemented,
  // with the feature's name, for what the library cannot decode (lossless, 12 or 16 bits). ResourceExhausted above
  // max_memory.
  absl::Status Decode(std::string_view bytes, DecodedImage* image);

  // The same into the caller's memory, which has the image's size; out.channels (1 or 3) chooses gray or RGB.
  // InvalidArgument when `out` has another size. After an error the contents of `out` are unspecified.
  absl::Status DecodeInto(std::string_view bytes, const MutableImageView& out);

  // Decodes a region. Its pixels equal those of the whole image decoded at the same scale. At scale s these are the
  // columns floor(x * s / 8) up to ceil((x + width) * s / 8), and the rows likewise. Errors as Decode; InvalidArgument
  // for a region outside the image or options out of range.
  //
  // In files of one scan (nearly all files that are not progressive) decoding stops below the region. Damage more than
  // two rows of MCUs below the region is therefore not found, and neither is a cut there (a row of MCUs is 8 or 16
  // pixels at full size, up to 32 with unusual subsampling). A region that reaches the last row is checked to the end
  // of the image. Files of several scans are read completely. Columns beside the region and rows above it are always
  // entropy-decoded and checked.
  absl::Status DecodeRegion(std::string_view bytes, const JpegRegionOptions& options, DecodedRegion* region);

  // Decodes everything, with all checks of Decode, but keeps no pixels: needs memory for some rows and
  // coefficient_bytes.
  absl::Status Check(std::string_view bytes);

  // Limit of the memory for one image, in bytes: its decoded pixels (unless they go into the caller's memory) and its
  // coefficient_bytes. Checked from the frame header, before any allocation. Default 224 MiB: 78 million pixels of RGB,
  // or 39 million of a progressive file with 4:2:0 chroma. An arithmetic-coded image may have at most as many pixels as
  // bytes of the limit, even for a small region: a few bytes may claim billions of pixels, which would take long to
  // decode.
  void set_max_memory(uint64_t bytes) { max_memory_ = bytes; }

  // The first warning of libjpeg-turbo over the last image that was decoded or checked, such as "JPEG: Premature end of
  // JPEG file"; empty when there was none. Other programs decode such images without a word: bytes too many before a
  // marker change no pixel, after a cut the rest is gray. Borrowed until the next image.
  std::string_view warning() const { return warning_; }

  // Whether a warning is an error, DataLoss. Default false.
  void set_strict(bool strict) { strict_ = strict; }

 private:
  struct RegionState;
  absl::Status DecodeWhole(std::string_view bytes, const JpegInfo& info, const MutableImageView& out);
  RegionState& Region();
  void* handle_ = nullptr;
  std::unique_ptr<RegionState> region_;  // created when first needed
  std::vector<uint8_t> scratch_;
  uint64_t max_memory_ = kDefaultImageMemory;
  bool strict_ = false;
  std::string warning_;
};

struct JpegEncodeOptions {
  int quality = 90;       // 1 to 100
  bool subsample = true;  // 4:2:0 chroma
};

// Encodes height x width x 3 RGB bytes, row-major, replacing *out. InvalidArgument on a size mismatch.
absl::Status EncodeJpeg(const uint8_t* rgb, uint32_t width, uint32_t height, const JpegEncodeOptions& options,
                        std::string* out);

}  // namespace shardkit
