#include "codec/image/pixel_values.h"

#include <cstddef>

#include "base/errors.h"

namespace shardkit {

PixelOutput NormalizedOutput(Type type, const float (&mean)[3], const float (&deviation)[3]) {
  PixelOutput output;
  output.type = type;
  output.planar = true;
  for (int channel = 0; channel < 3; ++channel) {
    output.scale[channel] = static_cast<float>(1 / (255 * static_cast<double>(deviation[channel])));
    output.bias[channel] = static_cast<float>(-static_cast<double>(mean[channel]) / deviation[channel]);
  }
  return output;
}

absl::Status CheckPixelOutput(const PixelOutput& output) {
  const bool floating = output.type == Type::kF32 || output.type == Type::kF16 || output.type == Type::kBf16;
  if (!floating && output.type != Type::kU8) {
    return InvalidArgument("images cannot become ", TypeName(output.type), ", only u8, f32, f16 and bf16");
  }
  if (floating && !output.planar) return InvalidArgument("images of type ", TypeName(output.type), " are planar");
  return absl::OkStatus();
}

namespace codec {

void ConvertPixels(const PixelOutput& output, int channels, const uint8_t* from, uint64_t pixels, void* out) {
  WithPixelType(output.type, [&]<typename Pixel>(Pixel) {
    const PixelTable<Pixel> table(output, channels);
    auto* to = static_cast<typename Pixel::Element*>(out);
    const auto step = static_cast<size_t>(channels);
    for (size_t channel = 0; channel < step; ++channel, to += pixels) {
      const auto& values = table[channel];
      for (size_t i = 0; i < pixels; ++i) to[i] = values[from[i * step + channel]];
    }
  });
}

}  // namespace codec
}  // namespace shardkit
