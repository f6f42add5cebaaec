// Run-length encoded binary masks: COCO text and count lists, runs, dense masks, and the compact binary form of a list
// of masks in the `rle` column type.
//
// Runs are COCO's (pycocotools, common/maskApi.h): pixels in column-major order, alternately 0 and 1, beginning with a
// (possibly empty) run of 0. The runs of a valid mask sum to height * width. All functions are pure and thread-safe.
// Malformed input is DataLoss, a caller's mistake is InvalidArgument. Nothing here throws or aborts on bad input.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit {

// Limit of height * width of a mask, as in COCO, whose counts have 32 bits.
inline constexpr uint64_t kMaxMaskPixels = 0xffffffff;

// One mask as run lengths. Owns its runs.
struct Rle {
  uint32_t height = 0;  // pixels
  uint32_t width = 0;   // pixels
  std::vector<uint32_t> runs;

  bool operator==(const Rle&) const = default;
};

// A borrowed mask, valid as long as its runs.
struct RleView {
  uint32_t height = 0;
  uint32_t width = 0;
  std::span<const uint32_t> runs;

  RleView() = default;
  RleView(uint32_t h, uint32_t w, std::span<const uint32_t> r) : height(h), width(w), runs(r) {}
  RleView(const Rle& rle) : height(rle.height), width(rle.width), runs(rle.runs) {}  // NOLINT
};

// The masks of one sample, flat: mask i has runs[run_begin[i] .. run_begin[i + 1]). Reusable: Clear() keeps the memory.
struct RleList {
  std::vector<uint32_t> heights;
  std::vector<uint32_t> widths;
  std::vector<uint64_t> run_begin{0};
  std::vector<uint32_t> runs;

  size_t size() const { return heights.size(); }
  RleView operator[](size_t i) const {
    return {heights[i], widths[i],
            std::span<const uint32_t>(runs).subspan(run_begin[i], run_begin[i + 1] - run_begin[i])};
  }
  void Clear();
  void Append(const RleView& mask);
  bool operator==(const RleList&) const = default;
};

// OK if height * width <= kMaxMaskPixels and the runs sum to height * width; else DataLoss with both numbers.
absl::Status ValidateRle(const RleView& mask);

// Parses a COCO compressed string ("counts" of SA-1B) and appends its runs to *runs. DataLoss, with the position, for a
// character outside '0'..'o', a truncated number, a negative run or one over 2^32 - 1. Does not check the sum
// (ValidateRle does).
absl::Status RunsFromCocoText(std::string_view text, std::vector<uint32_t>* runs);

// Appends runs to *text as a COCO compressed string, exactly as pycocotools writes it.
void AppendCocoText(std::span<const uint32_t> runs, std::string* text);

// Decodes to a dense mask, row-major, one byte per pixel, 0 or 1: out[y * width + x]. InvalidArgument unless `out` has
// height * width bytes; DataLoss if the runs do not sum to that.
absl::Status DecodeDense(const RleView& mask, std::span<uint8_t> out);

// Bytes of one row of a bit-packed mask: (width + 7) / 8.
constexpr uint64_t PackedRowBytes(uint32_t width) { return (uint64_t{width} + 7) / 8; }

// Decodes to a dense mask, row-major, one bit per pixel, rows padded to whole bytes with 0; pixel x of a row is bit x %
// 8 (least significant first: numpy.unpackbits(bitorder="little")) of byte x / 8. `out` has height *
// PackedRowBytes(width) bytes; errors as DecodeDense.
absl::Status DecodePacked(const RleView& mask, std::span<uint8_t> out);

// Encodes a dense row-major mask (any non-zero byte is foreground) in pycocotools' canonical form. InvalidArgument
// unless `pixels` has height * width bytes, or above kMaxMaskPixels.
absl::StatusOr<Rle> EncodeDense(std::span<const uint8_t> pixels, uint32_t height, uint32_t width);

// The union of polygons, each x0, y0, x1, y1, … in pixels, with the runs that pycocotools makes of them (frPyObjects,
// then merge), to the bit. Without polygons all pixels are background. InvalidArgument, naming the polygon (counted
// from 0), for an odd count of numbers and for one that is not between -2^21 and 2^21, and above kMaxMaskPixels;
// ResourceExhausted for more than 2^24 changes between background and foreground.
absl::StatusOr<Rle> RleFromPolygons(std::span<const std::vector<double>> polygons, uint32_t height, uint32_t width);

// Number of foreground pixels.
uint64_t Area(const RleView& mask);

// Tight box of the foreground, {x, y, width, height} in pixels with width = max - min + 1, like pycocotools' toBbox;
// all zero for an empty mask.
std::array<uint32_t, 4> BoundingBox(const RleView& mask);

// The binary form of the `rle` column type (format-spec/values.md, "rle"). Deterministic: equal lists give equal bytes.
// InvalidArgument when a mask fails ValidateRle.
absl::Status AppendRleValue(const RleList& masks, std::string* out);

// Parses one stored value. DataLoss for anything malformed: counts beyond the present bytes, runs that do not sum to
// height * width, trailing bytes, non-zero reserved bytes. Memory is at most a constant times value.size().
absl::Status ParseRleValue(std::string_view value, RleList* masks);

// Parses the head of one stored value: the sizes of all masks, and the start of their runs. *masks is as from
// ParseRleValue, but without runs. DataLoss as ParseRleValue, for errors in the head.
absl::Status ParseRleSizes(std::string_view value, RleList* masks);

// Number of masks of one stored value, from its head only; DataLoss if the head is truncated.
absl::StatusOr<uint32_t> RleValueCount(std::string_view value);

}  // namespace shardkit
