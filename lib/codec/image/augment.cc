// Changes the colors of pixels, and erases boxes of them. All arithmetic on pixels is of integers, so that results are
// the same on every machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "codec/image/jpeg_pixels.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

// SplitMix64 of Steele, Lea and Flood, keyed by seed, epoch and sample. The header specifies its numbers, so they must
// never change.

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;

constexpr uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

AugmentationRandom::AugmentationRandom(uint64_t seed, uint64_t epoch, uint64_t sample)
    : state_(Mix(Mix(Mix(seed + kGamma) + epoch + kGamma) + sample + kGamma)) {}

uint64_t AugmentationRandom::Next() { return Mix(state_ += kGamma); }

double AugmentationRandom::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double AugmentationRandom::Uniform(double low, double high) { return low + (high - low) * Uniform(); }

uint64_t AugmentationRandom::Below(uint64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{Next()} * count) >> 64);
}

namespace {

constexpr int kBits = 16;  // of fractions
constexpr int32_t kOne = 1 << kBits;

int32_t Fraction(double value) { return static_cast<int32_t>(std::lround(value * kOne)); }

// `from` and what is beyond it, seen from `origin`, as Pillow's Image.blend.
uint8_t Blend(int32_t origin, int32_t from, int64_t factor) {
  return static_cast<uint8_t>(std::clamp<int64_t>(origin + (((from - origin) * factor) >> kBits), 0, 255));
}

template <typename Function>
void ForEachRow(const MutableImageView& image, const Function& function) {
  for (uint32_t y = 0; y < image.height; ++y) {
    function(image.pixels + y * image.row_stride, image.width * static_cast<size_t>(image.channels));
  }
}

template <typename Function>
void ForEachColor(const MutableImageView& image, const Function& function) {
  ForEachRow(image, [&](uint8_t* row, size_t bytes) {
    for (uint8_t *rgb = row, *end = row + bytes; rgb < end; rgb += 3) function(rgb);
  });
}

uint8_t GrayOf(const uint8_t* rgb) { return codec::LumaOf(rgb[0], rgb[1], rgb[2]); }

// Brightness and contrast: every value becomes another one.
void BlendWith(uint8_t origin, double factor, const MutableImageView& image) {
  std::array<uint8_t, 256> table;
  for (int value = 0; value < 256; ++value) table[static_cast<size_t>(value)] = Blend(origin, value, Fraction(factor));
  ForEachRow(image, [&](uint8_t* row, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) row[i] = table[row[i]];
  });
}

uint8_t MeanGray(const MutableImageView& image) {
  uint64_t sum = 0;
  if (image.channels == 3) {
    ForEachColor(image, [&](const uint8_t* rgb) { sum += GrayOf(rgb); });
  } else {
    ForEachRow(image, [&](const uint8_t* row, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) sum += row[i];
    });
  }
  const uint64_t pixels = uint64_t{image.width} * image.height;
  return pixels == 0 ? uint8_t{0} : static_cast<uint8_t>((sum + pixels / 2) / pixels);
}

void Saturate(double factor, const MutableImageView& image) {
  const int32_t fraction = Fraction(factor);
  ForEachColor(image, [&](uint8_t* rgb) {
    const uint8_t gray = GrayOf(rgb);
    for (int c = 0; c < 3; ++c) rgb[c] = Blend(gray, rgb[c], fraction);
  });
}

// Turns the hue by `turn` of the circle, -0.5 to 0.5. The largest and the smallest of the three values stay (A. R.
// Smith, "Color gamut transform pairs", SIGGRAPH 1978: the hexcone model).
void TurnHue(double turn, const MutableImageView& image) {
  constexpr int32_t kCircle = 6 * kOne;
  const int32_t by = (Fraction(turn * 6) + kCircle) % kCircle;
  ForEachColor(image, [&](uint8_t* rgb) {
    const int32_t red = rgb[0], green = rgb[1], blue = rgb[2];
    const int32_t most = std::max({red, green, blue}), least = std::min({red, green, blue});
    const int32_t span = most - least;
    if (span == 0) return;
    int32_t hue;  // in sixths of the circle
    if (most == red) {
      hue = (green - blue) * kOne / span;
    } else if (most == green) {
      hue = 2 * kOne + (blue - red) * kOne / span;
    } else {
      hue = 4 * kOne + (red - green) * kOne / span;
    }
    hue = (hue + by + kCircle) % kCircle;
    const int32_t sixth = hue >> kBits, part = hue & (kOne - 1);
    const auto rising = static_cast<uint8_t>(least + ((span * part + kOne / 2) >> kBits));
    const auto falling = static_cast<uint8_t>(most - ((span * part + kOne / 2) >> kBits));
    const auto high = static_cast<uint8_t>(most), low = static_cast<uint8_t>(least);
    const uint8_t made[6][3] = {{high, rising, low},  {falling, high, low}, {low, high, rising},
                                {low, falling, high}, {rising, low, high},  {high, low, falling}};
    std::memcpy(rgb, made[sixth], 3);
  });
}

void Jitter(const AugmentOptions& options, AugmentationRandom& random, bool apply, const MutableImageView& image) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (size_t i = 0; i < 3; ++i) std::swap(order[i], order[i + random.Below(4 - i)]);
  const auto factor = [&](double amount) { return random.Uniform(std::max(0.0, 1 - amount), 1 + amount); };
  const double brightness = factor(options.brightness), contrast = factor(options.contrast);
  const double saturation = factor(options.saturation), hue = random.Uniform(-options.hue, options.hue);
  if (!apply) return;
  for (const int step : order) {
    if (step == 0 && options.brightness > 0) BlendWith(0, brightness, image);
    if (step == 1 && options.contrast > 0) BlendWith(MeanGray(image), contrast, image);
    if (step == 2 && options.saturation > 0 && image.channels == 3) Saturate(saturation, image);
    if (step == 3 && options.hue > 0 && image.channels == 3) TurnHue(hue, image);
  }
}

void Erase(const AugmentOptions& options, AugmentationRandom& random, const MutableImageView& image) {
  constexpr int kTries = 10;
  const double area = static_cast<double>(image.width) * image.height;
  for (int i = 0; i < kTries; ++i) {
    const double erased = area * random.Uniform(0.02, 0.33);
    const double ratio = std::exp(random.Uniform(std::log(0.3), std::log(3.3)));
    const double height = std::nearbyint(std::sqrt(erased * ratio)), width = std::nearbyint(std::sqrt(erased / ratio));
    if (!(height >= 1 && height < image.height && width >= 1 && width < image.width)) continue;
    const auto rows = static_cast<uint32_t>(height), columns = static_cast<uint32_t>(width);
    const uint64_t top = random.Below(image.height - rows + 1), left = random.Below(image.width - columns + 1);
    for (uint64_t y = top; y < top + rows; ++y) {
      uint8_t* to = image.pixels + y * image.row_stride + left * static_cast<size_t>(image.channels);
      for (uint32_t x = 0; x < columns; ++x, to += image.channels) {
        std::memcpy(to, options.erased.data(), static_cast<size_t>(image.channels));
      }
    }
    return;
  }
}

}  // namespace

bool AugmentOptions::Changes() const {
  const bool jitter = brightness > 0 || contrast > 0 || saturation > 0 || hue > 0;
  return (jitter && jitter_probability > 0) || grayscale_probability > 0 || erase_probability > 0;
}

absl::Status CheckAugmentOptions(const AugmentOptions& options) {
  struct Field {
    const char* name;
    double value;
    double most;
  };
  // Factors of more than 256 leave nothing but black and white.
  for (const Field& field : {Field{"brightness", options.brightness, 255}, Field{"contrast", options.contrast, 255},
                             Field{"saturation", options.saturation, 255}, Field{"hue", options.hue, 0.5},
                             Field{"jitter_probability", options.jitter_probability, 1},
                             Field{"grayscale_probability", options.grayscale_probability, 1},
                             Field{"erase_probability", options.erase_probability, 1}}) {
    if (field.value >= 0 && field.value <= field.most) continue;  // NaN fails, too
    return InvalidArgument("augment: ", field.name, " is ", field.value, ", not 0 to ", field.most);
  }
  return absl::OkStatus();
}

void AugmentPixels(const AugmentOptions& options, AugmentationRandom& random, const MutableImageView& image) {
  const bool jitter = random.Uniform() < options.jitter_probability;
  const bool grayscale = random.Uniform() < options.grayscale_probability;
  const bool erase = random.Uniform() < options.erase_probability;
  Jitter(options, random, jitter, image);
  if (grayscale && image.channels == 3) {
    ForEachColor(image, [](uint8_t* rgb) { std::memset(rgb, GrayOf(rgb), 3); });
  }
  if (erase) Erase(options, random, image);
}

}  // namespace shardkit
