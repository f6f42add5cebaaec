// The usual geometries, the random numbers behind some of them, and their effect on points and boxes.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <utility>

#include "codec_support.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

// The vectors come from a separate Python implementation of the header's rules.
TEST(AugmentationRandom, NeverChanges) {
  struct Case {
    uint64_t seed, epoch, sample;
    std::array<uint64_t, 3> numbers;
  };
  for (const Case& c :
       {Case{0, 0, 0, {0x2130748aaac80268, 0x0cc78fb979ce5090, 0xab9aa3dafba6b4ac}},
        Case{1, 2, 3, {0x214d4c07ecfeaac5, 0x6ff419cb83dfe1e6, 0xf475ff91157f0556}},
        Case{UINT64_MAX, UINT64_MAX, UINT64_MAX, {0xe78ef51182b3d298, 0x662576c0b0257537, 0x73b9f40fd2461434}}}) {
    AugmentationRandom random(c.seed, c.epoch, c.sample);
    for (const uint64_t number : c.numbers) EXPECT_EQ(random.Next(), number);
  }
  AugmentationRandom random(7, 0, 1);
  EXPECT_EQ(random.Uniform(), 0x1.e07fa9cee1b34p-2);
  EXPECT_EQ(random.Uniform(), 0x1.01a998c8cc8d6p-1);
  for (const uint64_t expected : {0, 6, 8, 2, 5, 9}) EXPECT_EQ(random.Below(10), expected);
  EXPECT_EQ(random.Below(0), 0u);
  EXPECT_EQ(random.Below(1), 0u);
}

TEST(AugmentationRandom, Range) {
  AugmentationRandom random(3, 1, 4);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = random.Uniform(-1, 3);
    ASSERT_GE(value, -1);
    ASSERT_LT(value, 3);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 1, 0.05);
}

TEST(Geometry, FullImageAndResize) {
  Geometry geometry = FullImage({30, 20});
  EXPECT_TRUE(geometry.IsIdentity());
  EXPECT_EQ(geometry.source, (Box{0, 0, 30, 20}));
  EXPECT_TRUE(CheckGeometry(geometry).ok());
  EXPECT_TRUE(FullImage({30, 20, 0}).IsIdentity());
  EXPECT_EQ(FullImage({30, 20, 0}).orientation, 1);
  EXPECT_FALSE(FlipHorizontal(geometry).IsIdentity());
  EXPECT_TRUE(FlipHorizontal(FlipHorizontal(geometry)).IsIdentity());
  geometry = FullImage({30, 20, 6});
  EXPECT_FALSE(geometry.IsIdentity());
  EXPECT_EQ(geometry.output_width, 20u);
  EXPECT_EQ(geometry.content_height, 30u);
  EXPECT_EQ(geometry.source, (Box{0, 0, 20, 30}));
  geometry = Resize({30, 20, 8}, 7, 9);
  EXPECT_EQ(geometry.source, (Box{0, 0, 20, 30}));
  EXPECT_EQ(geometry.output_width, 7u);
  EXPECT_EQ(geometry.output_height, 9u);
}

// Sides and offsets as torchvision computes them: Resize(256) makes 341 x 256 of 500 x 375, and
// CenterCrop(224) begins at round(58.5) = 58 and 16.
TEST(Geometry, CenterCrop) {
  const Geometry geometry = CenterCrop({500, 375}, 256, 224);
  EXPECT_EQ(geometry.output_width, 224u);
  EXPECT_EQ(geometry.content_height, 224u);
  EXPECT_DOUBLE_EQ(geometry.source.x, 58 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(geometry.source.y, 16 * 375.0 / 256);
  EXPECT_DOUBLE_EQ(geometry.source.width, 224 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(geometry.source.height, 224 * 375.0 / 256);
  // Upright it is 375 wide.
  const Geometry turned = CenterCrop({500, 375, 6}, 256, 224);
  EXPECT_DOUBLE_EQ(turned.source.y, 58 * 500.0 / 341);
  EXPECT_DOUBLE_EQ(turned.source.x, 16 * 375.0 / 256);
  EXPECT_EQ(CenterCrop({300, 300}, 100, 100).source, (Box{0, 0, 300, 300}));
  EXPECT_EQ(CheckGeometry(CenterCrop({300, 200}, 100, 101)).code(), kInvalid);
  for (uint32_t width = 1; width < 60; ++width) {
    for (uint32_t height = 1; height < 60; height += 7) {
      for (const uint32_t size : {1u, 2u, 31u, 224u}) {
        EXPECT_TRUE(CheckGeometry(CenterCrop({width, height}, size, size)).ok());
      }
    }
  }
}

TEST(Geometry, ResizeLongestSide) {
  Geometry geometry = ResizeLongestSide({2250, 1500}, 1024);
  EXPECT_EQ(geometry.content_width, 1024u);
  EXPECT_EQ(geometry.content_height, 683u);  // 682.67
  EXPECT_EQ(geometry.output_height, 1024u);
  EXPECT_EQ(geometry.source, (Box{0, 0, 2250, 1500}));
  geometry = ResizeLongestSide({2250, 1500, 5}, 1024);
  EXPECT_EQ(geometry.content_width, 683u);
  EXPECT_EQ(geometry.content_height, 1024u);
  EXPECT_EQ(ResizeLongestSide({5000, 1}, 100).content_height, 1u);
}

TEST(Geometry, Letterbox) {
  Geometry geometry = Letterbox({640, 427}, 640, 640);
  EXPECT_EQ(geometry.content_width, 640u);
  EXPECT_EQ(geometry.content_height, 427u);
  EXPECT_EQ(geometry.content_left, 0u);
  EXPECT_EQ(geometry.content_top, 106u);          // and 107 below
  geometry = Letterbox({640, 427, 6}, 320, 240);  // upright 427 x 640
  EXPECT_EQ(geometry.content_width, 160u);
  EXPECT_EQ(geometry.content_height, 240u);
  EXPECT_EQ(geometry.content_left, 80u);
  EXPECT_EQ(MapPoint(geometry, {0, 427}), (Point{80, 0}));
  EXPECT_EQ(Letterbox({5000, 1}, 100, 50).content_height, 1u);
  EXPECT_EQ(CheckGeometry(Letterbox({10, 10}, 0, 5)).code(), kInvalid);
}

TEST(Geometry, RandomCrop) {
  // CIFAR: all 81 places, and no other.
  std::set<std::pair<double, double>> places;
  for (uint64_t sample = 0; sample < 3000; ++sample) {
    AugmentationRandom random(1, 2, sample);
    const Geometry geometry = RandomCrop({32, 32}, 32, 32, random, {.padding = 4});
    ASSERT_TRUE(CheckGeometry(geometry).ok());
    EXPECT_EQ(geometry.source.width, geometry.content_width);
    EXPECT_EQ(geometry.source.height, geometry.content_height);
    const double x = geometry.source.x - geometry.content_left, y = geometry.source.y - geometry.content_top;
    EXPECT_LE(std::abs(x), 4);
    // What is cut off at one side is padding at the other.
    EXPECT_EQ(geometry.content_width, 32 - std::abs(x));
    EXPECT_EQ(geometry.content_height, 32 - std::abs(y));
    places.insert({x, y});
  }
  EXPECT_EQ(places.size(), 81u);
  // An image that is smaller than the crop is whole, with its padding around it.
  std::set<uint32_t> lefts;
  for (uint64_t sample = 0; sample < 300; ++sample) {
    AugmentationRandom random(1, 3, sample);
    const Geometry geometry = RandomCrop({20, 50}, 32, 32, random, {.padding = 3});
    ASSERT_TRUE(CheckGeometry(geometry).ok());
    EXPECT_EQ(geometry.content_width, 20u);
    lefts.insert(geometry.content_left);
  }
  EXPECT_EQ(lefts, (std::set<uint32_t>{3, 4, 5, 6, 7, 8, 9}));
  for (uint32_t width = 1; width < 60; width += 3) {
    for (uint32_t height = 1; height < 60; height += 2) {
      AugmentationRandom random(5, width, height);
      const Geometry geometry =
          RandomCrop({width, height, 6}, 16, 20, random, {.padding = width % 16, .min_zoom = 0.01, .max_zoom = 9});
      ASSERT_TRUE(CheckGeometry(geometry).ok()) << width << " " << height;
      EXPECT_NEAR(geometry.source.width / geometry.content_width, geometry.source.height / geometry.content_height,
                  std::max(height, width));
    }
  }
  AugmentationRandom random(5, 5, 5);
  const Geometry zoomed = RandomCrop({100, 50}, 40, 40, random, {.min_zoom = 2, .max_zoom = 2});
  EXPECT_EQ(zoomed.source.width, 20);
  EXPECT_EQ(zoomed.source.height, 20);
}

// The boxes come from torchvision's get_params, with these random numbers in place of its own.
TEST(Geometry, RandomResizedCrop) {
  const std::array<Box, 4> expected = {
      Box{12, 60, 408, 307}, {13, 32, 175, 170}, {137, 1, 202, 219}, {186, 66, 178, 206}};
  for (uint64_t sample = 0; sample < expected.size(); ++sample) {
    AugmentationRandom random(42, 3, sample);
    const Geometry geometry = RandomResizedCrop({500, 375}, 224, 112, random);
    EXPECT_EQ(geometry.source, expected[sample]);
    EXPECT_EQ(geometry.content_width, 224u);
    EXPECT_EQ(geometry.output_height, 112u);
    AugmentationRandom again(42, 3, sample);
    EXPECT_EQ(RandomResizedCrop({375, 500, 8}, 1, 1, again).source, expected[sample]);
  }
  AugmentationRandom random(9, 9, 9);
  EXPECT_EQ(RandomResizedCrop({2250, 1500}, 8, 8, random).source, (Box{546, 392, 1320, 1065}));
  // Nothing fits: the crop is taken from the middle.
  const RandomResizedCropOptions most{.min_scale = 0.9};
  AugmentationRandom wide(1, 1, 1), high(1, 1, 1);
  EXPECT_EQ(RandomResizedCrop({1000, 10}, 8, 8, wide, most).source, (Box{493, 0, 13, 10}));
  EXPECT_EQ(RandomResizedCrop({10, 1000}, 8, 8, high, most).source, (Box{0, 493, 10, 13}));
  for (uint32_t width = 1; width < 40; width += 3) {
    for (uint32_t height = 1; height < 40; height += 2) {
      AugmentationRandom any(5, width, height);
      EXPECT_TRUE(CheckGeometry(RandomResizedCrop({width, height}, 8, 8, any)).ok());
    }
  }
}

TEST(Geometry, Check) {
  const Geometry sound = ResizeLongestSide({30, 20}, 16);
  ASSERT_TRUE(CheckGeometry(sound).ok());
  const auto refused = [&](auto change) {
    Geometry geometry = sound;
    change(geometry);
    return CheckGeometry(geometry).code() == kInvalid;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(refused([](Geometry& g) { g.stored_width = 0; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.stored_height = kMaxImageSide + 1; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.content_width = 0; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.output_height = 0; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.output_height = kMaxImageSide + 1; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.content_width = 17; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.content_height = 17; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.content_left = 1; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.content_top = UINT32_MAX; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.orientation = 0; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.orientation = 9; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.orientation = 5; }));  // then the box is too wide
  EXPECT_TRUE(refused([](Geometry& g) { g.source.width = 0; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.source.width = 30.001; }));
  EXPECT_TRUE(refused([](Geometry& g) { g.source.y = -0.001; }));
  EXPECT_TRUE(refused([&](Geometry& g) { g.source.x = nan; }));
  EXPECT_TRUE(refused([&](Geometry& g) { g.source.height = nan; }));
  EXPECT_FALSE(refused([](Geometry& g) { g.source.width = 30 + 1e-9; }));
  for (const StoredSize& stored : {StoredSize{0, 5}, StoredSize{5, 0}, StoredSize{5, 5, 9}, StoredSize{5, 5, -1}}) {
    AugmentationRandom random(1, 1, 1);
    for (const Geometry& geometry :
         {FullImage(stored), Resize(stored, 3, 3), CenterCrop(stored, 3, 3), ResizeLongestSide(stored, 3),
          RandomResizedCrop(stored, 3, 3, random), CenterCrop({5, 5}, 0, 3), CenterCrop({5, 5}, 3, 0),
          Resize({5, 5}, 0, 3), ResizeLongestSide({5, 5}, 0), RandomResizedCrop({5, 5}, 3, 0, random)}) {
      EXPECT_EQ(CheckGeometry(geometry).code(), kInvalid);
    }
  }
}

// EXIF's rule for row 0 and column 0 of the stored image, at its corner (0, 0) and its end (40, 30).
TEST(Geometry, PointsAndBoxes) {
  struct Case {
    int orientation;
    Point corner, end;
  };
  for (const Case& c :
       {Case{1, {0, 0}, {40, 30}}, Case{2, {40, 0}, {0, 30}}, Case{3, {40, 30}, {0, 0}}, Case{4, {0, 30}, {40, 0}},
        Case{5, {0, 0}, {30, 40}}, Case{6, {30, 0}, {0, 40}}, Case{7, {30, 40}, {0, 0}}, Case{8, {0, 40}, {30, 0}}}) {
    Geometry geometry = FullImage({40, 30, c.orientation});
    EXPECT_EQ(MapPoint(geometry, {0, 0}), c.corner) << c.orientation;
    EXPECT_EQ(MapPoint(geometry, {40, 30}), c.end) << c.orientation;
    geometry = FlipHorizontal(geometry);
    EXPECT_EQ(MapPoint(geometry, {0, 0}), (Point{geometry.upright_width() - c.corner.x, c.corner.y}));
  }
  // 20 x 10 pixels from (10, 5), scaled to 40 x 30 in the corner of a larger output.
  Geometry geometry = FullImage({40, 30});
  geometry.source = {10, 5, 20, 10};
  geometry.output_width = 100;
  EXPECT_EQ(MapPoint(geometry, {15, 10}), (Point{10, 15}));
  EXPECT_EQ(MapBox(geometry, {15, 10, 5, 2}), (Box{10, 15, 10, 6}));
  geometry.flip = true;
  EXPECT_EQ(MapPoint(geometry, {15, 10}), (Point{30, 15}));
  EXPECT_EQ(MapBox(geometry, {15, 10, 5, 2}), (Box{20, 15, 10, 6}));
  EXPECT_EQ(MapPoint(geometry, {0, 0}), (Point{60, -15}));
}

}  // namespace
}  // namespace shardkit
