// Entry points of the RLE kernels for different instruction sets, for rle_*.cc and their tests.
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

// Whether the kernels below with the suffix Avx2 may be called: x86-64 with AVX2, BMI1, BMI2, LZCNT and POPCNT.
bool HasAvx2Kernels();

// Elements, or bytes, that a kernel may overwrite beyond its result.
inline constexpr size_t kKernelSlack = 64;

// ---- COCO text (rle_coco.cc) ----

absl::Status RunsFromCocoTextPortable(std::string_view text, std::vector<uint32_t>* runs);
// `out` has room for text.size() + kKernelSlack runs.
bool RunsFromCocoTextAvx2(std::string_view text, uint32_t* out, size_t* count);

inline constexpr size_t kMaxCocoCharacters = 7;  // 5 bits each; a difference of two runs has 33 bits with its sign

// Both write the numbers of runs [begin, end) of a mask and return the end of the text. `out` has room for (end -
// begin) * kMaxCocoCharacters + kKernelSlack characters. WriteCocoAvx2 requires runs below 2^31.
char* WriteCocoPortable(std::span<const uint32_t> runs, size_t begin, size_t end, char* out);
char* WriteCocoAvx2(std::span<const uint32_t> runs, size_t begin, size_t end, char* out);

// ---- binary values (rle_value.cc) ----

inline constexpr size_t kMaxLebBytes = 5;  // 7 bits each; the sum of two runs minus a height has 33 bits

// Both write runs [begin, end) of a valid mask as LEB128, plain or with the transform `edge`, and return the end. `out`
// has room for (end - begin) * kMaxLebBytes + kKernelSlack bytes. WriteLebAvx2 requires runs and heights within the
// limits below, so that two runs minus a height fit in 32 bits.
uint8_t* WriteLebPortable(const RleView& mask, size_t begin, size_t end, bool edge, uint8_t* out);
uint8_t* WriteLebAvx2(const RleView& mask, size_t begin, size_t end, bool edge, uint8_t* out);
inline constexpr uint32_t kMaxLebAvx2Run = (uint32_t{1} << 30) - 1;
inline constexpr uint32_t kMaxLebAvx2Height = (uint32_t{1} << 31) - 1;

// Splits `bytes` into exactly `count` canonical LEB128 numbers. `out` has room for bytes.size() + kKernelSlack numbers.
// Fails on a number of 2^28 and above.
bool SplitLebAvx2(std::string_view bytes, size_t count, uint32_t* out);
// Converts numbers of the transform `edge`, each below 2^28, to the runs of one mask, in place. *sum is their sum.
// Fails on a run that is negative or above 2^31 - 1, and on such a height.
bool UndoEdgeAvx2(std::span<uint32_t> runs, uint32_t height, uint64_t* sum);

absl::Status ParseRlePayloadPortable(std::string_view payload, bool edge, RleList* masks);
absl::Status ParseRleValue(std::string_view value, bool allow_avx2, RleList* masks);

// ---- dense masks (rle_dense.cc, rle_encode.cc) ----

// row[i] ^= previous[i]; then writes one byte, 0 or 1, per bit of row, least significant first: 64 * words bytes.
using ExpandRowFunction = void (*)(uint64_t* row, const uint64_t* previous, size_t words, uint8_t* out);
void ExpandRowPortable(uint64_t* row, const uint64_t* previous, size_t words, uint8_t* out);
void ExpandRowAvx2(uint64_t* row, const uint64_t* previous, size_t words, uint8_t* out);

absl::Status DecodeDense(const RleView& mask, ExpandRowFunction expand, std::span<uint8_t> out);

// words[strip * words_stride + y] = one bit for each of 64 pixels at pixels + y * stride + strip * 64; a bit is set
// where the byte is not 0.
using PackStripsFunction = void (*)(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                                    size_t words_stride);
void PackStripsPortable(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                        size_t words_stride);
void PackStripsAvx2(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                    size_t words_stride);

absl::StatusOr<Rle> EncodeDense(std::span<const uint8_t> pixels, uint32_t height, uint32_t width,
                                PackStripsFunction pack);

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
