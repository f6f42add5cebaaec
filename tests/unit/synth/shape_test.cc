#include "synth/shape.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shardkit/rle.h"
#include "support/effort.h"

namespace shardctl {
namespace {

using namespace shardkit;

// Whether a pixel's centre is inside, by definition: counts the crossings of an upward ray from it, compared as exact
// fractions.
bool Inside(const Shape& shape, int64_t x, int64_t y) {
  const int64_t center_x = x * kShapeUnit + kShapeUnit / 2;
  const int64_t center_y = y * kShapeUnit + kShapeUnit / 2;
  bool inside = false;
  for (const auto& ring : shape.rings) {
    for (size_t i = 0; i < ring.size(); ++i) {
      const ShapePoint a = ring[i];
      const ShapePoint b = ring[(i + 1) % ring.size()];
      if ((a.x <= center_x) == (b.x <= center_x)) continue;
      const int64_t width = std::abs(b.x - a.x);
      const int64_t rise = b.x > a.x ? b.y - a.y : a.y - b.y;
      if ((center_y - a.y) * width >= rise * (center_x - a.x)) inside = !inside;
    }
  }
  return inside;
}

TEST(SynthShape, SineIsCloseToSine) {
  for (uint32_t angle = 0; angle < 65536; angle += 7) {
    EXPECT_NEAR(static_cast<double>(SineQ15(angle)), 32768 * std::sin(angle * 2 * M_PI / 65536), 60) << angle;
  }
  EXPECT_EQ(SineQ15(16384), 32768);
  EXPECT_EQ(CosineQ15(32768), -32768);
}

TEST(SynthShape, MasksHoldExactlyThePixelsInside) {
  constexpr uint32_t kWidth = 97;
  constexpr uint32_t kHeight = 61;
  for (uint64_t index = 0; index < static_cast<uint64_t>(test::Thinned(300)); ++index) {
    SynthRandom random(5, 'x', index);
    ShapeOptions options;
    options.kind = static_cast<ShapeKind>(index % 3);
    options.center_x = random.Between(-20 * kShapeUnit, (kWidth + 20) * kShapeUnit);
    options.center_y = random.Between(-20 * kShapeUnit, (kHeight + 20) * kShapeUnit);
    options.radius = random.Between(kShapeUnit, 70 * kShapeUnit);
    options.aspect = random.Between(30, 256);
    options.angle = static_cast<uint32_t>(random.Below(65536));
    options.hole = index % 5 == 0;
    const Shape shape = MakeShape(options, random);
    SynthMask mask;
    RasterizeShape(shape, kWidth, kHeight, &mask);

    std::vector<uint8_t> expected(kWidth * kHeight);
    for (uint32_t y = 0; y < kHeight; ++y) {
      for (uint32_t x = 0; x < kWidth; ++x) expected[y * kWidth + x] = Inside(shape, x, y);
    }
    const auto rle = EncodeDense(expected, kHeight, kWidth);
    ASSERT_TRUE(rle.ok());
    ASSERT_EQ(mask.runs, rle->runs) << index;
    ASSERT_EQ(mask.area, Area(*rle)) << index;
    if (mask.area == 0) continue;
    const auto box = BoundingBox(*rle);
    ASSERT_EQ(box, (std::array<uint32_t, 4>{mask.min_x, mask.min_y, mask.max_x - mask.min_x + 1,
                                            mask.max_y - mask.min_y + 1}))
        << index;
  }
}

TEST(SynthShape, AShapeThatCoversThePictureIsOneRun) {
  const Shape shape{{{{-2560, -2560}, {25600, -2560}, {25600, 25600}, {-2560, 25600}}}};
  SynthMask mask;
  RasterizeShape(shape, 10, 20, &mask);
  EXPECT_EQ(mask.runs, (std::vector<uint32_t>{0, 200}));
  EXPECT_EQ(mask.area, 200u);
}

TEST(SynthShape, AShapeOutsideThePictureIsEmpty) {
  const Shape shape{{{{-2560, 0}, {-256, 0}, {-256, 2560}}}};
  SynthMask mask;
  RasterizeShape(shape, 10, 20, &mask);
  EXPECT_EQ(mask.runs, (std::vector<uint32_t>{200}));
  EXPECT_EQ(mask.area, 0u);
}

}  // namespace
}  // namespace shardctl
