// What the tests of all formats of image files check.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "codec/image/image_codec.h"
#include "noise.h"
#include "shardkit/image.h"
#include "support/effort.h"

namespace shardkit::testing {

inline Image DecodeFile(const codec::ImageCodec& codec, std::string_view file, int channels) {
  const auto header = codec.probe(file);
  EXPECT_TRUE(header.ok()) << header.status();
  if (!header.ok()) return {1, 1, channels};
  Image image(header->width, header->height, channels);
  const absl::Status status = codec.decode(file, *header, 0, 0, &image.view);
  EXPECT_TRUE(status.ok()) << status;
  return image;
}

// The gray value of each pixel of RGB, and the three values of each of gray.
inline std::vector<uint8_t> Converted(const Image& image) {
  const int channels = image.view.channels;
  Image other(image.view.width, image.view.height, channels == 3 ? 1 : 3);
  for (uint32_t y = 0; y < image.view.height; ++y) {
    codec::ConvertRow(image.At(0, y), channels, image.view.width, other.view.channels, other.At(0, y));
  }
  return other.pixels;
}

// The file decodes to `rgb` (3 channels), as a whole and in parts, to gray values too, and passes the check.
inline void ExpectPixels(const codec::ImageCodec& codec, std::string_view file, const std::vector<uint8_t>& rgb) {
  EXPECT_EQ(codec::CheckImage(file, kDefaultImageMemory), absl::OkStatus());
  const Image whole = DecodeFile(codec, file, 3);
  EXPECT_EQ(whole.pixels, rgb);
  const Image gray = DecodeFile(codec, file, 1);
  EXPECT_EQ(gray.pixels, Converted(whole));
  const Image transparent = DecodeFile(codec, file, 4);
  Image opaque(whole.view.width, whole.view.height, 3);
  codec::ConvertRow(transparent.pixels.data(), 4, whole.view.width * whole.view.height, 3, opaque.pixels.data());
  EXPECT_EQ(opaque.pixels, rgb);
  const auto header = codec.probe(file);
  for (uint32_t top = 0; top < whole.view.height; top += 5) {
    for (uint32_t left = 0; left < whole.view.width; left += 7) {
      for (const Image* const all : {&whole, &gray, &transparent}) {
        Image part(std::min(9u, whole.view.width - left), std::min(4u, whole.view.height - top), all->view.channels);
        ASSERT_EQ(codec.decode(file, *header, left, top, &part.view), absl::OkStatus());
        for (uint32_t y = 0; y < part.view.height; ++y) {
          ASSERT_TRUE(std::equal(part.At(0, y), part.At(0, y) + part.view.row_stride, all->At(left, top + y)))
              << "(" << left << ", " << top + y << ")";
        }
      }
    }
  }
}

// No shorter file passes the check; a file with a flipped bit gives pixels or an error.
inline void ExpectDamageIsFound(const codec::ImageCodec& codec, const std::string& file) {
  for (size_t length = 0; length < file.size(); length += test::TestStep()) {
    const absl::Status status = codec::CheckImage(std::string_view(file).substr(0, length), kDefaultImageMemory);
    EXPECT_TRUE(absl::IsDataLoss(status)) << length << ": " << status;
  }
  for (size_t bit = 0; bit < 8 * file.size(); bit += test::TestStep()) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto header = codec.probe(flipped);
    constexpr uint64_t kMemory = uint64_t{16} << 20;
    if (!header.ok()) continue;
    const uint64_t pixel_bytes = uint64_t{header->width} * header->height * 3;
    if (!codec::CheckDecodable(codec.format, *header, pixel_bytes, kMemory).ok()) continue;
    Image image(header->width, header->height, 3);
    const bool decoded = codec.decode(flipped, *header, 0, 0, &image.view).ok();
    EXPECT_EQ(codec.decode(flipped, *header, 0, 0, nullptr).ok(), decoded) << bit;
  }
}

}  // namespace shardkit::testing
