// Takes numbers and byte strings from the front of the fuzzer's bytes. Past the end, numbers are zero and byte strings
// are empty, so that every input is valid.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace shardkit::fuzz {

class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  // Little-endian.
  uint64_t Number(int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; ++i) number |= uint64_t{Byte()} << (8 * i);
    return number;
  }

  // From 0 to `bound` - 1. `bound` is at most 2^16.
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(bound <= 256 ? Byte() : Number(2)) % bound; }

  bool Chance() { return (Byte() & 1) != 0; }

  std::string_view Bytes(uint64_t length) {
    const std::string_view taken = rest_.substr(0, std::min<uint64_t>(length, rest_.size()));
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

}  // namespace shardkit::fuzz
