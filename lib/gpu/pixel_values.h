// Converts one u8 pixel value to its output (PixelOutput).
#pragma once

#include <cmath>
#include <cstdint>

#include "gpu/float_types.h"
#include "gpu/host_device.h"
#include "gpu/kernels.h"

namespace shardkit::gpu {

// The product and the sum are rounded once, on every machine.
SHARDKIT_HOST_DEVICE inline float NormalizedPixel(const PixelOutput& output, uint8_t pixel, int channel) {
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

// Place of a value in an output of images of one size.
struct OutputPlace {
  uint64_t height = 0, width = 0, channels = 0;
  bool planar = false;

  SHARDKIT_HOST_DEVICE uint64_t operator()(uint64_t image, uint64_t y, uint64_t x, uint64_t channel) const {
    return planar ? ((image * channels + channel) * height + y) * width + x
                  : ((image * height + y) * width + x) * channels + channel;
  }
};

}  // namespace shardkit::gpu
