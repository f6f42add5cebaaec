// BMP files of all kinds.
#include "base/endian.h"
#include "image_files.h"

namespace shardkit::testing {
namespace {

using codec::kBmpCodec;

constexpr uint32_t kBmpWidth = 13, kBmpHeight = 6;

struct BmpKind {
  uint16_t bits;
  uint32_t compression = 0;
  bool top_down = false;
  std::vector<uint32_t> masks;
  bool gray = false;
  bool core = false;  // the header of 12 bytes
};

std::vector<uint8_t> BmpColorOf(const BmpKind& kind, uint32_t index) {
  const auto value = static_cast<uint8_t>(index * 15);
  if (kind.gray) return {value, value, value};
  return {static_cast<uint8_t>(255 - index), value, static_cast<uint8_t>(7 * index)};
}

std::string MakeBmp(const BmpKind& kind, const std::string& pixels, uint32_t width = kBmpWidth,
                    uint32_t height = kBmpHeight) {
  std::string header, colors;
  if (kind.core) {
    AppendLittle<uint32_t>(header, 12);
    AppendLittle<uint16_t>(header, static_cast<uint16_t>(width));
    AppendLittle<uint16_t>(header, static_cast<uint16_t>(height));
    AppendLittle<uint16_t>(header, 1);
    AppendLittle<uint16_t>(header, kind.bits);
  } else {
    AppendLittle<uint32_t>(header, 40);
    AppendLittle<uint32_t>(header, width);
    AppendLittle<int32_t>(header, kind.top_down ? -static_cast<int32_t>(height) : static_cast<int32_t>(height));
    AppendLittle<uint16_t>(header, 1);
    AppendLittle<uint16_t>(header, kind.bits);
    AppendLittle<uint32_t>(header, kind.compression);
    header.append(20, '\0');
  }
  for (const uint32_t mask : kind.masks) AppendLittle(colors, mask);
  for (uint32_t i = 0; kind.bits <= 8 && i < 1u << kind.bits; ++i) {
    const std::vector<uint8_t> color = BmpColorOf(kind, i);
    colors += {static_cast<char>(color[2]), static_cast<char>(color[1]), static_cast<char>(color[0])};
    if (!kind.core) colors += '\0';
  }
  std::string file = "BM";
  AppendLittle<uint32_t>(file, 0);
  AppendLittle<uint32_t>(file, 0);
  AppendLittle<uint32_t>(file, static_cast<uint32_t>(14 + header.size() + colors.size()));
  return file + header + colors + pixels;
}

uint32_t BmpValueAt(uint32_t x, uint32_t y, uint32_t bits) {
  return (x * 37 + y * 101 + x * y * 0x10203) & (bits == 32 ? ~0u : (1u << bits) - 1);
}

// Rows from the last one on, unless `top_down`.
std::string Rows(const BmpKind& kind) {
  std::string pixels;
  for (uint32_t i = 0; i < kBmpHeight; ++i) {
    const uint32_t y = kind.top_down ? i : kBmpHeight - 1 - i;
    std::string row;
    uint32_t held = 0;
    for (uint32_t x = 0; x < kBmpWidth; ++x) {
      const uint32_t value = BmpValueAt(x, y, kind.bits);
      if (kind.bits >= 8) {
        for (uint32_t byte = 0; byte < kind.bits / 8u; ++byte) row += static_cast<char>(value >> (8 * byte));
      } else {
        held = held << kind.bits | value;
        if ((x + 1) * kind.bits % 8 == 0 || x + 1 == kBmpWidth) {
          row += static_cast<char>(held << ((8 - (x + 1) * kind.bits % 8) % 8));
          held = 0;
        }
      }
    }
    row.resize((row.size() + 3) / 4 * 4);
    pixels += row;
  }
  return pixels;
}

std::vector<uint8_t> BmpPixels(const BmpKind& kind, const std::vector<uint32_t>& masks) {
  std::vector<uint8_t> rgb;
  for (uint32_t y = 0; y < kBmpHeight; ++y) {
    for (uint32_t x = 0; x < kBmpWidth; ++x) {
      const uint32_t value = BmpValueAt(x, y, kind.bits);
      if (kind.bits <= 8) {
        const std::vector<uint8_t> color = BmpColorOf(kind, value);
        rgb.insert(rgb.end(), color.begin(), color.end());
        continue;
      }
      for (const uint32_t mask : masks) {
        const uint32_t low = mask & -mask;
        rgb.push_back(static_cast<uint8_t>(uint64_t{(value & mask) / low} * 255 / (mask / low)));
      }
    }
  }
  return rgb;
}

TEST(Bmp, EveryKind) {
  const std::vector<uint32_t> bytes = {0xff0000, 0xff00, 0xff}, fives = {0x7c00, 0x3e0, 0x1f};
  const std::vector<uint32_t> wide = {0xf800, 0x7e0, 0x1f}, odd = {0x3ff00000, 0xffc00, 0x3ff};
  struct Case {
    BmpKind kind;
    std::vector<uint32_t> masks;
  };
  std::vector<Case> cases;
  for (const uint16_t bits : {1, 4, 8, 24}) {
    for (const bool core : {false, true}) cases.push_back({{.bits = bits, .core = core}, bytes});
    cases.push_back({{.bits = bits, .top_down = true, .gray = true}, bytes});
  }
  for (const bool top_down : {false, true}) {
    cases.push_back({{.bits = 16, .top_down = top_down}, fives});
    cases.push_back({{.bits = 16, .compression = 3, .top_down = top_down, .masks = wide}, wide});
    cases.push_back({{.bits = 32, .top_down = top_down}, bytes});
    cases.push_back({{.bits = 32, .compression = 3, .top_down = top_down, .masks = odd}, odd});
  }
  for (const Case& each : cases) {
    SCOPED_TRACE(std::to_string(each.kind.bits) + " bits, compression " + std::to_string(each.kind.compression));
    const std::string file = MakeBmp(each.kind, Rows(each.kind));
    ExpectPixels(kBmpCodec, file, BmpPixels(each.kind, each.masks));
    const auto header = kBmpCodec.probe(file);
    EXPECT_EQ(header->palette, each.kind.bits <= 8 && !each.kind.gray);
    EXPECT_EQ(header->channels, each.kind.bits <= 8 && each.kind.gray ? 1 : 3);
    ExpectDamageIsFound(kBmpCodec, file);
  }
}

// Runs, indices as they are, a move, and ends of rows and of the image. Pixels that are not given have index 0.
TEST(Bmp, RunLengths) {
  const BmpKind eight{.bits = 8, .compression = 1};
  const std::string runs(
      "\x03\x07"                  // three of index 7
      "\x00\x03\x01\x02\x03\x00"  // 1 2 3, padded
      "\x00\x00"                  // the next row
      "\x01\x09\x00\x02\x02\x01"  // 9, then two right and one up
      "\x02\x05\x00\x01",         // 5 5, the end
      20);
  const std::vector<std::vector<uint32_t>> upward = {{7, 7, 7, 1, 2, 3, 0}, {9}, {0, 0, 0, 5, 5}, {}};
  std::vector<uint8_t> rgb;
  for (size_t y = 0; y < 4; ++y) {
    for (size_t x = 0; x < 7; ++x) {
      const auto& row = upward[3 - y];
      const std::vector<uint8_t> color = BmpColorOf(eight, x < row.size() ? row[x] : 0);
      rgb.insert(rgb.end(), color.begin(), color.end());
    }
  }
  const std::string file = MakeBmp(eight, runs, 7, 4);
  ExpectPixels(kBmpCodec, file, rgb);
  ExpectDamageIsFound(kBmpCodec, file);

  const BmpKind four{.bits = 4, .compression = 2};
  const std::string nibbles("\x05\x12\x00\x03\x34\x50\x00\x00\x00\x01", 10);
  rgb.clear();
  for (const uint32_t index : {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 2, 1, 3, 4, 5}) {
    const std::vector<uint8_t> color = BmpColorOf(four, index);
    rgb.insert(rgb.end(), color.begin(), color.end());
  }
  ExpectPixels(kBmpCodec, MakeBmp(four, nibbles, 8, 2), rgb);
}

TEST(Bmp, WhatItClaimsIsCompared) {
  const std::string file = MakeBmp({.bits = 24}, Rows({.bits = 24}));
  std::string huge = file;
  for (const size_t at : {18, 22}) StoreLittle(huge.data() + at, int32_t{1} << 30);
  EXPECT_TRUE(absl::IsDataLoss(kBmpCodec.probe(huge).status()));
  EXPECT_TRUE(absl::IsUnimplemented(kBmpCodec.probe(MakeBmp({.bits = 24, .compression = 4}, "")).status()));
  std::string within = file;
  StoreLittle(within.data() + 10, uint32_t{20});
  EXPECT_TRUE(absl::IsDataLoss(kBmpCodec.probe(within).status()));
  // Of runs the size is limited alone.
  std::string runs = MakeBmp({.bits = 8, .compression = 1}, std::string("\0\1", 2));
  for (const size_t at : {18, 22}) StoreLittle(runs.data() + at, int32_t{1} << 30);
  EXPECT_TRUE(absl::IsResourceExhausted(codec::CheckImage(runs, kDefaultImageMemory)));
}

}  // namespace
}  // namespace shardkit::testing
