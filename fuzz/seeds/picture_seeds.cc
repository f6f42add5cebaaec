#include <cstdio>
// jpeglib.h needs FILE.
#include <jpeglib.h>
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "seeds/seeds.h"
#include "shardkit/rle.h"
#include "support/require.h"
#include "tools/synth/synth.h"

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

std::string PngChunk(std::string kind, const std::string& data) {
  const auto number = [](uint64_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  kind += data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(kind.data()), static_cast<uInt>(kind.size()));
  return number(data.size()) + kind + number(sum);
}

// 21 x 13 pixels. Each row has its own filter.
void AddPngs(SeedWriter& seeds) {
  constexpr uint32_t kWidth = 21, kHeight = 13;
  struct Pass {
    uint32_t left, top, right, down;
  };
  constexpr std::array<Pass, 7> kAdam7 = {
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  struct Kind {
    char color, bits;
    uint32_t channels;
  };
  for (const Kind kind : {Kind{0, 1, 1},
                          {0, 4, 1},
                          {0, 8, 1},
                          {0, 16, 1},
                          {2, 8, 3},
                          {2, 16, 3},
                          {3, 2, 1},
                          {3, 8, 1},
                          {4, 8, 2},
                          {6, 8, 4},
                          {6, 16, 4}}) {
    for (const char interlaced : {'\0', '\1'}) {
      std::string raw;
      for (const Pass& pass : kAdam7) {
        const Pass part = interlaced != 0 ? pass : Pass{0, 0, 1, 1};
        const uint32_t across = (kWidth - part.left + part.right - 1) / part.right;
        for (uint32_t y = part.top; y < kHeight; y += part.down) {
          raw += static_cast<char>(y % 5) +
                 SeedBytes(y, (across * kind.channels * static_cast<uint32_t>(kind.bits) + 7) / 8);
        }
        if (interlaced == 0) break;
      }
      std::string packed(compressBound(raw.size()), '\0');
      uLongf length = packed.size();
      Require(compress(reinterpret_cast<Bytef*>(packed.data()), &length, reinterpret_cast<const Bytef*>(raw.data()),
                       raw.size()) == Z_OK,
              "compressing a seed");
      packed.resize(length);
      const std::string header{0, 0, 0, kWidth, 0, 0, 0, kHeight, kind.bits, kind.color, 0, 0, interlaced};
      const std::string palette =
          kind.color == 3 ? PngChunk("PLTE", SeedBytes(7, 3u << kind.bits)) + PngChunk("tRNS", "\7") : "";
      seeds.Add("png",
                std::to_string(kind.color) + "-" + std::to_string(kind.bits) + (interlaced != 0 ? "-interlaced" : ""),
                std::string{5, 0, 9, 0, 20, 0, 11, 0, 1, 0, 0, 0} + "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) +
                    palette + PngChunk("IDAT", packed) + PngChunk("IEND", ""));
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
  shardctl::SynthSa1bOptions options;
  options.count = 6;
  options.threads = 1;
  options.width = 48;
  options.height = 32;
  options.min_objects = 1;
  options.max_objects = 3;
  RequireOk(shardctl::SynthesizeSa1b(*files, "/sa1b", options), "annotations of seeds");
  for (int number = 1; number <= 6; ++number) {
    std::string json = files->ReadFile("/sa1b/sa_" + std::to_string(number) + ".json", uint64_t{1} << 20).value();
    seeds.Add("sa1b", "sound-" + std::to_string(number), json);
    // The same content in another form, which cannot be regenerated from the columns.
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
  AddPngs(seeds);
  AddMasks(seeds);
  AddAnnotations(seeds);
}

}  // namespace shardkit::fuzz
