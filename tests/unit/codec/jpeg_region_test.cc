// Regions of JPEGs hold exactly the pixels of the whole image.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "codec_support.h"
#include "jpeg_maker.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

using testing::DecodeWholeScaled;
using testing::Image;
using testing::JpegRecipe;
using testing::MakeJpeg;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
// Compares random regions with `whole`, the image at that scale. Some are at the edges, some are one pixel wide or
// high.
void CompareRegions(JpegDecoder& decoder, std::string_view jpeg, const Image& whole, int scale, int channels, int count,
                    std::mt19937_64& random) {
  const JpegInfo info = ProbeJpeg(jpeg).value();
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  DecodedRegion region;
  for (int i = 0; i < count; ++i) {
    JpegRegionOptions options{.scale = scale, .channels = channels};
    options.x = i % 3 == 0 ? 0 : below(info.width);
    options.y = i % 4 == 0 ? 0 : below(info.height);
    options.width = i % 5 == 0 ? 0 : i % 7 == 0 ? 1 : 1 + below(info.width - options.x);
    options.height = i % 6 == 0 ? 0 : i % 11 == 0 ? 1 : 1 + below(info.height - options.y);
    ASSERT_EQ(decoder.DecodeRegion(jpeg, options, &region), absl::OkStatus());
    const uint32_t right = options.width == 0 ? info.width : options.x + options.width;
    const uint32_t bottom = options.height == 0 ? info.height : options.y + options.height;
    ASSERT_EQ(region.whole_width, whole.view.width);
    ASSERT_EQ(region.whole_height, whole.view.height);
    ASSERT_EQ(region.left, options.x * scale / 8);
    ASSERT_EQ(region.top, options.y * scale / 8);
    ASSERT_EQ(region.left + region.image.width, (right * scale + 7) / 8);
    ASSERT_EQ(region.top + region.image.height, (bottom * scale + 7) / 8);
    ASSERT_EQ(region.image.channels, whole.view.channels);
    const size_t bytes = region.image.width * static_cast<size_t>(whole.view.channels);
    ASSERT_EQ(region.image.pixels.size(), bytes * region.image.height);
    for (uint32_t y = 0; y < region.image.height; ++y) {
      const uint8_t* const expected = whole.At(region.left, region.top + y);
      const uint8_t* const found = region.image.pixels.data() + y * bytes;
      ASSERT_TRUE(std::equal(expected, expected + bytes, found))
          << "row " << y << " of a region of " << options.width << " x " << options.height << " at (" << options.x
          << ", " << options.y << "), scale " << scale;
    }
  }
}

TEST(JpegRegion, EveryKindAndScale) {
  struct Kind {
    J_COLOR_SPACE color;
    int h, v;
    int chroma_h = 1, chroma_v = 1;
  };
  std::mt19937_64 random(3);
  JpegDecoder decoder;
  for (const Kind& kind :
       {Kind{JCS_YCbCr, 1, 1}, Kind{JCS_YCbCr, 2, 1}, Kind{JCS_YCbCr, 1, 2}, Kind{JCS_YCbCr, 2, 2},
        Kind{JCS_YCbCr, 4, 1}, Kind{JCS_YCbCr, 4, 2}, Kind{JCS_YCbCr, 1, 4}, Kind{JCS_YCbCr, 2, 2, 2, 1},
        Kind{JCS_YCbCr, 2, 2, 1, 2}, Kind{JCS_YCbCr, 1, 1, 2, 2}, Kind{JCS_YCbCr, 2, 1, 1, 2},
        Kind{JCS_GRAYSCALE, 1, 1}, Kind{JCS_GRAYSCALE, 2, 2}, Kind{JCS_RGB, 1, 1}, Kind{JCS_RGB, 2, 2}}) {
    for (const bool progressive : {false, true}) {
      for (const auto& [width, height] : {std::pair{131u, 97u}, {64u, 48u}, {5u, 77u}, {90u, 3u}}) {
        for (const int restart_rows : {0, 1}) {
          const JpegRecipe recipe{width,       height,       kind.color, kind.h,        kind.v,
                                  progressive, restart_rows, 90,         kind.chroma_h, kind.chroma_v};
          const std::string jpeg = MakeJpeg(recipe);
          SCOPED_TRACE(::testing::Message()
                       << "color " << kind.color << " " << kind.h << "x" << kind.v << " chroma " << kind.chroma_h << "x"
                       << kind.chroma_v << " progressive " << progressive << " " << width << "x" << height);
          for (int scale = 1; scale <= 8; ++scale) {
            const bool gray = kind.color == JCS_GRAYSCALE;
            CompareRegions(decoder, jpeg, DecodeWholeScaled(jpeg, scale, gray ? JCS_GRAYSCALE : JCS_RGB), scale, 0, 12,
                           random);
            CompareRegions(decoder, jpeg, DecodeWholeScaled(jpeg, scale, gray ? JCS_RGB : JCS_GRAYSCALE), scale,
                           gray ? 3 : 1, 6, random);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(JpegRegion, CmykAndYcck) {
  std::mt19937_64 random(4);
  JpegDecoder decoder;
  DecodedImage decoded;
  for (const J_COLOR_SPACE color : {JCS_CMYK, JCS_YCCK}) {
    for (const int sampling : {1, 2}) {
      const std::string jpeg = MakeJpeg({101, 77, color, sampling, sampling});
      ASSERT_TRUE(decoder.Decode(jpeg, &decoded).ok());
      const Image whole(101, 77, 3, decoded.pixels);
      CompareRegions(decoder, jpeg, whole, 8, 0, 40, random);
      Image gray(101, 77, 1);
      for (size_t i = 0; i < gray.pixels.size(); ++i) {
        const uint8_t* const rgb = whole.pixels.data() + 3 * i;
        gray.pixels[i] = static_cast<uint8_t>((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
      }
      CompareRegions(decoder, jpeg, gray, 8, 1, 20, random);
      Image into(101, 77, 1);
      ASSERT_TRUE(decoder.DecodeInto(jpeg, into.view).ok());
      EXPECT_EQ(into.pixels, gray.pixels);
      Image rgb(101, 77, 3);
      ASSERT_TRUE(decoder.DecodeInto(jpeg, rgb.view).ok());
      EXPECT_EQ(rgb.pixels, whole.pixels);
    }
  }
}

// Missing scans at the end are not damage. libjpeg smooths such images across neighbouring blocks.
TEST(JpegRegion, ProgressiveCutBetweenScans) {
  std::mt19937_64 random(5);
  JpegDecoder decoder;
  const std::string jpeg = MakeJpeg({.width = 201, .height = 150, .progressive = true});
  size_t scan = 0;
  for (size_t scans = 0; (scan = jpeg.find("\xff\xda", scan + 2)) != std::string::npos;) {
    if (++scans < 2) continue;
    // Up to the tables before the scan, which are not needed.
    size_t end = scan;
    while (jpeg.compare(end, 2, "\xff\xc4", 2) != 0 && end > scan - 400) --end;
    if (jpeg.compare(end, 2, "\xff\xc4", 2) != 0) end = scan;
    const std::string cut = jpeg.substr(0, end) + "\xff\xd9";
    for (const int scale : {8, 4, 2, 1}) {
      CompareRegions(decoder, cut, DecodeWholeScaled(cut, scale, JCS_RGB), scale, 0, 15, random);
    }
  }
}

TEST(JpegRegion, DecodeIntoEqualsDecode) {
  JpegDecoder decoder;
  DecodedImage decoded;
  for (const J_COLOR_SPACE color : {JCS_YCbCr, JCS_GRAYSCALE, JCS_RGB}) {
    const std::string jpeg = MakeJpeg({.width = 77, .height = 50, .color = color});
    ASSERT_TRUE(decoder.Decode(jpeg, &decoded).ok());
    for (const int channels : {1, 3}) {
      const Image whole = DecodeWholeScaled(jpeg, 8, channels == 1 ? JCS_GRAYSCALE : JCS_RGB);
      if (decoded.channels == channels) {
        EXPECT_EQ(whole.pixels, decoded.pixels);
      }
      Image canvas(100, 60, channels, std::vector<uint8_t>(6000u * static_cast<unsigned>(channels), 9));
      MutableImageView part = canvas.view;
      part.pixels = canvas.At(3, 4);
      part.width = 77;
      part.height = 50;
      ASSERT_EQ(decoder.DecodeInto(jpeg, part), absl::OkStatus());
      for (uint32_t y = 0; y < 60; ++y) {
        for (uint32_t x = 0; x < 100; ++x) {
          const bool inside = x >= 3 && x < 80 && y >= 4 && y < 54;
          for (int c = 0; c < channels; ++c) {
            ASSERT_EQ(canvas.At(x, y)[c], inside ? whole.At(x - 3, y - 4)[c] : 9);
          }
        }
      }
      part.width = 76;
      EXPECT_EQ(decoder.DecodeInto(jpeg, part).code(), kInvalid);
    }
  }
}

TEST(JpegRegion, Refusals) {
  JpegDecoder decoder;
  DecodedRegion region;
  const std::string jpeg = MakeJpeg({.width = 40, .height = 30});
  for (const JpegRegionOptions& options :
       {JpegRegionOptions{.x = 40}, JpegRegionOptions{.y = 30}, JpegRegionOptions{.x = 1, .width = 40},
        JpegRegionOptions{.y = 20, .height = 11}, JpegRegionOptions{.x = 2, .width = 0xffffffff},
        JpegRegionOptions{.scale = 0}, JpegRegionOptions{.scale = 9}, JpegRegionOptions{.channels = 2},
        JpegRegionOptions{.channels = 4}, JpegRegionOptions{.channels = -1}}) {
    EXPECT_EQ(decoder.DecodeRegion(jpeg, options, &region).code(), kInvalid);
  }
  decoder.set_max_memory(40 * 30 * 3 - 1);
  EXPECT_EQ(decoder.DecodeRegion(jpeg, {}, &region).code(), absl::StatusCode::kResourceExhausted);
  decoder.set_max_memory(40 * 30 * 3);
  EXPECT_TRUE(decoder.DecodeRegion(jpeg, {}, &region).ok());
  EXPECT_EQ(decoder.DecodeRegion("", {}, &region).code(), kDataLoss);
}

// A region of the whole image notices every truncation that Decode notices. A smaller region at the top notices only
// the truncations that reach it. The decoder still works afterwards.
TEST(JpegRegion, Damage) {
  JpegDecoder decoder;
  decoder.set_strict(true);
  DecodedRegion region;
  for (const bool progressive : {false, true}) {
    const std::string jpeg = MakeJpeg({.width = 48, .height = 160, .progressive = progressive});
    for (size_t length = 0; length < jpeg.size(); ++length) {
      ASSERT_EQ(decoder.DecodeRegion(std::string_view(jpeg).substr(0, length), {}, &region).code(), kDataLoss);
    }
    // The region ends with row 15. In a single scan, nothing after the third row of MCUs (row 47) is read.
    const JpegRegionOptions top{.height = 16};
    ASSERT_TRUE(decoder.DecodeRegion(jpeg, top, &region).ok());
    const size_t most = jpeg.size() * 9 / 10;
    EXPECT_EQ(decoder.DecodeRegion(std::string_view(jpeg).substr(0, most), top, &region).code(),
              progressive ? kDataLoss : absl::StatusCode::kOk);
    const JpegRegionOptions bottom{.y = 144};
    ASSERT_TRUE(decoder.DecodeRegion(jpeg, bottom, &region).ok());
    EXPECT_EQ(decoder.DecodeRegion(std::string_view(jpeg).substr(0, most), bottom, &region).code(), kDataLoss);
  }
  // With restart markers every row of MCUs is independent, so that damage is noticed in its own row and not later. A
  // region of row 0 depends on rows 0 to 2, because the decoder may read below the region. It does not depend on row 9.
  std::string marked = MakeJpeg({.width = 48, .height = 160, .restart_rows = 1});
  std::vector<size_t> markers;
  for (size_t i = 0; i + 1 < marked.size(); ++i) {
    if (marked[i] == '\xff' && (marked[i + 1] & 0xf8) == 0xd0) markers.push_back(i);
  }
  ASSERT_EQ(markers.size(), 9u);
  for (size_t row = 0; row < markers.size(); ++row) {
    std::string bad = marked;
    bad[markers[row] + 1] = static_cast<char>(bad[markers[row] + 1] ^ 1);
    // The marker in front of row + 1.
    for (uint32_t y = 0; y < 10; ++y) {
      const absl::Status status = decoder.DecodeRegion(bad, {.y = y * 16, .height = 16}, &region);
      if (y >= row + 1) {
        EXPECT_EQ(status.code(), kDataLoss) << row << " " << y;
      } else if (y + 2 < row + 1) {
        EXPECT_TRUE(status.ok()) << row << " " << y;
      }
    }
  }
}

TEST(JpegRegion, DamageNeverCrashes) {
  JpegDecoder decoder;
  decoder.set_max_memory(1 << 20);
  DecodedRegion region;
  for (const bool progressive : {false, true}) {
    const std::string jpeg = MakeJpeg({.width = 50, .height = 44, .progressive = progressive});
    for (size_t i = 0; i < jpeg.size(); ++i) {
      for (const int change : {1, 16, 128, 255}) {
        std::string bad = jpeg;
        bad[i] = static_cast<char>(bad[i] ^ change);
        const JpegRegionOptions options{.x = 9, .y = 20, .width = 16, .height = 8, .scale = 1 + change % 8};
        (void)decoder.DecodeRegion(bad, options, &region);
      }
    }
    EXPECT_TRUE(decoder.DecodeRegion(jpeg, {}, &region).ok());
  }
}

// TurboJPEG tells of the warning alone.
TEST(JpegRegion, AnErrorAfterAWarningIsAnError) {
  std::string jpeg = MakeJpeg({.width = 64, .height = 64, .progressive = true});
  const size_t table = jpeg.rfind("\xff\xc4");  // of the last scan
  ASSERT_NE(table, std::string::npos);
  std::fill_n(jpeg.begin() + static_cast<std::ptrdiff_t>(table) + 5, 16, '\xff');  // no Huffman table
  jpeg.insert(table, "xx");                                                        // bytes too many before a marker
  JpegDecoder decoder;
  DecodedImage image;
  DecodedRegion region;
  EXPECT_EQ(decoder.Decode(jpeg, &image).code(), kDataLoss);
  std::vector<uint8_t> pixels(64 * 64 * 3);
  EXPECT_EQ(decoder.DecodeInto(jpeg, {pixels.data(), 64, 64, 3, 64 * 3}).code(), kDataLoss);
  EXPECT_EQ(decoder.DecodeRegion(jpeg, {}, &region).code(), kDataLoss);
  EXPECT_EQ(decoder.Check(jpeg).code(), kDataLoss);
}

TEST(JpegRegion, TooManyScans) {
  const std::string many = MakeJpeg(
      {.width = 16, .height = 16, .color = JCS_GRAYSCALE, .h = 1, .v = 1, .progressive = true, .many_scans = true});
  JpegDecoder decoder;
  DecodedRegion region;
  DecodedImage image;
  EXPECT_EQ(decoder.DecodeRegion(many, {}, &region).message(), "JPEG: Progressive JPEG image has more than 500 scans");
  EXPECT_EQ(decoder.DecodeRegion(many, {}, &region), decoder.Decode(many, &image));
}

// Files that other programs wrote: the same answer as Decode, and the same pixels.
TEST(JpegRegion, RealFiles) {
  const char* root = std::getenv("SHARDKIT_TEST_DATA");
  const std::filesystem::path folder(root == nullptr ? "" : root);
  if (!std::filesystem::exists(folder / "photos") || !std::filesystem::exists(folder / "nasty_jpeg")) {
    GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has photos/ and nasty_jpeg/";
  }
  JpegDecoder decoder;
  decoder.set_strict(true);
  DecodedImage decoded;
  DecodedRegion region;
  std::mt19937_64 random(6);
  for (const char* part : {"photos", "nasty_jpeg"}) {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / part)) {
      if (!entry.is_regular_file() || (part[0] == 'p' && ++count % 8 != 0)) continue;
      SCOPED_TRACE(entry.path());
      const std::string jpeg = ReadFile(entry.path());
      const absl::Status status = decoder.Decode(jpeg, &decoded);
      EXPECT_EQ(decoder.DecodeRegion(jpeg, {}, &region).code(), status.code());
      if (!status.ok()) continue;
      CompareRegions(decoder, jpeg, Image(decoded.width, decoded.height, decoded.channels, decoded.pixels), 8, 0, 6,
                     random);
      if (ProbeJpeg(jpeg)->components == 4) continue;
      const J_COLOR_SPACE space = decoded.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
      for (const int scale : {4, 2, 1, 3}) {
        CompareRegions(decoder, jpeg, DecodeWholeScaled(jpeg, scale, space), scale, 0, 4, random);
      }
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace shardkit
