// JPEG markers, decoding and encoding. Also files from other programs, if the test data is present.
#include "shardkit/image.h"

#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include "base/strings.h"
#include "codec_support.h"

namespace shardkit {
namespace {

// A gradient, width x height x 3.
std::vector<uint8_t> Gradient(uint32_t width, uint32_t height) {
  std::vector<uint8_t> rgb;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      rgb.push_back(static_cast<uint8_t>(x * 255 / width));
      rgb.push_back(static_cast<uint8_t>(y * 255 / height));
      rgb.push_back(128);
    }
  }
  return rgb;
}

std::string Encoded(uint32_t width, uint32_t height, JpegEncodeOptions options = {}) {
  std::string jpeg;
  EXPECT_TRUE(EncodeJpeg(Gradient(width, height).data(), width, height, options, &jpeg).ok());
  return jpeg;
}

std::string Segment(uint8_t marker, std::string_view content) {
  std::string segment{'\xff', static_cast<char>(marker)};
  segment += static_cast<char>((content.size() + 2) >> 8);
  segment += static_cast<char>((content.size() + 2) & 0xff);
  return segment + std::string(content);
}

std::string Frame(uint8_t marker, uint8_t bits, uint16_t height, uint16_t width, uint8_t components) {
  std::string content;
  for (const int value : {int{bits}, height >> 8, height & 255, width >> 8, width & 255, int{components}}) {
    content += static_cast<char>(value);
  }
  content.append(3u * components, '\x11');
  return Segment(marker, content);
}

const std::string kStart = "\xff\xd8";
const std::string kEnd = "\xff\xd9";

std::string Exif(bool little, uint16_t orientation) {
  // Two entries; the second is the orientation.
  const std::string tail(3, '\0');
  const std::string value(1, static_cast<char>(orientation));
  if (little) {
    return std::string("Exif\0\0II\x2a\0\x08\0\0\0\x02\0", 16) + std::string("\x0f\x01\x02\0\0\0\0\0\0\0\0\0", 12) +
           std::string("\x12\x01\x03\0\x01\0\0\0", 8) + value + tail;
  }
  return std::string("Exif\0\0MM\0\x2a\0\0\0\x08\0\x02", 16) + std::string("\x01\x0f\0\x02\0\0\0\0\0\0\0\0", 12) +
         std::string("\x01\x12\0\x03\0\0\0\x01\0", 9) + value + tail.substr(1);
}

absl::StatusCode ProbeCode(std::string_view bytes) { return ProbeJpeg(bytes).status().code(); }

TEST(ProbeJpeg, FrameHeaders) {
  struct Case {
    uint8_t marker;
    bool progressive, lossless, arithmetic;
  };
  for (const Case& c : std::initializer_list<Case>{{0xc0, false, false, false},
                                                   {0xc1, false, false, false},
                                                   {0xc2, true, false, false},
                                                   {0xc3, false, true, false},
                                                   {0xc5, false, false, false},
                                                   {0xc6, true, false, false},
                                                   {0xc7, false, true, false},
                                                   {0xc9, false, false, true},
                                                   {0xca, true, false, true},
                                                   {0xcb, false, true, true},
                                                   {0xcd, false, false, true},
                                                   {0xce, true, false, true},
                                                   {0xcf, false, true, true}}) {
    const auto info = ProbeJpeg(kStart + Frame(c.marker, 12, 600, 70, 3));
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->height, 600u);
    EXPECT_EQ(info->width, 70u);
    EXPECT_EQ(info->components, 3);
    EXPECT_EQ(info->bits, 12);
    EXPECT_EQ(info->progressive, c.progressive);
    EXPECT_EQ(info->lossless, c.lossless);
    EXPECT_EQ(info->arithmetic, c.arithmetic);
    EXPECT_EQ(info->exif_orientation, 0);
  }
  for (const uint8_t marker : {0xc4, 0xc8, 0xcc}) EXPECT_FALSE(ProbeJpeg(kStart + Frame(marker, 8, 6, 7, 3)).ok());
}

TEST(ProbeJpeg, Orientation) {
  for (uint16_t orientation = 0; orientation < 10; ++orientation) {
    for (const bool little : {false, true}) {
      const int expected = orientation >= 1 && orientation <= 8 ? orientation : 0;
      const std::string app1 = Segment(0xe1, Exif(little, orientation));
      const std::string frame = Frame(0xc0, 8, 2, 3, 1);
      EXPECT_EQ(ProbeJpeg(kStart + app1 + frame)->exif_orientation, expected);
      EXPECT_EQ(ProbeJpeg(kStart + frame + app1 + kEnd)->exif_orientation, expected);
      // Data after the start of a scan is ignored.
      EXPECT_EQ(ProbeJpeg(kStart + frame + Segment(0xda, "x") + app1)->exif_orientation, 0);
    }
  }
  // Every truncation of the EXIF data, and directories that point outside.
  const std::string exif = Exif(true, 6);
  for (size_t length = 0; length < exif.size(); ++length) {
    const auto info = ProbeJpeg(kStart + Segment(0xe1, exif.substr(0, length)) + Frame(0xc0, 8, 2, 3, 1));
    ASSERT_TRUE(info.ok());
    EXPECT_TRUE(info->exif_orientation == 0 || length >= exif.size() - 2);
  }
  for (const char byte : {'\x09', '\x7f', '\xff'}) {
    std::string bad = exif;
    for (size_t i = 10; i < 14; ++i) bad[i] = byte;
    EXPECT_EQ(ProbeJpeg(kStart + Segment(0xe1, bad) + Frame(0xc0, 8, 2, 3, 1))->exif_orientation, 0);
  }
}

TEST(ProbeJpeg, JunkAndFillBetweenSegments) {
  EXPECT_TRUE(ProbeJpeg(kStart + "\xff\xff" + Frame(0xc0, 8, 2, 3, 1)).ok());
  EXPECT_TRUE(ProbeJpeg(kStart + Segment(0xfe, "comment") + "junk" + Frame(0xc0, 8, 2, 3, 1)).ok());
  EXPECT_FALSE(ProbeJpeg("junk" + Encoded(8, 8)).ok());
}

TEST(ProbeJpeg, Refusals) {
  EXPECT_EQ(ProbeJpeg("").status().message(), "JPEG: no signature (FF D8 FF) at byte 0");
  EXPECT_EQ(ProbeJpeg(kStart + kEnd).status().message(), "JPEG: no frame header in 4 bytes, read up to byte 4");
  EXPECT_EQ(ProbeCode(kStart + Segment(0xda, "x") + Frame(0xc0, 8, 2, 3, 1)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ProbeCode(kStart + Frame(0xc0, 8, 0, 3, 1)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ProbeCode(kStart + Frame(0xc0, 8, 2, 0, 1)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ProbeCode(kStart + Frame(0xc0, 8, 2, 3, 0)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ProbeCode(kStart + Segment(0xc0, "")), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ProbeCode(kStart + std::string("\xff\xe0\0\0", 4)), absl::StatusCode::kDataLoss);
  const std::string head = kStart + Segment(0xe0, "JFIF") + Frame(0xc0, 8, 2, 3, 3);
  for (size_t length = 0; length < head.size(); ++length) {
    const std::unique_ptr<char[]> exact(new char[length]);
    std::copy_n(head.begin(), length, exact.get());
    ASSERT_EQ(ProbeCode({exact.get(), length}), absl::StatusCode::kDataLoss) << length;
  }
}

TEST(Jpeg, RoundTrip) {
  JpegDecoder decoder;
  DecodedImage image;
  for (const bool subsample : {false, true}) {
    for (const auto& [width, height] : {std::pair{1u, 1u}, {7u, 3u}, {64u, 48u}, {301u, 17u}}) {
      const std::string jpeg = Encoded(width, height, {.quality = 95, .subsample = subsample});
      ASSERT_TRUE(decoder.Decode(jpeg, &image).ok());
      EXPECT_EQ(image.width, width);
      EXPECT_EQ(image.height, height);
      EXPECT_EQ(image.channels, 3);
      const std::vector<uint8_t> rgb = Gradient(width, height);
      ASSERT_EQ(image.pixels.size(), rgb.size());
      if (width < 64) continue;
      double difference = 0;
      for (size_t i = 0; i < rgb.size(); ++i) difference += std::abs(image.pixels[i] - rgb[i]);
      EXPECT_LT(difference / static_cast<double>(rgb.size()), 4);
    }
  }
  EXPECT_EQ(Encoded(64, 48), Encoded(64, 48));
}

TEST(Jpeg, EncoderRefusals) {
  std::string out;
  const uint8_t pixel[3] = {};
  EXPECT_EQ(EncodeJpeg(nullptr, 1, 1, {}, &out).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeJpeg(pixel, 0, 1, {}, &out).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeJpeg(pixel, 1, 65501, {}, &out).code(), absl::StatusCode::kInvalidArgument);
  for (const int quality : {0, 101, -5}) {
    EXPECT_EQ(EncodeJpeg(pixel, 1, 1, {.quality = quality}, &out).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Jpeg, DecoderRefusals) {
  JpegDecoder decoder;
  DecodedImage image;
  const std::string jpeg = Encoded(40, 30);
  decoder.set_max_memory(40 * 30 * 3 - 1);
  EXPECT_EQ(decoder.Decode(jpeg, &image).code(), absl::StatusCode::kResourceExhausted);
  decoder.set_max_memory(40 * 30 * 3);
  EXPECT_TRUE(decoder.Decode(jpeg, &image).ok());
  EXPECT_EQ(decoder.Decode(kStart + Frame(0xc3, 8, 2, 3, 1), &image).message(),
            "JPEG: lossless coding is not supported");
  EXPECT_EQ(decoder.Decode(kStart + Frame(0xc1, 12, 2, 3, 1), &image).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(decoder.Decode(kStart + Frame(0xc0, 8, 2, 3, 2), &image).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(decoder.Decode(kStart + Frame(0xc5, 8, 2, 3, 1) + kEnd, &image).code(),
            absl::StatusCode::kUnimplemented);  // hierarchical
  // Every truncation is noticed, and the decoder still works afterwards.
  decoder.set_strict(true);
  for (size_t length = 0; length < jpeg.size(); ++length) {
    ASSERT_EQ(decoder.Decode(std::string_view(jpeg).substr(0, length), &image).code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_TRUE(decoder.Decode(jpeg, &image).ok());
}

// What libjpeg only warns of: other programs decode it without a word.
TEST(Jpeg, Warnings) {
  const std::string jpeg = Encoded(40, 30);
  DecodedImage whole;
  JpegDecoder decoder, strict;
  strict.set_strict(true);
  ASSERT_TRUE(decoder.Decode(jpeg, &whole).ok());
  EXPECT_EQ(decoder.warning(), "");
  const auto decode_all_ways = [&](const std::string& bytes, const std::string& warning) {
    std::vector<DecodedImage> images(2);
    DecodedRegion region;
    EXPECT_EQ(decoder.Decode(bytes, images.data()), absl::OkStatus());
    EXPECT_NE(decoder.warning().find(warning), std::string_view::npos) << decoder.warning();
    images[1].pixels.resize(40 * 30 * 3);
    EXPECT_EQ(decoder.DecodeInto(bytes, {images[1].pixels.data(), 40, 30, 3, 120}), absl::OkStatus());
    EXPECT_NE(decoder.warning().find(warning), std::string_view::npos) << decoder.warning();
    EXPECT_EQ(decoder.DecodeRegion(bytes, {}, &region), absl::OkStatus());
    EXPECT_NE(decoder.warning().find(warning), std::string_view::npos) << decoder.warning();
    EXPECT_EQ(decoder.Check(bytes), absl::OkStatus());
    EXPECT_NE(decoder.warning().find(warning), std::string_view::npos) << decoder.warning();
    EXPECT_EQ(images[0].pixels, images[1].pixels);
    EXPECT_EQ(images[0].pixels, region.image.pixels);
    for (const absl::Status& status :
         {strict.Decode(bytes, images.data()), strict.DecodeRegion(bytes, {}, &region), strict.Check(bytes)}) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_NE(status.message().find(warning), std::string_view::npos) << status;
    }
    EXPECT_EQ(decoder.Decode(jpeg, images.data()), absl::OkStatus());
    EXPECT_EQ(decoder.warning(), "") << "of the image before";
    EXPECT_EQ(images[0].pixels, whole.pixels);
    EXPECT_EQ(decoder.DecodeRegion(jpeg, {}, &region), absl::OkStatus());
    EXPECT_EQ(decoder.warning(), "");
    EXPECT_EQ(decoder.Decode(bytes, images.data()), absl::OkStatus());
    return images[0].pixels;
  };
  const std::string body = jpeg.substr(0, jpeg.size() - 2);
  ASSERT_EQ(jpeg.substr(body.size()), kEnd);
  EXPECT_EQ(decode_all_ways(body + std::string(85, 'x') + kEnd, "extraneous bytes before marker 0xd9"), whole.pixels);
  // The pixels before the cut are there.
  const std::vector<uint8_t> half = decode_all_ways(jpeg.substr(0, jpeg.size() - 100), "remature end");
  EXPECT_NE(half, whole.pixels);
  EXPECT_TRUE(std::equal(half.begin(), half.begin() + 40 * 3 * 8, whole.pixels.begin()));
  // Without a scan there is nothing to go on with.
  EXPECT_TRUE(absl::IsDataLoss(decoder.Decode(jpeg.substr(0, 300), &whole)));
}

TEST(Jpeg, DamageNeverCrashes) {
  JpegDecoder decoder;
  decoder.set_max_memory(1 << 20);
  DecodedImage image;
  const std::string jpeg = Encoded(24, 16);
  for (size_t i = 0; i < jpeg.size(); ++i) {
    for (const int change : {1, 16, 128, 255}) {
      std::string bad = jpeg;
      bad[i] = static_cast<char>(bad[i] ^ change);
      (void)decoder.Decode(bad, &image);
    }
  }
  EXPECT_TRUE(decoder.Decode(jpeg, &image).ok());
}

// Four components as Adobe's programs store them: 255 minus the ink.
TEST(Jpeg, CmykIsInverted) {
  std::vector<uint8_t> cmyk;
  for (int i = 0; i < 16 * 16; ++i) cmyk.insert(cmyk.end(), {255, 128, 0, 200});
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitCompress(), tjDestroy);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(handle.get(), cmyk.data(), 16, 0, 16, TJPF_CMYK, &buffer, &size, TJSAMP_444, 100, 0), 0);
  const std::string jpeg(reinterpret_cast<char*>(buffer), size);
  tjFree(buffer);
  EXPECT_EQ(ProbeJpeg(jpeg)->components, 4);
  DecodedImage image;
  ASSERT_TRUE(JpegDecoder().Decode(jpeg, &image).ok());
  EXPECT_EQ(image.channels, 3);
  ASSERT_EQ(image.pixels.size(), 16u * 16u * 3u);
  EXPECT_NEAR(image.pixels[0], 200, 3);
  EXPECT_NEAR(image.pixels[1], 100, 3);
  EXPECT_NEAR(image.pixels[2], 0, 3);
}

TEST(JpegReal, NastyFiles) {
  const char* root = std::getenv("SHARDKIT_TEST_DATA");
  const std::filesystem::path folder = std::filesystem::path(root == nullptr ? "" : root) / "nasty_jpeg";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has nasty_jpeg/";
  }
  using Code = absl::StatusCode;
  const std::map<std::string, Code> expected = {
      {"dali_jpeg_lossless_0_cat-3449999_640_grayscale_12bit.jpg", Code::kUnimplemented},
      {"dali_missnamed_jpeg_0_png.jpeg", Code::kDataLoss},
      {"dali_missnamed_png_0_jpeg.png", Code::kOk},
      {"dali_mixed_0_411-non-multiple-4-width.jpg", Code::kOk},
      {"dali_mixed_0_440.jpg", Code::kOk},
      {"jpegdecoder_crash_empty.jpg", Code::kDataLoss},
      {"jpegdecoder_crash_null_height.jpg", Code::kDataLoss},
      {"jpegdecoder_jpg-gray.jpg", Code::kOk},
      {"jpegdecoder_progressive3.jpg", Code::kOk},
      {"jpegdecoder_ycck.jpg", Code::kOk},
      {"libjpegturbo_testimgari.jpg", Code::kOk},
      {"libvips_truncated.jpg", Code::kDataLoss},
      {"pillow_hopper_16bit_qtables.jpg", Code::kOk},
      {"pillow_junk_jpeg_header.jpg", Code::kDataLoss},
      {"pillow_pil_sample_cmyk.jpg", Code::kOk},
  };
  JpegDecoder decoder;
  decoder.set_strict(true);
  DecodedImage image;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = ReadFile(entry.path());
    const absl::Status status = decoder.Decode(bytes, &image);
    const std::string name = entry.path().filename();
    if (const auto it = expected.find(name); it != expected.end()) {
      EXPECT_EQ(status.code(), it->second) << name;
    }
    if (name.starts_with("exif_Landscape_")) {
      EXPECT_EQ(ProbeJpeg(bytes)->exif_orientation, name[15] - '0');
      EXPECT_TRUE(status.ok());
    }
    EXPECT_NE(status.code(), Code::kInternal);
  }
}

TEST(JpegReal, Photographs) {
  const char* root = std::getenv("SHARDKIT_TEST_DATA");
  const std::filesystem::path folder = std::filesystem::path(root == nullptr ? "" : root) / "photos";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has photos/";
  }
  JpegDecoder decoder;
  DecodedImage image;
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || ++count % 10 != 0) continue;
    EXPECT_TRUE(decoder.Decode(ReadFile(entry.path()), &image).ok()) << entry.path();
  }
}

}  // namespace
}  // namespace shardkit
