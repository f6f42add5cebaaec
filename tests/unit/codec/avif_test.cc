// AVIF files decode to the pixels that were encoded.
#include <avif/avif.h>

#include "image_files.h"

namespace shardkit::testing {
namespace {

using codec::kAvifCodec;

constexpr uint32_t kAvifWidth = 37, kAvifHeight = 23;

struct AvifKind {
  uint32_t depth = 8;
  avifPixelFormat format = AVIF_PIXEL_FORMAT_YUV444;
  bool exact = true;  // RGB without loss
  bool alpha = false;
  bool premultiplied = false;  // colors, by alpha
  int angle = -1;              // of 90 degrees, anticlockwise
  int mirror = -1;             // 0: top and bottom, 1: left and right
};

avifImage* MakeAvifImage(const AvifKind& kind, const std::vector<uint8_t>& rgb, uint32_t width, uint32_t height) {
  avifImage* const image = avifImageCreate(width, height, kind.depth, kind.format);
  if (kind.exact) image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_IDENTITY;
  image->alphaPremultiplied = kind.premultiplied ? AVIF_TRUE : AVIF_FALSE;
  if (kind.angle >= 0) {
    image->transformFlags |= AVIF_TRANSFORM_IROT;
    image->irot.angle = static_cast<uint8_t>(kind.angle);
  }
  if (kind.mirror >= 0) {
    image->transformFlags |= AVIF_TRANSFORM_IMIR;
#if AVIF_VERSION_MAJOR >= 1
    image->imir.axis = static_cast<uint8_t>(kind.mirror);
#else
    image->imir.mode = static_cast<uint8_t>(kind.mirror);
#endif
  }
  std::vector<uint8_t> rgba;
  for (size_t i = 0; i < rgb.size(); i += 3) {
    rgba.insert(rgba.end(), {rgb[i], rgb[i + 1], rgb[i + 2], static_cast<uint8_t>(kind.alpha ? i : 255)});
  }
  avifRGBImage pixels;
  avifRGBImageSetDefaults(&pixels, image);
  pixels.depth = 8;
  pixels.format = AVIF_RGB_FORMAT_RGBA;
  pixels.ignoreAlpha = kind.alpha ? AVIF_FALSE : AVIF_TRUE;
  pixels.pixels = rgba.data();
  pixels.rowBytes = 4 * width;
  EXPECT_EQ(avifImageRGBToYUV(image, &pixels), AVIF_RESULT_OK);
  return image;
}

std::string MakeAvif(const AvifKind& kind, const std::vector<uint8_t>& rgb) {
  avifImage* const image = MakeAvifImage(kind, rgb, kAvifWidth, kAvifHeight);
  avifEncoder* const encoder = avifEncoderCreate();
  encoder->speed = 9;
  encoder->minQuantizer = encoder->maxQuantizer = kind.exact ? 0 : 20;
  encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = 0;
  avifRWData output = AVIF_DATA_EMPTY;
  EXPECT_EQ(avifEncoderWrite(encoder, image, &output), AVIF_RESULT_OK);
  std::string file(reinterpret_cast<const char*>(output.data), output.size);
  avifRWDataFree(&output);
  avifEncoderDestroy(encoder);
  avifImageDestroy(image);
  return file;
}

std::vector<uint8_t> AvifSmooth() {
  std::vector<uint8_t> rgb;
  for (uint32_t y = 0; y < kAvifHeight; ++y) {
    for (uint32_t x = 0; x < kAvifWidth; ++x)
      rgb.insert(rgb.end(), {uint8_t(x * 6), uint8_t(y * 9), uint8_t(x * y / 4)});
  }
  return rgb;
}

TEST(Avif, LosslessIsExactAndTransparencyIsDropped) {
  for (const bool alpha : {false, true}) {
    const std::vector<uint8_t> rgb = AvifSmooth();
    ExpectPixels(kAvifCodec, MakeAvif({.alpha = alpha}, rgb), rgb);
  }
}

// As Pillow and browsers show them, with and without transparency.
TEST(Avif, PremultipliedColorsAreDividedByAlpha) {
  const std::vector<uint8_t> rgb = AvifSmooth();
  const std::string file = MakeAvif({.alpha = true, .premultiplied = true}, rgb);
  ASSERT_NE(file.find("prem"), file.npos);
  const Image transparent = DecodeFile(kAvifCodec, file, 4), opaque = DecodeFile(kAvifCodec, file, 3);
  for (size_t i = 0; i < rgb.size(); ++i) {
    const int alpha = transparent.pixels[i / 3 * 4 + 3];
    ASSERT_EQ(alpha, static_cast<uint8_t>(i / 3 * 3));
    const int color = transparent.pixels[i / 3 * 4 + i % 3];
    ASSERT_EQ(color, opaque.pixels[i]);
    if (alpha == 0) continue;
    ASSERT_LE(std::abs(color - rgb[i]), 255 / alpha + 1) << i;
  }
}

TEST(Avif, LossyIsNear) {
  const std::vector<uint8_t> rgb = AvifSmooth();
  for (const uint32_t depth : {8, 10, 12}) {
    for (const avifPixelFormat format :
         {AVIF_PIXEL_FORMAT_YUV444, AVIF_PIXEL_FORMAT_YUV420, AVIF_PIXEL_FORMAT_YUV400}) {
      const std::string file = MakeAvif({.depth = depth, .format = format, .exact = false}, rgb);
      const Image whole = DecodeFile(kAvifCodec, file, 3);
      ExpectPixels(kAvifCodec, file, whole.pixels);
      EXPECT_EQ(kAvifCodec.probe(file)->channels, format == AVIF_PIXEL_FORMAT_YUV400 ? 1 : 3);
      if (format == AVIF_PIXEL_FORMAT_YUV400) continue;
      double difference = 0;
      for (size_t i = 0; i < rgb.size(); ++i) difference += std::abs(rgb[i] - whole.pixels[i]);
      EXPECT_LT(difference / static_cast<double>(rgb.size()), 12);
    }
  }
}

// Of two tiles, each of which is an image of its own.
TEST(Avif, TilesAreJoined) {
  constexpr uint32_t kSide = 64;
  const std::vector<uint8_t> one = Noise(kSide * kSide * 3, 1), two = Noise(kSide * kSide * 3, 2);
  avifEncoder* const encoder = avifEncoderCreate();
  encoder->speed = 9;
  encoder->minQuantizer = encoder->maxQuantizer = 0;
  avifImage* const tiles[] = {MakeAvifImage({}, one, kSide, kSide), MakeAvifImage({}, two, kSide, kSide)};
  ASSERT_EQ(avifEncoderAddImageGrid(encoder, 2, 1, tiles, AVIF_ADD_IMAGE_FLAG_SINGLE), AVIF_RESULT_OK);
  avifRWData output = AVIF_DATA_EMPTY;
  ASSERT_EQ(avifEncoderFinish(encoder, &output), AVIF_RESULT_OK);
  const std::string file(reinterpret_cast<const char*>(output.data), output.size);
  avifRWDataFree(&output);
  avifEncoderDestroy(encoder);
  for (avifImage* const tile : tiles) avifImageDestroy(tile);
  std::vector<uint8_t> row;
  for (size_t y = 0; y < kSide; ++y) {
    for (const auto* tile : {&one, &two})
      row.insert(row.end(), &(*tile)[y * kSide * 3], &(*tile)[y * kSide * 3] + kSide * 3);
  }
  EXPECT_EQ(DecodeFile(kAvifCodec, file, 3).pixels, row);
  EXPECT_EQ(kAvifCodec.probe(file)->check_bytes, kSide * kSide * 2 * (17 + 4));
}

TEST(Avif, DeepColorsAreRefusedUnlessReduced) {
  const std::string file = MakeAvif({.depth = 10}, AvifSmooth());
  EXPECT_EQ(kAvifCodec.probe(file)->depth, 10);
  Image image(kAvifWidth, kAvifHeight, 3);
  const Geometry geometry = FullImage(ProbeImage(file).value());
  EXPECT_TRUE(absl::IsInvalidArgument(ImageDecoder().Decode(file, geometry, {}, image.view)));
  ASSERT_EQ(ImageDecoder().Decode(file, geometry, {.reduce_depth = true}, image.view), absl::OkStatus());
  EXPECT_EQ(image.pixels, DecodeFile(kAvifCodec, file, 3).pixels);
}

// The sequence header of the coded image claims 65536 x 65536 pixels; the container does not say so.
TEST(Avif, CodedSizesAreLimitedBeforeTheirMemoryIsAllocated) {
  std::string file = MakeAvif({.exact = false}, AvifSmooth());
  const uint64_t pixels = uint64_t{kAvifWidth} * kAvifHeight;
  EXPECT_EQ(kAvifCodec.probe(file)->check_bytes, pixels * 17);
  EXPECT_EQ(codec::CheckImage(file, pixels * 17), absl::OkStatus());
  EXPECT_EQ(codec::CheckImage(file, pixels * 17 - 1),
            absl::ResourceExhaustedError("AVIF: decoding 37 x 23 pixels takes more than 14466 bytes of memory"));
  const size_t unit = file.find("mdat") + 4;
  const std::string sequence("\x0a\x08\x18\x3f\xff\xff\xff\xff\xf0\x00", 10);  // reduced, 16 bits for each side
  file.replace(file.find('\x0a', unit), sequence.size(), sequence);
  const auto header = kAvifCodec.probe(file);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->width, kAvifWidth);
  EXPECT_GT(header->check_bytes, uint64_t{1} << 32);
  EXPECT_TRUE(absl::IsResourceExhausted(codec::CheckImage(file, kDefaultImageMemory)));
}

// libaom and libavif print nothing.
TEST(Avif, DamageIsFound) {
  ::testing::internal::CaptureStderr();
  ExpectDamageIsFound(kAvifCodec, MakeAvif({.exact = false}, AvifSmooth()));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// Turned and mirrored pixel by pixel, as ISO 23008-12 says.
TEST(Avif, OrientationIsThatOfExif) {
  const std::vector<uint8_t> rgb = AvifSmooth();
  for (int angle = -1; angle < 4; ++angle) {
    for (int mirror = -1; mirror < 2; ++mirror) {
      const std::string file = MakeAvif({.angle = angle, .mirror = mirror}, rgb);
      const StoredSize size = ProbeImage(file).value();
      ASSERT_EQ(size.width, kAvifWidth);
      const Geometry geometry = FullImage(size);
      Image upright(geometry.output_width, geometry.output_height, 3);
      ASSERT_EQ(ImageDecoder().Decode(file, geometry, {}, upright.view), absl::OkStatus());
      const int turns = std::max(angle, 0);
      for (uint32_t y = 0; y < kAvifHeight; ++y) {
        for (uint32_t x = 0; x < kAvifWidth; ++x) {
          uint32_t to_x = x, to_y = y, width = kAvifWidth, height = kAvifHeight;
          for (int turn = 0; turn < turns; ++turn) {
            const uint32_t before = to_x;
            to_x = to_y;
            to_y = width - 1 - before;
            std::swap(width, height);
          }
          if (mirror == 0) to_y = height - 1 - to_y;
          if (mirror == 1) to_x = width - 1 - to_x;
          ASSERT_TRUE(std::equal(upright.At(to_x, to_y), upright.At(to_x, to_y) + 3, &rgb[(y * kAvifWidth + x) * 3]))
              << angle << ' ' << mirror;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardkit::testing
