// PNG files are checked to the last byte, and every kind is decoded as Pillow does.
#include <gtest/gtest.h>
#include <png.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "codec/image/image_codec.h"
#include "noise.h"
#include "png_maker.h"

namespace shardkit::codec {
namespace {

using testing::Image;

std::string MakePng(uint32_t width, uint32_t height, int color, int bits, bool interlaced) {
  const size_t channels = color == PNG_COLOR_TYPE_RGB_ALPHA ? 4 : color == PNG_COLOR_TYPE_RGB ? 3 : 1;
  std::vector<std::vector<png_byte>> rows(
      height, std::vector<png_byte>((width * channels * static_cast<size_t>(bits) + 7) / 8));
  for (uint32_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < rows[y].size(); ++x) rows[y][x] = static_cast<png_byte>(y * 17 + x * 5);
  }
  return test::MakePng(width, color, bits, interlaced, std::move(rows));
}

absl::Status CheckPng(std::string_view png) { return CheckImage(png, kDefaultImageMemory); }

absl::Status DecodePng(std::string_view png, const ImageHeader& header, uint32_t left, uint32_t top,
                       const MutableImageView& out) {
  return kPngCodec.decode(png, header, left, top, &out);
}

TEST(Png, EveryKindIsReadAndEveryDamageFound) {
  struct Kind {
    int color;
    int bits;
  };
  for (const Kind kind : {Kind{PNG_COLOR_TYPE_GRAY, 1}, Kind{PNG_COLOR_TYPE_GRAY, 16}, Kind{PNG_COLOR_TYPE_PALETTE, 4},
                          Kind{PNG_COLOR_TYPE_RGB, 8}, Kind{PNG_COLOR_TYPE_RGB_ALPHA, 16}}) {
    for (const bool interlaced : {false, true}) {
      SCOPED_TRACE(StrCat("color ", kind.color, " bits ", kind.bits, interlaced ? " interlaced" : ""));
      const std::string png = MakePng(13, 9, kind.color, kind.bits, interlaced);
      EXPECT_TRUE(CheckPng(png).ok()) << CheckPng(png);
      for (size_t length = 0; length < png.size(); ++length) {
        EXPECT_TRUE(absl::IsDataLoss(CheckPng(std::string_view(png).substr(0, length)))) << length;
      }
      for (size_t bit = 0; bit < 8 * png.size(); ++bit) {
        std::string flipped = png;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
        EXPECT_TRUE(absl::IsDataLoss(CheckPng(flipped))) << "bit " << bit % 8 << " of byte " << bit / 8;
      }
    }
  }
}

// The header announces a million rows of a million pixels, and one row exists: nobody has a terabyte of memory.
TEST(Png, ManyPixelsNeedNoMemory) {
  std::string huge;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(writer, &huge, test::AppendPng, test::FlushPng);
  png_set_IHDR(writer, info, 1000000, 1000000, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer, info);
  const std::vector<png_byte> row(1000000);
  png_write_row(writer, row.data());
  png_write_flush(writer);
  png_destroy_write_struct(&writer, &info);
  EXPECT_EQ(CheckPng(huge).message(), "PNG: the file ends too early");

  std::string png = MakePng(1, 1, PNG_COLOR_TYPE_RGB_ALPHA, 16, false);
  const std::string large = MakePng(60000, 1, PNG_COLOR_TYPE_RGB_ALPHA, 16, true);
  EXPECT_TRUE(CheckPng(large).ok()) << CheckPng(large);
  EXPECT_TRUE(absl::IsDataLoss(CheckPng("")));
  EXPECT_TRUE(absl::IsDataLoss(CheckPng("not a png at all")));
  std::string late_header = png;
  late_header.insert(8, std::string_view("\0\0\0\0ddNG"
                                         "\x5c\x9c\x6a\x0c",
                                         12));  // with a right CRC: libpng takes it
  EXPECT_TRUE(absl::IsDataLoss(CheckPng(late_header)));
  png.resize(33);  // signature and header alone
  EXPECT_EQ(CheckPng(png).message(), "PNG: the file ends too early");
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string Text(const Image& image) { return {image.pixels.begin(), image.pixels.end()}; }

// Each file whole, and every part of it.
TEST(Png, DecodesAsPillow) {
  std::ifstream file(std::filesystem::path(SHARDKIT_CODEC_TEST_DIR) / "pillow_png_vectors.json");
  const nlohmann::json vectors = nlohmann::json::parse(file);
  ASSERT_EQ(vectors.size(), 28u);
  for (const nlohmann::json& vector : vectors) {
    const std::string png = FromHex(vector["png"]);
    SCOPED_TRACE(StrCat("color ", vector["color"].get<int>(), " bits ", vector["bits"].get<int>(), " interlaced ",
                        vector["interlaced"].get<int>()));
    const auto info = kPngCodec.probe(png);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->channels,
              vector["color"] == PNG_COLOR_TYPE_GRAY || vector["color"] == PNG_COLOR_TYPE_GRAY_ALPHA ? 1 : 3);
    EXPECT_EQ(info->held_bytes > 0, vector["interlaced"] == 1);
    for (const int channels : {1, 3}) {
      Image whole(info->width, info->height, channels);
      ASSERT_TRUE(DecodePng(png, *info, 0, 0, whole.view).ok());
      EXPECT_EQ(Text(whole), FromHex(vector[channels == 1 ? "gray" : "rgb"])) << channels;
      for (uint32_t top = 0; top < info->height; top += 3) {
        for (uint32_t left = 0; left < info->width; left += 4) {
          Image part(info->width - left - (left > 0 ? 1 : 0), std::min(4u, info->height - top), channels);
          ASSERT_TRUE(DecodePng(png, *info, left, top, part.view).ok());
          for (uint32_t y = 0; y < part.view.height; ++y) {
            ASSERT_TRUE(std::equal(part.At(0, y), part.At(0, y) + part.view.row_stride, whole.At(left, top + y)));
          }
        }
      }
    }
  }
}

// Pillow clips such gray values at 255; Shardkit keeps their range.
TEST(Png, SixteenBitsOfGrayKeepTheUpperEight) {
  for (const bool interlaced : {false, true}) {
    const std::string png = MakePng(13, 9, PNG_COLOR_TYPE_GRAY, 16, interlaced);
    const ImageHeader info = kPngCodec.probe(png).value();
    Image gray(13, 9, 1);
    Image rgb(13, 9, 3);
    ASSERT_TRUE(DecodePng(png, info, 0, 0, gray.view).ok());
    ASSERT_TRUE(DecodePng(png, info, 0, 0, rgb.view).ok());
    for (uint32_t y = 0; y < 9; ++y) {
      for (uint32_t x = 0; x < 13; ++x) {
        EXPECT_EQ(*gray.At(x, y), (y * 17 + 2 * x * 5) % 256);
        for (int c = 0; c < 3; ++c) EXPECT_EQ(rgb.At(x, y)[c], *gray.At(x, y));
      }
    }
  }
}

TEST(Png, DamageBelowThePartIsNotLookedFor) {
  const std::string png = MakePng(50, 60, PNG_COLOR_TYPE_RGB, 8, false);
  const ImageHeader info = kPngCodec.probe(png).value();
  Image upper(50, 5, 3);
  Image all(50, 60, 3);
  for (size_t cut = 1; cut < png.size(); ++cut) {
    const std::string_view shorter = std::string_view(png).substr(0, png.size() - cut);
    EXPECT_TRUE(absl::IsDataLoss(DecodePng(shorter, info, 0, 0, all.view))) << cut;
    Image lower(50, 1, 3);
    EXPECT_TRUE(absl::IsDataLoss(DecodePng(shorter, info, 0, 59, lower.view))) << cut;
  }
  EXPECT_TRUE(DecodePng(std::string_view(png).substr(0, png.size() - 12), info, 0, 0, upper.view).ok());
}

TEST(Png, Probe) {
  const std::string png = MakePng(13, 9, PNG_COLOR_TYPE_PALETTE, 4, true);
  const ImageHeader info = kPngCodec.probe(png).value();
  EXPECT_EQ(info.width, 13u);
  EXPECT_EQ(info.height, 9u);
  EXPECT_EQ(info.held_bytes, 13u * 9 * 4);
  EXPECT_EQ(kPngCodec.probe(MakePng(13, 9, PNG_COLOR_TYPE_RGB, 8, false))->held_bytes, 0u);
  for (size_t length = 0; length < 29; ++length)
    EXPECT_TRUE(absl::IsDataLoss(kPngCodec.probe(png.substr(0, length)).status()));
  std::string empty = png;
  for (size_t i = 16; i < 20; ++i) empty[i] = 0;
  EXPECT_TRUE(absl::IsDataLoss(kPngCodec.probe(empty).status()));
}

TEST(Png, OrientationLiesBeforeOrBehindThePixels) {
  const std::string png = MakePng(13, 9, PNG_COLOR_TYPE_RGB, 8, false);
  constexpr size_t kHeader = 33, kEnd = 12;
  const auto with = [&](size_t at, std::string_view data) {
    const std::string chunk =
        std::string{0, 0, 0, static_cast<char>(data.size())} + "eXIf" + std::string(data) + "CRC.";
    return std::string(png).insert(at, chunk);
  };
  constexpr std::string_view kTiff("MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0", 26);
  EXPECT_EQ(ProbeImage(png)->orientation, 0);
  EXPECT_EQ(ProbeImage(with(kHeader, kTiff))->orientation, 8);
  EXPECT_EQ(ProbeImage(with(png.size() - kEnd, kTiff))->orientation, 8);
  EXPECT_EQ(ProbeImage(with(png.size(), kTiff))->orientation, 0);
  EXPECT_EQ(ProbeImage(with(kHeader, kTiff.substr(0, 19)))->orientation, 0);
  EXPECT_EQ(ProbeImage(with(kHeader, ""))->orientation, 0);
}

}  // namespace
}  // namespace shardkit::codec
