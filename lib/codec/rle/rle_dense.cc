// Runs -> dense masks, one byte or one bit per pixel.
//
// Runs are column-major and masks are row-major. So only the edges are marked, column by column: one bit is flipped
// where a run of foreground begins, and one below its last pixel. XOR of every row with the one above it then fills the
// columns, 64 pixels at a time. Outside the bounding box, the output is only cleared.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/rle/rle_kernels.h"
#include "shardkit/rle.h"

namespace shardkit {
namespace {

struct PixelBox {
  uint64_t left, top, width, height;
};

PixelBox ForegroundBox(const RleView& mask) {
  const std::array<uint32_t, 4> box = BoundingBox(mask);
  return {box[0], box[1], box[2], box[3]};
}

// Flips bits [first, last] of `row`.
void FlipBits(uint8_t* row, uint64_t first, uint64_t last) {
  const uint64_t first_byte = first / 8;
  const uint64_t last_byte = last / 8;
  const unsigned head = 0xffu << (first % 8);
  const unsigned tail = 0xffu >> (7 - last % 8);
  if (first_byte == last_byte) {
    row[first_byte] ^= static_cast<uint8_t>(head & tail);
    return;
  }
  row[first_byte] ^= static_cast<uint8_t>(head);
  for (uint64_t i = first_byte + 1; i < last_byte; ++i) row[i] ^= 0xff;
  row[last_byte] ^= static_cast<uint8_t>(tail);
}

// Flips the bits of the edges inside `box`. Pixel (box.left, box.top) is bit 0 of rows[0].
void MarkEdges(const RleView& mask, const PixelBox& box, uint8_t* rows, uint64_t row_bytes) {
  const uint64_t bottom = box.top + box.height - 1;
  const auto flip = [&](uint64_t x, uint64_t y) {
    const uint64_t bit = x - box.left;
    rows[(y - box.top) * row_bytes + bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  };
  codec::ForEachForegroundRun(mask, [&](uint64_t first_x, uint64_t first_y, uint64_t last_x, uint64_t last_y) {
    flip(first_x, first_y);
    // A run that continues in other columns begins at their row 0. The top of the box is then row 0.
    if (last_x != first_x) FlipBits(rows, first_x + 1 - box.left, last_x - box.left);
    if (last_y < bottom) flip(last_x, last_y + 1);
  });
}

// Each row of `bytes` bytes ^= the row above it, from the second on.
void FillDown(uint8_t* rows, uint64_t row_bytes, uint64_t height, uint64_t bytes) {
  uint64_t column = 0;
  for (; column + 32 <= bytes; column += 32) {
    uint64_t a = 0, b = 0, c = 0, d = 0;
    uint8_t* row = rows + column;
    for (uint64_t y = 0; y < height; ++y, row += row_bytes) {
      StoreLittle(row, a ^= LoadLittle<uint64_t>(row));
      StoreLittle(row + 8, b ^= LoadLittle<uint64_t>(row + 8));
      StoreLittle(row + 16, c ^= LoadLittle<uint64_t>(row + 16));
      StoreLittle(row + 24, d ^= LoadLittle<uint64_t>(row + 24));
    }
  }
  for (; column + 8 <= bytes; column += 8) {
    uint64_t word = 0;
    uint8_t* row = rows + column;
    for (uint64_t y = 0; y < height; ++y, row += row_bytes) StoreLittle(row, word ^= LoadLittle<uint64_t>(row));
  }
  for (; column < bytes; ++column) {
    uint8_t byte = 0;
    uint8_t* row = rows + column;
    for (uint64_t y = 0; y < height; ++y, row += row_bytes) *row = byte ^= *row;
  }
}

absl::Status CheckOutput(const RleView& mask, uint64_t row_bytes, size_t size) {
  if (size != mask.height * row_bytes) {
    return InvalidArgument("the output for a mask of ", mask.height, " x ", mask.width, " pixels has ", size,
                           " bytes instead of ", mask.height * row_bytes);
  }
  return ValidateRle(mask);
}

// Output is cleared in pieces of this size just before the foreground is written there. So a piece is still in the L2
// cache, and each line is written to memory once. Clearing only outside the foreground, row by row, is slower on output
// that is not in the cache: a large memset need not read the lines first.
constexpr uint64_t kBandBytes = uint64_t{128} << 10;

}  // namespace

absl::Status DecodeDense(const RleView& mask, std::span<uint8_t> out) {
  SHARDKIT_RETURN_IF_ERROR(CheckOutput(mask, mask.width, out.size()));
  if (out.empty()) return absl::OkStatus();
  const uint64_t width = mask.width;
  const PixelBox box = ForegroundBox(mask);
  if (box.width == 0) {
    std::memset(out.data(), 0, out.size());
    return absl::OkStatus();
  }

  // One row of zeros is above the box, for the first row's XOR.
  const uint64_t words = (box.width + 63) / 64;
  thread_local std::vector<uint64_t> scratch;
  scratch.assign((box.height + 1) * words, 0);
  MarkEdges(mask, box, reinterpret_cast<uint8_t*>(scratch.data() + words), words * sizeof(uint64_t));

  std::memset(out.data(), 0, box.top * width);
  const uint64_t band_rows = std::max<uint64_t>(1, kBandBytes / width);
  for (uint64_t y = 0; y < box.height; y += band_rows) {
    const uint64_t rows = std::min(band_rows, box.height - y);
    uint8_t* const band = out.data() + (box.top + y) * width;
    std::memset(band, 0, rows * width);
    // The last word of a row may reach beyond the box: those bits are 0, and the bytes there are written later.
    const size_t room = out.size() - (box.top + y) * width - box.left;
    codec::ExpandRows(scratch.data() + (y + 1) * words, rows, box.width, true, band + box.left, width, room);
  }
  const uint64_t below = (box.top + box.height) * width;
  std::memset(out.data() + below, 0, out.size() - below);

  if (scratch.capacity() > codec::kKeptScratchWords) std::vector<uint64_t>().swap(scratch);
  return absl::OkStatus();
}

absl::Status DecodePacked(const RleView& mask, std::span<uint8_t> out) {
  const uint64_t row_bytes = PackedRowBytes(mask.width);
  SHARDKIT_RETURN_IF_ERROR(CheckOutput(mask, row_bytes, out.size()));
  if (out.empty()) return absl::OkStatus();
  std::memset(out.data(), 0, out.size());
  PixelBox box = ForegroundBox(mask);
  if (box.width == 0) return absl::OkStatus();
  box.width += box.left % 8;
  box.left -= box.left % 8;
  uint8_t* const corner = out.data() + box.top * row_bytes + box.left / 8;
  MarkEdges(mask, box, corner, row_bytes);
  FillDown(corner, row_bytes, box.height, (box.width + 7) / 8);
  return absl::OkStatus();
}

}  // namespace shardkit
