// Converts one u8 pixel value to its output (PixelOutput).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/float_types.h"
#include "base/host_device.h"
#include "shardkit/image.h"

namespace shardkit::codec {

// The product and the sum are rounded once, on every machine.
SHARDKIT_HOST_DEVICE inline float NormalizedPixel(const PixelOutput& output, uint8_t pixel, int channel) {
  if (channel == 3) return static_cast<float>(pixel) / 255;  // transparency
  return fmaf(static_cast<float>(pixel), output.scale[channel], output.bias[channel]);
}

struct ToU8Pixel {
  using Element = uint8_t;
  SHARDKIT_HOST_DEVICE static Element Make(const PixelOutput&, uint8_t pixel, int) { return pixel; }
};

struct ToF32Pixel {
  using Element = float;
  SHARDKIT_HOST_DEVICE static Element Make(const PixelOutput& output, uint8_t pixel, int channel) {
    return NormalizedPixel(output, pixel, channel);
  }
};

struct ToF16Pixel {
  using Element = uint16_t;
  SHARDKIT_HOST_DEVICE static Element Make(const PixelOutput& output, uint8_t pixel, int channel) {
    return ToF16(NormalizedPixel(output, pixel, channel));
  }
};

struct ToBf16Pixel {
  using Element = uint16_t;
  SHARDKIT_HOST_DEVICE static Element Make(const PixelOutput& output, uint8_t pixel, int channel) {
    return ToBf16(NormalizedPixel(output, pixel, channel));
  }
};

// Calls function(To…Pixel()) for an output type. Does nothing for other types.
template <typename Function>
void WithPixelType(Type type, const Function& function) {
  switch (type) {
    case Type::kU8:
      return function(ToU8Pixel());
    case Type::kF32:
      return function(ToF32Pixel());
    case Type::kF16:
      return function(ToF16Pixel());
    case Type::kBf16:
      return function(ToBf16Pixel());
    default:
      return;
  }
}

// The output of each of the 256 values that a pixel can have, by channel.
template <typename Pixel>
class PixelTable {
 public:
  using Element = typename Pixel::Element;

  PixelTable(const PixelOutput& output, int channels) {
    for (int channel = 0; channel < channels; ++channel) {
      for (int pixel = 0; pixel < 256; ++pixel) {
        values_[static_cast<size_t>(channel)][static_cast<size_t>(pixel)] =
            Pixel::Make(output, static_cast<uint8_t>(pixel), channel);
      }
    }
  }
  const std::array<Element, 256>& operator[](size_t channel) const { return values_[channel]; }

 private:
  std::array<std::array<Element, 256>, 4> values_;
};

// Writes the output of an image of `pixels` pixels of 1 to 4 channels, interleaved. `output` is planar.
void ConvertPixels(const PixelOutput& output, int channels, const uint8_t* from, uint64_t pixels, void* out);

}  // namespace shardkit::codec
