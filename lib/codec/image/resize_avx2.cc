// Resizing kernels for x86-64 processors with AVX2; see resize.h. Uses function attributes instead of -mavx2,
// as in rle_avx2.cc.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "codec/image/resize.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define SHARDKIT_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define SHARDKIT_AVX2_INLINE SHARDKIT_AVX2 __attribute__((always_inline)) inline
#define SHARDKIT_AVX2_LAMBDA __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"), always_inline))

namespace shardkit::codec {
namespace {

constexpr int kRound = 1 << (kWeightBits - 1);

SHARDKIT_AVX2_INLINE __m256i Load32(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

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

SHARDKIT_AVX2_INLINE __m256i Joined(__m256i high, __m256i low) {
  return _mm256_add_epi32(_mm256_slli_epi32(high, kLowBits), low);
}

// Adds both halves of `first` in the lower lane, those of `second` in the upper lane, and rounds.
SHARDKIT_AVX2_INLINE __m256i AddHalves(__m256i first, __m256i second) {
  const __m256i sum =
      _mm256_add_epi32(_mm256_permute2x128_si256(first, second, 0x20), _mm256_permute2x128_si256(first, second, 0x31));
  return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kRound)), kWeightBits);
}

// Stores four bytes, because the next pixel overwrites the fourth of three; three for the last pixel.
SHARDKIT_AVX2_INLINE void StorePixel(int32_t pixel, bool last, uint8_t* out) {
  if (last) {
    std::memcpy(out, &pixel, 3);
  } else {
    std::memcpy(out, &pixel, 4);
  }
}

// Takes four pixels of three or four channels at a time. Both 128-bit lanes get the same bytes. Each keeps one pair of
// pixels, [r r g g b b 0 0] in 16 bits, or with a for 0, for one multiply-and-add with the pair's weights.
template <size_t kRows, size_t kChannels>
SHARDKIT_AVX2 void ResizeColors(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to,
                                uint8_t* tail) {
  static_assert((kRows == 1 || kRows == 4) && (kChannels == 3 || kChannels == 4));
  const RowEnds ends(filter, from, kRows, kChannels, tail);
  const __m256i pairs = kChannels == 3 ? _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6,
                                                          -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1)
                                       : _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, 8, -1,
                                                          12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
  const __m256i weight_pairs =
      _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
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
    __m256i high_sums[kRows], low_sums[kRows];
    const auto add = [&](uint32_t q, auto is_first) SHARDKIT_AVX2_LAMBDA {
      int64_t high_bits, low_bits;
      std::memcpy(&high_bits, high + size_t{4} * q, sizeof(high_bits));
      std::memcpy(&low_bits, low + size_t{4} * q, sizeof(low_bits));
      const __m256i high_weights = _mm256_shuffle_epi8(_mm256_set1_epi64x(high_bits), weight_pairs);
      const __m256i low_weights = _mm256_shuffle_epi8(_mm256_set1_epi64x(low_bits), weight_pairs);
      for (size_t r = 0; r < kRows; ++r) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source[r] + 4 * kChannels * q));
        const __m256i pixels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), pairs);
        const __m256i by_high = _mm256_madd_epi16(pixels, high_weights);
        const __m256i by_low = _mm256_madd_epi16(pixels, low_weights);
        high_sums[r] = is_first ? by_high : _mm256_add_epi32(high_sums[r], by_high);
        low_sums[r] = is_first ? by_low : _mm256_add_epi32(low_sums[r], by_low);
      }
    };
    add(0, std::true_type());
    for (uint32_t q = 1; q < quads; ++q) add(q, std::false_type());
    const bool last = kChannels == 3 && i + 1 == width;
    const size_t at = kChannels * i;
    if constexpr (kRows == 4) {
      const __m256i even = AddHalves(Joined(high_sums[0], low_sums[0]), Joined(high_sums[2], low_sums[2]));
      const __m256i odd = AddHalves(Joined(high_sums[1], low_sums[1]), Joined(high_sums[3], low_sums[3]));
      // Lower lane: rows 0 and 1; upper: 2 and 3.
      __m256i bytes = _mm256_packs_epi32(even, odd);
      bytes = _mm256_packus_epi16(bytes, bytes);
      const __m128i lower = _mm256_castsi256_si128(bytes);
      const __m128i upper = _mm256_extracti128_si256(bytes, 1);
      StorePixel(_mm_cvtsi128_si32(lower), last, outs[0] + at);
      StorePixel(_mm_extract_epi32(lower, 1), last, outs[1] + at);
      StorePixel(_mm_cvtsi128_si32(upper), last, outs[2] + at);
      StorePixel(_mm_extract_epi32(upper, 1), last, outs[3] + at);
    } else {
      const __m256i joined = Joined(high_sums[0], low_sums[0]);
      __m256i bytes = AddHalves(joined, joined);
      bytes = _mm256_packs_epi32(bytes, bytes);
      bytes = _mm256_packus_epi16(bytes, bytes);
      StorePixel(_mm_cvtsi128_si32(_mm256_castsi256_si128(bytes)), last, outs[0] + at);
    }
  }
}

SHARDKIT_AVX2_INLINE int32_t SumOfFour(__m128i value) {
  value = _mm_add_epi32(value, _mm_shuffle_epi32(value, 0x4e));
  value = _mm_add_epi32(value, _mm_shuffle_epi32(value, 0xb1));
  return _mm_cvtsi128_si32(value);
}

// Eight pixels of one channel at a time.
template <size_t kRows>
SHARDKIT_AVX2 void ResizeGray(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, uint8_t* tail) {
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
      __m128i high_sum = _mm_setzero_si128();
      __m128i low_sum = _mm_setzero_si128();
      for (uint32_t q = 0; q < eights; ++q) {
        const __m128i pixels =
            _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(source + size_t{8} * q)));
        const __m128i high_weights = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high + size_t{8} * q));
        const __m128i low_weights = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low + size_t{8} * q));
        high_sum = _mm_add_epi32(high_sum, _mm_madd_epi16(pixels, high_weights));
        low_sum = _mm_add_epi32(low_sum, _mm_madd_epi16(pixels, low_weights));
      }
      const int32_t sum = SumOfFour(_mm_add_epi32(_mm_slli_epi32(high_sum, kLowBits), low_sum)) + kRound;
      to[r][i] = static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
    }
  }
}

// The weights of two rows as pairs, matching the two rows' interleaved bytes.
SHARDKIT_AVX2_INLINE __m256i WeightPair(const int16_t* weights, bool both) {
  const uint32_t second = both ? static_cast<uint16_t>(weights[1]) : 0;
  return _mm256_set1_epi32(static_cast<int32_t>(static_cast<uint16_t>(weights[0]) | second << 16));
}

SHARDKIT_AVX2_INLINE __m256i Total(__m256i high, __m256i low) {
  return _mm256_srai_epi32(_mm256_add_epi32(Joined(high, low), _mm256_set1_epi32(kRound)), kWeightBits);
}

}  // namespace

SHARDKIT_AVX2 void ResizeRowsAvx2(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, size_t rows,
                                  int channels, uint8_t* tail) {
  const size_t step = rows == kRowGroup ? kRowGroup : 1;
  const auto resize = step == 1 ? (channels == 1   ? ResizeGray<1>
                                   : channels == 3 ? ResizeColors<1, 3>
                                                   : ResizeColors<1, 4>)
                                : (channels == 1   ? ResizeGray<kRowGroup>
                                   : channels == 3 ? ResizeColors<kRowGroup, 3>
                                                   : ResizeColors<kRowGroup, 4>);
  for (size_t r = 0; r < rows; r += step) resize(filter, from + r, to + r, tail);
}

SHARDKIT_AVX2 void BlendRowsAvx2(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps,
                                 size_t bytes, uint8_t* to) {
  constexpr size_t kBlock = 32;
  if (bytes < kBlock) {
    BlendRowsPortable(from, high, low, taps, bytes, to);
    return;
  }
  const __m256i zero = _mm256_setzero_si256();
  for (size_t begin = 0; begin < bytes; begin += kBlock) {
    // The last block overlaps the one before.
    const size_t x = std::min(begin, bytes - kBlock);
    __m256i high_sums[4], low_sums[4];
    for (size_t k = 0; k < 4; ++k) high_sums[k] = low_sums[k] = zero;
    for (uint32_t j = 0; j < taps; j += 2) {
      const bool both = j + 1 < taps;
      const __m256i high_pair = WeightPair(high + j, both);
      const __m256i low_pair = WeightPair(low + j, both);
      const __m256i a = Load32(from[j] + x);
      const __m256i b = both ? Load32(from[j + 1] + x) : zero;
      const __m256i first = _mm256_unpacklo_epi8(a, b);
      const __m256i second = _mm256_unpackhi_epi8(a, b);
      // Unpacking works within 128-bit lanes. The packing below does too, and so restores the order.
      const __m256i wide[4] = {_mm256_unpacklo_epi8(first, zero), _mm256_unpackhi_epi8(first, zero),
                               _mm256_unpacklo_epi8(second, zero), _mm256_unpackhi_epi8(second, zero)};
      for (size_t k = 0; k < 4; ++k) {
        high_sums[k] = _mm256_add_epi32(high_sums[k], _mm256_madd_epi16(wide[k], high_pair));
        low_sums[k] = _mm256_add_epi32(low_sums[k], _mm256_madd_epi16(wide[k], low_pair));
      }
    }
    const __m256i lower = _mm256_packs_epi32(Total(high_sums[0], low_sums[0]), Total(high_sums[1], low_sums[1]));
    const __m256i upper = _mm256_packs_epi32(Total(high_sums[2], low_sums[2]), Total(high_sums[3], low_sums[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + x), _mm256_packus_epi16(lower, upper));
  }
}

}  // namespace shardkit::codec

#else

// The same interface for other machines, where HasAvx2Kernels() is false.
namespace shardkit::codec {

void ResizeRowsAvx2(const AxisFilter& filter, const uint8_t* const* from, uint8_t* const* to, size_t rows, int channels,
                    uint8_t* tail) {
  ResizeRowsPortable(filter, from, to, rows, channels, tail);
}
void BlendRowsAvx2(const uint8_t* const* from, const int16_t* high, const int16_t* low, uint32_t taps, size_t bytes,
                   uint8_t* to) {
  BlendRowsPortable(from, high, low, taps, bytes, to);
}

}  // namespace shardkit::codec

#endif
