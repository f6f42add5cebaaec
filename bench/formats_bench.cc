// Image files to pixels, compared with plain loops over the libraries.
//
//   formats_bench [--rounds N]
//
// Makes its own images, the same every time.
#include <avif/avif.h>
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

// `encode(pixels)` makes a file, `decode(file, pixels)` is the bare library's way.
template <typename Encode, typename Decode>
void Measure(const std::string& name, const std::string& library, int rounds, const Encode& encode,
             const Decode& decode) {
  std::vector<std::string> images;
  for (uint32_t i = 0; i < kImages; ++i) images.push_back(encode(MakePixels(i)));
  std::vector<uint8_t> bare(size_t{3} * kWidth * kHeight), ours = bare;
  ImageDecoder decoder;
  const Geometry geometry = FullImage({kWidth, kHeight});
  const auto decode_bare = [&] {
    for (const std::string& image : images) decode(image, bare.data());
  };
  const auto decode_ours = [&] {
    for (const std::string& image : images) {
      Must(decoder.Decode(image, geometry, {}, {ours.data(), kWidth, kHeight, 3, size_t{3} * kWidth}));
    }
  };
  decode_bare();
  decode_ours();
  if (bare != ours) {
    std::fprintf(stderr, "formats_bench: wrong pixels\n");
    std::exit(1);
  }
  std::vector<Contender> contenders;
  contenders.push_back({"bare " + library, decode_bare, {}, {}});
  contenders.push_back({"ImageDecoder", decode_ours, {}, {}});
  RunAlternating(contenders, rounds);
  for (const Contender& contender : contenders) {
    Report(name + ": " + contender.name, kImages / Median(contender.processor_seconds), "images/s of processor time");
  }
  Report(name + ": ImageDecoder, processor time, ratio to bare " + library,
         ProcessorRatio(contenders[1], contenders[0]), "x");
}

void MeasureWebp(bool lossless, int rounds) {
  Measure(
      lossless ? "WebP 500x375, lossless" : "WebP 500x375, lossy", "libwebp", rounds,
      [&](const std::vector<uint8_t>& rgb) {
        uint8_t* bytes = nullptr;
        const size_t size = lossless ? WebPEncodeLosslessRGB(rgb.data(), kWidth, kHeight, 3 * kWidth, &bytes)
                                     : WebPEncodeRGB(rgb.data(), kWidth, kHeight, 3 * kWidth, 90, &bytes);
        std::string file(reinterpret_cast<const char*>(bytes), size);
        WebPFree(bytes);
        return file;
      },
      [](const std::string& file, uint8_t* to) {
        WebPDecodeRGBInto(reinterpret_cast<const uint8_t*>(file.data()), file.size(), to, size_t{3} * kWidth * kHeight,
                          3 * kWidth);
      });
}

void MeasureAvif(int rounds) {
  const auto pixels_of = [](avifImage* image, const uint8_t* pixels) {
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, image);
    rgb.format = AVIF_RGB_FORMAT_RGB;
    rgb.depth = 8;
    rgb.pixels = const_cast<uint8_t*>(pixels);
    rgb.rowBytes = 3 * kWidth;
    return rgb;
  };
  Measure(
      "AVIF 500x375", "libavif", rounds,
      [&](const std::vector<uint8_t>& rgb) {
        avifImage* const image = avifImageCreate(kWidth, kHeight, 8, AVIF_PIXEL_FORMAT_YUV420);
        avifRGBImage pixels = pixels_of(image, rgb.data());
        avifImageRGBToYUV(image, &pixels);
        avifEncoder* const encoder = avifEncoderCreate();
        encoder->speed = 8;
        encoder->minQuantizer = encoder->maxQuantizer = 20;
        avifRWData output = AVIF_DATA_EMPTY;
        avifEncoderWrite(encoder, image, &output);
        std::string file(reinterpret_cast<const char*>(output.data), output.size);
        avifRWDataFree(&output);
        avifEncoderDestroy(encoder);
        avifImageDestroy(image);
        return file;
      },
      [&](const std::string& file, uint8_t* to) {
        avifDecoder* const decoder = avifDecoderCreate();
        decoder->maxThreads = 1;
        decoder->codecChoice = AVIF_CODEC_CHOICE_AOM;
        avifDecoderSetIOMemory(decoder, reinterpret_cast<const uint8_t*>(file.data()), file.size());
        avifDecoderParse(decoder);
        avifDecoderNextImage(decoder);
        avifRGBImage pixels = pixels_of(decoder->image, to);
        avifImageYUVToRGB(decoder->image, &pixels);
        avifDecoderDestroy(decoder);
      });
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 3 && std::strcmp(argv[1], "--rounds") == 0 ? std::atoi(argv[2]) : 15;
  MeasureWebp(false, rounds);
  MeasureWebp(true, rounds);
  MeasureAvif(rounds);
  return 0;
}
