// RLE kernels (rle_kernels.cc), which are compiled for several instruction sets, for rle_*.cc and their tests.
//
// A kernel that returns bool may fail on malformed input and on numbers too long for its registers. The caller then
// repeats the work with the portable code. Only the portable code decides what is an error, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/rle.h"

namespace shardkit::codec {

// Scratch above this is freed, so that one large mask does not keep its memory with the thread.
inline constexpr size_t kKeptScratchWords = (size_t{1} << 20) / sizeof(uint64_t);

// Elements, or bytes, that a kernel may overwrite beyond its result.
inline constexpr size_t kKernelSlack = 64;

// ---- COCO text (rle_coco.cc) ----

absl::Status RunsFromCocoTextPortable(std::string_view text, std::vector<uint32_t>* runs);
// `out` has room for text.size() + kKernelSlack runs.
bool RunsFromCocoText(std::string_view text, uint32_t* out, size_t* count);

inline constexpr size_t kMaxCocoCharacters = 7;  // 5 bits each; a difference of two runs has 33 bits with its sign

// Writes the numbers of runs [begin, end) of a mask and returns the end of the text. `out` has room for (end - begin) *
// kMaxCocoCharacters + kKernelSlack characters. `small`: all runs are below 2^31.
char* WriteCoco(std::span<const uint32_t> runs, size_t begin, size_t end, bool small, char* out);

// ---- binary values (rle_value.cc) ----

inline constexpr size_t kMaxLebBytes = 5;  // 7 bits each; the sum of two runs minus a height has 33 bits

// Writes runs [begin, end) of a valid mask as LEB128, plain or with the transform `edge`, and returns the end. `out`
// has room for (end - begin) * kMaxLebBytes + kKernelSlack bytes. `small`: no run is above kMaxSmallRun, no height
// above kMaxSmallHeight, so that two runs minus a height fit in 32 bits.
uint8_t* WriteLeb(const RleView& mask, size_t begin, size_t end, bool edge, bool small, uint8_t* out);
inline constexpr uint32_t kMaxSmallRun = (uint32_t{1} << 30) - 1;
inline constexpr uint32_t kMaxSmallHeight = (uint32_t{1} << 31) - 1;

// Splits `bytes` into exactly `count` canonical LEB128 numbers. `out` has room for bytes.size() + kKernelSlack numbers.
// Fails on a number of 2^28 and above.
bool SplitLeb(std::string_view bytes, size_t count, uint32_t* out);
// Converts numbers of the transform `edge`, each below 2^28, to the runs of one mask, in place. *sum is their sum.
// Fails on a run that is negative or above 2^31 - 1, and on such a height.
bool UndoEdge(std::span<uint32_t> runs, uint32_t height, uint64_t* sum);

absl::Status ParseRlePayloadPortable(std::string_view payload, bool edge, RleList* masks);
absl::Status ParseRleValue(std::string_view value, bool allow_kernels, RleList* masks);

// ---- dense masks (rle_dense.cc, rasterize.cc, rle_encode.cc) ----

// Writes `count` rows of `columns` > 0 bytes, 0 or 1, `stride` bytes apart: one for each bit of rows of (columns + 63)
// / 64 words, least significant first. With `fill_down`, each row is XORed with the one above it first; there is one
// above the first. The bits beyond the columns are 0. Their bytes are written, too, within `room`, the bytes at `out`.
void ExpandRows(uint64_t* rows, size_t count, size_t columns, bool fill_down, uint8_t* out, size_t stride, size_t room);

// words[strip * words_stride + y] = one bit for each of 64 pixels at pixels + y * stride + strip * 64; a bit is set
// where the byte is not 0.
void PackStrips(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                size_t words_stride);

// Calls visit(first_x, first_y, last_x, last_y) for the first and last pixel of every foreground run that is not empty,
// in order. mask.height > 0, unless all runs are 0.
template <typename Visit>
void ForEachForegroundRun(const RleView& mask, Visit visit) {
  const uint64_t height = mask.height;
  uint64_t x = 0;
  uint64_t y = 0;
  // Most runs end in the column where they begin or in the next one; these need no division.
  const auto advance = [&](uint64_t pixels) {
    y += pixels;
    if (y < height) return;
    y -= height;
    ++x;
    if (y < height) return;
    x += y / height;
    y %= height;
  };
  for (size_t i = 0; i + 1 < mask.runs.size(); i += 2) {
    if (mask.runs[i] != 0) advance(mask.runs[i]);
    if (mask.runs[i + 1] == 0) continue;
    const uint64_t first_x = x;
    const uint64_t first_y = y;
    advance(mask.runs[i + 1] - 1);
    visit(first_x, first_y, x, y);
    advance(1);
  }
}

}  // namespace shardkit::codec
