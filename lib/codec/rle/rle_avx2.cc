// RLE kernels for x86-64 processors with AVX2 and BMI2; see rle_kernels.h.
//
// Compiled with function attributes instead of -mavx2: inline functions of the standard library that this file
// instantiates must run on every processor.
#include "codec/rle/rle_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <cstring>

#include "base/endian.h"

#define SHARDKIT_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define SHARDKIT_AVX2_INLINE SHARDKIT_AVX2 __attribute__((always_inline)) inline

namespace shardkit::codec {
namespace {

// Splits bytes into numbers, eight bytes at a time. A mask of the bytes that end a number is the index into a table.
// Its entry moves the groups of up to eight numbers, of up to four groups each, into 32-bit lanes.
constexpr unsigned kWindow = 8;
constexpr unsigned kLaneGroups = 4;

struct WindowTable {
  alignas(32) uint8_t shuffle[256][32];
  bool too_long[256];  // does not fit the lanes: a number has more than four groups, or none ends
};

constexpr WindowTable MakeWindowTable() {
  WindowTable table{};
  for (unsigned ends = 0; ends < 256; ++ends) {
    unsigned start = 0;
    unsigned number = 0;
    table.too_long[ends] = ends == 0;
    for (unsigned i = 0; i < 32; ++i) table.shuffle[ends][i] = 0x80;  // zero
    for (unsigned i = 0; i < kWindow; ++i) {
      if ((ends >> i & 1) == 0) continue;
      if (i - start >= kLaneGroups) table.too_long[ends] = true;
      for (unsigned j = start; j <= i && j - start < kLaneGroups; ++j) {
        table.shuffle[ends][number * 4 + j - start] = static_cast<uint8_t>(j);
      }
      ++number;
      start = i + 1;
    }
  }
  return table;
}

constexpr WindowTable kWindows = MakeWindowTable();

// COCO text: characters 48 + group. A group has five bits, and 0x20 in all groups except a number's last, which has a
// sign.
struct Coco {
  static constexpr char kPad = '0';
  static constexpr unsigned kMaxGroups = 6;  // the portable code handles longer numbers

  // Bytes that are not characters of the text have one of the two top bits set in the result.
  SHARDKIT_AVX2_INLINE static __m256i Foreign(__m256i bytes) { return _mm256_sub_epi8(bytes, _mm256_set1_epi8(48)); }
  // Bit i: the group in byte i is not the last of its number.
  SHARDKIT_AVX2_INLINE static uint32_t Continued(__m256i bytes) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(Foreign(bytes), 2)));
  }
  static constexpr bool kCanonical = false;
  SHARDKIT_AVX2_INLINE static __m256i Lanes(__m256i bytes, __m256i shuffle) {
    // 48 to 63 are 0 to 15; 64 to 79 are -16 to -1 and can only be last; 80 to 111 are 0 to 31 and cannot be last.
    const __m256i upper = _mm256_and_si256(_mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(63)), _mm256_set1_epi8(32));
    const __m256i groups = _mm256_sub_epi8(_mm256_sub_epi8(bytes, _mm256_set1_epi8(48)), upper);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi16(1 | 32 << 8), _mm256_shuffle_epi8(groups, shuffle));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(1 | 1024 << 16));
  }
  SHARDKIT_AVX2_INLINE static uint32_t Number(const char* from, unsigned groups) {
    // 48 + group differs from group in bit 4 and above, for every group: one XOR corrects the five bits.
    const uint64_t bits = _pext_u64(LoadLittle<uint64_t>(from), 0x1f1f1f1f1f1f1f1f) ^ 0x8421084210;
    const unsigned unused = 64 - 5 * groups;
    return static_cast<uint32_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
};

// LEB128: groups of seven bits, with 0x80 in all groups except the last. The last is 0 only when it is the only one.
struct Leb {
  static constexpr char kPad = 0;
  static constexpr unsigned kMaxGroups = 4;

  SHARDKIT_AVX2_INLINE static __m256i Foreign(__m256i) { return _mm256_setzero_si256(); }
  SHARDKIT_AVX2_INLINE static uint32_t Continued(__m256i bytes) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
  }
  static constexpr bool kCanonical = true;
  SHARDKIT_AVX2_INLINE static __m256i Lanes(__m256i bytes, __m256i shuffle) {
    const __m256i groups = _mm256_shuffle_epi8(_mm256_and_si256(bytes, _mm256_set1_epi8(0x7f)), shuffle);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi16(static_cast<int16_t>(1 | 128 << 8)), groups);
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(1 | 16384 << 16));
  }
  SHARDKIT_AVX2_INLINE static uint32_t Number(const char* from, unsigned groups) {
    return _bzhi_u32(_pext_u32(LoadLittle<uint32_t>(from), 0x7f7f7f7f), 7 * groups);
  }
};

template <typename Format>
struct Splitter {
  uint32_t* out;
  __m256i foreign = _mm256_setzero_si256();

  // Reads numbers from `at`, where one begins, until fewer than `leave` of `size` <= 64 bytes are left. Returns where
  // it stopped, or null on an error. Reads kReadable bytes, writes up to 8 numbers beyond the last.
  SHARDKIT_AVX2_INLINE const char* Block(const char* at, unsigned size, unsigned leave) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + 32));
    foreign = _mm256_or_si256(foreign, _mm256_or_si256(Format::Foreign(low), Format::Foreign(high)));
    const uint64_t continued = Join(Format::Continued(low), Format::Continued(high));
    uint64_t ends = _bzhi_u64(~continued, size);
    if constexpr (Format::kCanonical) {
      const __m256i zero = _mm256_setzero_si256();
      const uint64_t zeros = Join(static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, zero))),
                                  static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, zero))));
      if ((zeros & (continued << 1) & ends) != 0) return nullptr;
    }
    for (unsigned left = size; left >= leave;) {
      const uint32_t window = static_cast<uint8_t>(ends);
      unsigned taken;
      if (kWindows.too_long[window]) [[unlikely]] {
        taken = static_cast<unsigned>(_tzcnt_u64(ends)) + 1;
        if (taken > Format::kMaxGroups) return nullptr;  // also when no number ends
        *out++ = Format::Number(at, taken);
      } else {
        const __m256i bytes = _mm256_set1_epi64x(LoadLittle<int64_t>(at));
        const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(kWindows.shuffle[window]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), Format::Lanes(bytes, shuffle));
        out += _mm_popcnt_u32(window);
        taken = 32 - _lzcnt_u32(window);
      }
      ends >>= taken;
      at += taken;
      left -= taken;
    }
    return at;
  }

  static constexpr size_t kReadable = 64 + kWindow;

 private:
  SHARDKIT_AVX2_INLINE static uint64_t Join(uint32_t low, uint32_t high) { return low | (uint64_t{high} << 32); }
};

// Splits `bytes` into numbers; false when they are malformed or one is too long. Writes up to 8 numbers beyond the
// last.
template <typename Format>
SHARDKIT_AVX2_INLINE bool Split(std::string_view bytes, uint32_t* out, size_t* count) {
  using Numbers = Splitter<Format>;
  Numbers splitter{out};
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (static_cast<size_t>(end - at) >= Numbers::kReadable) {
    at = splitter.Block(at, 64, kWindow);
    if (at == nullptr) return false;
  }
  // The rest is copied to a buffer, where reading beyond it is harmless.
  while (at != end) {
    char buffer[Numbers::kReadable];
    const size_t rest = static_cast<size_t>(end - at);
    std::memset(buffer, Format::kPad, sizeof(buffer));
    std::memcpy(buffer, at, rest);
    const char* const stopped =
        splitter.Block(buffer, static_cast<unsigned>(rest < 64 ? rest : 64), rest <= 64 ? 1 : kWindow);
    if (stopped == nullptr) return false;
    at += stopped - buffer;
  }
  *count = static_cast<size_t>(splitter.out - out);
  return _mm256_testz_si256(splitter.foreign, _mm256_set1_epi8(static_cast<char>(0xc0))) != 0;
}

// runs[i] += runs[i - 2] for i > 2. False when a run is negative or above 2^31 - 1. Differences are above -2^31, so a
// sum that wraps is negative.
SHARDKIT_AVX2_INLINE bool SumDifferences(uint32_t* runs, size_t count) {
  uint32_t sign = 0;
  size_t i = 0;
  for (; i < count && i < 3; ++i) sign |= runs[i];
  if (i + 8 <= count) {
    __m256i carry = _mm256_set1_epi64x(LoadLittle<int64_t>(runs + 1));
    __m256i signs = _mm256_setzero_si256();
    for (; i + 8 <= count; i += 8) {
      __m256i* const at = reinterpret_cast<__m256i*>(runs + i);
      __m256i value = _mm256_loadu_si256(at);
      value = _mm256_add_epi32(value, _mm256_slli_si256(value, 8));
      // Add the last pair of the lower half to the upper half.
      const __m256i lower = _mm256_blend_epi32(_mm256_setzero_si256(), _mm256_permute4x64_epi64(value, 0x55), 0xf0);
      value = _mm256_add_epi32(value, lower);
      // So the next eight depend on only one addition.
      const __m256i last_pair = _mm256_permute4x64_epi64(value, 0xff);
      value = _mm256_add_epi32(value, carry);
      carry = _mm256_add_epi32(carry, last_pair);
      signs = _mm256_or_si256(signs, value);
      _mm256_storeu_si256(at, value);
    }
    sign |= static_cast<uint32_t>(_mm256_movemask_epi8(signs)) & 0x88888888 ? 0x80000000 : 0;
  }
  for (; i < count; ++i) {
    runs[i] += runs[i - 2];
    sign |= runs[i];
  }
  return (sign >> 31) == 0;
}

SHARDKIT_AVX2_INLINE uint32_t Unzigzag(uint32_t value) { return (value >> 1) ^ (0 - (value & 1)); }

SHARDKIT_AVX2_INLINE __m256i Unzigzag(__m256i value) {
  const __m256i odd = _mm256_and_si256(value, _mm256_set1_epi32(1));
  return _mm256_xor_si256(_mm256_srli_epi32(value, 1), _mm256_sub_epi32(_mm256_setzero_si256(), odd));
}

// runs[i] = Unzigzag(runs[i]) + height - runs[i - 1] for i > 1: a prefix sum when every other run is negated. False
// when a run is negative or above 2^31 - 1. This includes runs that wrap: numbers are below 2^28, so two neighbours sum
// to at most height + 2^27. No run is then below -2^28, and height is below 2^31.
SHARDKIT_AVX2_INLINE bool SumEdges(uint32_t* runs, size_t count, uint32_t height, uint64_t* sum) {
  uint32_t sign = height;
  uint64_t total = 0;
  size_t i = 0;
  for (; i < count && i < 2; ++i) {
    runs[i] = Unzigzag(runs[i]);
    sign |= runs[i];
    total += runs[i];
  }
  if (i + 8 <= count) {
    const __m256i heights = _mm256_set1_epi32(static_cast<int32_t>(height));
    const __m256i alternate = _mm256_set1_epi64x(static_cast<int64_t>(0xffffffff00000001));  // 1, -1
    __m256i carry = _mm256_set1_epi32(static_cast<int32_t>(0 - runs[1]));
    __m256i signs = _mm256_setzero_si256();
    __m256i sums = _mm256_setzero_si256();
    for (; i + 8 <= count; i += 8) {
      __m256i* const at = reinterpret_cast<__m256i*>(runs + i);
      __m256i value = _mm256_add_epi32(Unzigzag(_mm256_loadu_si256(at)), heights);
      value = _mm256_sign_epi32(value, alternate);
      value = _mm256_add_epi32(value, _mm256_slli_si256(value, 4));
      value = _mm256_add_epi32(value, _mm256_slli_si256(value, 8));
      // Add the last of the lower half to the upper half.
      const __m256i lower = _mm256_shuffle_epi32(_mm256_permute2x128_si256(value, value, 0x08), 0xff);
      value = _mm256_add_epi32(value, lower);
      // So the next eight depend on only one addition.
      const __m256i last = _mm256_permutevar8x32_epi32(value, _mm256_set1_epi32(7));
      value = _mm256_sign_epi32(_mm256_add_epi32(value, carry), alternate);
      carry = _mm256_add_epi32(carry, last);
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
    runs[i] = Unzigzag(runs[i]) + height - runs[i - 1];
    sign |= runs[i];
    total += runs[i];
  }
  *sum = total;
  return (sign >> 31) == 0;
}

// The low bytes of eight 32-bit numbers.
SHARDKIT_AVX2_INLINE uint64_t LowBytes(__m256i value) {
  const __m256i pick =
      _mm256_shuffle_epi8(value, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8,
                                                  12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const uint64_t low = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm256_castsi256_si128(pick)));
  const uint64_t high = static_cast<uint32_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(pick, 1)));
  return low | (high << 32);
}

SHARDKIT_AVX2_INLINE __m256i LoadEight(const uint32_t* runs) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(runs));
}

// Writes eight numbers below 128 as one byte each; null when one is larger.
SHARDKIT_AVX2_INLINE uint8_t* WriteEightShort(__m256i numbers, uint8_t* out) {
  if (_mm256_testz_si256(numbers, _mm256_set1_epi32(~127)) == 0) return nullptr;
  StoreLittle(out, LowBytes(numbers));
  return out + 8;
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
  // Every processor with BMI2 has LZCNT, which not all compilers can check by name.
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
  }();
  return has;
}

SHARDKIT_AVX2 bool RunsFromCocoTextAvx2(std::string_view text, uint32_t* out, size_t* count) {
  return Split<Coco>(text, out, count) && SumDifferences(out, *count);
}

SHARDKIT_AVX2 bool SplitLebAvx2(std::string_view bytes, size_t count, uint32_t* out) {
  size_t found;
  return Split<Leb>(bytes, out, &found) && found == count;
}

SHARDKIT_AVX2 bool UndoEdgeAvx2(std::span<uint32_t> runs, uint32_t height, uint64_t* sum) {
  return SumEdges(runs.data(), runs.size(), height, sum);
}

SHARDKIT_AVX2 char* WriteCocoAvx2(std::span<const uint32_t> runs, size_t begin, size_t end, char* out) {
  const uint32_t* const run = runs.data();
  size_t i = begin;
  for (; i < end && i < 3; ++i) out = WriteCocoNumber(static_cast<int32_t>(run[i]), out);
  for (; i + 8 <= end; i += 8) {
    const __m256i value = _mm256_sub_epi32(LoadEight(run + i), LoadEight(run + i - 2));
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

SHARDKIT_AVX2 uint8_t* WriteLebAvx2(const RleView& mask, size_t begin, size_t end, bool edge, uint8_t* out) {
  const uint32_t* const run = mask.runs.data();
  size_t i = begin;
  if (!edge) {
    for (; i + 8 <= end; i += 8) {
      if (uint8_t* const next = WriteEightShort(LoadEight(run + i), out)) {
        out = next;
        continue;
      }
      for (size_t j = i; j < i + 8; ++j) out = WriteLebNumber(run[j], out);
    }
    for (; i < end; ++i) out = WriteLebNumber(run[i], out);
    return out;
  }
  const uint32_t height = mask.height;
  const __m256i heights = _mm256_set1_epi32(static_cast<int32_t>(height));
  for (; i < end && i < 2; ++i) out = WriteLebNumber(Zigzag(static_cast<int32_t>(run[i])), out);
  for (; i + 8 <= end; i += 8) {
    const __m256i pairs = _mm256_add_epi32(LoadEight(run + i), LoadEight(run + i - 1));
    const __m256i value = _mm256_sub_epi32(pairs, heights);
    const __m256i zigzag = _mm256_xor_si256(_mm256_slli_epi32(value, 1), _mm256_srai_epi32(value, 31));
    if (uint8_t* const next = WriteEightShort(zigzag, out)) {
      out = next;
      continue;
    }
    alignas(32) uint32_t numbers[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(numbers), zigzag);
    for (const uint32_t number : numbers) out = WriteLebNumber(number, out);
  }
  for (; i < end; ++i) out = WriteLebNumber(Zigzag(static_cast<int32_t>(run[i] + run[i - 1] - height)), out);
  return out;
}

SHARDKIT_AVX2 void ExpandRowAvx2(uint64_t* row, const uint64_t* previous, size_t words, uint8_t* out) {
  const __m256i spread =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
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

SHARDKIT_AVX2 void PackStripsAvx2(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                                  size_t words_stride) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t row = 0; row < height; ++row, pixels += stride) {
    for (size_t strip = 0; strip < strips; ++strip) {
      const __m256i* const from = reinterpret_cast<const __m256i*>(pixels + 64 * strip);
      const __m256i low = _mm256_cmpeq_epi8(_mm256_loadu_si256(from), zero);
      const __m256i high = _mm256_cmpeq_epi8(_mm256_loadu_si256(from + 1), zero);
      const uint64_t low_bits = static_cast<uint32_t>(_mm256_movemask_epi8(low));
      const uint64_t high_bits = static_cast<uint32_t>(_mm256_movemask_epi8(high));
      words[strip * words_stride + row] = ~(low_bits | (high_bits << 32));
    }
  }
}

}  // namespace shardkit::codec

#else

// The same interface for other machines, where HasAvx2Kernels() is false.
namespace shardkit::codec {

bool HasAvx2Kernels() { return false; }
bool RunsFromCocoTextAvx2(std::string_view, uint32_t*, size_t*) { return false; }
bool SplitLebAvx2(std::string_view, size_t, uint32_t*) { return false; }
bool UndoEdgeAvx2(std::span<uint32_t>, uint32_t, uint64_t*) { return false; }
char* WriteCocoAvx2(std::span<const uint32_t> runs, size_t begin, size_t end, char* out) {
  return WriteCocoPortable(runs, begin, end, out);
}
uint8_t* WriteLebAvx2(const RleView& mask, size_t begin, size_t end, bool edge, uint8_t* out) {
  return WriteLebPortable(mask, begin, end, edge, out);
}
void ExpandRowAvx2(uint64_t* row, const uint64_t* previous, size_t words, uint8_t* out) {
  ExpandRowPortable(row, previous, words, out);
}
void PackStripsAvx2(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                    size_t words_stride) {
  PackStripsPortable(pixels, stride, height, strips, words, words_stride);
}

}  // namespace shardkit::codec

#endif
