// Pixels for tests that can be reproduced in any language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardkit/image.h"

namespace shardkit::testing {

// The upper bytes of a linear congruential generator; make_pillow_vectors.py has the same.
inline std::vector<uint8_t> Noise(size_t count, uint32_t state) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

// Owns the pixels of a view.
struct Image {
  Image(uint32_t width, uint32_t height, int channels)
      : Image(width, height, channels, std::vector<uint8_t>(size_t{width} * height * channels)) {}
  Image(uint32_t width, uint32_t height, int channels, std::vector<uint8_t> content)
      : pixels(std::move(content)), view{pixels.data(), width, height, channels, width * size_t(channels)} {}
  Image(const Image& other) : Image(other.view.width, other.view.height, other.view.channels, other.pixels) {}
  Image& operator=(const Image&) = delete;

  const uint8_t* At(uint32_t x, uint32_t y) const {
    return pixels.data() + y * view.row_stride + x * static_cast<size_t>(view.channels);
  }
  uint8_t* At(uint32_t x, uint32_t y) {
    return pixels.data() + y * view.row_stride + x * static_cast<size_t>(view.channels);
  }

  std::vector<uint8_t> pixels;
  MutableImageView view;
};

}  // namespace shardkit::testing
