// Images and masks of every size and orientation, and geometries for them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "loader/loader_support.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"

namespace shardkit::test {

// A JPEG with an EXIF orientation, unless it is 0.
inline std::string MakeJpeg(uint32_t width, uint32_t height, int orientation, std::mt19937_64& random) {
  std::vector<uint8_t> pixels(size_t{width} * height * 3);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(i / 3 % width * 3 + i / 3 / width * 5 + random() % 20);
  std::string jpeg;
  EXPECT_TRUE(EncodeJpeg(pixels.data(), width, height, {}, &jpeg).ok());
  if (orientation == 0) return jpeg;
  std::string exif("Exif\0\0II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0", 24);
  exif += std::string({static_cast<char>(orientation), 0, 0, 0, 0, 0, 0, 0});
  const size_t length = exif.size() + 2;
  const std::string marker = {'\xff', '\xe1', static_cast<char>(length >> 8), static_cast<char>(length & 255)};
  return jpeg.insert(2, marker + exif);
}

struct Stored {
  std::optional<std::string> image;
  uint32_t width = 0, height = 0;
  int orientation = 0;
  RleList masks;
};

// Columns "image" and "masks" of 48 samples, some of which lack one or the other, at "/data".
inline std::vector<Stored> WriteImagesAndMasks(FileSystem& files) {
  std::mt19937_64 random(1);
  std::vector<Stored> all;
  std::vector<Values> rows;
  for (int i = 0; i < 48; ++i) {
    Stored& stored = all.emplace_back();
    stored.width = 20 + static_cast<uint32_t>(random() % 90);
    stored.height = 20 + static_cast<uint32_t>(random() % 90);
    stored.orientation = i % 9;
    if (i % 11 != 10) stored.image = MakeJpeg(stored.width, stored.height, stored.orientation, random);
    for (uint64_t mask = random() % 4; mask > 0; --mask) {
      std::vector<uint8_t> pixels(size_t{stored.width} * stored.height);
      for (uint8_t& pixel : pixels) pixel = random() % 4 == 0;
      stored.masks.Append(*EncodeDense(pixels, stored.height, stored.width));
    }
    std::optional<std::string> masks(std::in_place);
    EXPECT_TRUE(AppendRleValue(stored.masks, &*masks).ok());
    if (i % 13 == 12) {
      masks.reset();
      stored.masks.Clear();
    }
    rows.push_back({std::to_string(i), stored.image, masks});
  }
  WriteRows(files, "/data",
            {KeyColumn(),
             {.name = "image", .type = Type::kJpeg, .nullable = true},
             {.name = "masks", .type = Type::kRle, .codec = Codec::kZstd, .nullable = true}},
            rows, SmallShards(20, 4));
  return all;
}

inline std::vector<GeometryOptions> Geometries() {
  std::vector<GeometryOptions> all(9);
  using Kind = GeometryOptions::Kind;
  all[0].kind = Kind::kNative;
  all[1].kind = Kind::kResize, all[1].width = 33, all[1].height = 17;
  all[2].kind = Kind::kCenterCrop, all[2].width = 16, all[2].resize = 20;
  all[3].kind = Kind::kRandomResizedCrop, all[3].width = 24, all[3].height = 20;
  all[4].kind = Kind::kLongestSide, all[4].width = 64;
  all[5].kind = Kind::kRandomResizedCrop, all[5].width = 8, all[5].height = 8, all[5].crop.min_scale = 0.5;
  all[6].kind = Kind::kRandomCrop, all[6].width = 40, all[6].height = 30, all[6].window.padding = 9;
  all[7].kind = Kind::kRandomCrop, all[7].width = 32, all[7].window = {.min_zoom = 0.3, .max_zoom = 1.5};
  all[8].kind = Kind::kLetterbox, all[8].width = 50, all[8].height = 70;
  return all;
}

}  // namespace shardkit::test
