// Little-endian loads and stores at any alignment, and the big-endian load that image formats need.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace shardkit {

static_assert(std::endian::native == std::endian::little,
              "Shardkit maps little-endian structures directly; a big-endian port needs byte swaps here");

template <typename T>
T LoadLittle(const void* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

inline uint32_t LoadBig32(const void* from) { return __builtin_bswap32(LoadLittle<uint32_t>(from)); }

template <typename T>
void StoreLittle(void* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
void AppendLittle(std::string& out, T value) {
  char bytes[sizeof(T)];
  StoreLittle(bytes, value);
  out.append(bytes, sizeof(T));
}

}  // namespace shardkit
