// Makes PNG files with libpng.
#pragma once

#include <png.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shardkit::test {

inline void AppendPng(png_structp png, png_bytep bytes, size_t length) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), length);
}

// libpng's default flush would use the string as a FILE.
inline void FlushPng(png_structp) {}

// `rows` are as libpng takes them: packed, or with `packing` a byte for each number of fewer than 8 bits. The palette,
// if there is one, has one color for all indices but 1.
inline std::string MakePng(uint32_t width, int color, int bits, bool interlaced,
                           std::vector<std::vector<png_byte>> rows, bool packing = false) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, AppendPng, FlushPng);
  png_set_IHDR(png, info, width, static_cast<uint32_t>(rows.size()), bits, color,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (color == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette(1u << bits, png_color{1, 2, 3});
    palette[1] = {200, 100, 50};
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  png_write_info(png, info);
  if (packing) png_set_packing(png);
  std::vector<png_bytep> pointers;
  for (std::vector<png_byte>& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace shardkit::test
