// For code that is compiled for the host and, by nvcc, for the device.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SHARDKIT_HOST_DEVICE __host__ __device__
#else
#define SHARDKIT_HOST_DEVICE
#endif

// Before a loop whose variables would otherwise not stay in registers.
#ifdef __CUDA_ARCH__
#define SHARDKIT_UNROLL _Pragma("unroll")
// Before a loop that rarely runs.
#define SHARDKIT_NO_UNROLL _Pragma("unroll 1")
#else
#define SHARDKIT_UNROLL
#define SHARDKIT_NO_UNROLL
#endif

// Memory accessed through such a type may hold objects of other types. The compiler must not assume otherwise.
#define SHARDKIT_MAY_ALIAS [[gnu::may_alias]]

namespace shardkit {

// std::min and std::max cannot be used on the device.
template <typename T>
SHARDKIT_HOST_DEVICE constexpr T Least(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
SHARDKIT_HOST_DEVICE constexpr T Most(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
SHARDKIT_HOST_DEVICE constexpr T DivideUp(T a, T b) {
  return a / b + (a % b != 0);
}

}  // namespace shardkit
