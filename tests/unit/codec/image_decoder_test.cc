// JPEG to training input, compared with the same done step by step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "codec_support.h"
#include "jpeg_maker.h"
#include "shardkit/image.h"
#include "support/effort.h"

namespace shardkit {
namespace {

using testing::Image;
using testing::JpegRecipe;
using testing::MakeJpeg;
using testing::Noise;

Image DecodeAll(std::string_view jpeg, int channels) {
  const JpegInfo info = ProbeJpeg(jpeg).value();
  Image image(info.width, info.height, channels);
  EXPECT_TRUE(JpegDecoder().DecodeInto(jpeg, image.view).ok());
  return image;
}

Image Upright(const Image& image, int orientation) {
  const bool turned = orientation >= 5;
  Image out(turned ? image.view.height : image.view.width, turned ? image.view.width : image.view.height,
            image.view.channels);
  EXPECT_TRUE(ApplyOrientation(image.view, orientation, false, out.view).ok());
  return out;
}

// Decode, turn, resize, mirror and pad as separate steps.
Image StepByStep(const Image& stored, const Geometry& geometry, const ImageDecodeOptions& options) {
  const int channels = stored.view.channels;
  const Image upright = Upright(stored, geometry.orientation);
  Image content(geometry.content_width, geometry.content_height, channels);
  EXPECT_TRUE(Resizer().Resize(upright.view, geometry.source, options.interpolation, content.view).ok());
  Image out(geometry.output_width, geometry.output_height, channels);
  for (uint32_t y = 0; y < geometry.output_height; ++y) {
    for (uint32_t x = 0; x < geometry.output_width; ++x) {
      // Wraps outside.
      const uint32_t across = x - geometry.content_left, down = y - geometry.content_top;
      const bool inside = across < geometry.content_width && down < geometry.content_height;
      const uint32_t from = geometry.flip ? geometry.content_width - 1 - across : across;
      for (int c = 0; c < channels; ++c) {
        out.At(x, y)[c] = inside ? content.At(from, down)[c] : options.fill[static_cast<size_t>(c)];
      }
    }
  }
  return out;
}

int LargestDifference(const Image& a, const Image& b) {
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  return largest;
}

TEST(ApplyOrientation, EveryPixelGoesWhereExifSays) {
  for (const int channels : {1, 3}) {
    const Image image(37, 21, channels, Noise(37 * 21 * static_cast<size_t>(channels), 5));
    for (int orientation = 1; orientation <= 8; ++orientation) {
      for (const bool flip : {false, true}) {
        Geometry geometry = FullImage({37, 21, orientation});
        geometry.flip = flip;
        Image out(geometry.output_width, geometry.output_height, channels);
        ASSERT_TRUE(ApplyOrientation(image.view, orientation, flip, out.view).ok());
        for (uint32_t y = 0; y < 21; ++y) {
          for (uint32_t x = 0; x < 37; ++x) {
            // Its centre.
            const Point at = MapPoint(geometry, {x + 0.5, y + 0.5});
            const uint8_t* const found = out.At(static_cast<uint32_t>(at.x), static_cast<uint32_t>(at.y));
            ASSERT_TRUE(std::equal(found, found + channels, image.At(x, y)));
          }
        }
      }
    }
  }
  const Image image(4, 3, 3);
  Image same(4, 3, 3), gray(4, 3, 1);
  EXPECT_EQ(ApplyOrientation(image.view, 0, false, same.view).code(), kInvalid);
  EXPECT_EQ(ApplyOrientation(image.view, 9, false, same.view).code(), kInvalid);
  EXPECT_EQ(ApplyOrientation(image.view, 6, false, same.view).code(), kInvalid);
  EXPECT_EQ(ApplyOrientation(image.view, 1, false, gray.view).code(), kInvalid);
}

TEST(ImageDecoder, EqualsStepByStep) {
  std::mt19937_64 random(17);
  const auto between = [&](uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random() % (high - low + 1));
  };
  ImageDecoder decoder;
  const J_COLOR_SPACE colors[] = {JCS_YCbCr, JCS_GRAYSCALE, JCS_CMYK};
  for (int round = 0; round < test::Thinned(600); ++round) {
    JpegRecipe recipe{between(1, 150), between(1, 120), colors[round % 5 == 0 ? 1 : round % 7 == 0 ? 2 : 0]};
    recipe.h = static_cast<int>(between(1, 2));
    recipe.v = static_cast<int>(between(1, 2));
    recipe.progressive = round % 3 == 0;
    const std::string jpeg = MakeJpeg(recipe);
    Geometry geometry = FullImage({recipe.width, recipe.height, static_cast<int>(between(1, 8))});
    if (round % 4 != 0) {
      Box& box = geometry.source;
      box.x = std::uniform_real_distribution<>(0, geometry.upright_width() - 0.5)(random);
      box.y = std::uniform_real_distribution<>(0, geometry.upright_height() - 0.5)(random);
      box.width = std::uniform_real_distribution<>(0.4, geometry.upright_width() - box.x)(random);
      box.height = std::uniform_real_distribution<>(0.4, geometry.upright_height() - box.y)(random);
    }
    if (round % 6 != 0) {
      geometry.content_width = between(1, 80);
      geometry.content_height = between(1, 80);
    }
    geometry.content_left = between(0, 1) * between(0, 20);
    geometry.content_top = between(0, 1) * between(0, 20);
    geometry.output_width = geometry.content_left + geometry.content_width + between(0, 1) * between(0, 20);
    geometry.output_height = geometry.content_top + geometry.content_height + between(0, 1) * between(0, 20);
    geometry.flip = between(0, 1) != 0;
    const int channels = between(0, 2) == 0 ? 1 : 3;
    const auto interpolation = between(0, 2) == 0 ? Interpolation::kBicubic : Interpolation::kBilinear;
    const ImageDecodeOptions options{.scaled_decode = false, .interpolation = interpolation, .fill = {10, 200, 30}};
    SCOPED_TRACE(::testing::Message() << "round " << round << ", orientation " << geometry.orientation);
    // With a border around the output that must not change.
    Image canvas(geometry.output_width + 3, geometry.output_height + 2, channels);
    std::ranges::fill(canvas.pixels, 99);
    MutableImageView view = canvas.view;
    view.pixels = canvas.At(2, 1);
    view.width = geometry.output_width;
    view.height = geometry.output_height;
    ASSERT_EQ(decoder.Decode(jpeg, geometry, options, view), absl::OkStatus());
    const Image decoded = DecodeAll(jpeg, channels);
    const Image expected = StepByStep(decoded, geometry, options);
    const bool turned = geometry.orientation != 1 || geometry.flip;
    const int allowed = !turned ? 0 : interpolation == Interpolation::kBilinear ? 2 : 30;
    for (uint32_t y = 0; y < canvas.view.height; ++y) {
      for (uint32_t x = 0; x < canvas.view.width; ++x) {
        const bool inside = x >= 2 && x < 2 + view.width && y >= 1 && y < 1 + view.height;
        for (int c = 0; c < channels; ++c) {
          if (inside) {
            ASSERT_NEAR(canvas.At(x, y)[c], expected.At(x - 2, y - 1)[c], allowed) << x << " " << y;
          } else {
            ASSERT_EQ(canvas.At(x, y)[c], 99);
          }
        }
      }
    }
    // The same of pixels that are stored as they are.
    std::ranges::fill(canvas.pixels, 99);
    ASSERT_EQ(decoder.Transform(decoded.view, geometry, options, view), absl::OkStatus());
    for (uint32_t y = 0; y < view.height; ++y) {
      for (uint32_t x = 0; x < view.width; ++x) {
        for (int c = 0; c < channels; ++c) {
          ASSERT_NEAR(canvas.At(x + 2, y + 1)[c], expected.At(x, y)[c], allowed) << x << " " << y;
        }
      }
    }
  }
}

// The scaled decode is the region of the same scale, resized.
TEST(ImageDecoder, ScaledDecode) {
  const std::string jpeg = MakeJpeg({.width = 500, .height = 375});
  ImageDecoder decoder;
  struct Case {
    uint32_t size;
    Box box;
    int scale;
  };
  for (const Case& c :
       {Case{100, {50, 30, 400, 300}, 4}, Case{50, {50, 30, 400, 300}, 2}, Case{30, {0, 0, 500, 375}, 1},
        Case{201, {50.5, 30, 400, 300}, 8}, Case{150, {50.5, 30.25, 400, 300}, 4}}) {
    Geometry geometry = Resize({500, 375}, c.size, c.size);
    geometry.source = c.box;
    Image out(c.size, c.size, 3), expected(c.size, c.size, 3);
    ASSERT_TRUE(decoder.Decode(jpeg, geometry, {}, out.view).ok());
    const Image whole = testing::DecodeWholeScaled(jpeg, c.scale, JCS_RGB);
    const double scale = c.scale / 8.0;
    const Box box{c.box.x * scale, c.box.y * scale, c.box.width * scale, c.box.height * scale};
    ASSERT_TRUE(Resizer().Resize(whole.view, box, Interpolation::kBilinear, expected.view).ok());
    EXPECT_EQ(out.pixels, expected.pixels) << c.size;
    ASSERT_TRUE(decoder.Decode(jpeg, geometry, {.scaled_decode = false}, out.view).ok());
    EXPECT_EQ(LargestDifference(out, StepByStep(DecodeAll(jpeg, 3), geometry, {})), 0);
    if (c.scale != 8) {
      EXPECT_NE(out.pixels, expected.pixels);
    }
  }
}

TEST(ImageDecoder, IdentityIsDecode) {
  const std::string jpeg = MakeJpeg({.width = 61, .height = 43});
  DecodedImage whole;
  ASSERT_TRUE(JpegDecoder().Decode(jpeg, &whole).ok());
  Image out(61, 43, 3);
  ASSERT_TRUE(ImageDecoder().Decode(jpeg, FullImage({61, 43}), {}, out.view).ok());
  EXPECT_EQ(out.pixels, whole.pixels);
}

TEST(ImageDecoder, Errors) {
  ImageDecoder decoder;
  const std::string jpeg = MakeJpeg({.width = 40, .height = 30});
  Image out(40, 30, 3), small(16, 16, 3);
  const Geometry geometry = FullImage({40, 30});
  const Geometry crop = CenterCrop({40, 30}, 16, 16);
  const auto code = [&](std::string_view bytes, const Geometry& g, const ImageDecodeOptions& options,
                        const Image& image) { return decoder.Decode(bytes, g, options, image.view).code(); };
  EXPECT_EQ(code(jpeg, geometry, {}, small), kInvalid);
  EXPECT_EQ(code(jpeg, FullImage({30, 40}), {}, Image(30, 40, 3)), kInvalid);
  EXPECT_EQ(code(jpeg, CenterCrop({40, 30}, 16, 20), {}, Image(20, 20, 3)), kInvalid);
  EXPECT_EQ(code(jpeg, crop, {.max_memory = 100}, small), absl::StatusCode::kResourceExhausted);
  // Decoding directly into the output needs no other memory, except the coefficients of a progressive file: 3 x 2 MCUs
  // of 6 blocks.
  const std::string progressive = MakeJpeg({.width = 40, .height = 30, .progressive = true});
  constexpr uint64_t kCoefficients = uint64_t{3} * 2 * 6 * 128;
  EXPECT_EQ(code(jpeg, geometry, {.max_memory = 0}, out), absl::StatusCode::kOk);
  EXPECT_EQ(code(progressive, geometry, {.max_memory = kCoefficients - 1}, out), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(progressive, geometry, {.max_memory = kCoefficients}, out), absl::StatusCode::kOk);
  EXPECT_EQ(decoder.Decode("P6\n1 1\n255\nabc", crop, {}, small.view),
            absl::UnimplementedError("image: PNM is not decoded to pixels"));
  EXPECT_EQ(code("\x89PNG\r\n\x1a\n....", crop, {}, small), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code("", crop, {}, small), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code("<!DOCTYPE html>", crop, {}, small), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ProbeImage("<!DOCTYPE html>").status().code(), absl::StatusCode::kDataLoss);
  const Geometry all = Resize({40, 30}, 16, 16);
  for (size_t length = 0; length < jpeg.size(); ++length) {
    const std::string_view cut = std::string_view(jpeg).substr(0, length);
    ASSERT_EQ(code(cut, geometry, {.strict = true}, out), absl::StatusCode::kDataLoss);
    ASSERT_EQ(code(cut, all, {.strict = true}, small), absl::StatusCode::kDataLoss);
    for (const auto& [g, image] : {std::pair(&geometry, &out), std::pair(&all, &small)}) {
      const absl::StatusCode found = code(cut, *g, {}, *image);
      EXPECT_TRUE(found != absl::StatusCode::kOk || !decoder.warning().empty()) << length;
    }
  }
  EXPECT_EQ(code(jpeg, crop, {}, small), absl::StatusCode::kOk);
}

// Like a JPEG, but at full scale and without its own orientation.
TEST(ImageDecoder, PngGoesThroughGeometriesToo) {
  std::ifstream file(std::filesystem::path(SHARDKIT_CODEC_TEST_DIR) / "pillow_png_vectors.json");
  const nlohmann::json vectors = nlohmann::json::parse(file);
  const auto from_hex = [](const std::string& hex) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < hex.size(); i += 2) bytes.push_back(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
  };
  ImageDecoder decoder;
  for (const nlohmann::json& vector : vectors) {
    SCOPED_TRACE(vector.dump().substr(0, 60));
    const std::vector<uint8_t> bytes = from_hex(vector["png"]);
    const std::string png(bytes.begin(), bytes.end());
    const StoredSize stored = ProbeImage(png).value();
    const bool palette = vector["color"] == 3, deep = vector["bits"] == 16;
    for (const int channels : {1, 3}) {
      if (deep || (palette && channels == 1)) {
        Image refused(stored.width, stored.height, channels);
        const absl::Status status = decoder.Decode(png, FullImage(stored), {}, refused.view);
        EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
        EXPECT_NE(std::string(status.message()).find(deep ? "reduce_depth" : "palette"), std::string::npos) << status;
      }
      if (palette && channels == 1) continue;
      const Image whole(stored.width, stored.height, channels, from_hex(vector[channels == 1 ? "gray" : "rgb"]));
      Image same(stored.width, stored.height, channels);
      ASSERT_EQ(decoder.Decode(png, FullImage(stored), {.reduce_depth = deep, .max_memory = 400}, same.view),
                absl::OkStatus());
      EXPECT_EQ(same.pixels, whole.pixels);
      Geometry geometry = CenterCrop(stored, 5, 4);
      Image out(4, 4, channels), expected(4, 4, channels);
      ASSERT_EQ(decoder.Decode(png, geometry, {.reduce_depth = deep}, out.view), absl::OkStatus());
      ASSERT_TRUE(Resizer().Resize(whole.view, geometry.source, Interpolation::kBilinear, expected.view).ok());
      EXPECT_EQ(out.pixels, expected.pixels);
      geometry = Resize({stored.width, stored.height, 6}, 4, 4);
      ASSERT_EQ(decoder.Decode(png, geometry, {.reduce_depth = deep}, out.view), absl::OkStatus());
      ASSERT_TRUE(
          Resizer().Resize(Upright(whole, 6).view, geometry.source, Interpolation::kBilinear, expected.view).ok());
      EXPECT_LE(LargestDifference(out, expected), 2);
      // An interlaced PNG is held as a whole, even when the pixels go directly to the caller.
      const uint64_t held =
          vector["interlaced"] == 0 ? 0 : stored.width * stored.height * (int{vector["color"]} % 4 == 0 ? 2 : 4);
      EXPECT_EQ(decoder.Decode(png, FullImage(stored), {.reduce_depth = deep, .max_memory = held}, same.view),
                absl::OkStatus());
      if (held > 0) {
        EXPECT_EQ(
            decoder.Decode(png, FullImage(stored), {.reduce_depth = deep, .max_memory = held - 1}, same.view).code(),
            absl::StatusCode::kResourceExhausted);
      }
    }
  }
}

// All orientations of one photograph look alike when upright.
TEST(ImageDecoderReal, ExifLandscapes) {
  const char* root = std::getenv("SHARDKIT_TEST_DATA");
  const std::filesystem::path folder = std::filesystem::path(root == nullptr ? "" : root) / "nasty_jpeg";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has nasty_jpeg/";
  }
  ImageDecoder decoder;
  std::vector<Image> images;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("exif_Landscape_")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string jpeg{std::istreambuf_iterator<char>(file), {}};
    const JpegInfo info = ProbeJpeg(jpeg).value();
    const Geometry geometry = Resize({info.width, info.height, info.exif_orientation}, 180, 120);
    ASSERT_EQ(geometry.source, (Box{0, 0, 1800, 1200}));
    images.emplace_back(180, 120, 3);
    ASSERT_EQ(decoder.Decode(jpeg, geometry, {}, images.back().view), absl::OkStatus());
    double difference = 0;
    for (size_t i = 0; i < images.back().pixels.size(); ++i) {
      difference += std::abs(images.back().pixels[i] - images.front().pixels[i]);
    }
    EXPECT_LT(difference / static_cast<double>(images.back().pixels.size()), 3) << entry.path();
  }
  EXPECT_GE(images.size(), 4u);
}

}  // namespace
TEST(ImageDecoder, TransformsGrayAndColors) {
  const Image rgb(23, 17, 3, Noise(23 * 17 * 3, 5));
  Image gray(23, 17, 1);
  for (uint32_t y = 0; y < 17; ++y) {
    for (uint32_t x = 0; x < 23; ++x) {
      const uint8_t* const p = rgb.At(x, y);
      *gray.At(x, y) = static_cast<uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 32768) >> 16);
    }
  }
  ImageDecoder decoder;
  for (const Geometry& geometry : {FullImage({23, 17}), Resize({23, 17}, 9, 11),
                                   FlipHorizontal(Resize({23, 17, 6}, 12, 30)), Letterbox({23, 17}, 40, 40)}) {
    Image from_gray(geometry.output_width, geometry.output_height, 1), from_rgb = from_gray;
    from_rgb.view.pixels = from_rgb.pixels.data();
    ASSERT_TRUE(decoder.Transform(gray.view, geometry, {}, from_gray.view).ok());
    ASSERT_TRUE(decoder.Transform(rgb.view, geometry, {}, from_rgb.view).ok());
    EXPECT_EQ(from_gray.pixels, from_rgb.pixels);
    Image repeated(geometry.output_width, geometry.output_height, 3);
    ASSERT_TRUE(decoder.Transform(gray.view, geometry, {}, repeated.view).ok());
    for (size_t i = 0; i < repeated.pixels.size(); ++i) ASSERT_EQ(repeated.pixels[i], from_gray.pixels[i / 3]);
  }
  Image out(5, 5, 3);
  const Geometry other = Resize({23, 18}, 5, 5);
  EXPECT_EQ(decoder.Transform(rgb.view, other, {}, out.view).code(), absl::StatusCode::kInvalidArgument);
  MutableImageView four = out.view;
  four.channels = 4;
  EXPECT_EQ(decoder.Transform(four, Resize({5, 5}, 5, 5), {}, out.view).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace shardkit
