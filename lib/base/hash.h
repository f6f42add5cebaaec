// XXH3 checksums (xxHash specification, https://github.com/Cyan4973/xxHash). 64 bits for integrity, 128 bits for
// content identity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace shardkit {

// XXH128_canonicalFromHash order: big-endian bytes, as `xxh128sum` prints them.
using Hash128Bytes = std::array<uint8_t, 16>;

uint64_t Hash64(const void* data, size_t length);
inline uint64_t Hash64(std::string_view bytes) { return Hash64(bytes.data(), bytes.size()); }

// XXH3-64 with a seed, for choices that others must be able to repeat: XXH3_64bits_withSeed of the xxHash library.
uint64_t SeededHash64(std::string_view bytes, uint64_t seed);

Hash128Bytes Hash128(std::string_view bytes);

// The hash of a sequence of pieces, which equals that of their concatenation.
class StreamingHash {
 public:
  StreamingHash();
  ~StreamingHash();
  StreamingHash(StreamingHash&&) noexcept;
  StreamingHash& operator=(StreamingHash&&) noexcept;

  void Update(std::string_view bytes);
  uint64_t Digest() const;         // as Hash64
  Hash128Bytes Digest128() const;  // as Hash128
  void Reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardkit
