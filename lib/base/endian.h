// Little-endian loads and stores at any alignment.
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
