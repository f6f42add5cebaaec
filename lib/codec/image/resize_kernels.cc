// Resizing kernels for all instruction sets; see resize.h and vectors.h.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/endian.h"
#include "codec/image/resize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/image/resize_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once for each further instruction set

#include "codec/vectors.h"

#ifndef SHARDKIT_RESIZE_ROW_ENDS
#define SHARDKIT_RESIZE_ROW_ENDS

namespace shardkit::codec {
namespace {

constexpr int kRound = 1 << (kWeightBits - 1);

// Near the end of a row, vector loads would pass the row's end. They read a copy of it instead, with zeros behind it.
class RowEnds {
 public:
  RowEnds(const AxisFilter& filter, const uint8_t* const* from, size_t rows, size_t channels, uint8_t* tail)
      : length_(filter.end - filter.begin), copied_(std::min(length_, filter.padded_taps + 8)) {
    const size_t capacity = TailBytes(filter) / kRowGroup;
    for (size_t r = 0; r < rows; ++r) {
      uint8_t* const copy = tail + r * capacity;
      std::memcpy(copy, from[r] + (length_ - copied_) * channels, copied_ * channels);
      std::memset(copy + copied_ * channels, 0, capacity - copied_ * channels);
      copies_[r] = copy;
    }
  }

  uint32_t length() const { return length_; }
  // The address of position `first`, which must be in the copied part.
  const uint8_t* At(size_t row, uint32_t first, size_t channels) const {
    return copies_[row] + (first - (length_ - copied_)) * channels;
  }

 private:
  uint32_t length_;
  uint32_t copied_;
  std::array<const uint8_t*, kRowGroup> copies_{};
};

// Of the 16 bytes of four pixels, the two pairs of pixels: [r r g g b b 0 0] in 16 bits, or with a for 0.
alignas(32) constexpr uint8_t kColorPairs[2][32] = {
    {0, 128, 3, 128, 1, 128, 4,  128, 2, 128, 5,  128, 128, 128, 128, 128,
     6, 128, 9, 128, 7, 128, 10, 128, 8, 128, 11, 128, 128, 128, 128, 128},
    {0, 128, 4,  128, 1, 128, 5,  128, 2,  128, 6,  128, 3,  128, 7,  128,
     8, 128, 12, 128, 9, 128, 13, 128, 10, 128, 14, 128, 11, 128, 15, 128}};
// Of four weights, the two pairs.
alignas(32) constexpr uint8_t kWeightPairs[32] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,
                                                  4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7};

// Stores four bytes, because the next pixel overwrites the fourth of three; three for the last pixel.
inline void StorePixel(uint32_t pixel, bool last, uint8_t* out) {
  if (last) {
    std::memcpy(out, &pixel, 3);
  } else {
    std::memcpy(out, &pixel, 4);
  }
}

}  // namespace
}  // namespace shardkit::codec

#endif  // SHARDKIT_RESIZE_ROW_ENDS

HWY_BEFORE_NAMESPACE();
namespace shardkit::codec::HWY_NAMESPACE {
namespace {

using Sums = Vector<int32_t>;

template <class V>
HWY_INLINE V Joined(V high, V low) {
  return hn::Add(hn::ShiftLeft<kLowBits>(high), low);
}

HWY_INLINE Sums Rounded(Sums sums) {
  return hn::ShiftRight<kWeightBits>(hn::Add(sums, hn::Set(Tag<int32_t>(), kRound)));
}

// The lanes of `a`, then those of `b`, within each block of 128 bits, with saturation.
HWY_INLINE Vector<int16_t> Pack(Sums a, Sums b) {
  const Tag<int16_t> d;
#if HWY_ARCH_X86
  return hn::ReorderDemote2To(d, a, b);  // in this order there
#else
  const hn::Half<decltype(d)> half;
  return hn::Combine(d, hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

HWY_INLINE Vector<uint8_t> PackBytes(Vector<int16_t> a, Vector<int16_t> b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return Vector<uint8_t>{_mm256_packus_epi16(a.raw, b.raw)};
#else
  const Tag<uint8_t> d;
  const hn::Half<decltype(d)> half;
  return hn::Combine(d, hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

// Adds four weighted pixels of three or four channels to the sums, or begins the sums with them. Each block of 128 bits
// takes a pair of pixels, for one multiply-and-add with the pair's weights. Vectors of two blocks take both pairs at
// once. Vectors of one block take the second pair with the weights `high2` and `low2`.
template <size_t kChannels, bool kFirst>
HWY_INLINE void AddPixels(const uint8_t* from, Vector<int16_t> high, Vector<int16_t> low, Vector<int16_t> high2,
                          Vector<int16_t> low2, Sums& high_sums, Sums& low_sums) {
  const Tag<uint8_t> d8;
  const Tag<int16_t> d16;
  const uint8_t* const pairs = kColorPairs[kChannels - 3];
  const auto bytes = hn::LoadDup128(d8, from);
  const auto pixels = hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, hn::Load(d8, pairs)));
  auto by_high = MultiplyPairs(d16, pixels, high);
  auto by_low = MultiplyPairs(d16, pixels, low);
  if constexpr (kVectorBytes == 16) {
    const auto others = hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, hn::Load(d8, pairs + 16)));
    by_high = hn::Add(by_high, MultiplyPairs(d16, others, high2));
    by_low = hn::Add(by_low, MultiplyPairs(d16, others, low2));
  }
  high_sums = kFirst ? by_high : hn::Add(high_sums, by_high);
  low_sums = kFirst ? by_low : hn::Add(low_sums, by_low);
}

// The same for one or four rows. No arrays of vectors, which SVE does not have.
template <size_t kRows, size_t kChannels, bool kFirst>
HWY_INLINE void AddQuad(const uint8_t* const* source, uint32_t quad, const int16_t* high, const int16_t* low,
                        Sums& high0, Sums& low0, Sums& high1, Sums& low1, Sums& high2, Sums& low2, Sums& high3,
                        Sums& low3) {
  const Tag<uint8_t> d8;
  const Tag<int16_t> d16;
  const Tag<uint64_t> d64;
  const auto pairs = hn::Load(d8, kWeightPairs);
  const auto pairs2 = hn::Load(d8, kWeightPairs + 32 - kVectorBytes);
  const auto highs = hn::BitCast(d8, hn::Set(d64, LoadLittle<uint64_t>(high + size_t{4} * quad)));
  const auto lows = hn::BitCast(d8, hn::Set(d64, LoadLittle<uint64_t>(low + size_t{4} * quad)));
  const auto a = hn::BitCast(d16, hn::TableLookupBytes(highs, pairs));
  const auto b = hn::BitCast(d16, hn::TableLookupBytes(lows, pairs));
  const auto c = hn::BitCast(d16, hn::TableLookupBytes(highs, pairs2));
  const auto d = hn::BitCast(d16, hn::TableLookupBytes(lows, pairs2));
  const size_t at = 4 * kChannels * quad;
  AddPixels<kChannels, kFirst>(source[0] + at, a, b, c, d, high0, low0);
  if constexpr (kRows == 4) {
    AddPixels<kChannels, kFirst>(source[1] + at, a, b, c, d, high1, low1);
    AddPixels<kChannels, kFirst>(source[2] + at, a, b, c, d, high2, low2);
    AddPixels<kChannels, kFirst>(source[3] + at, a, b, c, d, high3, low3);
  }
}

// Stores the pixels of one or four rows at out[row] + at.
template <size_t kRows>
HWY_INLINE void StorePixels(Sums row0, Sums row1, Sums row2, Sums row3, bool last, uint8_t* const* out, size_t at) {
  auto first = Pack(Rounded(row0), Rounded(row1));
  auto second = Pack(Rounded(row2), Rounded(row3));
  if constexpr (kVectorBytes == 32) {
    const Tag<int32_t> d;
    const auto even = hn::Add(hn::ConcatLowerLower(d, row2, row0), hn::ConcatUpperUpper(d, row2, row0));
    const auto odd = hn::Add(hn::ConcatLowerLower(d, row3, row1), hn::ConcatUpperUpper(d, row3, row1));
    first = second = Pack(Rounded(even), Rounded(odd));
  }
  // The lower half begins with rows 0 and 1, the upper with 2 and 3.
  const auto pixels = hn::BitCast(Tag<uint64_t>(), PackBytes(first, second));
  const hn::Half<Tag<uint64_t>> half;
  const uint64_t lower = hn::GetLane(hn::LowerHalf(half, pixels));
  StorePixel(static_cast<uint32_t>(lower), last, out[0] + at);
  if constexpr (kRows == 4) {
    const uint64_t upper = hn::GetLane(hn::UpperHalf(half, pixels));
    StorePixel(static_cast<uint32_t>(lower >> 32), last, out[1] + at);
    StorePixel(static_cast<uint32_t>(upper), last, out[2] + at);
    StorePixel(static_cast<uint32_t>(upper >> 32), last, out[3] + at);
  }
}

// Four pixels of three or four channels at a time.
template <size_t kRows, size_t kChannels>
void ResizeColors(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, uint8_t* tail) {
  static_assert((kRows == 1 || kRows == 4) && (kChannels == 3 || kChannels == 4));
  const RowEnds ends(filter, from, kRows, kChannels, tail);
  // Copies, because the compiler must assume that every stored byte may change values that it reads through pointers.
  const auto width = static_cast<uint32_t>(filter.first.size());
  const uint32_t length = ends.length();
  const uint32_t begin = filter.begin;
  const size_t padded_taps = filter.padded_taps;
  const uint32_t* const firsts = filter.first.data();
  const uint32_t* const taps = filter.taps.data();
  const int16_t* high = filter.high.data();
  const int16_t* low = filter.low.data();
  const uint8_t* rows[kRows];
  uint8_t* outs[kRows];
  std::copy_n(from, kRows, rows);
  std::copy_n(to, kRows, outs);
  for (uint32_t i = 0; i < width; ++i, high += padded_taps, low += padded_taps) {
    const uint32_t first = firsts[i] - begin;
    const uint32_t quads = (taps[i] + 3) / 4;
    const uint8_t* source[kRows];
    for (size_t r = 0; r < kRows; ++r) source[r] = rows[r] + first * kChannels;
    // The last load reads 16 bytes, less than six pixels.
    if (first + 4 * quads + 2 > length) [[unlikely]] {
      for (size_t r = 0; r < kRows; ++r) source[r] = ends.At(r, first, kChannels);
    }
    Sums h0 = hn::Zero(Tag<int32_t>());
    Sums h1 = h0, h2 = h0, h3 = h0, l0 = h0, l1 = h0, l2 = h0, l3 = h0;
    AddQuad<kRows, kChannels, true>(source, 0, high, low, h0, l0, h1, l1, h2, l2, h3, l3);
    for (uint32_t q = 1; q < quads; ++q) {
      AddQuad<kRows, kChannels, false>(source, q, high, low, h0, l0, h1, l1, h2, l2, h3, l3);
    }
    StorePixels<kRows>(Joined(h0, l0), Joined(h1, l1), Joined(h2, l2), Joined(h3, l3), kChannels == 3 && i + 1 == width,
                       outs, kChannels * i);
  }
}

// Eight pixels of one channel at a time.
template <size_t kRows>
void ResizeGray(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, uint8_t* tail) {
  const hn::FixedTag<uint8_t, 8> d8;
  const hn::FixedTag<int16_t, 8> d16;
  const hn::FixedTag<int32_t, 4> d32;
  const RowEnds ends(filter, from, kRows, 1, tail);
  const auto width = static_cast<uint32_t>(filter.first.size());
  for (uint32_t i = 0; i < width; ++i) {
    const uint32_t first = filter.first[i] - filter.begin;
    const uint32_t eights = (filter.taps[i] + 7) / 8;
    const bool at_end = first + 8 * eights > ends.length();
    const int16_t* const high = filter.high.data() + size_t{i} * filter.padded_taps;
    const int16_t* const low = filter.low.data() + size_t{i} * filter.padded_taps;
    for (size_t r = 0; r < kRows; ++r) {
      const uint8_t* const source = at_end ? ends.At(r, first, 1) : from[r] + first;
      auto high_sums = hn::Zero(d32);
      auto low_sums = hn::Zero(d32);
      for (uint32_t q = 0; q < eights; ++q) {
        const auto pixels = hn::PromoteTo(d16, hn::LoadU(d8, source + size_t{8} * q));
        const auto high_weights = hn::LoadU(d16, high + size_t{8} * q);
        const auto low_weights = hn::LoadU(d16, low + size_t{8} * q);
        high_sums = hn::Add(high_sums, MultiplyPairs(d16, pixels, high_weights));
        low_sums = hn::Add(low_sums, MultiplyPairs(d16, pixels, low_weights));
      }
      const int32_t sum = hn::GetLane(hn::SumOfLanes(d32, Joined(high_sums, low_sums))) + kRound;
      to[r][i] = static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
    }
  }
}

void ResizeRows(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, size_t rows, int channels,
                uint8_t* tail) {
  const size_t step = rows == kRowGroup ? kRowGroup : 1;
  const auto resize = step == 1 ? (channels == 1   ? ResizeGray<1>
                                   : channels == 3 ? ResizeColors<1, 3>
                                                   : ResizeColors<1, 4>)
                                : (channels == 1   ? ResizeGray<kRowGroup>
                                   : channels == 3 ? ResizeColors<kRowGroup, 3>
                                                   : ResizeColors<kRowGroup, 4>);
  for (size_t r = 0; r < rows; r += step) resize(filter, from + r, to + r, tail);
}

// The weights of two rows as pairs, matching the two rows' interleaved bytes.
HWY_INLINE Vector<int16_t> WeightPair(const int16_t* weights, bool both) {
  const uint32_t second = both ? static_cast<uint16_t>(weights[1]) : 0;
  const auto pair = hn::Set(Tag<uint32_t>(), static_cast<uint16_t>(weights[0]) | second << 16);
  return hn::BitCast(Tag<int16_t>(), pair);
}

// A vector's bytes of a row, of which only the first `bytes` may be read.
HWY_INLINE Vector<uint8_t> LoadBytes(const uint8_t* from, size_t bytes) {
  const Tag<uint8_t> d8;
  if (bytes >= kVectorBytes) return hn::LoadU(d8, from);
  uint8_t copy[kVectorBytes] = {};
  std::memcpy(copy, from, bytes);
  return hn::LoadU(d8, copy);
}

void BlendRows(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps, size_t bytes,
               uint8_t* to) {
  const Tag<uint8_t> d8;
  const Tag<int16_t> d16;
  const auto zero = hn::Zero(d8);
  for (size_t begin = 0; begin < bytes; begin += kVectorBytes) {
    // The last block overlaps the one before.
    const size_t x = std::min(begin, bytes - std::min(bytes, kVectorBytes));
    Sums h0 = hn::Zero(Tag<int32_t>());
    Sums h1 = h0, h2 = h0, h3 = h0, l0 = h0, l1 = h0, l2 = h0, l3 = h0;
    for (uint32_t j = 0; j < taps; j += 2) {
      const bool both = j + 1 < taps;
      const auto high_pair = WeightPair(high + j, both);
      const auto low_pair = WeightPair(low + j, both);
      const auto a = LoadBytes(from[j] + x, bytes);
      const auto b = both ? LoadBytes(from[j + 1] + x, bytes) : zero;
      const auto first = hn::InterleaveLower(d8, a, b);
      const auto second = hn::InterleaveUpper(d8, a, b);
      // Interleaving works within blocks of 128 bits. The packing below does too, and so restores the order.
      const auto pixels0 = hn::BitCast(d16, hn::InterleaveLower(d8, first, zero));
      const auto pixels1 = hn::BitCast(d16, hn::InterleaveUpper(d8, first, zero));
      const auto pixels2 = hn::BitCast(d16, hn::InterleaveLower(d8, second, zero));
      const auto pixels3 = hn::BitCast(d16, hn::InterleaveUpper(d8, second, zero));
      h0 = hn::Add(h0, MultiplyPairs(d16, pixels0, high_pair));
      h1 = hn::Add(h1, MultiplyPairs(d16, pixels1, high_pair));
      h2 = hn::Add(h2, MultiplyPairs(d16, pixels2, high_pair));
      h3 = hn::Add(h3, MultiplyPairs(d16, pixels3, high_pair));
      l0 = hn::Add(l0, MultiplyPairs(d16, pixels0, low_pair));
      l1 = hn::Add(l1, MultiplyPairs(d16, pixels1, low_pair));
      l2 = hn::Add(l2, MultiplyPairs(d16, pixels2, low_pair));
      l3 = hn::Add(l3, MultiplyPairs(d16, pixels3, low_pair));
    }
    const auto lower = Pack(Rounded(Joined(h0, l0)), Rounded(Joined(h1, l1)));
    const auto upper = Pack(Rounded(Joined(h2, l2)), Rounded(Joined(h3, l3)));
    const auto blended = PackBytes(lower, upper);
    if (bytes >= kVectorBytes) {
      hn::StoreU(blended, d8, to + x);
    } else {
      uint8_t copy[kVectorBytes];
      hn::StoreU(blended, d8, copy);
      std::memcpy(to, copy, bytes);
    }
  }
}

}  // namespace
}  // namespace shardkit::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardkit::codec {

HWY_EXPORT(ResizeRows);
HWY_EXPORT(BlendRows);

void ResizeRows(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, size_t rows, int channels,
                uint8_t* tail) {
  HWY_DYNAMIC_DISPATCH(ResizeRows)(filter, from, to, rows, channels, tail);
}

void BlendRows(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps, size_t bytes,
               uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(BlendRows)(from, high, low, taps, bytes, to);
}

}  // namespace shardkit::codec
#endif  // HWY_ONCE
