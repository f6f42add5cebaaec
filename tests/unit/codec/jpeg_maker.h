// JPEGs of every kind, written with libjpeg, and the simplest way to decode them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <jpeglib.h>

#include "noise.h"

namespace shardkit::testing {

struct JpegRecipe {
  uint32_t width = 64;
  uint32_t height = 48;
  J_COLOR_SPACE color = JCS_YCbCr;  // of the file; JCS_GRAYSCALE, JCS_RGB, JCS_CMYK, JCS_YCCK too
  int h = 2;                        // sampling factors of the first component (and the black one)
  int v = 2;
  bool progressive = false;
  int restart_rows = 0;
  int quality = 90;
  int chroma_h = 1;  // of the others
  int chroma_v = 1;
  bool many_scans = false;  // every coefficient of a gray image bit by bit: 694 scans
};

inline std::string MakeJpeg(const JpegRecipe& recipe) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = recipe.width;
  info.image_height = recipe.height;
  const bool gray = recipe.color == JCS_GRAYSCALE;
  const bool black = recipe.color == JCS_CMYK || recipe.color == JCS_YCCK;
  info.input_components = gray ? 1 : black ? 4 : 3;
  info.in_color_space = gray ? JCS_GRAYSCALE : black ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, recipe.color);
  jpeg_set_quality(&info, recipe.quality, TRUE);
  for (int i = 0; i < info.num_components; ++i) {
    const bool full = i == 0 || i == 3;
    info.comp_info[i].h_samp_factor = full ? recipe.h : recipe.chroma_h;
    info.comp_info[i].v_samp_factor = full ? recipe.v : recipe.chroma_v;
  }
  info.restart_in_rows = recipe.restart_rows;
  if (recipe.progressive) jpeg_simple_progression(&info);
  std::vector<jpeg_scan_info> scans{{1, {0}, 0, 0, 0, 0}};
  for (int coefficient = 1; coefficient < 64; ++coefficient) {
    for (int bit = 10; bit >= 0; --bit)
      scans.push_back({1, {0}, coefficient, coefficient, bit == 10 ? 0 : bit + 1, bit});
  }
  if (recipe.many_scans) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  // Slopes with noise on top, so that every pixel identifies its position.
  const auto components = static_cast<uint32_t>(info.input_components);
  std::vector<uint8_t> row(size_t{recipe.width} * components);
  for (uint32_t y = 0; y < recipe.height; ++y) {
    const std::vector<uint8_t> noise = Noise(row.size(), y);
    for (uint32_t i = 0; i < row.size(); ++i) {
      const uint32_t x = i / components, c = i % components;
      row[i] = static_cast<uint8_t>((x * 3 + y * (c + 1) * 2 + c * 70 + noise[i] / 3) & 255);
    }
    JSAMPROW rows[1] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const std::string jpeg(reinterpret_cast<char*>(buffer), size);
  std::free(buffer);
  return jpeg;
}

// The whole image at scale / 8, in `space`; the file is known to be sound.
inline Image DecodeWholeScaled(std::string_view bytes, int scale, J_COLOR_SPACE space) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&info, TRUE);
  info.scale_num = static_cast<unsigned>(scale);
  info.scale_denom = 8;
  info.out_color_space = space;
  jpeg_start_decompress(&info);
  Image image(info.output_width, info.output_height, info.output_components);
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[1] = {image.At(0, info.output_scanline)};
    jpeg_read_scanlines(&info, rows, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return image;
}

}  // namespace shardkit::testing
