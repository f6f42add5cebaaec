// Conversions by the twins (kernels_host.cc) and by the kernels' bodies, compared with the functions of image.h and
// rle.h, which do the same one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/image/pixel_values.h"
#include "conversion_support.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"
#include "support/effort.h"

namespace shardkit::gpu::test {
namespace {

// Any geometry of these sizes. An output size of 0 means that the size follows from the content.
Geometry AnyGeometry(Random& random, uint32_t stored_width, uint32_t stored_height, uint32_t output_width,
                     uint32_t output_height) {
  Geometry geometry = FullImage({stored_width, stored_height, static_cast<int>(random.Between(1, 8))});
  if (random.Between(0, 3) != 0) {
    Box& box = geometry.source;
    const bool whole = random.Coin();
    const auto round = [&](double value) { return whole ? std::floor(value) : value; };
    box.x = round(random.Real(0.0, geometry.upright_width() - 0.01));
    box.y = round(random.Real(0.0, geometry.upright_height() - 0.01));
    box.width = std::max(round(random.Real(0.0, geometry.upright_width() - box.x)), 0.01);
    box.height = std::max(round(random.Real(0.0, geometry.upright_height() - box.y)), 0.01);
  }
  if (output_width == 0) {
    if (random.Between(0, 4) != 0) {
      geometry.content_width = random.Between(1, 150);
      geometry.content_height = random.Between(1, 90);
    }
    geometry.content_left = random.Coin() ? random.Between(0, 40) : 0;
    geometry.content_top = random.Coin() ? random.Between(0, 40) : 0;
    geometry.output_width =
        geometry.content_left + geometry.content_width + (random.Coin() ? random.Between(0, 60) : 0);
    geometry.output_height =
        geometry.content_top + geometry.content_height + (random.Coin() ? random.Between(0, 30) : 0);
  } else {
    geometry.output_width = output_width;
    geometry.output_height = output_height;
    geometry.content_width = random.Coin() ? output_width : random.Between(1, output_width);
    geometry.content_height = random.Coin() ? output_height : random.Between(1, output_height);
    geometry.content_left = random.Between(0, output_width - geometry.content_width);
    geometry.content_top = random.Between(0, output_height - geometry.content_height);
  }
  geometry.flip = random.Coin();
  return geometry;
}

// Noise of any density, long runs, a blob, or nothing.
std::vector<uint8_t> AnyMask(Random& random, uint32_t width, uint32_t height) {
  std::vector<uint8_t> pixels(size_t{width} * height);
  const uint32_t kind = random.Between(0, 4);
  const double density = random.Real(0, 1);
  const double center_x = random.Real(0, width), center_y = random.Real(0, height), radius = random.Real(1, height + 1);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const double x = static_cast<double>(i % width) - center_x, y = static_cast<double>(i / width) - center_y;
    pixels[i] = kind == 0   ? random.Real(0, 1) < density
                : kind == 1 ? x * x + y * y < radius * radius
                : kind == 2 ? x > 0
                : kind == 3 ? density < 0.5
                            : std::fabs(y) < 2;
  }
  return pixels;
}

// ---- Masks ----

struct MaskBatch {
  RleList masks;
  std::vector<uint64_t> offsets{0};
  std::vector<uint64_t> shapes;
  std::vector<Geometry> geometries;

  BatchColumn Column() {
    BatchColumn column;
    column.name = "masks";
    column.layout = BatchLayout::kMaskRuns;
    column.dtype = Type::kU32;
    column.values = {reinterpret_cast<uint8_t*>(masks.runs.data()), masks.runs.size() * 4};
    column.offsets = offsets;
    column.item_offsets = masks.run_begin;
    column.shapes = shapes;
    column.shape_rank = 2;
    column.geometries = geometries;
    return column;
  }

  void Add(const Rle& mask, const Geometry& geometry) {
    masks.Append(mask);
    shapes.insert(shapes.end(), {mask.height, mask.width});
    geometries.push_back(geometry);
  }
};

TEST(MaskConversion, EqualsTheFunctionsForOneMask) {
  Random random(1);
  for (int round = 0; round < shardkit::test::Thinned(400); ++round) {
    MaskBatch batch;
    const bool packed = random.Coin(), fixed = random.Coin(), padded = fixed && random.Coin();
    const uint32_t width = fixed ? random.Between(1, 300) : 0, height = fixed ? random.Between(1, 120) : 0;
    const uint32_t samples = random.Between(0, 4);
    uint64_t most = 0;
    for (uint32_t i = 0; i < samples; ++i) {
      Geometry geometry;
      const uint32_t count = random.Between(0, 4);
      for (uint32_t mask = 0; mask < count; ++mask) {
        if (mask == 0 || random.Between(0, 3) == 0) {
          const uint32_t stored_width = random.Between(1, 150), stored_height = random.Between(1, 100);
          geometry = AnyGeometry(random, stored_width, stored_height, width, height);
          if (!fixed && random.Between(0, 2) == 0) geometry = FullImage({stored_width, stored_height, 1});
        }
        ASSERT_TRUE(CheckGeometry(geometry).ok());
        batch.Add(*EncodeDense(AnyMask(random, geometry.stored_width, geometry.stored_height), geometry.stored_height,
                               geometry.stored_width),
                  geometry);
      }
      batch.offsets.push_back(batch.masks.size());
      most = std::max<uint64_t>(most, count);
    }
    const auto conversion = loader::NewMaskConversion(packed, padded, height, width);
    const Converted converted = ConvertEveryWay(*conversion, batch.Column());
    const loader::DeviceLayout& plan = converted.plan;
    ASSERT_EQ(plan.layout, BatchLayout::kMasks);
    ASSERT_EQ(plan.dtype, Type::kU8);
    ASSERT_EQ(plan.shape_rank, 2u);
    ASSERT_EQ(plan.offsets, batch.offsets);
    ASSERT_EQ(plan.output_bytes, converted.bytes.size());
    const uint64_t row_bytes = packed ? PackedRowBytes(width) : width;
    if (padded) {
      ASSERT_EQ(plan.shape, (std::vector<uint64_t>{samples, most, height, row_bytes}));
      ASSERT_TRUE(plan.item_offsets.empty());
    } else {
      ASSERT_EQ(plan.item_offsets.size(), batch.masks.size() + 1);
      ASSERT_EQ(plan.item_offsets.back(), plan.output_bytes);
      ASSERT_EQ(plan.shape,
                fixed ? (std::vector<uint64_t>{batch.masks.size(), height, row_bytes}) : std::vector<uint64_t>());
    }
    std::vector<bool> seen(converted.bytes.size());
    for (uint32_t i = 0; i < samples; ++i) {
      for (uint64_t item = batch.offsets[i]; item < batch.offsets[i + 1]; ++item) {
        const Geometry& geometry = batch.geometries[item];
        ASSERT_EQ(plan.shapes[2 * item], geometry.output_height);
        ASSERT_EQ(plan.shapes[2 * item + 1], geometry.output_width);
        std::vector<uint8_t> expected(geometry.output_height *
                                      (packed ? PackedRowBytes(geometry.output_width) : geometry.output_width));
        ASSERT_TRUE((packed ? shardkit::RasterizeMaskPacked(batch.masks[item], geometry, expected)
                            : shardkit::RasterizeMask(batch.masks[item], geometry, expected))
                        .ok());
        const uint64_t place =
            padded ? (i * most + item - batch.offsets[i]) * expected.size() : plan.item_offsets[item];
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), converted.bytes.begin() + static_cast<int64_t>(place)))
            << "round " << round << " mask " << item;
        std::fill_n(seen.begin() + static_cast<int64_t>(place), expected.size(), true);
      }
    }
    for (size_t i = 0; i < seen.size(); ++i) ASSERT_TRUE(seen[i] || (padded && converted.bytes[i] == 0));
  }
}

TEST(MaskConversion, RefusesWhatDoesNotFit) {
  MaskBatch batch;
  batch.Add(*EncodeDense(std::vector<uint8_t>(12, 1), 3, 4), FullImage({4, 3, 1}));
  batch.Add(*EncodeDense(std::vector<uint8_t>(12, 1), 3, 4), FullImage({4, 3, 1}));
  batch.offsets.push_back(2);
  const auto prepare = [](const BatchColumn& column, bool padded, uint32_t height, uint32_t width) {
    return loader::NewMaskConversion(false, padded, height, width)->Prepare(column).status();
  };
  const BatchColumn good = batch.Column();
  EXPECT_TRUE(prepare(good, false, 0, 0).ok());
  EXPECT_TRUE(prepare(good, true, 3, 4).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good, true, 0, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good, false, 4, 4)));
  const std::vector<uint64_t> descending = {0, 20, 2}, beyond = {0, 2, 5}, few = {0, 1}, shapes = {3, 4, 4, 3};
  std::vector<Geometry> bad = batch.geometries;
  bad[1].orientation = 9;
  const auto change = [&](auto&& function) {
    BatchColumn column = good;
    function(column);
    const absl::Status status = prepare(column, false, 0, 0);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(status.message().substr(0, 14), "column \"masks\"");
  };
  change([&](BatchColumn& column) { column.layout = BatchLayout::kMasks; });
  change([&](BatchColumn& column) { column.dtype = Type::kU8; });
  change([&](BatchColumn& column) { column.geometries = {}; });
  change([&](BatchColumn& column) { column.offsets = {}; });
  change([&](BatchColumn& column) { column.offsets = few; });
  change([&](BatchColumn& column) { column.item_offsets = descending; });
  change([&](BatchColumn& column) { column.item_offsets = beyond; });
  change([&](BatchColumn& column) { column.shapes = shapes; });
  change([&](BatchColumn& column) { column.geometries = bad; });

  MaskBatch large;
  const uint32_t height = 4095, width = 1 << 20;
  for (int i = 0; i < 17; ++i) large.Add({height, width, {1, height * width - 1}}, FullImage({width, height, 1}));
  large.offsets.push_back(17);
  EXPECT_TRUE(absl::IsResourceExhausted(prepare(large.Column(), false, 0, 0)));
  large.offsets = {0, 1};
  large.masks = {};
  large.geometries.resize(1);
  large.shapes.resize(2);
  large.masks.Append(Rle{height, width, {1, height * width - 1}});
  EXPECT_TRUE(prepare(large.Column(), false, 0, 0).ok());
}

// ---- Images ----

struct ImageBatch {
  std::vector<std::string> jpegs;  // empty: absent
  std::vector<uint8_t> values;
  std::vector<uint64_t> offsets{0};
  std::vector<uint64_t> shapes;
  std::vector<Geometry> geometries;

  BatchColumn Column() {
    BatchColumn column;
    column.name = "image";
    column.layout = BatchLayout::kRagged;
    column.values = values;
    column.offsets = offsets;
    column.shapes = shapes;
    column.shape_rank = 3;
    column.geometries = geometries;
    return column;
  }

  void Add(std::string jpeg, const Geometry& geometry, int channels) {
    const auto samples = static_cast<uint64_t>(channels);
    const size_t begin = values.size();
    values.resize(begin + uint64_t{geometry.stored_height} * geometry.stored_width * samples);
    if (!jpeg.empty()) {
      ASSERT_TRUE(JpegDecoder()
                      .DecodeInto(jpeg, {values.data() + begin, geometry.stored_width, geometry.stored_height, channels,
                                         geometry.stored_width * samples})
                      .ok());
    }
    jpegs.push_back(std::move(jpeg));
    offsets.push_back(values.size());
    shapes.insert(shapes.end(), {geometry.stored_height, geometry.stored_width, samples});
    geometries.push_back(geometry);
  }
};

std::string AnyJpeg(Random& random, uint32_t width, uint32_t height) {
  std::vector<uint8_t> pixels = random.Bytes(size_t{width} * height * 3);
  for (size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<uint8_t>(pixels[i] / 4 + i / 3 % width * 5 + i / 3 / width * 3);
  std::string jpeg;
  EXPECT_TRUE(EncodeJpeg(pixels.data(), width, height, {.quality = 80, .subsample = random.Coin()}, &jpeg).ok());
  return jpeg;
}

// The pixels of all images as u8, interleaved.
std::vector<uint8_t> ByImageDecoder(const ImageBatch& batch, uint32_t width, uint32_t height, int channels,
                                    const ImageDecodeOptions& options) {
  const size_t bytes = size_t{height} * width * static_cast<size_t>(channels);
  std::vector<uint8_t> expected(bytes * batch.jpegs.size());
  for (size_t i = 0; i < batch.jpegs.size(); ++i) {
    if (batch.jpegs[i].empty()) continue;
    const absl::Status status = ImageDecoder().Decode(
        batch.jpegs[i], batch.geometries[i], options,
        {expected.data() + i * bytes, width, height, channels, width * static_cast<size_t>(channels)});
    EXPECT_TRUE(status.ok()) << status;
  }
  return expected;
}

PixelOutput AnyOutput(Random& random) {
  PixelOutput output;
  constexpr Type kTypes[] = {Type::kU8, Type::kU8, Type::kF32, Type::kF16, Type::kBf16};
  output.type = kTypes[random.Between(0, 4)];
  output.planar = output.type != Type::kU8 || random.Coin();
  for (int c = 0; c < 3; ++c) {
    output.scale[c] = static_cast<float>(random.Real(-0.1, 0.1));
    output.bias[c] = static_cast<float>(random.Real(-3, 3));
  }
  return output;
}

// Applies `output` to interleaved pixels.
std::vector<uint8_t> Through(const PixelOutput& output, const std::vector<uint8_t>& pixels, uint64_t plane,
                             int channels) {
  std::vector<uint8_t> result(pixels.size() * ScalarSize(output.type));
  const auto samples = static_cast<uint64_t>(channels);
  for (uint64_t i = 0; i < pixels.size(); ++i) {
    const uint64_t image = i / (plane * samples), place = i / samples % plane, channel = i % samples;
    const uint64_t to = output.planar ? (image * samples + channel) * plane + place : i;
    codec::WithPixelType(output.type, [&](auto pixel) {
      const auto value = decltype(pixel)::Make(output, pixels[i], static_cast<int>(channel));
      std::memcpy(result.data() + to * sizeof(value), &value, sizeof(value));
    });
  }
  return result;
}

TEST(ResampleConversion, EqualsImageDecoder) {
  Random random(2);
  for (int round = 0; round < shardkit::test::Thinned(250); ++round) {
    ImageBatch batch;
    const int channels = random.Coin() ? 1 : 3;
    const uint32_t width = random.Between(1, 100), height = random.Between(1, 80);
    const std::array<uint8_t, 3> fill = {static_cast<uint8_t>(random.Between(0, 255)), 7, 200};
    for (uint32_t i = random.Between(0, 4); i > 0; --i) {
      if (random.Between(0, 5) == 0) {
        batch.Add("", Geometry{}, channels);
        continue;
      }
      const uint32_t stored_width = random.Between(1, 160), stored_height = random.Between(1, 120);
      Geometry geometry = AnyGeometry(random, stored_width, stored_height, width, height);
      switch (random.Between(0, 5)) {
        case 0: {  // the identity
          geometry = FullImage({width, height, 1});
          break;
        }
        case 1: {  // the identity, padded
          const uint32_t content_width = random.Between(1, width), content_height = random.Between(1, height);
          geometry = FullImage({content_width, content_height, 1});
          geometry.output_width = width;
          geometry.output_height = height;
          geometry.content_left = random.Between(0, width - content_width);
          break;
        }
        default:
          break;
      }
      ASSERT_TRUE(CheckGeometry(geometry).ok());
      batch.Add(AnyJpeg(random, geometry.stored_width, geometry.stored_height), geometry, channels);
      if (random.Between(0, 3) == 0) batch.Add(batch.jpegs.back(), geometry, channels);
    }
    const PixelOutput output = AnyOutput(random);
    const ImageDecodeOptions options{
        .scaled_decode = false,
        .interpolation = random.Coin() ? Interpolation::kBicubic : Interpolation::kBilinear,
        .fill = fill};
    const auto conversion = loader::NewResampleConversion(output, height, width, channels, options);
    const Converted converted = ConvertEveryWay(*conversion, batch.Column());
    const uint64_t n = batch.jpegs.size(), samples = static_cast<uint64_t>(channels);
    ASSERT_EQ(converted.plan.layout, BatchLayout::kTensor);
    ASSERT_EQ(converted.plan.dtype, output.type);
    ASSERT_EQ(converted.plan.shape, output.planar ? (std::vector<uint64_t>{n, samples, height, width})
                                                  : (std::vector<uint64_t>{n, height, width, samples}));
    const std::vector<uint8_t> expected = ByImageDecoder(batch, width, height, channels, options);
    ASSERT_TRUE(converted.bytes == Through(output, expected, uint64_t{width} * height, channels)) << "round " << round;
  }
}

TEST(ResampleConversion, RefusesWhatDoesNotFit) {
  Random random(3);
  ImageBatch batch;
  batch.Add(AnyJpeg(random, 20, 10), Resize({20, 10, 1}, 8, 9), 3);
  PixelOutput output;
  const auto prepare = [&](const BatchColumn& column, uint32_t height, uint32_t width, int channels) {
    return loader::NewResampleConversion(output, height, width, channels, {})->Prepare(column).status();
  };
  const BatchColumn good = batch.Column();
  EXPECT_TRUE(prepare(good, 9, 8, 3).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good, 8, 9, 3)));
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good, 9, 8, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good, 9, 8, 2)));
  output.type = Type::kF32;
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good, 9, 8, 3)));  // not planar
  output.type = Type::kF64;
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good, 9, 8, 3)));
  output.type = Type::kU8;
  const std::vector<uint64_t> shapes = {10, 21, 3}, offsets = {1, 601}, few = {0};
  std::vector<Geometry> bad = batch.geometries;
  bad[0].source.width = 30;
  const auto change = [&](auto&& function) {
    BatchColumn column = good;
    function(column);
    const absl::Status status = prepare(column, 9, 8, 3);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  };
  change([&](BatchColumn& column) { column.layout = BatchLayout::kTensor; });
  change([&](BatchColumn& column) { column.dtype = Type::kU16; });
  change([&](BatchColumn& column) { column.geometries = {}; });
  change([&](BatchColumn& column) { column.offsets = offsets; });
  change([&](BatchColumn& column) { column.offsets = few; });
  change([&](BatchColumn& column) { column.shapes = shapes; });
  change([&](BatchColumn& column) { column.geometries = bad; });
  change([&](BatchColumn& column) { column.values = column.values.first(599); });

  ImageBatch large;
  for (int i = 0; i < 65; ++i) {
    large.Add("", Resize({0, 0, 1}, 0, 0), 3);
  }
  output.type = Type::kU8;
  EXPECT_TRUE(absl::IsResourceExhausted(prepare(large.Column(), 1 << 15, 1 << 15, 3)));
  EXPECT_TRUE(absl::IsResourceExhausted(prepare(large.Column(), UINT32_MAX, UINT32_MAX, 3)));
}

TEST(NormalizeConversion, MakesPlanes) {
  Random random(4);
  for (int round = 0; round < shardkit::test::Thinned(100); ++round) {
    const uint64_t n = random.Between(0, 4), height = random.Between(1, 50), width = random.Between(1, 50);
    const int channels = random.Coin() ? 1 : 3;
    const auto samples = static_cast<uint64_t>(channels);
    std::vector<uint8_t> pixels = random.Bytes(n * height * width * samples);
    BatchColumn column;
    column.name = "image";
    column.shape = {n, height, width, samples};
    column.values = pixels;
    PixelOutput output = AnyOutput(random);
    output.planar = true;
    const Converted converted = ConvertEveryWay(*loader::NewNormalizeConversion(output), column);
    ASSERT_EQ(converted.plan.shape, (std::vector<uint64_t>{n, samples, height, width}));
    ASSERT_EQ(converted.plan.dtype, output.type);
    ASSERT_TRUE(converted.bytes == Through(output, pixels, height * width, channels));
  }
}

TEST(NormalizeConversion, RefusesWhatDoesNotFit) {
  std::vector<uint8_t> pixels(24);
  BatchColumn good;
  good.name = "image";
  good.shape = {2, 2, 2, 3};
  good.values = pixels;
  PixelOutput output;
  output.planar = true;
  const auto prepare = [&](const BatchColumn& column) {
    return loader::NewNormalizeConversion(output)->Prepare(column).status();
  };
  EXPECT_TRUE(prepare(good).ok());
  for (const std::vector<uint64_t>& shape : std::vector<std::vector<uint64_t>>{
           {2, 2, 6}, {2, 2, 3, 2}, {2, 2, 2, UINT64_MAX}, {1, 2, 2, 3}, {2, uint64_t{1} << 40, 1, 3}, {}}) {
    BatchColumn column = good;
    column.shape = shape;
    EXPECT_TRUE(absl::IsInvalidArgument(prepare(column))) << shape.size();
  }
  BatchColumn column = good;
  column.shape = {UINT64_MAX, UINT32_MAX, 2, 3};
  EXPECT_TRUE(absl::IsResourceExhausted(prepare(column)));
  column = good;
  column.dtype = Type::kU16;
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(column)));
  output.planar = false;
  EXPECT_TRUE(absl::IsInvalidArgument(prepare(good)));
}

}  // namespace
}  // namespace shardkit::gpu::test
