// Bounds-checked forward reader over untrusted bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/endian.h"

namespace shardkit {

// Reads never pass the end. A failing read returns false and does not change the position.
class ByteCursor {
 public:
  explicit ByteCursor(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  [[nodiscard]] bool Read(T* out) {
    if (remaining() < sizeof(T)) return false;
    *out = LoadLittle<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool ReadBytes(uint64_t length, std::string_view* out) {
    if (length > remaining()) return false;
    *out = bytes_.substr(position_, length);
    position_ += length;
    return true;
  }

  // LEB128, at most ten bytes, canonical (no redundant trailing zero group).
  [[nodiscard]] bool ReadVarint(uint64_t* out) {
    uint64_t value = 0;
    for (size_t i = 0; i < 10 && position_ + i < bytes_.size(); ++i) {
      const uint8_t byte = static_cast<uint8_t>(bytes_[position_ + i]);
      if (i == 9 && byte > 1) return false;
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if ((byte & 0x80) == 0) {
        if (i > 0 && byte == 0) return false;
        *out = value;
        position_ += i + 1;
        return true;
      }
    }
    return false;
  }

  size_t remaining() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
};

}  // namespace shardkit
