// WebP to pixels, compared with a plain libwebp loop.
//
//   webp_bench [--rounds N]
//
// Makes its own images, the same every time.
#include <webp/decode.h>
#include <webp/encode.h>

#include <cmath>
#include <cstring>
#include <random>

#include "shardkit/image.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

constexpr int kWidth = 500, kHeight = 375, kImages = 20;

// Smooth waves and grain.
std::vector<uint8_t> MakePixels(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> rgb;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const double light = 128 + 70 * std::sin(0.03 * x + seed) * std::cos(0.02 * y);
      for (int c = 0; c < 3; ++c) rgb.push_back(static_cast<uint8_t>(light + 10 * c + random() % 12));
    }
  }
  return rgb;
}

std::vector<std::string> MakeSet(bool lossless) {
  std::vector<std::string> images;
  for (uint32_t i = 0; i < kImages; ++i) {
    const std::vector<uint8_t> rgb = MakePixels(i);
    uint8_t* bytes = nullptr;
    const size_t size = lossless ? WebPEncodeLosslessRGB(rgb.data(), kWidth, kHeight, 3 * kWidth, &bytes)
                                 : WebPEncodeRGB(rgb.data(), kWidth, kHeight, 3 * kWidth, 90, &bytes);
    images.emplace_back(reinterpret_cast<const char*>(bytes), size);
    WebPFree(bytes);
  }
  return images;
}

void Measure(const std::string& name, bool lossless, int rounds) {
  const std::vector<std::string> images = MakeSet(lossless);
  std::vector<uint8_t> bare(size_t{3} * kWidth * kHeight), ours = bare;
  ImageDecoder decoder;
  const Geometry geometry = FullImage({kWidth, kHeight});
  const auto decode_bare = [&] {
    for (const std::string& image : images) {
      WebPDecodeRGBInto(reinterpret_cast<const uint8_t*>(image.data()), image.size(), bare.data(), bare.size(),
                        3 * kWidth);
    }
  };
  const auto decode = [&] {
    for (const std::string& image : images) {
      Must(decoder.Decode(image, geometry, {}, {ours.data(), kWidth, kHeight, 3, size_t{3} * kWidth}));
    }
  };
  decode_bare();
  decode();
  if (bare != ours) {
    std::fprintf(stderr, "webp_bench: wrong pixels\n");
    std::exit(1);
  }
  std::vector<Contender> contenders;
  contenders.push_back({"bare libwebp", decode_bare, {}, {}});
  contenders.push_back({"ImageDecoder", decode, {}, {}});
  RunAlternating(contenders, rounds);
  for (const Contender& contender : contenders) {
    Report(name + ": " + contender.name, kImages / Median(contender.processor_seconds), "images/s of processor time");
  }
  Report(name + ": ImageDecoder, processor time, ratio to bare libwebp", ProcessorRatio(contenders[1], contenders[0]),
         "x");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 3 && std::strcmp(argv[1], "--rounds") == 0 ? std::atoi(argv[2]) : 15;
  Measure("WebP 500x375, lossy", false, rounds);
  Measure("WebP 500x375, lossless", true, rounds);
  return 0;
}
