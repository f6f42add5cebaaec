// Changes of pixels. How they compare with Pillow's and torchvision's: python/tests/test_augment.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codec_support.h"
#include "noise.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

using testing::Noise;

constexpr uint32_t kWidth = 40, kHeight = 30;

// The noise after changes of one sample, in rows with bytes between them that must stay.
std::vector<uint8_t> Augmented(const AugmentOptions& options, uint64_t sample, int channels = 3) {
  const size_t row = kWidth * static_cast<size_t>(channels);
  const std::vector<uint8_t> noise = Noise(row * kHeight, 11);
  std::vector<uint8_t> memory((row + 5) * kHeight, 77);
  for (size_t y = 0; y < kHeight; ++y) std::copy_n(&noise[y * row], row, &memory[y * (row + 5)]);
  AugmentationRandom random(4, 2, sample);
  AugmentPixels(options, random, {memory.data(), kWidth, kHeight, channels, row + 5});
  std::vector<uint8_t> out;
  for (size_t y = 0; y < kHeight; ++y) {
    const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(y * (row + 5));
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
    for (size_t gap = 0; gap < 5; ++gap) EXPECT_EQ(memory[y * (row + 5) + row + gap], 77);
  }
  return out;
}

TEST(Augment, NothingIsAsItWas) {
  EXPECT_EQ(Augmented({}, 1), Noise(kWidth * kHeight * 3, 11));
  AugmentOptions never{.brightness = 1, .contrast = 1, .saturation = 1, .hue = 0.5, .jitter_probability = 0};
  EXPECT_EQ(Augmented(never, 1), Noise(kWidth * kHeight * 3, 11));
  // Gray has no color to change.
  EXPECT_EQ(Augmented({.saturation = 1, .hue = 0.5, .grayscale_probability = 1}, 1, 1), Noise(kWidth * kHeight, 11));
}

TEST(Augment, BrightnessMultiplies) {
  const std::vector<uint8_t> before = Noise(kWidth * kHeight * 3, 11);
  double least = 10, most = 0;
  for (uint64_t sample = 0; sample < 200; ++sample) {
    const std::vector<uint8_t> after = Augmented({.brightness = 0.4}, sample);
    double factor = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] > 150 && before[i] < 180) factor = std::max(factor, (after[i] + 0.5) / before[i]);
    }
    least = std::min(least, factor);
    most = std::max(most, factor);
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_NEAR(after[i], std::min(255.0, before[i] * factor), 2.5) << factor;
    }
  }
  EXPECT_NEAR(least, 0.6, 0.02);
  EXPECT_NEAR(most, 1.4, 0.02);
}

TEST(Augment, HueTurnsInItsRange) {
  for (uint64_t sample = 0; sample < 50; ++sample) {
    std::array<std::array<uint8_t, 3>, 4> colors = {{{200, 0, 0}, {90, 90, 90}, {10, 250, 250}, {120, 60, 180}}};
    const auto before = colors;
    AugmentationRandom random(4, 2, sample);
    AugmentPixels({.hue = 0.1}, random, {colors[0].data(), 2, 2, 3, 6});
    // Red becomes some orange or pink: at most 0.6 of the way to yellow or magenta.
    EXPECT_EQ(colors[0][0], 200);
    EXPECT_EQ(std::min(colors[0][1], colors[0][2]), 0);
    EXPECT_LE(std::max(colors[0][1], colors[0][2]), 120);
    for (int c = 0; c < 3; ++c) EXPECT_EQ(colors[1][c], 90);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(*std::ranges::max_element(colors[i]), *std::ranges::max_element(before[i]));
      EXPECT_EQ(*std::ranges::min_element(colors[i]), *std::ranges::min_element(before[i]));
    }
  }
}

TEST(Augment, GrayscaleIsOfTheGivenPart) {
  int gray = 0;
  for (uint64_t sample = 0; sample < 400; ++sample) {
    const std::vector<uint8_t> after = Augmented({.grayscale_probability = 0.25}, sample);
    gray += after[0] == after[1] && after[1] == after[2] && after[3] == after[4];
  }
  EXPECT_NEAR(gray, 100, 30);
}

TEST(Augment, ErasesOneBox) {
  const std::vector<uint8_t> before = Noise(kWidth * kHeight * 3, 11);
  int boxes = 0;
  for (uint64_t sample = 0; sample < 200; ++sample) {
    const std::vector<uint8_t> after = Augmented({.erase_probability = 0.5, .erased = {1, 2, 3}}, sample);
    uint32_t left = kWidth, right = 0, top = kHeight, bottom = 0;
    for (uint32_t y = 0; y < kHeight; ++y) {
      for (uint32_t x = 0; x < kWidth; ++x) {
        const size_t at = (size_t{y} * kWidth + x) * 3;
        if (std::equal(&after[at], &after[at] + 3, &before[at])) continue;
        left = std::min(left, x), right = std::max(right, x + 1), top = std::min(top, y),
        bottom = std::max(bottom, y + 1);
      }
    }
    if (right == 0) continue;
    ++boxes;
    for (uint32_t y = top; y < bottom; ++y) {
      for (uint32_t x = left; x < right; ++x) {
        for (size_t c = 0; c < 3; ++c) ASSERT_EQ(after[(size_t{y} * kWidth + x) * 3 + c], c + 1);
      }
    }
    const double area = (right - left) * (bottom - top) / double{kWidth * kHeight};
    EXPECT_GT(area, 0.01);
    EXPECT_LT(area, 0.37);
  }
  EXPECT_NEAR(boxes, 100, 30);
}

// Which changes are chosen does not change what others draw, and nothing depends on the machine.
TEST(Augment, DrawsDoNotDependOnEachOther) {
  const AugmentOptions erase{.erase_probability = 1};
  AugmentOptions both = erase;
  both.grayscale_probability = 1;
  both.brightness = 0.5;
  both.jitter_probability = 0;
  const std::vector<uint8_t> one = Augmented(erase, 5), two = Augmented(both, 5);
  for (size_t i = 0; i < one.size(); i += 3) {
    const bool erased = one[i] == 0 && one[i + 1] == 0 && one[i + 2] == 0;
    ASSERT_EQ(erased, two[i] == 0 && two[i + 1] == 0 && two[i + 2] == 0);
  }
  uint64_t sum = 0xcbf29ce484222325;
  for (const uint8_t byte :
       Augmented({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1, .erase_probability = 1}, 7)) {
    sum = (sum ^ byte) * 0x100000001b3;
  }
  EXPECT_EQ(sum, 18154117685376174619u);
}

TEST(Augment, Refusals) {
  const auto code = [](const AugmentOptions& options) { return CheckAugmentOptions(options).code(); };
  EXPECT_EQ(code({}), absl::StatusCode::kOk);
  EXPECT_EQ(code({.brightness = 1, .contrast = 3, .saturation = 2, .hue = 0.5}), absl::StatusCode::kOk);
  EXPECT_EQ(code({.brightness = -0.1}), kInvalid);
  EXPECT_EQ(code({.contrast = std::numeric_limits<double>::quiet_NaN()}), kInvalid);
  EXPECT_EQ(code({.saturation = 256}), kInvalid);
  EXPECT_EQ(code({.hue = 0.51}), kInvalid);
  EXPECT_EQ(code({.jitter_probability = 1.01}), kInvalid);
  EXPECT_EQ(code({.grayscale_probability = 2}), kInvalid);
  EXPECT_EQ(code({.erase_probability = -1}), kInvalid);
}

}  // namespace
}  // namespace shardkit
