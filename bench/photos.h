// JPEG files that a packer and a decoder treat like photographs of a web collection: about 500 x 375 pixels, quality
// 92, 4:2:0, median 65 kB. The same every time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "shardkit/filesystem.h"
#include "shardkit/image.h"
#include "timing.h"

namespace shardkit::bench {

// Smooth noise: a grid of random levels, `cell` pixels apart, with interpolation between them.
inline void AddNoise(std::vector<int>& plane, uint32_t width, uint32_t height, uint32_t cell, int strength,
                     std::mt19937_64& random) {
  const uint32_t columns = width / cell + 2;
  std::vector<int> grid(size_t{columns} * (height / cell + 2));
  for (int& level : grid) level = static_cast<int>(random() % (2 * static_cast<uint64_t>(strength) + 1)) - strength;
  const int whole = static_cast<int>(cell);
  for (uint32_t y = 0; y < height; ++y) {
    const int down = static_cast<int>(y % cell);
    const int* const upper = grid.data() + size_t{y / cell} * columns;
    for (uint32_t x = 0; x < width; ++x) {
      const int right = static_cast<int>(x % cell);
      const int* const a = upper + x / cell;
      const int* const b = a + columns;
      plane[size_t{y} * width + x] +=
          ((a[0] * (whole - right) + a[1] * right) * (whole - down) + (b[0] * (whole - right) + b[1] * right) * down) /
          (whole * whole);
    }
  }
}

inline std::string MakePhoto(uint64_t number) {
  JpegEncodeOptions options;
  options.quality = 92;
  std::mt19937_64 random(number);
  // Mostly landscape, as in real collections, with different amounts of detail.
  const bool portrait = random() % 4 == 0;
  const uint32_t longer = 500, shorter = static_cast<uint32_t>(333 + random() % 43);
  const uint32_t width = portrait ? shorter : longer, height = portrait ? longer : shorter;
  const int detail = 8 + static_cast<int>(random() % 27);
  std::vector<uint8_t> rgb(size_t{width} * height * 3);
  std::vector<int> light(size_t{width} * height, 120);
  for (const uint32_t cell : {128, 32, 8}) AddNoise(light, width, height, cell, 40, random);
  AddNoise(light, width, height, 2, detail, random);
  for (size_t channel = 0; channel < 3; ++channel) {
    std::vector<int> plane = light;
    AddNoise(plane, width, height, 64, 40, random);
    AddNoise(plane, width, height, 4, detail / 2, random);
    for (size_t pixel = 0; pixel < plane.size(); ++pixel) {
      rgb[3 * pixel + channel] = static_cast<uint8_t>(std::clamp(plane[pixel], 0, 255));
    }
  }
  std::string jpeg;
  Must(EncodeJpeg(rgb.data(), width, height, options, &jpeg));
  return jpeg;
}

// Makes a directory with files 000000.jpg and so on.
inline void MakePhotos(FileSystem& files, const std::string& directory, uint64_t count) {
  Must(CreateDirectories(files, directory));
  for (uint64_t i = 0; i < count; ++i) {
    char name[32];
    std::snprintf(name, sizeof(name), "%06llu.jpg", static_cast<unsigned long long>(i));
    const auto file = Must(files.Create(JoinPath(directory, name)));
    Must(file->Append(MakePhoto(i)));
    Must(file->Close());
  }
}

}  // namespace shardkit::bench
