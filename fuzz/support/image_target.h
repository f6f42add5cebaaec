// What is checked of the decoders of all formats of image files but JPEG.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "codec/image/image_codec.h"
#include "support/input.h"
#include "support/require.h"

namespace shardkit::fuzz {

// How to decode an image: numbers at the front of the input.
struct ImagePart {
  explicit ImagePart(Input& input)
      : left(static_cast<uint32_t>(input.Number(2))),
        top(static_cast<uint32_t>(input.Number(2))),
        width(static_cast<uint32_t>(input.Number(2))),
        height(static_cast<uint32_t>(input.Number(2))),
        channels(std::array{3, 1, 4}[input.Below(3)]) {}

  uint32_t left, top, width, height;
  int channels;
};

// A file passes the check exactly when it decodes. A part has exactly the same pixels as in the whole image. As a label
// map it has the numbers whose grays the image has.
inline void TestImage(const codec::ImageCodec& codec, std::string_view file, ImagePart part) {
  // Enough for every path, few enough for thousands of inputs a second.
  constexpr uint64_t kMostPixels = uint64_t{4} << 20, kMostMemory = uint64_t{64} << 20;
  const auto header = codec.probe(file);
  if (!header.ok()) return;
  Require(header->width > 0 && header->height > 0, "an image has pixels");
  const uint64_t pixel_bytes = uint64_t{header->width} * header->height * 4;
  if (!codec::CheckDecodable(codec.format, *header, pixel_bytes, kMostMemory).ok() || pixel_bytes > kMostPixels) return;
  part.left %= header->width;
  part.top %= header->height;
  part.width = 1 + part.width % (header->width - part.left);
  part.height = 1 + part.height % (header->height - part.top);
  const auto decode = [&](uint32_t x, uint32_t y, uint32_t across, uint32_t down, std::vector<uint8_t>* pixels) {
    const size_t row_bytes = across * static_cast<size_t>(part.channels);
    pixels->assign(row_bytes * down, 0);
    const MutableImageView view{pixels->data(), across, down, part.channels, row_bytes};
    return codec.decode(file, *header, x, y, &view);
  };
  std::vector<uint8_t> whole, inside;
  const absl::Status checked = codec.decode(file, *header, 0, 0, nullptr);
  const absl::Status in_whole = decode(0, 0, header->width, header->height, &whole);
  Require(checked.ok() == in_whole.ok(), "an image decodes when it passes the check");
  if (codec.numbers != nullptr && (header->channels == 1 || header->palette)) {
    std::vector<uint8_t> numbers(uint64_t{header->width} * header->height * (header->depth == 16 ? 2 : 1));
    const absl::Status labels = codec.numbers(file, *header, numbers);
    Require(!labels.ok() || in_whole.ok(), "a label map decodes only if the image does");
    const bool gray = labels.ok() && !header->palette && header->depth == 8 && part.channels == 1;
    Require(!gray || numbers == whole || codec.format == ImageFormat::kTiff,
            "gray values of 8 bits are numbers as they are");
  }
  const absl::Status in_part = decode(part.left, part.top, part.width, part.height, &inside);
  if (!in_whole.ok()) return;
  RequireOk(in_part, "a part of what can be decoded");
  const auto row_bytes = static_cast<ptrdiff_t>(part.width * static_cast<uint32_t>(part.channels));
  for (uint32_t y = 0; y < part.height; ++y) {
    const auto row = inside.begin() + y * row_bytes;
    const auto in_image = whole.begin() + (ptrdiff_t{part.top + y} * header->width + part.left) * part.channels;
    Require(std::equal(row, row + row_bytes, in_image), "a part has the pixels that it has in the whole");
  }
}

}  // namespace shardkit::fuzz
