// JPEG to training input, compared with a plain TurboJPEG loop and with full decodes followed by the same crop.
//
//   image_bench [--rounds N] [--profile full|crop] [--large 1]
//
// Makes its own images, the same every time. --profile repeats one case for a profiler; --large uses the large images.
#include <turbojpeg.h>

#include <cmath>
#include <cstring>
#include <random>

#include "shardkit/image.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

constexpr uint32_t kCrop = 224;

// Smooth shapes, edges and grain. The number of bits per pixel decides how much time region and scale can save, because
// everything above the end of the region must be entropy-decoded in any case.
std::string MakePhoto(uint32_t width, uint32_t height, uint32_t seed, double grain) {
  std::mt19937 random(seed);
  const auto uniform = [&] { return static_cast<double>(random()) / 4294967296.0; };
  struct Disc {
    double x, y, radius;
    double colour[3];
    double wave;
  };
  std::vector<Disc> discs;
  for (int i = 0; i < 40; ++i) {
    discs.push_back({uniform() * width,
                     uniform() * height,
                     (0.02 + 0.2 * uniform()) * height,
                     {uniform() * 255, uniform() * 255, uniform() * 255},
                     0.05 + uniform()});
  }
  std::vector<uint8_t> rgb;
  rgb.reserve(size_t{width} * height * 3);
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      const Disc* top = &discs[0];
      for (const Disc& disc : discs) {
        if (std::hypot(x - disc.x, y - disc.y) < disc.radius) top = &disc;
      }
      const double light = 20 * std::sin(top->wave * x) * std::cos(top->wave * 0.7 * y) +
                           grain * static_cast<double>(random() >> 8) / 16777216.0;
      for (const double colour : top->colour) {
        rgb.push_back(static_cast<uint8_t>(std::clamp(colour * 0.7 + 20 + light, 0.0, 255.0)));
      }
    }
  }
  std::string jpeg;
  Must(EncodeJpeg(rgb.data(), width, height, {.quality = 92}, &jpeg));
  return jpeg;
}

struct Set {
  std::string name;
  uint32_t width, height;
  std::vector<std::string> images;
};

Set MakeSet(const std::string& name, uint32_t width, uint32_t height, uint32_t count, double grain) {
  Set set{name, width, height, {}};
  for (uint32_t i = 0; i < count; ++i) set.images.push_back(MakePhoto(width, height, i, grain));
  size_t bytes = 0;
  for (const std::string& image : set.images) bytes += image.size();
  std::printf("%s: %u x %u, %.2f bits per pixel\n", name.c_str(), width, height,
              8.0 * static_cast<double>(bytes) / (double{1} * width * height * count));
  return set;
}

MutableImageView View(std::vector<uint8_t>& pixels, uint32_t width, uint32_t height) {
  pixels.resize(size_t{width} * height * 3);
  return {pixels.data(), width, height, 3, size_t{width} * 3};
}

void BareLoop(tjhandle decoder, const Set& set, std::vector<uint8_t>& pixels) {
  for (const std::string& image : set.images) {
    int width = 0, height = 0, subsampling = 0, colours = 0;
    const auto* bytes = reinterpret_cast<const unsigned char*>(image.data());
    tjDecompressHeader3(decoder, bytes, image.size(), &width, &height, &subsampling, &colours);
    pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    tjDecompress2(decoder, bytes, image.size(), pixels.data(), width, 0, height, TJPF_RGB, 0);
  }
}

void FullLoop(ImageDecoder& decoder, const Set& set, std::vector<uint8_t>& pixels) {
  const Geometry geometry = FullImage({set.width, set.height});
  for (const std::string& image : set.images) {
    Must(decoder.Decode(image, geometry, {}, View(pixels, set.width, set.height)));
  }
}

// A different crop for each image and epoch, the same for every contender.
Geometry Crop(const Set& set, uint64_t epoch, size_t sample) {
  AugmentationRandom random(1, epoch, sample);
  return RandomResizedCrop({set.width, set.height}, kCrop, kCrop, random);
}

void CropLoop(ImageDecoder& decoder, const Set& set, uint64_t epoch, bool scaled, std::vector<uint8_t>& pixels) {
  for (size_t i = 0; i < set.images.size(); ++i) {
    Must(decoder.Decode(set.images[i], Crop(set, epoch, i), {.scaled_decode = scaled}, View(pixels, kCrop, kCrop)));
  }
}

void FullThenCropLoop(JpegDecoder& decoder, Resizer& resizer, const Set& set, uint64_t epoch,
                      std::vector<uint8_t>& whole, std::vector<uint8_t>& pixels) {
  for (size_t i = 0; i < set.images.size(); ++i) {
    const MutableImageView view = View(whole, set.width, set.height);
    Must(decoder.DecodeInto(set.images[i], view));
    Must(resizer.Resize(view, Crop(set, epoch, i).source, Interpolation::kBilinear, View(pixels, kCrop, kCrop)));
  }
}

// Without scaling both ways give the same pixels.
void Verify(const Set& set) {
  ImageDecoder decoder;
  JpegDecoder whole_decoder;
  Resizer resizer;
  std::vector<uint8_t> whole, expected, found;
  FullThenCropLoop(whole_decoder, resizer, set, 5, whole, expected);
  CropLoop(decoder, set, 5, false, found);
  std::vector<uint8_t> bare;
  const tjhandle handle = tjInitDecompress();
  BareLoop(handle, set, bare);
  tjDestroy(handle);
  if (expected == found && bare == whole) return;
  std::fprintf(stderr, "image_bench: wrong pixels\n");
  std::exit(1);
}

void Measure(const Set& set, int rounds) {
  Verify(set);
  const tjhandle bare = tjInitDecompress();
  ImageDecoder decoder;
  JpegDecoder whole_decoder;
  Resizer resizer;
  std::vector<uint8_t> pixels, whole;
  uint64_t epochs[3] = {};
  std::vector<Contender> contenders;
  contenders.push_back({"bare TurboJPEG", [&] { BareLoop(bare, set, pixels); }, {}, {}});
  contenders.push_back({"DecodeImage, whole", [&] { FullLoop(decoder, set, pixels); }, {}, {}});
  contenders.push_back({"whole, then random crop 224",
                        [&] { FullThenCropLoop(whole_decoder, resizer, set, epochs[0]++, whole, pixels); },
                        {},
                        {}});
  contenders.push_back(
      {"random crop 224, region", [&] { CropLoop(decoder, set, epochs[1]++, false, pixels); }, {}, {}});
  contenders.push_back(
      {"random crop 224, region and scale", [&] { CropLoop(decoder, set, epochs[2]++, true, pixels); }, {}, {}});
  RunAlternating(contenders, rounds);
  tjDestroy(bare);
  for (const Contender& contender : contenders) {
    Report(set.name + ": " + contender.name,
           static_cast<double>(set.images.size()) / Median(contender.processor_seconds), "images/s of processor time");
  }
  Report(set.name + ": DecodeImage, whole, processor time, ratio to bare TurboJPEG",
         ProcessorRatio(contenders[1], contenders[0]), "x");
  Report(set.name + ": random crop 224, region alone, processor time, ratio to whole decode and crop",
         ProcessorRatio(contenders[3], contenders[2]), "x");
  Report(set.name + ": random crop 224, processor time, ratio to whole decode and crop",
         ProcessorRatio(contenders[4], contenders[2]), "x");
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  std::string profile;
  bool large = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--profile") == 0) profile = argv[i + 1];
    if (std::strcmp(argv[i], "--large") == 0) large = std::atoi(argv[i + 1]) != 0;
  }
  // At quality 92, 500 x 375 pixels take 65 kB, the median of photographs. There are two sets of large images: one with
  // as much detail per pixel as enlarged photographs, one with more.
  const auto small = [] { return MakeSet("500x375", 500, 375, 40, 12); };
  const auto big = [] { return MakeSet("1500x2250", 1500, 2250, 6, 4); };
  if (!profile.empty()) {
    const Set set = large ? big() : small();
    ImageDecoder decoder;
    std::vector<uint8_t> pixels;
    for (int round = 0; round < rounds; ++round) {
      if (profile == "full") {
        FullLoop(decoder, set, pixels);
      } else {
        CropLoop(decoder, set, static_cast<uint64_t>(round), true, pixels);
      }
    }
    return 0;
  }
  Measure(small(), rounds);
  Measure(big(), rounds);
  Measure(MakeSet("1500x2250, grainy", 1500, 2250, 6, 12), rounds);
  return 0;
}
