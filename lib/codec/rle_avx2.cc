// RLE kernels for x86-64 processors with AVX2 and BMI2; see rle_kernels.h.
//
// Compiled with function attributes, not with -mavx2: inline functions of the standard library that this file
// instantiates must stay fit for every processor.
#include "codec/rle_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <cstring>

#include "base/endian.h"

#define SHARDKIT_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define SHARDKIT_AVX2_INLINE SHARDKIT_AVX2 __attribute__((always_inline)) inline

namespace shardkit::internal {
namespace {

// How numbers are cut into groups, one per byte, least significant first. kMaxGroups is what the splitter
// takes; longer numbers are left to the portable code.
struct Coco {
  static constexpr char kPad = '0';
  static constexpr unsigned kBits = 5;
  static constexpr unsigned kMaxGroups = 6;

  // Bytes that are no character of the text have one of the two top bits set in the result.
  SHARDKIT_AVX2_INLINE static __m256i Foreign(__m256i bytes) {
    return _mm256_sub_epi8(bytes, _mm256_set1_epi8(48));
  }
  // Bit i: the group in byte i is followed by another of the same number.
  SHARDKIT_AVX2_INLINE static uint32_t Continued(__m256i bytes) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(Foreign(bytes), 2)));
  }
  SHARDKIT_AVX2_INLINE static uint32_t Number(const char* from, unsigned groups) {
    // 48 + group differs from group in bit 4 and above, whatever the group: one XOR mends the five bits.
    const uint64_t bits = _pext_u64(LoadLittle<uint64_t>(from), 0x1f1f1f1f1f1f1f1f) ^ 0x8421084210;
    const unsigned unused = 64 - kBits * groups;
    return static_cast<uint32_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
  // Sixteen numbers of one group each.
  SHARDKIT_AVX2_INLINE static void Singles(__m128i bytes, uint32_t* out) {
    const __m128i group = _mm_and_si128(_mm_sub_epi8(bytes, _mm_set1_epi8(48)), _mm_set1_epi8(31));
    const __m128i value = _mm_sub_epi8(_mm_xor_si128(group, _mm_set1_epi8(16)), _mm_set1_epi8(16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_cvtepi8_epi32(value));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_cvtepi8_epi32(_mm_srli_si128(value, 8)));
  }
};

struct Leb {
  static constexpr char kPad = 0;
  static constexpr unsigned kBits = 7;
  static constexpr unsigned kMaxGroups = 4;

  SHARDKIT_AVX2_INLINE static __m256i Foreign(__m256i) { return _mm256_setzero_si256(); }
  SHARDKIT_AVX2_INLINE static uint32_t Continued(__m256i bytes) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
  }
  SHARDKIT_AVX2_INLINE static uint32_t Number(const char* from, unsigned groups) {
    return _bzhi_u32(_pext_u32(LoadLittle<uint32_t>(from), 0x7f7f7f7f), kBits * groups);
  }
  SHARDKIT_AVX2_INLINE static void Singles(__m128i bytes, uint32_t* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_cvtepu8_epi32(bytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
  }
};

template <typename Format>
struct Splitter {
  uint32_t* out;
  __m256i foreign = _mm256_setzero_si256();
  uint32_t continued = 0;  // of the block before
  uint32_t faults = 0;

  // The numbers that end within the 32 bytes at `block` and the set bits of `valid`, unless there is a fault.
  // `start` is where the first of them begins; returns where the next begins, at most kMaxGroups before the
  // next block. Reads up to 8 bytes from any start.
  SHARDKIT_AVX2_INLINE const char* Block(const char* block, const char* start, uint32_t valid) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
    foreign = _mm256_or_si256(foreign, Format::Foreign(bytes));
    const uint32_t now = Format::Continued(bytes);
    // kMaxGroups continued groups in a row make a number too long. Bit 32 + i is byte i.
    const uint64_t both = (uint64_t{now} << 32) | continued;
    uint64_t row = both & (both << 1);
    row &= row << 2;
    if constexpr (Format::kMaxGroups == 6) row &= row << 2;
    faults |= static_cast<uint32_t>(row >> 32);
    if constexpr (Format::kBits == 7) {
      // A last group of 0 after another is not canonical.
      const uint32_t zero =
          static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_setzero_si256())));
      faults |= zero & static_cast<uint32_t>((both << 1) >> 32) & valid;
    }
    continued = now;
    if (faults != 0) return start;

    const uint32_t ends = ~now & valid;
    for (unsigned half = 0; half < 32; half += 16) {
      uint32_t left = (ends >> half) & 0xffff;
      if (left == 0xffff && start == block + half) {
        Format::Singles(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + half)), out);
        out += 16;
        start += 16;
        continue;
      }
      for (; left != 0; left &= left - 1) {
        const char* const end = block + half + _tzcnt_u32(left) + 1;
        *out++ = Format::Number(start, static_cast<unsigned>(end - start));
        start = end;
      }
    }
    return start;
  }
};

// Cuts `bytes` into numbers; false when they are malformed or one is too long. Writes up to 16 numbers beyond
// the last.
template <typename Format>
SHARDKIT_AVX2_INLINE bool Split(std::string_view bytes, uint32_t* out, size_t* count) {
  Splitter<Format> splitter{out};
  const char* start = bytes.data();
  const char* block = bytes.data();
  const char* const end = bytes.data() + bytes.size();
  for (; end - block >= 40; block += 32) {
    start = splitter.Block(block, start, ~uint32_t{0});
    if (splitter.faults != 0) return false;
  }
  // The last 39 bytes or fewer, and an open number's front, from where reading beyond them is harmless.
  char buffer[96];
  const size_t front = static_cast<size_t>(block - start);
  const size_t rest = static_cast<size_t>(end - block);
  std::memset(buffer, Format::kPad, sizeof(buffer));
  if (front + rest != 0) std::memcpy(buffer + 8 - front, start, front + rest);
  const char* position = buffer + 8 - front;
  const uint64_t valid = (uint64_t{1} << rest) - 1;
  position = splitter.Block(buffer + 8, position, static_cast<uint32_t>(valid));
  position = splitter.Block(buffer + 40, position, static_cast<uint32_t>(valid >> 32));
  *count = static_cast<size_t>(splitter.out - out);
  return splitter.faults == 0 && position == buffer + 8 + rest &&
         _mm256_testz_si256(splitter.foreign, _mm256_set1_epi8(static_cast<char>(0xc0))) != 0;
}

// runs[i] += runs[i - 2] for i > 2, after `prepare` on each eight; *sum of all. False when one is negative or
// above 2^31 - 1: differences are above -2^31, so a sum that wraps shows as negative.
template <typename Prepare>
SHARDKIT_AVX2_INLINE bool SumDifferences(uint32_t* runs, size_t count, uint64_t* sum, Prepare prepare) {
  uint32_t sign = 0;
  uint64_t total = 0;
  size_t i = 0;
  for (; i < count && i < 3; ++i) {
    runs[i] = prepare.Scalar(runs[i]);
    sign |= runs[i];
    total += runs[i];
  }
  if (i + 8 <= count) {
    __m256i carry = _mm256_set1_epi64x(LoadLittle<int64_t>(runs + 1));
    __m256i signs = _mm256_setzero_si256();
    __m256i sums = _mm256_setzero_si256();
    for (; i + 8 <= count; i += 8) {
      __m256i* const at = reinterpret_cast<__m256i*>(runs + i);
      __m256i value = prepare.Vector(_mm256_loadu_si256(at));
      value = _mm256_add_epi32(value, _mm256_slli_si256(value, 8));
      // The last pair of the lower half, to the upper half.
      const __m256i lower =
          _mm256_blend_epi32(_mm256_setzero_si256(), _mm256_permute4x64_epi64(value, 0x55), 0xf0);
      value = _mm256_add_epi32(_mm256_add_epi32(value, lower), carry);
      carry = _mm256_permute4x64_epi64(value, 0xff);
      signs = _mm256_or_si256(signs, value);
      sums = _mm256_add_epi64(sums, _mm256_srli_epi64(value, 32));
      sums = _mm256_add_epi64(sums, _mm256_and_si256(value, _mm256_set1_epi64x(0xffffffff)));
      _mm256_storeu_si256(at, value);
    }
    sign |= static_cast<uint32_t>(_mm256_movemask_epi8(signs)) & 0x88888888 ? 0x80000000 : 0;
    alignas(32) uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sums);
    total += lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
  for (; i < count; ++i) {
    runs[i] = prepare.Scalar(runs[i]) + runs[i - 2];
    sign |= runs[i];
    total += runs[i];
  }
  *sum = total;
  return (sign >> 31) == 0;
}

struct AsIs {
  SHARDKIT_AVX2_INLINE uint32_t Scalar(uint32_t value) const { return value; }
  SHARDKIT_AVX2_INLINE __m256i Vector(__m256i value) const { return value; }
};

struct Unzigzag {
  SHARDKIT_AVX2_INLINE uint32_t Scalar(uint32_t value) const { return (value >> 1) ^ (0 - (value & 1)); }
  SHARDKIT_AVX2_INLINE __m256i Vector(__m256i value) const {
    const __m256i odd = _mm256_and_si256(value, _mm256_set1_epi32(1));
    return _mm256_xor_si256(_mm256_srli_epi32(value, 1), _mm256_sub_epi32(_mm256_setzero_si256(), odd));
  }
};

// The low bytes of eight 32-bit numbers.
SHARDKIT_AVX2_INLINE uint64_t LowBytes(__m256i value) {
  const __m256i pick = _mm256_shuffle_epi8(
      value, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
                              -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const uint64_t low = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm256_castsi256_si128(pick)));
  const uint64_t high = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(pick, 1)));
  return low | (high << 32);
}

// runs[i .. i + 8) or their differences to the runs two before; i > 2 for differences.
SHARDKIT_AVX2_INLINE __m256i LoadEight(const uint32_t* runs, size_t i, bool delta) {
  const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(runs + i));
  if (!delta) return value;
  return _mm256_sub_epi32(value, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(runs + i - 2)));
}

SHARDKIT_AVX2_INLINE char* WriteCocoNumber(int32_t value, char* out) {
  // Significant bits, then the sign.
  const unsigned bits = 33 - _lzcnt_u32(static_cast<uint32_t>(value ^ (value >> 31)));
  const unsigned groups = (bits * 13 + 52) >> 6;  // ceil(bits / 5) for 1 to 33
  const uint64_t more = _bzhi_u64(0x2020202020202020, 8 * (groups - 1));
  const uint64_t spread = _pdep_u64(static_cast<uint64_t>(int64_t{value}), 0x1f1f1f1f1f1f1f1f);
  StoreLittle(out, (spread | more) + 0x3030303030303030);
  return out + groups;
}

SHARDKIT_AVX2_INLINE uint8_t* WriteLebNumber(uint32_t value, uint8_t* out) {
  const unsigned bits = 32 - _lzcnt_u32(value | 1);
  const unsigned groups = (bits * 9 + 63) >> 6;  // ceil(bits / 7) for 1 to 32
  const uint64_t more = _bzhi_u64(0x8080808080808080, 8 * (groups - 1));
  StoreLittle(out, _pdep_u64(value, 0x7f7f7f7f7f) | more);
  return out + groups;
}

SHARDKIT_AVX2_INLINE uint32_t Zigzag(int32_t value) {
  return (static_cast<uint32_t>(value) << 1) ^ static_cast<uint32_t>(value >> 31);
}

}  // namespace

bool HasAvx2Kernels() {
  // Every processor with BMI2 has LZCNT, which not all compilers can ask for by name.
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
  }();
  return has;
}

SHARDKIT_AVX2 bool RunsFromCocoTextAvx2(std::string_view text, uint32_t* out, size_t* count) {
  uint64_t sum;
  return Split<Coco>(text, out, count) && SumDifferences(out, *count, &sum, AsIs{});
}

SHARDKIT_AVX2 bool SplitLebAvx2(std::string_view bytes, size_t count, uint32_t* out) {
  size_t found;
  return Split<Leb>(bytes, out, &found) && found == count;
}

SHARDKIT_AVX2 bool UndoDeltaAvx2(std::span<uint32_t> runs, uint64_t* sum) {
  return SumDifferences(runs.data(), runs.size(), sum, Unzigzag{});
}

SHARDKIT_AVX2 char* WriteCocoAvx2(std::span<const uint32_t> runs, size_t begin, size_t end, char* out) {
  const uint32_t* const run = runs.data();
  size_t i = begin;
  for (; i < end && i < 3; ++i) out = WriteCocoNumber(static_cast<int32_t>(run[i]), out);
  for (; i + 8 <= end; i += 8) {
    const __m256i value = LoadEight(run, i, true);
    const __m256i shifted = _mm256_add_epi32(value, _mm256_set1_epi32(16));
    if (_mm256_testz_si256(shifted, _mm256_set1_epi32(~31)) != 0) {
      StoreLittle(out, (LowBytes(value) & 0x1f1f1f1f1f1f1f1f) + 0x3030303030303030);
      out += 8;
      continue;
    }
    for (size_t j = i; j < i + 8; ++j) out = WriteCocoNumber(static_cast<int32_t>(run[j] - run[j - 2]), out);
  }
  for (; i < end; ++i) out = WriteCocoNumber(static_cast<int32_t>(run[i] - run[i - 2]), out);
  return out;
}

SHARDKIT_AVX2 uint8_t* WriteLebAvx2(std::span<const uint32_t> runs, size_t begin, size_t end, bool delta,
                                    uint8_t* out) {
  const uint32_t* const run = runs.data();
  size_t i = begin;
  if (!delta) {
    for (; i + 8 <= end; i += 8) {
      const __m256i value = LoadEight(run, i, false);
      if (_mm256_testz_si256(value, _mm256_set1_epi32(~127)) != 0) {
        StoreLittle(out, LowBytes(value));
        out += 8;
        continue;
      }
      for (size_t j = i; j < i + 8; ++j) out = WriteLebNumber(run[j], out);
    }
    for (; i < end; ++i) out = WriteLebNumber(run[i], out);
    return out;
  }
  for (; i < end && i < 3; ++i) out = WriteLebNumber(Zigzag(static_cast<int32_t>(run[i])), out);
  for (; i + 8 <= end; i += 8) {
    const __m256i value = LoadEight(run, i, true);
    const __m256i zigzag = _mm256_xor_si256(_mm256_slli_epi32(value, 1), _mm256_srai_epi32(value, 31));
    if (_mm256_testz_si256(zigzag, _mm256_set1_epi32(~127)) != 0) {
      StoreLittle(out, LowBytes(zigzag));
      out += 8;
      continue;
    }
    for (size_t j = i; j < i + 8; ++j) {
      out = WriteLebNumber(Zigzag(static_cast<int32_t>(run[j] - run[j - 2])), out);
    }
  }
  for (; i < end; ++i) out = WriteLebNumber(Zigzag(static_cast<int32_t>(run[i] - run[i - 2])), out);
  return out;
}

SHARDKIT_AVX2 void ExpandRowAvx2(uint64_t* row, const uint64_t* previous, size_t words, uint8_t* out) {
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2,
                                          2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i one = _mm256_set1_epi8(1);
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = row[i] ^= previous[i];
    for (unsigned half = 0; half < 2; ++half) {
      const __m256i bytes = _mm256_set1_epi32(static_cast<int32_t>(word >> (32 * half)));
      const __m256i kept = _mm256_and_si256(_mm256_shuffle_epi8(bytes, spread), bit);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 64 * i + 32 * half), _mm256_min_epu8(kept, one));
    }
  }
}

SHARDKIT_AVX2 void PackStripAvx2(const uint8_t* pixels, size_t stride, size_t height, uint64_t* words) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t row = 0; row < height; ++row, pixels += stride) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels + 32));
    const uint64_t low_bits = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, zero)));
    const uint64_t high_bits = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, zero)));
    words[row] = ~(low_bits | (high_bits << 32));
  }
}

}  // namespace shardkit::internal

#else

// The same interface for other machines; HasAvx2Kernels() keeps everybody out.
namespace shardkit::internal {

bool HasAvx2Kernels() { return false; }
bool RunsFromCocoTextAvx2(std::string_view, uint32_t*, size_t*) { return false; }
bool SplitLebAvx2(std::string_view, size_t, uint32_t*) { return false; }
bool UndoDeltaAvx2(std::span<uint32_t>, uint64_t*) { return false; }
char* WriteCocoAvx2(std::span<const uint32_t> runs, size_t begin, size_t end, char* out) {
  return WriteCocoPortable(runs, begin, end, out);
}
uint8_t* WriteLebAvx2(std::span<const uint32_t> runs, size_t begin, size_t end, bool delta, uint8_t* out) {
  return WriteLebPortable(runs, begin, end, delta, out);
}
void ExpandRowAvx2(uint64_t* row, const uint64_t* previous, size_t words, uint8_t* out) {
  ExpandRowPortable(row, previous, words, out);
}
void PackStripAvx2(const uint8_t* pixels, size_t stride, size_t height, uint64_t* words) {
  PackStripPortable(pixels, stride, height, words);
}

}  // namespace shardkit::internal

#endif
