// Masks and label maps through geometries, compared with a model that visits each pixel of the dense mask.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "codec_support.h"
#include "each_target.h"
#include "png_maker.h"
#include "shardkit/image.h"
#include "support/effort.h"

namespace shardkit {
namespace {

class Rasterize : public testing::OnEachTarget {};
SHARDKIT_ON_EACH_TARGET(Rasterize);

// The position of an upright pixel in the stored mask, for each orientation (Exif 2.32, 4.6.4).
std::pair<uint32_t, uint32_t> Stored(const Geometry& geometry, uint32_t x, uint32_t y) {
  const uint32_t right = geometry.stored_width - 1, bottom = geometry.stored_height - 1;
  switch (geometry.orientation) {
    case 1:
      return {x, y};
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    default:
      return {right - y, x};
  }
}

// The header's definition, literally.
template <typename T>
std::vector<T> ExpectedPixels(const std::vector<T>& stored, const Geometry& geometry, T fill = 0) {
  std::vector<T> out(size_t{geometry.output_width} * geometry.output_height, fill);
  for (uint32_t y = 0; y < geometry.content_height; ++y) {
    for (uint32_t x = 0; x < geometry.content_width; ++x) {
      const Box& box = geometry.source;
      const uint32_t mirrored = geometry.flip ? geometry.content_width - 1 - x : x;
      const double column = std::floor(box.x + (mirrored + 0.5) * box.width / geometry.content_width);
      const double row = std::floor(box.y + (y + 0.5) * box.height / geometry.content_height);
      const auto [sx, sy] = Stored(geometry, std::min(static_cast<uint32_t>(column), geometry.upright_width() - 1),
                                   std::min(static_cast<uint32_t>(row), geometry.upright_height() - 1));
      out[size_t{geometry.content_top + y} * geometry.output_width + geometry.content_left + x] =
          stored[size_t{sy} * geometry.stored_width + sx];
    }
  }
  return out;
}

std::vector<uint8_t> Pack(const std::vector<uint8_t>& dense, uint32_t width) {
  const size_t row_bytes = PackedRowBytes(width);
  std::vector<uint8_t> packed(dense.size() / width * row_bytes);
  for (size_t i = 0; i < dense.size(); ++i) {
    packed[i / width * row_bytes + i % width / 8] |= static_cast<uint8_t>(dense[i] << (i % width % 8));
  }
  return packed;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint32_t Between(uint32_t low, uint32_t high) { return low + static_cast<uint32_t>(engine_() % (high - low + 1)); }
  double Real(double low, double high) { return std::uniform_real_distribution<>(low, high)(engine_); }

  // Noise of any density, long runs, or a blob.
  std::vector<uint8_t> Mask(uint32_t width, uint32_t height) {
    std::vector<uint8_t> pixels(size_t{width} * height);
    const uint32_t kind = Between(0u, 3u);
    const double density = Real(0.0, 1.0);
    const double center_x = Real(0.0, width), center_y = Real(0.0, height), radius = Real(1.0, height);
    for (size_t i = 0; i < pixels.size(); ++i) {
      const double x = static_cast<double>(i % width) - center_x, y = static_cast<double>(i / width) - center_y;
      pixels[i] = kind == 0   ? Real(0.0, 1.0) < density
                  : kind == 1 ? x * x + y * y < radius * radius
                  : kind == 2 ? x > 0
                              : density < 0.5;
    }
    return pixels;
  }

  Geometry Any(uint32_t width, uint32_t height) {
    Geometry geometry = FullImage({width, height, static_cast<int>(Between(1u, 8u))});
    if (Between(0u, 3u) != 0) {
      Box& box = geometry.source;
      const bool whole = Between(0u, 1u) != 0;
      const auto round = [&](double value) { return whole ? std::floor(value) : value; };
      box.x = round(Real(0.0, geometry.upright_width() - 0.01));
      box.y = round(Real(0.0, geometry.upright_height() - 0.01));
      box.width = std::max(round(Real(0.0, geometry.upright_width() - box.x)), 0.01);
      box.height = std::max(round(Real(0.0, geometry.upright_height() - box.y)), 0.01);
    }
    if (Between(0u, 4u) != 0) {
      geometry.content_width = Between(1u, 200u);
      geometry.content_height = Between(1u, 90u);
    }
    geometry.content_left = Between(0u, 1u) * Between(0u, 40u);
    geometry.content_top = Between(0u, 1u) * Between(0u, 40u);
    geometry.output_width = geometry.content_left + geometry.content_width + Between(0u, 1u) * Between(0u, 80u);
    geometry.output_height = geometry.content_top + geometry.content_height + Between(0u, 1u) * Between(0u, 30u);
    geometry.flip = Between(0u, 1u) != 0;
    return geometry;
  }

 private:
  std::mt19937_64 engine_;
};

TEST_P(Rasterize, EqualsModel) {
  Random random(11);
  MaskRasterizer rasterizer;
  for (int round = 0; round < test::Thinned(4000); ++round) {
    const uint32_t width = random.Between(1u, round % 9 == 0 ? 300u : 90u), height = random.Between(1u, 80u);
    const std::vector<uint8_t> stored = random.Mask(width, height);
    const Rle mask = EncodeDense(stored, height, width).value();
    const Geometry geometry = random.Any(width, height);
    SCOPED_TRACE(::testing::Message() << "round " << round << ", orientation " << geometry.orientation);
    ASSERT_EQ(rasterizer.SetGeometry(geometry), absl::OkStatus());
    const std::vector<uint8_t> expected = ExpectedPixels(stored, geometry);
    std::vector<uint8_t> dense(expected.size(), 77);
    ASSERT_EQ(rasterizer.Dense(mask, dense), absl::OkStatus());
    ASSERT_EQ(dense, expected);
    const std::vector<uint8_t> packed = Pack(expected, geometry.output_width);
    std::vector<uint8_t> bits(packed.size(), 77);
    ASSERT_EQ(rasterizer.Packed(mask, bits), absl::OkStatus());
    ASSERT_EQ(bits, packed);
    if (round % 50 != 0) continue;
    std::ranges::fill(dense, 77);
    ASSERT_TRUE(RasterizeMask(mask, geometry, dense).ok());
    EXPECT_EQ(dense, expected);
    std::ranges::fill(bits, 77);
    ASSERT_TRUE(RasterizeMaskPacked(mask, geometry, bits).ok());
    EXPECT_EQ(bits, packed);
  }
}

// Runs of length 0, and empty masks.
TEST_P(Rasterize, UnusualRuns) {
  const Geometry geometry = FlipHorizontal(Resize({4, 3, 6}, 6, 8));
  std::vector<uint8_t> out(48, 9);
  ASSERT_TRUE(RasterizeMask(Rle{3, 4, {12}}, geometry, out).ok());
  EXPECT_EQ(out, std::vector<uint8_t>(48, 0));
  ASSERT_TRUE(RasterizeMask(Rle{3, 4, {0, 12}}, geometry, out).ok());
  EXPECT_EQ(out, std::vector<uint8_t>(48, 1));
  const Rle split{3, 4, {2, 1, 0, 3, 0, 0, 4, 2, 0, 0}};
  const Rle joined{3, 4, {2, 4, 4, 2}};
  std::vector<uint8_t> other(48);
  ASSERT_TRUE(RasterizeMask(split, geometry, out).ok());
  ASSERT_TRUE(RasterizeMask(joined, geometry, other).ok());
  EXPECT_EQ(out, other);
}

TEST_P(Rasterize, IdentityIsDecodeDense) {
  Random random(12);
  const std::vector<uint8_t> stored = random.Mask(71, 33);
  const Rle mask = EncodeDense(stored, 33, 71).value();
  std::vector<uint8_t> dense(stored.size());
  ASSERT_TRUE(RasterizeMask(mask, FullImage({71, 33}), dense).ok());
  EXPECT_EQ(dense, stored);
}

TEST_P(Rasterize, Refusals) {
  MaskRasterizer rasterizer;
  std::vector<uint8_t> out(12);
  const Rle mask{3, 4, {5, 7}};
  EXPECT_EQ(rasterizer.Dense(mask, out).code(), kInvalid);
  EXPECT_EQ(rasterizer.Packed(mask, out).code(), kInvalid);
  EXPECT_EQ(rasterizer.SetGeometry(Resize({4, 3}, 0, 1)).code(), kInvalid);
  EXPECT_EQ(rasterizer.Dense(mask, out).code(), kInvalid);
  for (const bool flip : {false, true}) {
    Geometry geometry = FullImage({4, 3});
    geometry.flip = flip;
    ASSERT_TRUE(rasterizer.SetGeometry(geometry).ok());
    EXPECT_TRUE(rasterizer.Dense(mask, out).ok());
    EXPECT_TRUE(rasterizer.Packed(mask, std::span(out).first(3)).ok());
    EXPECT_EQ(rasterizer.Dense(mask, std::span(out).first(11)).code(), kInvalid);
    EXPECT_EQ(rasterizer.Packed(mask, out).code(), kInvalid);
    EXPECT_EQ(rasterizer.Dense(Rle{4, 3, {5, 7}}, out).code(), kInvalid);
    for (const Rle& bad : {Rle{3, 4, {5, 8}}, Rle{3, 4, {5, 6}}, Rle{3, 4, {}}, Rle{3, 4, {0, 0xffffffff, 13}}}) {
      EXPECT_EQ(rasterizer.Dense(bad, out).code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(rasterizer.Packed(bad, std::span(out).first(3)).code(), absl::StatusCode::kDataLoss);
    }
  }
  EXPECT_EQ(rasterizer.SetGeometry({}).code(), kInvalid);
}

// Of gray values, or with PNG_COLOR_TYPE_PALETTE of indices.
std::string MakeLabels(const std::vector<uint16_t>& numbers, uint32_t width, int color, int bits, bool interlaced) {
  const size_t sample = bits == 16 ? 2 : 1, channels = color == PNG_COLOR_TYPE_GRAY_ALPHA ? 2 : 1;
  std::vector<std::vector<png_byte>> rows(numbers.size() / width, std::vector<png_byte>(width * sample * channels));
  for (size_t i = 0; i < numbers.size(); ++i) {
    png_byte* const to = rows[i / width].data() + i % width * sample * channels;
    if (bits == 16) *to = static_cast<png_byte>(numbers[i] >> 8);
    to[sample - 1] = static_cast<png_byte>(numbers[i]);
  }
  return test::MakePng(width, color, bits, interlaced, std::move(rows), /*packing=*/true);
}

struct LabelKind {
  int color;
  int bits;
};

TEST(LabelMap, EqualsModel) {
  constexpr LabelKind kKinds[] = {{PNG_COLOR_TYPE_GRAY, 1},    {PNG_COLOR_TYPE_GRAY, 2},
                                  {PNG_COLOR_TYPE_GRAY, 4},    {PNG_COLOR_TYPE_GRAY, 8},
                                  {PNG_COLOR_TYPE_GRAY, 16},   {PNG_COLOR_TYPE_PALETTE, 1},
                                  {PNG_COLOR_TYPE_PALETTE, 2}, {PNG_COLOR_TYPE_PALETTE, 4},
                                  {PNG_COLOR_TYPE_PALETTE, 8}, {PNG_COLOR_TYPE_GRAY_ALPHA, 8}};
  Random random(13);
  for (int round = 0; round < test::Thinned(1000); ++round) {
    const LabelKind kind = kKinds[round % std::size(kKinds)];
    const uint32_t width = random.Between(1u, 60u), height = random.Between(1u, 50u);
    std::vector<uint16_t> stored(size_t{width} * height);
    for (uint16_t& number : stored) number = static_cast<uint16_t>(random.Between(0u, (1u << kind.bits) - 1));
    const std::string png = MakeLabels(stored, width, kind.color, kind.bits, round % 3 == 0);
    const Geometry geometry = random.Any(width, height);
    SCOPED_TRACE(::testing::Message() << "round " << round << ", color " << kind.color << ", bits " << kind.bits
                                      << ", orientation " << geometry.orientation);
    const std::vector<uint16_t> expected = ExpectedPixels<uint16_t>(stored, geometry, 255);
    std::vector<uint16_t> out(expected.size(), 77);
    std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(out.data()), 2 * out.size());
    ASSERT_EQ(DecodeLabelMap(png, geometry, Type::kU16, 255, 1 << 20, bytes), absl::OkStatus());
    ASSERT_EQ(out, expected);
    std::vector<int64_t> wide(expected.size(), 77);
    bytes = {reinterpret_cast<uint8_t*>(wide.data()), 8 * wide.size()};
    ASSERT_EQ(DecodeLabelMap(png, geometry, Type::kI64, -1, 1 << 20, bytes), absl::OkStatus());
    const std::vector<int64_t> signed_stored(stored.begin(), stored.end());
    ASSERT_EQ(wide, ExpectedPixels<int64_t>(signed_stored, geometry, -1));
  }
}

TEST(LabelMap, Refusals) {
  const std::string png = MakeLabels({0, 1, 2, 300, 4, 5}, 3, PNG_COLOR_TYPE_GRAY, 16, false);
  const Geometry whole = FullImage({3, 2});
  std::vector<uint8_t> out(6);
  const auto code = [&](std::string_view bytes, const Geometry& geometry, Type dtype, int64_t fill, uint64_t memory) {
    std::vector<uint8_t> room(uint64_t{6} * std::max(ScalarSize(dtype), 1u));
    return DecodeLabelMap(bytes, geometry, dtype, fill, memory, room).code();
  };
  EXPECT_EQ(code(png, whole, Type::kU16, 255, 100), absl::StatusCode::kOk);
  EXPECT_EQ(code(png, whole, Type::kU8, 255, 100), absl::StatusCode::kOutOfRange) << "300 does not fit";
  EXPECT_EQ(code(png, whole, Type::kI16, 255, 100), absl::StatusCode::kOk);
  EXPECT_EQ(code(png, whole, Type::kI8, 255, 100), kInvalid) << "nor does the fill";
  EXPECT_EQ(code(png, whole, Type::kU16, -1, 100), kInvalid);
  EXPECT_EQ(code(png, whole, Type::kI8, -128, 100), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(png, whole, Type::kI8, -129, 100), kInvalid);
  EXPECT_EQ(code(png, whole, Type::kF32, 0, 100), kInvalid);
  EXPECT_EQ(code(png, whole, Type::kU16, 255, 12), absl::StatusCode::kOk);
  EXPECT_EQ(code(png, whole, Type::kU16, 255, 11), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(png, FullImage({2, 3}), Type::kU16, 255, 100), kInvalid) << "another size";
  EXPECT_EQ(code(png, Resize({3, 2}, 4, 2), Type::kU16, 255, 100), kInvalid) << "another output";
  EXPECT_EQ(code(png, {}, Type::kU16, 255, 100), kInvalid);
  EXPECT_EQ(code("\xff\xd8\xff", whole, Type::kU16, 255, 100), kInvalid) << "a JPEG";
  EXPECT_EQ(code("", whole, Type::kU16, 255, 100), kInvalid);
  for (size_t length = 33; length < png.size(); ++length) {
    EXPECT_EQ(code(png.substr(0, length), whole, Type::kU16, 255, 100), absl::StatusCode::kDataLoss) << length;
  }
}

}  // namespace
}  // namespace shardkit
