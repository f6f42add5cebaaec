// Little-endian numbers at positions of a file. The caller makes sure that they lie within the file.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace shardkit::fuzz {

template <typename T>
T Load(std::string_view bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <typename T>
void Store(std::string* bytes, uint64_t at, T value) {
  std::memcpy(bytes->data() + at, &value, sizeof(value));
}

// True when [offset, offset + length) lies within `size` bytes.
inline bool Within(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

}  // namespace shardkit::fuzz
