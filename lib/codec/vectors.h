// What the kernels share: vectors of 16 or 32 bytes, as wide as the shuffles of their algorithms.
//
// Highway compiles a kernel once for each instruction set, with this file, and chooses one when it is first called. A
// kernel's file is compiled by itself, never together with others.
#if defined(SHARDKIT_CODEC_VECTORS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHARDKIT_CODEC_VECTORS_H_
#undef SHARDKIT_CODEC_VECTORS_H_
#else
#define SHARDKIT_CODEC_VECTORS_H_
#endif

#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_STR_BMI2_FMA
#include <hwy/highway.h>

// Highway chooses AVX2 only on processors with LZCNT, but does not let the compiler use it.
#undef HWY_TARGET_STR_BMI2_FMA
#define HWY_TARGET_STR_BMI2_FMA ",bmi,bmi2,fma,lzcnt"

HWY_BEFORE_NAMESPACE();
namespace shardkit::codec::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_HAVE_SCALABLE
constexpr size_t kVectorBytes = 16;
#else
constexpr size_t kVectorBytes = HWY_MIN(HWY_MAX_BYTES, 32);
#endif

template <typename T>
using Tag = hn::FixedTag<T, kVectorBytes / sizeof(T)>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;

// a[2i] * b[2i] + a[2i + 1] * b[2i + 1]
template <class D16, class V16>
HWY_INLINE hn::Vec<hn::RepartitionToWide<D16>> MultiplyPairs(D16, V16 a, V16 b) {
  const hn::RepartitionToWide<D16> d32;
  auto odd = hn::Zero(d32);
  const auto even = hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), odd);
  return hn::RearrangeToOddPlusEven(even, odd);
}

#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_SSSE3

// The same for bytes, of which those of `a` have no sign. Sums stay within 16 bits.
HWY_INLINE Vector<int16_t> MultiplyBytePairs(Vector<uint8_t> a, Vector<uint8_t> b) {
#if HWY_TARGET <= HWY_AVX2
  return Vector<int16_t>{_mm256_maddubs_epi16(a.raw, b.raw)};
#else
  return Vector<int16_t>{_mm_maddubs_epi16(a.raw, b.raw)};
#endif
}

#endif

}  // namespace
}  // namespace shardkit::codec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
