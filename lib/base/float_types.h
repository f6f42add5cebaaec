// Converts binary32 to the 16-bit types: rounds to nearest, halves to even, with the same bits on host and device.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/host_device.h"

namespace shardkit {

// NaN of either sign becomes 0x7fff, as the device's own instructions make it.
inline constexpr uint16_t kNan16 = 0x7fff;

// ToF16 and ToBf16 with integers only: for the host, and for devices without an instruction for it.
SHARDKIT_HOST_DEVICE inline uint16_t PortableToF16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return kNan16;
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude >= 0x38800000) {
    // A carry out of the fraction goes into the exponent, and makes the largest number infinity.
    magnitude += 0xfff + ((magnitude >> 13) & 1);
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000) >> 13));
  }
  const uint32_t exponent = magnitude >> 23;
  // Less than half of the smallest number.
  if (exponent < 102) return static_cast<uint16_t>(sign);
  const uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
  const uint32_t shift = 126 - exponent;
  const uint32_t rest = fraction & ((uint32_t{1} << shift) - 1);
  const uint32_t half = uint32_t{1} << (shift - 1);
  uint32_t result = fraction >> shift;
  if (rest > half || (rest == half && (result & 1) != 0)) ++result;
  return static_cast<uint16_t>(sign | result);
}

SHARDKIT_HOST_DEVICE inline uint16_t PortableToBf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000) return kNan16;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

SHARDKIT_HOST_DEVICE inline uint16_t ToF16(float value) {
#ifdef __CUDA_ARCH__
  uint16_t result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  return PortableToF16(value);
#endif
}

SHARDKIT_HOST_DEVICE inline uint16_t ToBf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint16_t result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  return PortableToBf16(value);
#endif
}

}  // namespace shardkit
