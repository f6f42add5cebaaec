// RLE kernels for all instruction sets; see rle_kernels.h and vectors.h.
#include "codec/rle/rle_kernels.h"

#include <bit>
#include <cstring>

#include "base/endian.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/rle/rle_kernels.cc"
#include <hwy/foreach_target.h>  // includes this file once for each further instruction set

#include "codec/vectors.h"

#ifndef SHARDKIT_RLE_WINDOWS
#define SHARDKIT_RLE_WINDOWS

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

// Of 64 bits, byte i of a 64-byte vector is to get bit i: byte i takes byte i / 8 ...
struct SpreadTable {
  alignas(32) uint8_t byte[64];
};

constexpr SpreadTable MakeSpreadTable() {
  SpreadTable table{};
  for (unsigned i = 0; i < 64; ++i) table.byte[i] = static_cast<uint8_t>(i / 8);
  return table;
}

constexpr SpreadTable kSpread = MakeSpreadTable();
constexpr uint64_t kBitOfByte = 0x8040201008040201;  // ... and keeps this bit of it

constexpr uint64_t kEachByte = 0x0101010101010101;

}  // namespace
}  // namespace shardkit::codec

#endif  // SHARDKIT_RLE_WINDOWS

HWY_BEFORE_NAMESPACE();
namespace shardkit::codec::HWY_NAMESPACE {
namespace {

constexpr size_t kLanes = kVectorBytes / sizeof(uint32_t);

template <class Mask>
HWY_INLINE uint64_t BitsOf(Mask mask) {
  // Exactly as many bytes as are stored, so that the bits stay in a register.
#if HWY_HAVE_SCALABLE
  uint64_t bits = 0;  // StoreMaskBits may write all of it
#else
  hwy::UnsignedFromSize<kVectorBytes / 8> bits;
#endif
  hn::StoreMaskBits(Tag<uint8_t>(), mask, reinterpret_cast<uint8_t*>(&bits));
  return static_cast<uint64_t>(bits);
}

// The low kBits bits of each byte, side by side.
template <unsigned kBits>
HWY_INLINE uint64_t GatherGroups(uint64_t bytes) {
  constexpr uint64_t kKept = kEachByte * ((1 << kBits) - 1);
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  return _pext_u64(bytes, kKept);
#else
  bytes &= kKept;
  uint64_t bits = 0;
  for (unsigned i = 0; i < 8; ++i) bits |= (bytes >> (8 * i) & 0xff) << (kBits * i);
  return bits;
#endif
}

// The inverse, for bytes that are 0 but for kBits bits.
template <unsigned kBits>
HWY_INLINE uint64_t SpreadGroups(uint64_t bits) {
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  return _pdep_u64(bits, kEachByte * ((1 << kBits) - 1));
#else
  uint64_t bytes = 0;
  for (unsigned i = 0; i < 8; ++i) bytes |= (bits >> (kBits * i) & ((1 << kBits) - 1)) << (8 * i);
  return bytes;
#endif
}

// COCO text: characters 48 + group. A group has five bits, and 0x20 in all groups except a number's last, which has a
// sign.
struct Coco {
  static constexpr char kPad = '0';
  static constexpr unsigned kMaxGroups = 6;  // the portable code handles longer numbers
  static constexpr bool kCanonical = false;

  // Bytes that are not characters of the text have one of the two top bits set in the result.
  static HWY_INLINE Vector<uint8_t> Foreign(Vector<uint8_t> bytes) {
    return hn::Sub(bytes, hn::Set(Tag<uint8_t>(), 48));
  }
  // The group is not the last of its number.
  static HWY_INLINE hn::Mask<Tag<uint8_t>> Continued(Vector<uint8_t> bytes) {
    const Tag<int8_t> d;
    return hn::RebindMask(Tag<uint8_t>(), hn::Gt(hn::BitCast(d, bytes), hn::Set(d, 79)));
  }
  static HWY_INLINE Vector<uint8_t> Groups(Vector<uint8_t> bytes) {
    // 48 to 63 are 0 to 15; 64 to 79 are -16 to -1 and can only be last; 80 to 111 are 0 to 31 and cannot be last.
    const Tag<int8_t> d;
    const auto letters = hn::BitCast(d, bytes);
    const auto upper = hn::And(hn::VecFromMask(d, hn::Gt(letters, hn::Set(d, 63))), hn::Set(d, 32));
    return hn::BitCast(Tag<uint8_t>(), hn::Sub(hn::Sub(letters, hn::Set(d, 48)), upper));
  }
  // In each lane, the sum of its four groups.
  static HWY_INLINE Vector<int32_t> Sum(Vector<uint8_t> groups) {
    const Tag<int16_t> d;
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_SSSE3
    const auto pairs = MultiplyBytePairs(hn::BitCast(Tag<uint8_t>(), hn::Set(d, 1 | 32 << 8)), groups);
#else
    const auto bytes = hn::BitCast(d, groups);
    const auto first = hn::ShiftRight<8>(hn::ShiftLeft<8>(bytes));
    const auto second = hn::ShiftLeft<5>(hn::ShiftRight<8>(bytes));
    const auto pairs = hn::Add(first, second);
#endif
    return MultiplyPairs(d, pairs, hn::BitCast(d, hn::Set(Tag<int32_t>(), 1 | 1024 << 16)));
  }
  static HWY_INLINE uint32_t Number(const char* from, unsigned groups) {
    // 48 + group differs from group in bit 4 and above, for every group: one XOR corrects the five bits.
    const uint64_t bits = GatherGroups<5>(LoadLittle<uint64_t>(from)) ^ 0x8421084210;
    const unsigned unused = 64 - 5 * groups;
    return static_cast<uint32_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
};

// LEB128: groups of seven bits, with 0x80 in all groups except the last. The last is 0 only when it is the only one.
struct Leb {
  static constexpr char kPad = 0;
  static constexpr unsigned kMaxGroups = 4;
  static constexpr bool kCanonical = true;

  static HWY_INLINE Vector<uint8_t> Foreign(Vector<uint8_t>) { return hn::Zero(Tag<uint8_t>()); }
  static HWY_INLINE hn::Mask<Tag<uint8_t>> Continued(Vector<uint8_t> bytes) {
    const Tag<int8_t> d;
    return hn::RebindMask(Tag<uint8_t>(), hn::Lt(hn::BitCast(d, bytes), hn::Zero(d)));
  }
  static HWY_INLINE Vector<uint8_t> Groups(Vector<uint8_t> bytes) {
    return hn::And(bytes, hn::Set(Tag<uint8_t>(), 0x7f));
  }
  static HWY_INLINE Vector<int32_t> Sum(Vector<uint8_t> groups) {
    const Tag<int16_t> d;
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_SSSE3
    const auto weights = hn::Set(d, static_cast<int16_t>(1 | 128 << 8));
    const auto pairs = MultiplyBytePairs(hn::BitCast(Tag<uint8_t>(), weights), groups);
#else
    const auto bytes = hn::BitCast(d, groups);
    const auto second = hn::And(hn::ShiftRight<1>(bytes), hn::Set(d, 0x3f80));
    const auto pairs = hn::Or(hn::And(bytes, hn::Set(d, 0x7f)), second);
#endif
    return MultiplyPairs(d, pairs, hn::BitCast(d, hn::Set(Tag<int32_t>(), 1 | 16384 << 16)));
  }
  static HWY_INLINE uint32_t Number(const char* from, unsigned groups) {
    const uint64_t bits = GatherGroups<7>(LoadLittle<uint32_t>(from));
    return static_cast<uint32_t>(bits & ((uint64_t{1} << (7 * groups)) - 1));
  }
};

constexpr size_t kReadable = 64 + kWindow;

// Reads numbers from `at`, where one begins, until fewer than `leave` of `size` bytes are left; 1 <= size <= 64.
// Returns where it stopped, or null on an error. Reads kReadable bytes, writes up to 8 numbers beyond the last.
// Collects in *foreign what Format::Foreign finds.
template <class Format>
HWY_INLINE const char* SplitBlock(const char* at, unsigned size, unsigned leave, uint32_t** out,
                                  Vector<uint8_t>* foreign) {
  const Tag<uint8_t> d8;
  uint64_t continued = 0;
  [[maybe_unused]] uint64_t zeros = 0;
  for (unsigned i = 0; i < 64; i += kVectorBytes) {
    const auto bytes = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(at) + i);
    *foreign = hn::Or(*foreign, Format::Foreign(bytes));
    continued |= BitsOf(Format::Continued(bytes)) << i;
    if constexpr (Format::kCanonical) zeros |= BitsOf(hn::Eq(bytes, hn::Zero(d8))) << i;
  }
  uint64_t ends = ~continued & (~uint64_t{0} >> (64 - size));
  if constexpr (Format::kCanonical) {
    if ((zeros & (continued << 1) & ends) != 0) return nullptr;
  }
  uint32_t* to = *out;
  for (unsigned left = size; left >= leave;) {
    const uint32_t window = static_cast<uint8_t>(ends);
    unsigned taken;
    if (kWindows.too_long[window]) [[unlikely]] {
      taken = static_cast<unsigned>(std::countr_zero(ends)) + 1;
      if (taken > Format::kMaxGroups) return nullptr;  // also when no number ends
      *to++ = Format::Number(at, taken);
    } else {
      const auto bytes = hn::BitCast(d8, hn::Set(Tag<uint64_t>(), LoadLittle<uint64_t>(at)));
      const auto groups = Format::Groups(bytes);
      for (size_t i = 0; i < 8; i += kLanes) {
        const auto shuffle = hn::Load(d8, kWindows.shuffle[window] + 4 * i);
        const auto numbers = Format::Sum(hn::TableLookupBytesOr0(groups, shuffle));
        hn::StoreU(hn::BitCast(Tag<uint32_t>(), numbers), Tag<uint32_t>(), to + i);
      }
      to += std::popcount(window);
      taken = static_cast<unsigned>(std::bit_width(window));
    }
    ends >>= taken;
    at += taken;
    left -= taken;
  }
  *out = to;
  return at;
}

// Splits `bytes` into numbers; false when they are malformed or one is too long. Writes up to 8 numbers beyond the
// last.
template <class Format>
HWY_INLINE bool Split(std::string_view bytes, uint32_t* out, size_t* count) {
  const Tag<uint8_t> d8;
  uint32_t* to = out;
  auto foreign = hn::Zero(d8);
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (static_cast<size_t>(end - at) >= kReadable) {
    at = SplitBlock<Format>(at, 64, kWindow, &to, &foreign);
    if (at == nullptr) return false;
  }
  // The rest is copied to a buffer, where reading beyond it is harmless.
  while (at != end) {
    char buffer[kReadable];
    const size_t rest = static_cast<size_t>(end - at);
    std::memset(buffer, Format::kPad, sizeof(buffer));
    std::memcpy(buffer, at, rest);
    const char* const stopped = SplitBlock<Format>(buffer, static_cast<unsigned>(rest < 64 ? rest : 64),
                                                   rest <= 64 ? 1 : kWindow, &to, &foreign);
    if (stopped == nullptr) return false;
    at += stopped - buffer;
  }
  *count = static_cast<size_t>(to - out);
  return hn::AllTrue(d8, hn::Eq(hn::And(foreign, hn::Set(d8, 0xc0)), hn::Zero(d8)));
}

HWY_INLINE bool AnyNegative(Vector<uint32_t> values) {
  const Tag<int32_t> d;
  return !hn::AllFalse(d, hn::Lt(hn::BitCast(d, values), hn::Zero(d)));
}

// Adds up within blocks of 128 bits: the pair before is added to each pair.
HWY_INLINE Vector<uint32_t> SumPairs(Vector<uint32_t> value) {
  return hn::Add(value, hn::ShiftLeftLanes<2>(Tag<uint32_t>(), value));
}

// The last pair of each block, twice.
HWY_INLINE Vector<uint32_t> LastPairs(Vector<uint32_t> value) {
  const Tag<uint64_t> d64;
  const auto pairs = hn::BitCast(d64, value);
  return hn::BitCast(Tag<uint32_t>(), hn::InterleaveUpper(d64, pairs, pairs));
}

// runs[i] += runs[i - 2] for i > 2. False when a run is negative or above 2^31 - 1. Differences are above -2^31, so a
// sum that wraps is negative.
HWY_INLINE bool SumDifferences(uint32_t* runs, size_t count) {
  const Tag<uint32_t> d;
  uint32_t sign = 0;
  bool negative = false;
  size_t i = 0;
  for (; i < count && i < 3; ++i) sign |= runs[i];
  if (i + kLanes <= count) {
    auto carry = hn::BitCast(d, hn::Set(Tag<uint64_t>(), LoadLittle<uint64_t>(runs + 1)));
    auto signs = hn::Zero(d);
    for (; i + kLanes <= count; i += kLanes) {
      auto value = SumPairs(hn::LoadU(d, runs + i));
      auto last = LastPairs(value);
      if constexpr (kVectorBytes == 32) {
        // Add the last pair of the lower half to the upper half.
        value = hn::Add(value, hn::ConcatLowerLower(d, last, hn::Zero(d)));
        last = LastPairs(hn::ConcatUpperUpper(d, value, value));
      }
      // So the next lanes depend on only one addition.
      value = hn::Add(value, carry);
      carry = hn::Add(carry, last);
      signs = hn::Or(signs, value);
      hn::StoreU(value, d, runs + i);
    }
    negative = AnyNegative(signs);
  }
  for (; i < count; ++i) {
    runs[i] += runs[i - 2];
    sign |= runs[i];
  }
  return !negative && (sign >> 31) == 0;
}

HWY_INLINE uint32_t Unzigzag(uint32_t value) { return (value >> 1) ^ (0 - (value & 1)); }

HWY_INLINE Vector<uint32_t> Unzigzag(Vector<uint32_t> value) {
  const Tag<uint32_t> d;
  const auto odd = hn::And(value, hn::Set(d, 1));
  return hn::Xor(hn::ShiftRight<1>(value), hn::Sub(hn::Zero(d), odd));
}

// runs[i] = Unzigzag(runs[i]) + height - runs[i - 1] for i > 1: a prefix sum when every other run is negated. False
// when a run is negative or above 2^31 - 1. This includes runs that wrap: numbers are below 2^28, so two neighbours sum
// to at most height + 2^27. No run is then below -2^28, and height is below 2^31.
HWY_INLINE bool SumEdges(uint32_t* runs, size_t count, uint32_t height, uint64_t* sum) {
  const Tag<uint32_t> d;
  const Tag<uint64_t> d64;
  uint32_t sign = height;
  bool negative = false;
  uint64_t total = 0;
  size_t i = 0;
  for (; i < count && i < 2; ++i) {
    runs[i] = Unzigzag(runs[i]);
    sign |= runs[i];
    total += runs[i];
  }
  if (i + kLanes <= count) {
    const auto heights = hn::Set(d, height);
    const auto low_halves = hn::Set(d64, 0xffffffff);
    const auto odd = hn::BitCast(d, hn::Set(d64, 0xffffffff00000000));
    auto carry = hn::Set(d, 0 - runs[1]);
    auto signs = hn::Zero(d);
    auto sums = hn::Zero(d64);
    for (; i + kLanes <= count; i += kLanes) {
      auto value = hn::Add(Unzigzag(hn::LoadU(d, runs + i)), heights);
      value = hn::Sub(hn::Xor(value, odd), odd);  // negates every other
      value = hn::Add(value, hn::ShiftLeftLanes<1>(d, value));
      value = SumPairs(value);
      auto last = hn::Broadcast<3>(value);
      if constexpr (kVectorBytes == 32) {
        // Add the last of the lower half to the upper half.
        value = hn::Add(value, hn::ConcatLowerLower(d, last, hn::Zero(d)));
        last = hn::Broadcast<3>(hn::ConcatUpperUpper(d, value, value));
      }
      // So the next lanes depend on only one addition.
      value = hn::Add(value, carry);
      value = hn::Sub(hn::Xor(value, odd), odd);
      carry = hn::Add(carry, last);
      signs = hn::Or(signs, value);
      const auto pairs = hn::BitCast(d64, value);
      sums = hn::Add(sums, hn::Add(hn::ShiftRight<32>(pairs), hn::And(pairs, low_halves)));
      hn::StoreU(value, d, runs + i);
    }
    negative = AnyNegative(signs);
    total += hn::GetLane(hn::SumOfLanes(d64, sums));
  }
  for (; i < count; ++i) {
    runs[i] = Unzigzag(runs[i]) + height - runs[i - 1];
    sign |= runs[i];
    total += runs[i];
  }
  *sum = total;
  return !negative && (sign >> 31) == 0;
}

using Bytes = hn::FixedTag<uint8_t, kLanes>;

HWY_INLINE bool AllZero(Vector<uint32_t> values) {
  const Tag<uint32_t> d;
  return hn::AllTrue(d, hn::Eq(values, hn::Zero(d)));
}

HWY_INLINE char* WriteCocoNumber(int64_t value, char* out) {
  // Significant bits, then the sign.
  const unsigned bits = 65 - static_cast<unsigned>(std::countl_zero(static_cast<uint64_t>(value ^ (value >> 63))));
  const unsigned groups = (bits * 13 + 52) >> 6;  // ceil(bits / 5) for 1 to 33
  const uint64_t more = 0x2020202020202020 & ((uint64_t{1} << (8 * (groups - 1))) - 1);
  const uint64_t spread = SpreadGroups<5>(static_cast<uint64_t>(value));
  StoreLittle(out, (spread | more) + 0x3030303030303030);
  return out + groups;
}

HWY_INLINE char* WriteCocoDifference(const uint32_t* run, char* out) {
  return WriteCocoNumber(int64_t{run[0]} - int64_t{run[-2]}, out);
}

HWY_INLINE uint64_t Zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

HWY_INLINE uint8_t* WriteLebNumber(uint64_t value, uint8_t* out) {
  const unsigned bits = static_cast<unsigned>(std::bit_width(value | 1));
  const unsigned groups = (bits * 9 + 63) >> 6;  // ceil(bits / 7) for 1 to 35
  const uint64_t more = 0x8080808080808080 & ((uint64_t{1} << (8 * (groups - 1))) - 1);
  StoreLittle(out, SpreadGroups<7>(value) | more);
  return out + groups;
}

bool RunsFromCocoText(std::string_view text, uint32_t* out, size_t* count) {
  return Split<Coco>(text, out, count) && SumDifferences(out, *count);
}

bool SplitLeb(std::string_view bytes, size_t count, uint32_t* out) {
  size_t found = 0;
  return Split<Leb>(bytes, out, &found) && found == count;
}

bool UndoEdge(std::span<uint32_t> runs, uint32_t height, uint64_t* sum) {
  return SumEdges(runs.data(), runs.size(), height, sum);
}

char* WriteCoco(std::span<const uint32_t> runs, size_t begin, size_t end, bool small, char* out) {
  const Tag<uint32_t> d;
  const Bytes bytes;
  const uint32_t* const run = runs.data();
  size_t i = begin;
  for (; i < end && i < 3; ++i) out = WriteCocoNumber(run[i], out);
  for (; small && i + kLanes <= end; i += kLanes) {
    const auto value = hn::Sub(hn::LoadU(d, run + i), hn::LoadU(d, run + i - 2));
    if (AllZero(hn::AndNot(hn::Set(d, 31), hn::Add(value, hn::Set(d, 16))))) {
      const auto groups = hn::And(hn::TruncateTo(bytes, value), hn::Set(bytes, 31));
      hn::StoreU(hn::Add(groups, hn::Set(bytes, 48)), bytes, reinterpret_cast<uint8_t*>(out));
      out += kLanes;
      continue;
    }
    for (size_t j = i; j < i + kLanes; ++j) out = WriteCocoDifference(run + j, out);
  }
  for (; i < end; ++i) out = WriteCocoDifference(run + i, out);
  return out;
}

// Writes kLanes numbers.
HWY_INLINE uint8_t* WriteLebNumbers(Vector<uint32_t> numbers, uint8_t* out) {
  const Tag<uint32_t> d;
  const Bytes bytes;
  if (AllZero(hn::AndNot(hn::Set(d, 127), numbers))) {
    hn::StoreU(hn::TruncateTo(bytes, numbers), bytes, out);
    return out + kLanes;
  }
  alignas(kVectorBytes) uint32_t each[kLanes];
  hn::Store(numbers, d, each);
  for (const uint32_t number : each) out = WriteLebNumber(number, out);
  return out;
}

uint8_t* WriteLeb(const RleView& mask, size_t begin, size_t end, bool edge, bool small, uint8_t* out) {
  const Tag<uint32_t> d;
  const uint32_t* const run = mask.runs.data();
  size_t i = begin;
  if (!edge) {
    for (; small && i + kLanes <= end; i += kLanes) out = WriteLebNumbers(hn::LoadU(d, run + i), out);
    for (; i < end; ++i) out = WriteLebNumber(run[i], out);
    return out;
  }
  const int64_t height = mask.height;
  const auto heights = hn::Set(d, mask.height);
  for (; i < end && i < 2; ++i) out = WriteLebNumber(Zigzag(run[i]), out);
  for (; small && i + kLanes <= end; i += kLanes) {
    const auto value = hn::Sub(hn::Add(hn::LoadU(d, run + i), hn::LoadU(d, run + i - 1)), heights);
    const auto sign = hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(Tag<int32_t>(), value)));
    out = WriteLebNumbers(hn::Xor(hn::Add(value, value), sign), out);
  }
  for (; i < end; ++i) out = WriteLebNumber(Zigzag(int64_t{run[i]} + int64_t{run[i - 1]} - height), out);
  return out;
}

// The bytes of `words` words.
HWY_INLINE void ExpandWords(const uint64_t* row, size_t words, uint8_t* out) {
  const Tag<uint8_t> d8;
  const auto bit = hn::BitCast(d8, hn::Set(Tag<uint64_t>(), kBitOfByte));
  for (size_t i = 0; i < words; ++i) {
    const auto word = hn::BitCast(d8, hn::Set(Tag<uint64_t>(), row[i]));
    for (size_t j = 0; j < 64; j += kVectorBytes) {
      const auto kept = hn::And(hn::TableLookupBytes(word, hn::Load(d8, kSpread.byte + j)), bit);
      hn::StoreU(hn::Min(kept, hn::Set(d8, 1)), d8, out + 64 * i + j);
    }
  }
}

void ExpandRows(uint64_t* rows, size_t count, size_t columns, bool fill_down, uint8_t* out, size_t stride,
                size_t room) {
  const size_t words = (columns + 63) / 64;
  for (size_t y = 0; y < count; ++y, rows += words) {
    const uint64_t* const above = rows - words;
    for (size_t i = 0; fill_down && i < words; ++i) rows[i] ^= above[i];
    uint8_t* const to = out + y * stride;
    if (room - y * stride >= words * 64) {
      ExpandWords(rows, words, to);
      continue;
    }
    ExpandWords(rows, words - 1, to);
    uint8_t last[64];
    ExpandWords(rows + words - 1, 1, last);
    std::memcpy(to + (words - 1) * 64, last, columns - (words - 1) * 64);
  }
}

void PackStrips(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                size_t words_stride) {
  const Tag<uint8_t> d8;
  for (size_t row = 0; row < height; ++row, pixels += stride) {
    for (size_t strip = 0; strip < strips; ++strip) {
      uint64_t zeros = 0;
      for (size_t j = 0; j < 64; j += kVectorBytes) {
        zeros |= BitsOf(hn::Eq(hn::LoadU(d8, pixels + 64 * strip + j), hn::Zero(d8))) << j;
      }
      words[strip * words_stride + row] = ~zeros;
    }
  }
}

}  // namespace
}  // namespace shardkit::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardkit::codec {

HWY_EXPORT(RunsFromCocoText);
HWY_EXPORT(WriteCoco);
HWY_EXPORT(WriteLeb);
HWY_EXPORT(SplitLeb);
HWY_EXPORT(UndoEdge);
HWY_EXPORT(ExpandRows);
HWY_EXPORT(PackStrips);

bool RunsFromCocoText(std::string_view text, uint32_t* out, size_t* count) {
  return HWY_DYNAMIC_DISPATCH(RunsFromCocoText)(text, out, count);
}

char* WriteCoco(std::span<const uint32_t> runs, size_t begin, size_t end, bool small, char* out) {
  return HWY_DYNAMIC_DISPATCH(WriteCoco)(runs, begin, end, small, out);
}

uint8_t* WriteLeb(const RleView& mask, size_t begin, size_t end, bool edge, bool small, uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(WriteLeb)(mask, begin, end, edge, small, out);
}

bool SplitLeb(std::string_view bytes, size_t count, uint32_t* out) {
  return HWY_DYNAMIC_DISPATCH(SplitLeb)(bytes, count, out);
}

bool UndoEdge(std::span<uint32_t> runs, uint32_t height, uint64_t* sum) {
  return HWY_DYNAMIC_DISPATCH(UndoEdge)(runs, height, sum);
}

void ExpandRows(uint64_t* rows, size_t count, size_t columns, bool fill_down, uint8_t* out, size_t stride,
                size_t room) {
  HWY_DYNAMIC_DISPATCH(ExpandRows)(rows, count, columns, fill_down, out, stride, room);
}

void PackStrips(const uint8_t* pixels, size_t stride, size_t height, size_t strips, uint64_t* words,
                size_t words_stride) {
  HWY_DYNAMIC_DISPATCH(PackStrips)(pixels, stride, height, strips, words, words_stride);
}

}  // namespace shardkit::codec
#endif  // HWY_ONCE
