// The first frame of GIF files.
#include <gif_lib.h>

#include "image_files.h"

namespace shardkit::testing {
namespace {

using codec::kGifCodec;

int AppendGif(GifFileType* file, const GifByteType* bytes, int length) {
  static_cast<std::string*>(file->UserData)->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  return length;
}

struct GifShape {
  int width = 19, height = 13;                    // of the image
  int left = 0, top = 0, across = 19, down = 13;  // of the frame
  bool interlaced = false;
  bool gray = false;
  int transparent = NO_TRANSPARENT_COLOR;
};

GifColorType GifColorOf(const GifShape& shape, int index) {
  const auto value = static_cast<GifByteType>(index);
  return shape.gray ? GifColorType{value, value, value}
                    : GifColorType{static_cast<GifByteType>(200 - index), value, static_cast<GifByteType>(3 * index)};
}

GifPixelType IndexAt(int x, int y) { return static_cast<GifPixelType>((x * 5 + y * 11) % 64); }

std::string MakeGif(const GifShape& shape, int frames = 1) {
  std::string out;
  int error = 0;
  GifFileType* const file = EGifOpen(&out, AppendGif, &error);
  EGifSetGifVersion(file, true);
  GifColorType colors[64];
  for (int i = 0; i < 64; ++i) colors[i] = GifColorOf(shape, i);
  ColorMapObject* const map = GifMakeMapObject(64, colors);
  EXPECT_EQ(EGifPutScreenDesc(file, shape.width, shape.height, 6, 0, map), GIF_OK);
  for (int frame = 0; frame < frames; ++frame) {
    GifByteType control[4];
    EGifGCBToExtension(std::array{GraphicsControlBlock{0, false, 5, shape.transparent}}.data(), control);
    EXPECT_EQ(EGifPutExtension(file, GRAPHICS_EXT_FUNC_CODE, 4, control), GIF_OK);
    EXPECT_EQ(EGifPutImageDesc(file, shape.left, shape.top, shape.across, shape.down, shape.interlaced, nullptr),
              GIF_OK);
    constexpr int kFirst[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    for (int pass = 0; pass < (shape.interlaced ? 4 : 1); ++pass) {
      for (int y = shape.interlaced ? kFirst[pass] : 0; y < shape.down; y += shape.interlaced ? kStep[pass] : 1) {
        std::vector<GifPixelType> row;
        for (int x = 0; x < shape.across; ++x) row.push_back(frame == 0 ? IndexAt(x, y) : GifPixelType{1});
        EXPECT_EQ(EGifPutLine(file, row.data(), shape.across), GIF_OK);
      }
    }
  }
  GifFreeMapObject(map);
  EXPECT_EQ(EGifCloseFile(file, &error), GIF_OK);
  return out;
}

std::vector<uint8_t> GifPixels(const GifShape& shape) {
  std::vector<uint8_t> rgb;
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      const bool inside =
          x >= shape.left && x < shape.left + shape.across && y >= shape.top && y < shape.top + shape.down;
      const int outside = shape.transparent == NO_TRANSPARENT_COLOR ? 0 : shape.transparent;
      const GifColorType color = GifColorOf(shape, inside ? IndexAt(x - shape.left, y - shape.top) : outside);
      rgb.insert(rgb.end(), {color.Red, color.Green, color.Blue});
    }
  }
  return rgb;
}

TEST(Gif, EveryPixelHasTheColorOfItsIndex) {
  for (const bool interlaced : {false, true}) {
    for (const bool gray : {false, true}) {
      for (const int down : {1, 2, 3, 5, 13}) {
        const GifShape shape{.height = down, .down = down, .interlaced = interlaced, .gray = gray};
        SCOPED_TRACE(std::to_string(down) + (interlaced ? " interlaced" : "") + (gray ? " gray" : ""));
        const std::string file = MakeGif(shape);
        EXPECT_EQ(kGifCodec.probe(file)->palette, !gray);
        EXPECT_EQ(kGifCodec.probe(file)->channels, gray ? 1 : 3);
        ExpectPixels(kGifCodec, file, GifPixels(shape));
      }
    }
  }
}

TEST(Gif, AroundTheFirstFrameIsTheTransparentColor) {
  for (const int transparent : {NO_TRANSPARENT_COLOR, 40}) {
    for (const bool interlaced : {false, true}) {
      const GifShape shape{
          .left = 3, .top = 4, .across = 9, .down = 6, .interlaced = interlaced, .transparent = transparent};
      ExpectPixels(kGifCodec, MakeGif(shape, 2), GifPixels(shape));
    }
  }
}

TEST(Gif, TheImageContainsItsFrame) {
  const std::string file = MakeGif({.width = 8, .height = 5, .left = 2, .top = 1});
  EXPECT_EQ(ProbeImage(file)->width, 21u);
  EXPECT_EQ(ProbeImage(file)->height, 14u);
  ExpectPixels(kGifCodec, file, GifPixels({.width = 21, .height = 14, .left = 2, .top = 1}));
}

// The mark of the file's end, a single byte, is not looked for.
TEST(Gif, DamageIsFound) {
  for (const bool interlaced : {false, true}) {
    std::string file = MakeGif({.interlaced = interlaced});
    file.pop_back();
    ExpectDamageIsFound(kGifCodec, file);
  }
}

}  // namespace
}  // namespace shardkit::testing
