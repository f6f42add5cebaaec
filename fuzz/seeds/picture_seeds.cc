#include <cstdio>
// jpeglib.h wants FILE declared.
#include <jpeglib.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "seeds/seeds.h"
#include "shardkit/rle.h"
#include "shardkit/synth.h"
#include "support/require.h"

namespace shardkit::fuzz {
namespace {

struct JpegKind {
  const char* name;
  J_COLOR_SPACE color;
  int h, v;  // sampling factors of the first component
  bool progressive;
  bool arithmetic;
  int restart_rows;
};

std::string MakeJpeg(const JpegKind& kind, uint32_t width, uint32_t height) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = width;
  info.image_height = height;
  const bool gray = kind.color == JCS_GRAYSCALE, black = kind.color == JCS_YCCK;
  info.input_components = gray ? 1 : black ? 4 : 3;
  info.in_color_space = gray ? JCS_GRAYSCALE : black ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.color);
  info.comp_info[0].h_samp_factor = kind.h;
  info.comp_info[0].v_samp_factor = kind.v;
  info.arith_code = kind.arithmetic ? TRUE : FALSE;
  info.restart_in_rows = kind.restart_rows;
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row(size_t{width} * static_cast<size_t>(info.input_components));
  for (uint32_t y = 0; y < height; ++y) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<uint8_t>(i * 3 + y * 5 + (i * y) / 7);
    JSAMPROW rows[1] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string jpeg(reinterpret_cast<char*>(buffer), size);
  std::free(buffer);
  return jpeg;
}

void AddJpegs(SeedWriter& seeds) {
  const std::array kinds = {
      JpegKind{"gray", JCS_GRAYSCALE, 1, 1, false, false, 0},   JpegKind{"color", JCS_YCbCr, 2, 2, false, false, 0},
      JpegKind{"wide", JCS_YCbCr, 2, 1, false, false, 1},       JpegKind{"tall", JCS_YCbCr, 1, 2, false, false, 0},
      JpegKind{"progressive", JCS_YCbCr, 2, 2, true, false, 0}, JpegKind{"arithmetic", JCS_YCbCr, 1, 1, false, true, 0},
      JpegKind{"black", JCS_YCCK, 1, 1, false, false, 0},       JpegKind{"odd", JCS_YCbCr, 4, 1, false, false, 0},
      JpegKind{"rgb", JCS_RGB, 1, 1, false, false, 2},
  };
  for (const JpegKind& kind : kinds) {
    const std::string jpeg = MakeJpeg(kind, 45, 37);
    // x, y, width, height, scale, channels.
    for (const char scale : {'\0', '\3', '\7'}) {
      seeds.Add("jpeg", std::string(kind.name) + "-" + std::to_string(scale),
                std::string{5, 0, 9, 0, 20, 0, 11, 0, scale, 0, 0, 0} + jpeg);
    }
  }
}

void AddMasks(SeedWriter& seeds) {
  RleList list;
  for (uint64_t number = 0; number < 6; ++number) {
    const std::string noise = SeedBytes(number, 16 * 12);
    std::vector<uint8_t> pixels(noise.size());
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = (i / 16 * 3 + i % 16) / 9 % 2 ^ (noise[i] > 100 ? 1 : 0);
    const auto mask = EncodeDense(pixels, 16, 12);
    RequireOk(mask.status(), "a mask of a seed");
    std::string text = {1, 16};
    AppendCocoText(mask->runs, &text);
    seeds.Add("rle", "text-" + std::to_string(number), text);
    list.Append(*mask);
    std::string value(1, '\0');
    RequireOk(AppendRleValue(list, &value), "storing masks");
    seeds.Add("rle", "value-" + std::to_string(number), value);
  }
}

void AddAnnotations(SeedWriter& seeds) {
  const auto files = NewMemoryFileSystem();
  SynthSa1bOptions options;
  options.count = 6;
  options.threads = 1;
  options.width = 48;
  options.height = 32;
  options.min_objects = 1;
  options.max_objects = 3;
  RequireOk(SynthesizeSa1b(*files, "/sa1b", options), "annotations of seeds");
  for (int number = 1; number <= 6; ++number) {
    std::string json = files->ReadFile("/sa1b/sa_" + std::to_string(number) + ".json", uint64_t{1} << 20).value();
    seeds.Add("sa1b", "sound-" + std::to_string(number), json);
    // Another form of the same, which the columns do not give back.
    for (size_t at = 0; (at = json.find(", ", at)) != json.npos; ++at) json.replace(at, 2, ",");
    seeds.Add("sa1b", "dense-" + std::to_string(number), json);
  }
  seeds.Add(
      "sa1b", "counts",
      R"({"image": {"image_id": 1, "width": 2, "height": 3, "file_name": "a.jpg"}, "annotations": [{"bbox": [0.0, 0.0, 1.0, 1.0],)"
      R"( "area": 2, "segmentation": {"size": [3, 2], "counts": [4, 2]}, "predicted_iou": 1e-5, "point_coords": [[1.5, 0.5]],)"
      R"( "crop_box": [0.0, 0.0, 2.0, 3.0], "id": 7, "stability_score": 0.9}]})");
}

}  // namespace

void AddPictureSeeds(SeedWriter& seeds) {
  AddJpegs(seeds);
  AddMasks(seeds);
  AddAnnotations(seeds);
}

}  // namespace shardkit::fuzz
