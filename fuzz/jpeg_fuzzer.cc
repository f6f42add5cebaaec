// Any bytes as a JPEG, decoded as a whole, at every scale and in part. A part has exactly the same pixels as in the
// whole image at the same scale. Damage below a part may remain undetected (shardkit/image.h).
//
// Input: 12 bytes that choose region, scale and channels, then the file.

#include <cstdint>
#include <string>

#include "shardkit/image.h"
#include "support/input.h"
#include "support/memory_bound.h"
#include "support/require.h"

namespace {

using namespace shardkit;
using namespace shardkit::fuzz;

// Enough for every path, few enough for thousands of inputs a second.
constexpr uint64_t kMostMemory = uint64_t{4} << 20;

void ComparePart(const DecodedRegion& part, const DecodedRegion& whole) {
  Require(part.whole_width == whole.whole_width && part.whole_height == whole.whole_height,
          "part and whole agree on the size");
  Require(part.image.channels == whole.image.channels, "part and whole agree on the channels");
  const size_t channels = static_cast<size_t>(part.image.channels);
  Require(part.left + part.image.width <= whole.image.width && part.top + part.image.height <= whole.image.height,
          "the part lies in the whole");
  for (size_t y = 0; y < part.image.height; ++y) {
    const auto row = part.image.pixels.begin() + static_cast<ptrdiff_t>(y * part.image.width * channels);
    const auto in_whole = whole.image.pixels.begin() +
                          static_cast<ptrdiff_t>(((part.top + y) * whole.image.width + part.left) * channels);
    Require(std::equal(row, row + static_cast<ptrdiff_t>(part.image.width * channels), in_whole),
            "a part has the pixels that it has in the whole");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryBound bound(size);
  Input input(data, size);
  JpegRegionOptions options;
  options.x = static_cast<uint32_t>(input.Number(2));
  options.y = static_cast<uint32_t>(input.Number(2));
  options.width = static_cast<uint32_t>(input.Number(2));
  options.height = static_cast<uint32_t>(input.Number(2));
  options.scale = 1 + static_cast<int>(input.Below(8));
  options.channels = std::array{0, 1, 3}[input.Below(3)];
  input.Bytes(1);
  const bool default_limits = input.Below(32) == 0;
  const std::string_view file = input.rest();

  const auto info = ProbeJpeg(file);
  JpegDecoder decoder;
  if (default_limits) {
    const absl::Status checked = decoder.Check(file);
    DecodedImage image;
    const absl::Status decoded = decoder.Decode(file, &image);
    if (!absl::IsResourceExhausted(decoded))
      Require(checked.ok() == decoded.ok(), "an image decodes when it passes the check");
    return 0;
  }
  decoder.set_max_memory(kMostMemory);
  DecodedImage image;
  const absl::Status decoded = decoder.Decode(file, &image);
  if (decoded.ok()) {
    RequireOk(info.status(), "probing what decodes");
    Require(image.width == info->width && image.height == info->height, "an image has the size that probing finds");
  }
  if (!info.ok()) return 0;
  if (info->width > 0 && info->height > 0) {  // makes most regions lie inside the image
    options.x %= info->width;
    options.y %= info->height;
    options.width %= info->width - options.x + 1;
    options.height %= info->height - options.y + 1;
  }
  DecodedRegion part, whole;
  const absl::Status in_part = decoder.DecodeRegion(file, options, &part);
  JpegRegionOptions all;
  all.scale = options.scale;
  all.channels = options.channels;
  const absl::Status in_whole = decoder.DecodeRegion(file, all, &whole);
  if (in_whole.ok()) {
    RequireOk(in_part, "a part of what can be decoded");
    ComparePart(part, whole);
  }
  if (decoded.ok() && options.channels == 0 && options.scale == 8) {
    RequireOk(in_whole, "a region of all of an image that decodes");
    Require(whole.image.pixels == image.pixels, "the region of all is the image");
  }
  return 0;
}
