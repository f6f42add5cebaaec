// A mask as a plain array of pixels, the slow and obvious model for tests of the RLE code.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "shardkit/rle.h"

namespace shardkit::testing {

struct Model {
  uint32_t height = 0;
  uint32_t width = 0;
  std::vector<uint8_t> pixels;  // row-major, 0 or 1

  uint8_t at(uint32_t y, uint32_t x) const { return pixels[size_t{y} * width + x]; }
};

// pycocotools' canonical runs.
inline Rle RunsOf(const Model& model) {
  Rle rle{model.height, model.width, {}};
  uint8_t value = 0;
  uint32_t run = 0;
  for (uint32_t x = 0; x < model.width; ++x) {
    for (uint32_t y = 0; y < model.height; ++y) {
      if (model.at(y, x) != value) {
        rle.runs.push_back(run);
        run = 0;
        value = model.at(y, x);
      }
      ++run;
    }
  }
  rle.runs.push_back(run);
  return rle;
}

inline std::vector<uint8_t> PackedOf(const Model& model) {
  const uint64_t row_bytes = PackedRowBytes(model.width);
  std::vector<uint8_t> packed(model.height * row_bytes);
  for (uint32_t y = 0; y < model.height; ++y) {
    for (uint32_t x = 0; x < model.width; ++x) {
      packed[y * row_bytes + x / 8] |= static_cast<uint8_t>(model.at(y, x) << (x % 8));
    }
  }
  return packed;
}

inline uint64_t AreaOf(const Model& model) {
  uint64_t area = 0;
  for (const uint8_t pixel : model.pixels) area += pixel;
  return area;
}

inline std::array<uint32_t, 4> BoxOf(const Model& model) {
  uint32_t left = UINT32_MAX, top = UINT32_MAX, right = 0, bottom = 0;
  for (uint32_t y = 0; y < model.height; ++y) {
    for (uint32_t x = 0; x < model.width; ++x) {
      if (model.at(y, x) == 0) continue;
      left = x < left ? x : left;
      top = y < top ? y : top;
      right = x > right ? x : right;
      bottom = y > bottom ? y : bottom;
    }
  }
  if (left == UINT32_MAX) return {};
  return {left, top, right - left + 1, bottom - top + 1};
}

// Noise, rectangles, ellipses, empty, full and nearly so.
inline Model RandomModel(uint32_t height, uint32_t width, std::mt19937_64& random) {
  Model model{height, width, std::vector<uint8_t>(size_t{height} * width)};
  const auto below = [&](uint64_t limit) { return limit == 0 ? 0 : random() % limit; };
  const uint64_t kind = below(6);
  if (kind == 0) {
    const uint64_t density = below(101);
    for (uint8_t& pixel : model.pixels) pixel = below(100) < density;
  } else if (kind == 1) {
    for (uint8_t& pixel : model.pixels) pixel = 1;
  } else if (kind == 2) {
    // Few single pixels.
    for (int i = 0; i < 3 && !model.pixels.empty(); ++i) model.pixels[below(model.pixels.size())] = 1;
  } else if (kind != 3 && height != 0 && width != 0) {
    for (uint64_t shapes = 1 + below(3); shapes != 0; --shapes) {
      const double cy = static_cast<double>(below(height)), cx = static_cast<double>(below(width));
      const double ry = 1 + static_cast<double>(below(height)), rx = 1 + static_cast<double>(below(width));
      for (uint32_t y = 0; y < height; ++y) {
        for (uint32_t x = 0; x < width; ++x) {
          const double dy = (y - cy) / ry, dx = (x - cx) / rx;
          if (kind == 4 ? dy * dy + dx * dx <= 1 : dy > -1 && dy < 1 && dx > -1 && dx < 1) {
            model.pixels[size_t{y} * width + x] = 1;
          }
        }
      }
    }
  }
  return model;
}

}  // namespace shardkit::testing
