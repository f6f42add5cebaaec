// Resizing compared with Pillow's results and with plain sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "codec/image/resize.h"
#include "codec_support.h"
#include "each_target.h"
#include "noise.h"
#include "shardkit/image.h"
#include "support/effort.h"

namespace shardkit {
namespace {

using codec::FilterResizer;
using nlohmann::json;
using testing::Image;
using testing::Noise;

std::string Fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t value = 0xcbf29ce484222325;
  for (const uint8_t byte : bytes) value = (value ^ byte) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

class Resize : public testing::OnEachTarget {};
SHARDKIT_ON_EACH_TARGET(Resize);

// The weighted sum for output `i` of values that are `step` bytes apart.
uint8_t PlainSum(const codec::AxisFilter& filter, uint32_t i, const uint8_t* values, size_t step) {
  int32_t sum = 1 << (codec::kWeightBits - 1);
  for (uint32_t j = 0; j < filter.taps[i]; ++j) {
    const size_t weight = size_t{i} * filter.padded_taps + j;
    sum += ((int32_t{filter.high[weight]} << codec::kLowBits) + filter.low[weight]) * values[j * step];
  }
  return static_cast<uint8_t>(std::clamp(sum >> codec::kWeightBits, 0, 255));
}

// All rows across, then all columns down.
Image PlainResize(const Image& image, const Box& box, Interpolation interpolation, uint32_t out_width,
                  uint32_t out_height) {
  const MutableImageView& view = image.view;
  codec::AxisFilter across, down;
  across.Build(view.width, box.x, box.width, out_width, interpolation, false);
  down.Build(view.height, box.y, box.height, out_height, interpolation, false);
  Image narrow(out_width, view.height, view.channels);
  Image out(out_width, out_height, view.channels);
  for (int c = 0; c < view.channels; ++c) {
    for (uint32_t x = 0; x < out_width; ++x) {
      for (uint32_t y = 0; y < view.height; ++y) {
        narrow.At(x, y)[c] = PlainSum(across, x, image.At(across.first[x], y) + c, static_cast<size_t>(view.channels));
      }
      for (uint32_t y = 0; y < out_height; ++y) {
        out.At(x, y)[c] = PlainSum(down, y, narrow.At(x, down.first[y]) + c, narrow.view.row_stride);
      }
    }
  }
  return out;
}

TEST_P(Resize, EqualsPillow) {
  std::ifstream file(std::filesystem::path(SHARDKIT_CODEC_TEST_DIR) / "pillow_vectors.json");
  const json vectors = json::parse(file);
  ASSERT_GE(vectors.size(), 120u);
  Resizer resizer;
  for (const json& vector : vectors) {
    SCOPED_TRACE(vector.dump().substr(0, 200));
    const uint32_t width = vector["width"], height = vector["height"];
    const int channels = vector["channels"];
    const Image image(width, height, channels,
                      Noise(size_t{width} * height * static_cast<size_t>(channels), vector["seed"]));
    const auto box = vector["box"].get<std::array<double, 4>>();
    Image out(vector["out_width"], vector["out_height"], channels);
    const auto interpolation = vector["bicubic"] ? Interpolation::kBicubic : Interpolation::kBilinear;
    const Box source{box[0], box[1], box[2] - box[0], box[3] - box[1]};
    ASSERT_TRUE(resizer.Resize(image.view, source, interpolation, out.view).ok());
    if (vector.contains("hash")) {
      EXPECT_EQ(Fnv1a(out.pixels), vector["hash"].get<std::string>());
      continue;
    }
    const std::string hex = vector["pixels"];
    ASSERT_EQ(hex.size(), out.pixels.size() * 2);
    for (size_t i = 0; i < out.pixels.size(); ++i) {
      ASSERT_EQ(out.pixels[i], HexDigit(hex[2 * i]) * 16 + HexDigit(hex[2 * i + 1])) << i;
    }
  }
}

// Whole and in parts, mirrored and not, with rows of exact length.
TEST_P(Resize, PartsAndMirrorsEqualPlainSums) {
  std::mt19937_64 random(7);
  const auto between = [&](uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random() % (high - low + 1));
  };
  for (int round = 0; round < test::Thinned(400); ++round) {
    const uint32_t width = between(1, 90), height = between(1, 90);
    const uint32_t out_width = between(1, 70), out_height = between(1, 70);
    const int channels = std::array{3, 1, 4}[static_cast<size_t>(round) % 3];
    const auto interpolation = round % 3 == 0 ? Interpolation::kBicubic : Interpolation::kBilinear;
    Box box{0, 0, static_cast<double>(width), static_cast<double>(height)};
    if (round % 5 != 0) {
      box.x = std::uniform_real_distribution<>(0, width - 0.01)(random);
      box.y = std::uniform_real_distribution<>(0, height - 0.01)(random);
      box.width = std::uniform_real_distribution<>(0.005, width - box.x)(random);
      box.height = std::uniform_real_distribution<>(0.005, height - box.y)(random);
    }
    const Image image(width, height, channels,
                      Noise(size_t{width} * height * static_cast<size_t>(channels), static_cast<uint32_t>(round)));
    const Image expected = PlainResize(image, box, interpolation, out_width, out_height);
    FilterResizer own;
    for (const bool mirror_x : {false, true}) {
      for (const bool mirror_y : {false, true}) {
        own.Prepare(width, height, box, out_width, out_height, interpolation, mirror_x, mirror_y);
        // Only the requested part of the image, in memory of exactly that size.
        const uint32_t part_width = own.right() - own.left(), part_height = own.bottom() - own.top();
        const size_t row_bytes = part_width * static_cast<size_t>(channels);
        const std::unique_ptr<uint8_t[]> part(new uint8_t[row_bytes * part_height]);
        for (uint32_t y = 0; y < part_height; ++y) {
          std::copy_n(image.At(own.left(), own.top() + y), row_bytes, part.get() + y * row_bytes);
        }
        const std::unique_ptr<uint8_t[]> out(new uint8_t[expected.pixels.size()]);
        own.Run({part.get(), part_width, part_height, channels, row_bytes}, own.left(), own.top(),
                {out.get(), out_width, out_height, channels, expected.view.row_stride});
        for (uint32_t y = 0; y < out_height; ++y) {
          for (uint32_t x = 0; x < out_width; ++x) {
            const uint8_t* const pixel =
                expected.At(mirror_x ? out_width - 1 - x : x, mirror_y ? out_height - 1 - y : y);
            const uint8_t* const found = out.get() + y * expected.view.row_stride + x * static_cast<size_t>(channels);
            ASSERT_TRUE(std::equal(pixel, pixel + channels, found)) << round << " " << x << " " << y;
          }
        }
      }
    }
  }
}

TEST_P(Resize, TouchesNothingBetweenRows) {
  const Image image(20, 20, 3, Noise(1200, 1));
  for (const uint32_t width : {7u, 20u, 33u}) {
    Image canvas(50, 40, 3, std::vector<uint8_t>(6000, 77));
    MutableImageView part = canvas.view;
    part.pixels = canvas.At(5, 6);
    part.width = width;
    part.height = 20;
    ASSERT_TRUE(Resizer().Resize(image.view, {0, 0, 20, 20}, Interpolation::kBilinear, part).ok());
    for (uint32_t y = 0; y < 40; ++y) {
      for (uint32_t x = 0; x < 50; ++x) {
        if (x >= 5 && x < 5 + width && y >= 6 && y < 26) continue;
        for (int c = 0; c < 3; ++c) ASSERT_EQ(canvas.At(x, y)[c], 77);
      }
    }
  }
}

// Sums of many small weights keep their total.
TEST_P(Resize, ExtremeScalesKeepFlatImagesFlat) {
  const Image white(1 << 16, 2, 3, std::vector<uint8_t>(3 << 17, 255));
  Image out(3, 5, 3);
  ASSERT_TRUE(Resizer().Resize(white.view, {0, 0, 1 << 16, 2}, Interpolation::kBilinear, out.view).ok());
  EXPECT_EQ(out.pixels, std::vector<uint8_t>(45, 255));
  const Image gray(2, 1 << 16, 1, std::vector<uint8_t>(2 << 16, 100));
  Image small(5, 1, 1);
  ASSERT_TRUE(Resizer().Resize(gray.view, {0.25, 0, 1.5, 1 << 16}, Interpolation::kBilinear, small.view).ok());
  EXPECT_EQ(small.pixels, std::vector<uint8_t>(5, 100));
}

TEST_P(Resize, Refusals) {
  const Image image(8, 8, 3, Noise(192, 1));
  Image out(4, 4, 3), gray(4, 4, 1);
  Resizer resizer;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Box& box : {Box{0, 0, 0, 4}, Box{0, 0, 4, -1}, Box{-0.5, 0, 4, 4}, Box{5, 0, 4, 4}, Box{0, 4.5, 4, 4},
                         Box{nan, 0, 4, 4}, Box{0, 0, nan, 4}}) {
    EXPECT_EQ(resizer.Resize(image.view, box, Interpolation::kBilinear, out.view).code(), kInvalid);
  }
  const Box box{0, 0, 8, 8};
  EXPECT_EQ(resizer.Resize(image.view, box, Interpolation::kBilinear, gray.view).code(), kInvalid);
  MutableImageView bad = out.view;
  bad.width = 0;
  EXPECT_EQ(resizer.Resize(image.view, box, Interpolation::kBilinear, bad).code(), kInvalid);
  bad = out.view;
  bad.row_stride = 11;
  EXPECT_EQ(resizer.Resize(image.view, box, Interpolation::kBilinear, bad).code(), kInvalid);
  bad = out.view;
  bad.channels = 2;
  EXPECT_EQ(resizer.Resize(image.view, box, Interpolation::kBilinear, bad).code(), kInvalid);
  EXPECT_TRUE(resizer.Resize(image.view, box, Interpolation::kBilinear, out.view).ok());
}

}  // namespace
}  // namespace shardkit
