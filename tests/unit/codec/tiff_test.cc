// TIFF files of many layouts, written by libtiff.
#include <tiffio.h>

#include <cstring>

#include "base/endian.h"
#include "image_files.h"

namespace shardkit::testing {
namespace {

using codec::kTiffCodec;

constexpr uint32_t kTiffWidth = 41, kTiffHeight = 29;

struct MemoryFile {
  std::string bytes;
  size_t at = 0;
};

MemoryFile* Self(thandle_t handle) { return static_cast<MemoryFile*>(handle); }
tmsize_t Read(thandle_t handle, void* to, tmsize_t length) {
  MemoryFile* const self = Self(handle);
  const size_t taken =
      std::min(static_cast<size_t>(length), self->bytes.size() - std::min(self->at, self->bytes.size()));
  std::memcpy(to, self->bytes.data() + self->at, taken);
  self->at += taken;
  return static_cast<tmsize_t>(taken);
}
tmsize_t Write(thandle_t handle, void* from, tmsize_t length) {
  MemoryFile* const self = Self(handle);
  self->bytes.resize(std::max(self->bytes.size(), self->at + static_cast<size_t>(length)));
  std::memcpy(self->bytes.data() + self->at, from, static_cast<size_t>(length));
  self->at += static_cast<size_t>(length);
  return length;
}
toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  MemoryFile* const self = Self(handle);
  self->at = offset + (whence == SEEK_CUR ? self->at : whence == SEEK_END ? self->bytes.size() : 0);
  return self->at;
}
int Close(thandle_t) { return 0; }
toff_t Size(thandle_t handle) { return Self(handle)->bytes.size(); }

struct TiffKind {
  uint16_t bits = 8;
  uint16_t samples = 3;
  uint16_t photometric = PHOTOMETRIC_RGB;
  uint16_t compression = COMPRESSION_NONE;
  bool separate = false;
  uint32_t tile = 0;  // its side; 0 is strips
  uint32_t rows = 5;  // of a strip
  uint16_t format = SAMPLEFORMAT_UINT;
  uint16_t extra = EXTRASAMPLE_UNASSALPHA;
  uint16_t orientation = 0;
  const char* mode = "wm";  // with b: big-endian, with 8: BigTIFF
};

uint32_t TiffValueAt(const TiffKind& kind, uint32_t x, uint32_t y, uint32_t c) {
  return (x * 1931 + y * 5407 + c * 20011) & ((1u << kind.bits) - 1);
}

uint8_t TiffColorOf(uint32_t index, uint32_t c) { return static_cast<uint8_t>(index * (c + 3) + 40 * c); }

// One row of a part that begins at (left, y), of sample `plane` alone where planes are separate.
std::string RowOf(const TiffKind& kind, uint32_t left, uint32_t y, uint32_t width, uint32_t plane) {
  std::string row;
  uint32_t held = 0, bits = 0;
  for (uint32_t x = left; x < left + width; ++x) {
    for (uint32_t c = 0; c < (kind.separate ? 1u : kind.samples); ++c) {
      const uint32_t value = TiffValueAt(kind, x, y, kind.separate ? plane : c);
      if (kind.bits == 16) {
        AppendLittle(row, static_cast<uint16_t>(value));
        continue;
      }
      held = held << kind.bits | value;
      bits += kind.bits;
      if (bits == 8 || x + 1 == left + width) {
        row += static_cast<char>(held << (8 - bits));
        held = bits = 0;
      }
    }
  }
  return row;
}

std::string MakeTiff(const TiffKind& kind) {
  MemoryFile memory;
  TIFF* const file = TIFFClientOpen("made", kind.mode, &memory, Read, Write, Seek, Close, Size, nullptr, nullptr);
  TIFFSetField(file, TIFFTAG_IMAGEWIDTH, kTiffWidth);
  TIFFSetField(file, TIFFTAG_IMAGELENGTH, kTiffHeight);
  TIFFSetField(file, TIFFTAG_BITSPERSAMPLE, kind.bits);
  TIFFSetField(file, TIFFTAG_SAMPLESPERPIXEL, kind.samples);
  TIFFSetField(file, TIFFTAG_PHOTOMETRIC, kind.photometric);
  TIFFSetField(file, TIFFTAG_COMPRESSION, kind.compression);
  TIFFSetField(file, TIFFTAG_SAMPLEFORMAT, kind.format);
  TIFFSetField(file, TIFFTAG_PLANARCONFIG, kind.separate ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  if (kind.orientation != 0) TIFFSetField(file, TIFFTAG_ORIENTATION, kind.orientation);
  const int colors = kind.photometric == PHOTOMETRIC_RGB ? 3 : kind.photometric == PHOTOMETRIC_SEPARATED ? 4 : 1;
  if (kind.samples > colors) {
    const std::vector<uint16_t> extra(static_cast<size_t>(kind.samples - colors), kind.extra);
    TIFFSetField(file, TIFFTAG_EXTRASAMPLES, static_cast<uint16_t>(extra.size()), extra.data());
  }
  if (kind.photometric == PHOTOMETRIC_PALETTE) {
    std::vector<uint16_t> map[3];
    for (uint32_t c = 0; c < 3; ++c) {
      for (uint32_t i = 0; i < 1u << kind.bits; ++i) map[c].push_back(static_cast<uint16_t>(TiffColorOf(i, c) * 257));
    }
    TIFFSetField(file, TIFFTAG_COLORMAP, map[0].data(), map[1].data(), map[2].data());
  }
  if (kind.tile != 0) {
    TIFFSetField(file, TIFFTAG_TILEWIDTH, kind.tile);
    TIFFSetField(file, TIFFTAG_TILELENGTH, kind.tile);
  } else {
    TIFFSetField(file, TIFFTAG_ROWSPERSTRIP, kind.rows);
  }
  for (uint16_t plane = 0; plane < (kind.separate ? kind.samples : 1); ++plane) {
    const uint32_t down = kind.tile != 0 ? kind.tile : kind.rows, across = kind.tile != 0 ? kind.tile : kTiffWidth;
    for (uint32_t top = 0; top < kTiffHeight; top += down) {
      for (uint32_t left = 0; left < kTiffWidth; left += across) {
        std::string part;
        for (uint32_t y = top; y < (kind.tile != 0 ? top + down : std::min(top + down, kTiffHeight)); ++y) {
          part += RowOf(kind, left, y, across, plane);
        }
        const auto size = static_cast<tmsize_t>(part.size());
        if (kind.tile != 0) {
          EXPECT_EQ(TIFFWriteEncodedTile(file, TIFFComputeTile(file, left, top, 0, plane), part.data(), size), size);
        } else {
          EXPECT_EQ(TIFFWriteEncodedStrip(file, TIFFComputeStrip(file, top, plane), part.data(), size), size);
        }
      }
    }
  }
  TIFFClose(file);
  return memory.bytes;
}

std::vector<uint8_t> TiffPixels(const TiffKind& kind) {
  std::vector<uint8_t> rgb;
  for (uint32_t y = 0; y < kTiffHeight; ++y) {
    for (uint32_t x = 0; x < kTiffWidth; ++x) {
      for (uint32_t c = 0; c < 3; ++c) {
        const bool gray = kind.photometric != PHOTOMETRIC_RGB;
        uint32_t value = TiffValueAt(kind, x, y, gray ? 0 : c);
        if (kind.photometric == PHOTOMETRIC_PALETTE) {
          rgb.push_back(TiffColorOf(value, c));
          continue;
        }
        if (kind.photometric == PHOTOMETRIC_MINISWHITE) value = (1u << kind.bits) - 1 - value;
        rgb.push_back(static_cast<uint8_t>(kind.bits == 16 ? value >> 8 : value * 255 / ((1u << kind.bits) - 1)));
      }
    }
  }
  return rgb;
}

std::string NameOf(const TiffKind& kind) {
  return std::to_string(kind.bits) + " bits, " + std::to_string(kind.samples) + " samples, photometric " +
         std::to_string(kind.photometric) + ", compression " + std::to_string(kind.compression) +
         (kind.separate ? ", separate" : "") + (kind.tile != 0 ? ", tiled " : " ") + kind.mode;
}

TEST(Tiff, EveryKind) {
  for (const uint16_t photometric :
       {PHOTOMETRIC_RGB, PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_MINISWHITE, PHOTOMETRIC_PALETTE}) {
    for (const uint16_t bits : {1, 2, 4, 8, 16}) {
      const bool palette = photometric == PHOTOMETRIC_PALETTE, color = photometric == PHOTOMETRIC_RGB;
      if ((color && bits < 8) || (palette && bits > 8)) continue;
      for (const uint16_t compression : {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE}) {
        for (const uint32_t tile : {0, 16}) {
          for (const char* const mode : {"wm", "wmb", "wm8"}) {
            for (const bool alpha : {false, true}) {
              for (const bool separate : {false, true}) {
                if ((alpha && (bits < 8 || palette)) || (separate && !alpha && !color)) continue;
                const TiffKind kind{.bits = bits,
                                    .samples = static_cast<uint16_t>((color ? 3 : 1) + (alpha ? 1 : 0)),
                                    .photometric = photometric,
                                    .compression = compression,
                                    .separate = separate,
                                    .tile = tile,
                                    .mode = mode};
                SCOPED_TRACE(NameOf(kind));
                const std::string file = MakeTiff(kind);
                ExpectPixels(kTiffCodec, file, TiffPixels(kind));
                const auto header = kTiffCodec.probe(file);
                EXPECT_EQ(header->depth, bits);
                EXPECT_EQ(header->palette, palette);
                EXPECT_EQ(header->channels, color || palette ? 3 : 1);
              }
            }
          }
        }
      }
    }
  }
}

// Further samples than those of the color are passed over.
TEST(Tiff, SamplesThatAreNoColors) {
  for (const uint16_t photometric : {PHOTOMETRIC_RGB, PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_MINISWHITE}) {
    for (const uint16_t samples : {3, 4, 5}) {
      for (const bool separate : {false, true}) {
        const TiffKind kind{.samples = samples, .photometric = photometric, .separate = separate};
        SCOPED_TRACE(NameOf(kind));
        ExpectPixels(kTiffCodec, MakeTiff(kind), TiffPixels(kind));
      }
    }
  }
}

TEST(Tiff, WhatLibtiffConverts) {
  const TiffKind ink{.samples = 4, .photometric = PHOTOMETRIC_SEPARATED};
  for (const uint32_t tile : {0, 16}) {
    TiffKind kind = ink;
    kind.tile = tile;
    std::vector<uint8_t> rgb;
    for (uint32_t y = 0; y < kTiffHeight; ++y) {
      for (uint32_t x = 0; x < kTiffWidth; ++x) {
        for (uint32_t c = 0; c < 3; ++c) {
          rgb.push_back(
              static_cast<uint8_t>((255 - TiffValueAt(kind, x, y, 3)) * (255 - TiffValueAt(kind, x, y, c)) / 255));
        }
      }
    }
    ExpectPixels(kTiffCodec, MakeTiff(kind), rgb);
  }
}

TEST(Tiff, NumbersOfALabelMap) {
  for (const uint16_t bits : {1, 4, 8, 16}) {
    for (const uint16_t photometric : {PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_PALETTE}) {
      if (photometric == PHOTOMETRIC_PALETTE && bits == 16) continue;
      const TiffKind kind{.bits = bits, .samples = 1, .photometric = photometric, .tile = bits == 4 ? 16u : 0u};
      const std::string file = MakeTiff(kind);
      std::vector<uint16_t> numbers(kTiffWidth * kTiffHeight);
      ASSERT_EQ(DecodeLabelMap(file, FullImage({kTiffWidth, kTiffHeight}), Type::kU16, 0, kDefaultImageMemory,
                               {reinterpret_cast<uint8_t*>(numbers.data()), 2 * numbers.size()}),
                absl::OkStatus());
      for (uint32_t i = 0; i < numbers.size(); ++i)
        ASSERT_EQ(numbers[i], TiffValueAt(kind, i % kTiffWidth, i / kTiffWidth, 0));
    }
  }
}

TEST(Tiff, OrientationIsToldAndNotApplied) {
  TiffKind kind;
  EXPECT_EQ(kTiffCodec.probe(MakeTiff(kind))->orientation, 0);
  const Image stored = DecodeFile(kTiffCodec, MakeTiff(kind), 3);
  const TiffKind ink{.samples = 4, .photometric = PHOTOMETRIC_SEPARATED};
  const Image stored_ink = DecodeFile(kTiffCodec, MakeTiff(ink), 3);
  for (const uint16_t orientation : {1, 3, 6, 8}) {
    TiffKind turned = kind, turned_ink = ink;
    turned.orientation = turned_ink.orientation = orientation;
    EXPECT_EQ(kTiffCodec.probe(MakeTiff(turned))->orientation, orientation);
    EXPECT_EQ(DecodeFile(kTiffCodec, MakeTiff(turned), 3).pixels, stored.pixels);
    EXPECT_EQ(DecodeFile(kTiffCodec, MakeTiff(turned_ink), 3).pixels, stored_ink.pixels);
  }
}

TEST(Tiff, DamageIsFound) {
  // libtiff writes the directory behind the pixels.
  for (const uint16_t compression : {COMPRESSION_NONE, COMPRESSION_LZW}) {
    for (const uint32_t tile : {0, 16})
      ExpectDamageIsFound(kTiffCodec, MakeTiff({.compression = compression, .tile = tile}));
  }
}

TEST(Tiff, WhatIsNotDecodedIsNamed) {
  const std::string file =
      MakeTiff({.bits = 16, .samples = 1, .photometric = PHOTOMETRIC_MINISBLACK, .format = SAMPLEFORMAT_INT});
  EXPECT_TRUE(kTiffCodec.probe(file).ok());
  const absl::Status status = codec::CheckImage(file, kDefaultImageMemory);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  Image image(kTiffWidth, kTiffHeight, 1);
  EXPECT_TRUE(absl::IsUnimplemented(ImageDecoder().Decode(file, FullImage(*ProbeImage(file)), {}, image.view)));
}

TEST(Tiff, AStripIsTheMemoryThatIsTakenAndManyPixelsAreNotChecked) {
  const std::string file = MakeTiff({.rows = 7});
  const auto header = kTiffCodec.probe(file);
  EXPECT_EQ(header->held_bytes, 7 * kTiffWidth * 3);
  EXPECT_EQ(header->check_bytes, kTiffWidth * kTiffHeight);
  EXPECT_EQ(codec::CheckImage(file, header->check_bytes), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(codec::CheckImage(file, header->check_bytes - 1)));
  EXPECT_EQ(kTiffCodec.probe(MakeTiff({.rows = 29}))->check_bytes, kTiffHeight * kTiffWidth * 3);
}

}  // namespace
}  // namespace shardkit::testing
