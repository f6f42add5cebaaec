// PNG files are checked to the last byte, whatever their kind.
#include "codec/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <string>
#include <vector>

#include "base/strings.h"

namespace shardkit {
namespace {

void AppendBytes(png_structp png, png_bytep bytes, size_t length) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), length);
}

std::string MakePng(uint32_t width, uint32_t height, int color, int bits, bool interlaced) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, AppendBytes, nullptr);
  png_set_IHDR(png, info, width, height, bits, color, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (color == PNG_COLOR_TYPE_PALETTE) {
    const std::vector<png_color> palette(1u << bits, png_color{1, 2, 3});
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  png_write_info(png, info);
  std::vector<std::vector<png_byte>> rows(height, std::vector<png_byte>(png_get_rowbytes(png, info)));
  std::vector<png_bytep> pointers;
  for (uint32_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < rows[y].size(); ++x) rows[y][x] = static_cast<png_byte>(y * 17 + x * 5);
    pointers.push_back(rows[y].data());
  }
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
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

// A million rows of a million pixels are announced, and one is there: a terabyte that nobody has.
TEST(Png, ManyPixelsNeedNoMemory) {
  std::string huge;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(writer, &huge, AppendBytes, nullptr);
  png_set_IHDR(writer, info, 1000000, 1000000, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer, info);
  const std::vector<png_byte> row(1000000);
  png_write_row(writer, row.data());
  png_write_flush(writer);
  png_destroy_write_struct(&writer, &info);
  EXPECT_EQ(CheckPng(huge).message(), "png: the file ends too early");

  std::string png = MakePng(1, 1, PNG_COLOR_TYPE_RGB_ALPHA, 16, false);
  const std::string large = MakePng(60000, 1, PNG_COLOR_TYPE_RGB_ALPHA, 16, true);
  EXPECT_TRUE(CheckPng(large).ok()) << CheckPng(large);
  EXPECT_TRUE(absl::IsDataLoss(CheckPng("")));
  EXPECT_TRUE(absl::IsDataLoss(CheckPng("not a png at all")));
  png.resize(33);  // signature and header alone
  EXPECT_EQ(CheckPng(png).message(), "png: the file ends too early");
}

}  // namespace
}  // namespace shardkit
