// The work done on the device: pixels to the tensors that models take, run lengths to masks. Backend::Launch queues it.
// The host device uses the functions at the end.
//
// All pointers are to device memory. Sizes are not checked here but by the code that makes the arguments (Prepare… in
// lib/gpu).
#pragma once

#include <cstdint>

#include "gpu/backend.h"
#include "shardkit/image.h"

namespace shardkit::gpu {

// Images of one size: [count, height, width, channels] u8 to [count, channels, height, width].
struct NormalizeImages {
  const uint8_t* pixels = nullptr;
  void* out = nullptr;  // aligned to its type
  uint64_t count = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  int channels = 3;    // 1 or 3
  PixelOutput output;  // planar
};

// Applies each image's geometry (image.h) to images of any size, bit for bit like ImageDecoder without scaled_decode.
// The stored image is resized along its rows, then along its columns, with the weights of lib/codec. Then it is turned,
// padded and converted.
//
// A filter begins at index `filter` of `filters`. It has one record for each output position: the first input position,
// the number of inputs, and `taps` weights (fixed point with 22 fractional bits; 0 beyond the number of inputs). Inputs
// are positions of the whole stored image.
struct ResampleImage {
  uint64_t pixels = 0;        // bytes from ResampleImages::pixels on: [stored_height, stored_width, channels]
  uint64_t scratch = 0;       // bytes from ResampleImages::scratch on: [rows, width, channels]
  uint64_t horizontal = 0;    // filter, for `width` positions
  uint64_t vertical = 0;      // filter, for `height` positions
  uint32_t stored_width = 0;  // 0: no image; the output is that of pixels of value 0
  uint32_t stored_height = 0;
  uint32_t top = 0;  // the used rows of the stored image: [top, top + rows)
  uint32_t rows = 0;
  uint32_t width = 0;  // size of the content before turning
  uint32_t height = 0;
  uint32_t horizontal_taps = 0;
  uint32_t vertical_taps = 0;
  uint32_t transpose = 0;  // content pixel (x, y) is resized pixel (y, x)
  uint32_t content_width = 0;
  uint32_t content_height = 0;
  uint32_t content_left = 0;  // in the output
  uint32_t content_top = 0;
  uint32_t padding = 0;
};

struct ResampleImages {
  const uint8_t* pixels = nullptr;
  const ResampleImage* images = nullptr;  // of `count`
  const int32_t* filters = nullptr;
  uint8_t* scratch = nullptr;
  void* out = nullptr;  // [count, …] as `output` says, all of one size
  uint64_t count = 0;
  uint32_t most_rows = 0;   // largest ResampleImage::rows
  uint32_t most_width = 0;  // largest ResampleImage::width
  uint32_t output_height = 0;
  uint32_t output_width = 0;
  int channels = 3;
  uint8_t fill[3] = {0, 0, 0};  // pixel of the padding around the content; converted like the other pixels
  PixelOutput output;
};

// Masks from COCO runs (column-major, background first; rle.h), one after the other, of any sizes.
//
// Pixel (x, y) of a mask's content is the stored pixel (columns[x], rows[y]), or with `transpose` column rows[y], row
// columns[x], and 0 beyond the content. Without tables it is the stored pixel (x, y).
struct RasterizeMask {
  uint64_t runs = 0;              // index of the first run
  uint64_t run_count = 0;         // below 2^32; 0: all pixels are 0
  uint64_t out = 0;               // bytes from RasterizeMasks::out on
  uint64_t first_tile = 0;        // number of tiles of all masks before it
  uint64_t columns = UINT64_MAX;  // index in `tables` of content_width entries; UINT64_MAX: no tables
  uint64_t rows = UINT64_MAX;     // of content_height entries
  uint32_t stored_height = 0;     // pixels
  uint32_t stored_width = 0;
  uint32_t height = 0;  // of the output, pixels
  uint32_t width = 0;
  uint32_t content_height = 0;
  uint32_t content_width = 0;
  uint32_t content_left = 0;  // in the output
  uint32_t content_top = 0;
  uint32_t transpose = 0;
  uint32_t padding = 0;
};

// A mask's output is made in tiles of this many bytes; the last one may be shorter.
inline constexpr uint32_t kMaskTileBytes = 16384;

struct RasterizeMasks {
  const RasterizeMask* masks = nullptr;  // of `count`
  const uint32_t* runs = nullptr;
  uint32_t* ends = nullptr;  // scratch, one entry per run: receives the position after each run
  const uint32_t* tables = nullptr;
  uint8_t* out = nullptr;
  uint64_t count = 0;
  uint64_t tiles = 0;   // of all masks
  bool packed = false;  // one bit per pixel, rows of whole bytes (DecodePacked); else one byte, 0 or 1
};

// The same on the host, in the calling thread, on host memory. Tests compare the kernels with these.
void NormalizeOnHost(const NormalizeImages& arguments);
void ResampleOnHost(const ResampleImages& arguments);
void RasterizeOnHost(const RasterizeMasks& arguments);

}  // namespace shardkit::gpu
