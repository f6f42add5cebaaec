// TIFF files, through libtiff. Of a file with several images the first one is decoded.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"

namespace shardkit::codec {
namespace {

// libtiff's own tables.
constexpr uint64_t kTableBytes = uint64_t{64} << 20;

// How the samples lie in the file.
struct TiffLayout {
  uint32_t width = 0;
  uint32_t height = 0;
  uint16_t bits = 1;  // per sample
  uint16_t samples = 1;
  uint16_t photometric = 0;
  uint16_t format = SAMPLEFORMAT_UINT;
  bool separate = false;     // each sample in a plane of its own
  bool tiled = false;        // else of strips
  uint32_t part_width = 0;   // of a tile, or a strip
  uint32_t part_height = 0;  // rows; the last strip may have fewer
  uint64_t part_bytes = 0;   // of one plane
  bool plain = false;        // samples are read as they are; what libtiff converts to RGBA otherwise
  uint16_t alpha = 0;        // of the first further sample, if plain: EXTRASAMPLE_…; 0 for anything else

  bool palette() const { return photometric == PHOTOMETRIC_PALETTE; }
  bool gray() const { return photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE; }
  bool whole_numbers() const { return format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID; }
  uint16_t channels() const { return photometric == PHOTOMETRIC_RGB ? 3 : 1; }  // that are read, if plain
};

class TiffFile {
 public:
  explicit TiffFile(std::string_view bytes) : bytes_(bytes) {}
  ~TiffFile() {
    if (file_ != nullptr) TIFFClose(file_);
  }
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  // libtiff allocates at most `most_bytes` at a time, beside its tables and what it reads of the file.
  absl::Status Open(uint64_t most_bytes) {
    TIFFOpenOptions* const options = TIFFOpenOptionsAlloc();
    if (options == nullptr) return ResourceExhausted("TIFF: there is not enough memory");
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, static_cast<tmsize_t>(kTableBytes + most_bytes + bytes_.size()));
    TIFFOpenOptionsSetErrorHandlerExtR(options, OnError, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options, OnWarning, this);
    file_ = TIFFClientOpenExt("TIFF", "rm", this, OnRead, OnWrite, OnSeek, OnClose, OnSize, nullptr, nullptr, options);
    TIFFOpenOptionsFree(options);
    return file_ != nullptr ? ReadLayout() : Error();
  }

  const TiffLayout& layout() const { return layout_; }
  const Palette& palette() const { return palette_; }

  int Orientation() const {
    uint16_t orientation = 0;
    return TIFFGetField(file_, TIFFTAG_ORIENTATION, &orientation) == 1 && orientation <= 8 ? orientation : 0;
  }

  // Unimplemented, with the reason, if the pixels cannot be decoded.
  absl::Status CheckSupported() {
    uint16_t compression = 0;
    TIFFGetFieldDefaulted(file_, TIFFTAG_COMPRESSION, &compression);
    if (TIFFIsCODECConfigured(compression) == 0) {
      return Unimplemented("TIFF: libtiff does not decode compression ", compression);
    }
    if (!layout_.whole_numbers()) {
      return Unimplemented("TIFF: samples of ", layout_.bits, " bits that are signed or of floating point");
    }
    // Pixels come as they are stored.
    TIFFSetField(file_, TIFFTAG_ORIENTATION, static_cast<int>(ORIENTATION_TOPLEFT));
    char reason[1024] = "";
    if (layout_.plain || TIFFRGBAImageOK(file_, reason) == 1) return absl::OkStatus();
    return Unimplemented("TIFF: ", reason);
  }

  // Reads the part that has the pixel (x, y), of plane `plane`. `to` has part_bytes.
  absl::Status ReadPart(uint32_t x, uint32_t y, uint16_t plane, uint8_t* to) {
    const auto size = static_cast<tmsize_t>(layout_.part_bytes);
    tmsize_t expected = size, read;
    if (layout_.tiled) {
      read = TIFFReadEncodedTile(file_, TIFFComputeTile(file_, x, y, 0, plane), to, size);
    } else {
      const uint32_t rows = std::min(layout_.part_height, layout_.height - y);
      expected = static_cast<tmsize_t>(TIFFVStripSize64(file_, rows));
      read = TIFFReadEncodedStrip(file_, TIFFComputeStrip(file_, y, plane), to, size);
    }
    return read >= expected && expected > 0 ? absl::OkStatus() : Error();
  }

  // The same as RGBA of eight bits; row 0 is the last of `to`.
  absl::Status ReadColors(uint32_t x, uint32_t y, uint32_t* to) {
    const int read = layout_.tiled ? TIFFReadRGBATileExt(file_, x, y, to, 1) : TIFFReadRGBAStripExt(file_, y, to, 1);
    return read == 1 ? absl::OkStatus() : Error();
  }

 private:
  absl::Status ReadLayout() {
    TiffLayout& layout = layout_;
    uint16_t planar = PLANARCONFIG_CONTIG;
    if (TIFFGetField(file_, TIFFTAG_IMAGEWIDTH, &layout.width) != 1 ||
        TIFFGetField(file_, TIFFTAG_IMAGELENGTH, &layout.height) != 1 || layout.width == 0 || layout.height == 0) {
      return DataLoss("TIFF: the first directory gives no size");
    }
    TIFFGetFieldDefaulted(file_, TIFFTAG_BITSPERSAMPLE, &layout.bits);
    TIFFGetFieldDefaulted(file_, TIFFTAG_SAMPLESPERPIXEL, &layout.samples);
    TIFFGetFieldDefaulted(file_, TIFFTAG_PLANARCONFIG, &planar);
    TIFFGetFieldDefaulted(file_, TIFFTAG_SAMPLEFORMAT, &layout.format);
    if (TIFFGetField(file_, TIFFTAG_PHOTOMETRIC, &layout.photometric) != 1) {
      layout.photometric = layout.samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    }
    layout.separate = planar == PLANARCONFIG_SEPARATE && layout.samples > 1;
    layout.tiled = TIFFIsTiled(file_) != 0;
    if (layout.tiled) {
      TIFFGetField(file_, TIFFTAG_TILEWIDTH, &layout.part_width);
      TIFFGetField(file_, TIFFTAG_TILELENGTH, &layout.part_height);
      layout.part_bytes = TIFFTileSize64(file_);
    } else {
      TIFFGetFieldDefaulted(file_, TIFFTAG_ROWSPERSTRIP, &layout.part_height);
      layout.part_width = layout.width;
      layout.part_height = std::min(layout.part_height, layout.height);
      layout.part_bytes = TIFFVStripSize64(file_, layout.part_height);
    }
    if (layout.part_width == 0 || layout.part_height == 0 || layout.part_bytes == 0) {
      return DataLoss("TIFF: its strips or tiles have ", layout.part_width, " x ", layout.part_height, " pixels");
    }
    const bool whole_bytes = layout.bits == 8 || (layout.bits == 16 && !layout.palette());
    const bool packed = (layout.bits == 1 || layout.bits == 2 || layout.bits == 4) && layout.samples == 1;
    const bool known = layout.gray() || (layout.palette() && layout.samples == 1) ||
                       (layout.photometric == PHOTOMETRIC_RGB && layout.samples >= 3);
    layout.plain = known && (whole_bytes || packed);
    uint16_t further = 0;
    const uint16_t* kinds = nullptr;
    if (layout.plain && layout.samples > layout.channels() &&
        TIFFGetField(file_, TIFFTAG_EXTRASAMPLES, &further, &kinds) == 1 && further > 0) {
      layout.alpha = kinds[0];
    }
    return layout.palette() && layout.plain ? ReadPalette() : absl::OkStatus();
  }

  absl::Status ReadPalette() {
    const uint16_t* colors[3];
    if (TIFFGetField(file_, TIFFTAG_COLORMAP, &colors[0], &colors[1], &colors[2]) != 1) {
      return DataLoss("TIFF: has no colors for its indices");
    }
    const size_t count = size_t{1} << layout_.bits;
    // Some writers give colors of eight bits.
    const bool wide = std::ranges::any_of(colors, [&](const uint16_t* color) {
      return std::any_of(color, color + count, [](uint16_t value) { return value > 255; });
    });
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < 3; ++c) {
        palette_.colors[3 * i + c] = static_cast<uint8_t>(wide ? colors[c][i] >> 8 : colors[c][i]);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Error() const { return DataLoss("TIFF: ", message_[0] != '\0' ? message_ : "damaged"); }

  static TiffFile* Self(thandle_t handle) { return static_cast<TiffFile*>(handle); }

  // The first error is the cause of the others.
  static int OnError(TIFF*, void* user, const char*, const char* format, va_list arguments) {
    auto* const self = static_cast<TiffFile*>(user);
    if (self->message_[0] == '\0') std::vsnprintf(self->message_, sizeof(self->message_), format, arguments);
    return 1;  // handled: libtiff does not print it
  }
  static int OnWarning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

  static tmsize_t OnRead(thandle_t handle, void* to, tmsize_t length) {
    TiffFile* const self = Self(handle);
    if (self->at_ >= self->bytes_.size() || length <= 0) return 0;
    const size_t taken = std::min(static_cast<size_t>(length), self->bytes_.size() - static_cast<size_t>(self->at_));
    std::memcpy(to, self->bytes_.data() + self->at_, taken);
    self->at_ += taken;
    return static_cast<tmsize_t>(taken);
  }
  static tmsize_t OnWrite(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t OnSeek(thandle_t handle, toff_t offset, int whence) {
    TiffFile* const self = Self(handle);
    const uint64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? self->at_ : self->bytes_.size();
    self->at_ = from + offset;  // wraps for steps back
    return self->at_;
  }
  static int OnClose(thandle_t) { return 0; }
  static toff_t OnSize(thandle_t handle) { return Self(handle)->bytes_.size(); }

  const std::string_view bytes_;
  uint64_t at_ = 0;
  TIFF* file_ = nullptr;
  TiffLayout layout_;
  Palette palette_;
  char message_[256] = "";
};

// Bytes that the parts take while one after the other is decoded; false if that is beyond all limits.
bool PartMemory(const TiffLayout& layout, uint64_t* bytes) {
  uint64_t pixels;
  if (!CheckedMultiply(layout.part_width, layout.part_height, &pixels)) return false;
  const uint64_t planes = layout.separate ? layout.samples : 1;
  if (!CheckedMultiply(layout.part_bytes, planes, bytes)) return false;
  return layout.plain || (CheckedMultiply(pixels, 4, &pixels) && CheckedAdd(*bytes, pixels, bytes));
}

absl::StatusOr<ImageHeader> ProbeTiff(std::string_view bytes) {
  TiffFile file(bytes);
  SHARDKIT_RETURN_IF_ERROR(file.Open(0));
  const TiffLayout& layout = file.layout();
  ImageHeader header{.width = layout.width, .height = layout.height, .orientation = file.Orientation()};
  header.depth = layout.bits == 16 && layout.whole_numbers() ? 16 : std::min<int>(layout.bits, 8);
  header.palette = layout.palette() && layout.plain && !file.palette().IsGray(size_t{1} << layout.bits);
  header.channels = layout.gray() || (layout.palette() && !header.palette) ? 1 : 3;
  if (!PartMemory(layout, &header.held_bytes)) header.held_bytes = UINT64_MAX;
  // Strips may lie on one another, and so a few bytes decode to any number of pixels, which takes long.
  header.check_bytes = std::max(header.held_bytes, uint64_t{layout.width} * layout.height);
  return header;
}

// Pixels of a row, within a part.
struct TiffRun {
  uint32_t x = 0;  // in the image
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t first = 0;           // the first of them in the part's row
  const uint8_t* rows[4] = {};  // the part's row of each channel that is read, and of transparency
  uint32_t step = 1;            // samples from one pixel to the next
};

// Calls `put` for all runs of pixels in [left, right) x [top, bottom), of `channels` channels if plain.
template <typename Put>
absl::Status ReadRuns(TiffFile& file, uint32_t left, uint32_t top, uint32_t right, uint32_t bottom, int channels,
                      const Put& put) {
  const TiffLayout& layout = file.layout();
  const auto planes = static_cast<uint16_t>(layout.separate ? channels : 1);
  std::vector<uint8_t> part(layout.plain ? layout.part_bytes * planes : 0);
  std::vector<uint32_t> colors(layout.plain ? 0 : size_t{layout.part_width} * layout.part_height);
  const size_t row_samples = layout.part_width * size_t{layout.separate ? uint16_t{1} : layout.samples};
  const size_t row_bytes = layout.plain ? (row_samples * layout.bits + 7) / 8 : size_t{4} * layout.part_width;
  for (uint64_t y = top / layout.part_height * uint64_t{layout.part_height}; y < bottom; y += layout.part_height) {
    const auto part_top = static_cast<uint32_t>(y);
    const auto end = static_cast<uint32_t>(std::min<uint64_t>(y + layout.part_height, layout.height));
    for (uint64_t x = left / layout.part_width * uint64_t{layout.part_width}; x < right; x += layout.part_width) {
      const auto part_left = static_cast<uint32_t>(x);
      if (layout.plain) {
        for (uint16_t plane = 0; plane < planes; ++plane) {
          SHARDKIT_RETURN_IF_ERROR(file.ReadPart(part_left, part_top, plane, part.data() + plane * layout.part_bytes));
        }
      } else {
        SHARDKIT_RETURN_IF_ERROR(file.ReadColors(part_left, part_top, colors.data()));
      }
      TiffRun run;
      run.x = std::max(left, part_left);
      run.width = static_cast<uint32_t>(std::min<uint64_t>(right, x + layout.part_width)) - run.x;
      run.first = run.x - part_left;
      run.step = layout.separate ? 1 : layout.samples;
      for (run.y = std::max(top, part_top); run.y < std::min(bottom, end); ++run.y) {
        // libtiff gives colors from the last row on: of a strip its last, of a tile the tile's.
        const uint32_t rows = layout.tiled ? layout.part_height : end - part_top;
        const uint8_t* const begin =
            layout.plain ? part.data() + (run.y - part_top) * row_bytes
                         : reinterpret_cast<const uint8_t*>(colors.data()) + (part_top + rows - 1 - run.y) * row_bytes;
        for (size_t c = 0; c < 4; ++c) {
          run.rows[c] = layout.separate ? begin + std::min<size_t>(c, planes - 1u) * layout.part_bytes
                                        : begin + (layout.bits == 16 ? 2 * c : c);
        }
        put(run);
      }
    }
  }
  return absl::OkStatus();
}

// The sample of channel `c` of pixel `i` of the run, as a gray value, a color or an index.
uint32_t SampleOf(const TiffLayout& layout, const TiffRun& run, int c, uint32_t i) {
  const uint32_t at = run.first + i;
  uint32_t sample;
  if (layout.bits == 16) {
    sample = LoadLittle<uint16_t>(run.rows[c] + size_t{2} * at * run.step);
  } else if (layout.bits == 8) {
    sample = run.rows[c][size_t{at} * run.step];
  } else {
    const uint64_t bit = uint64_t{at} * layout.bits;
    sample = static_cast<uint32_t>(run.rows[c][bit / 8]) >> (8 - layout.bits - bit % 8) & ((1u << layout.bits) - 1);
  }
  return layout.photometric == PHOTOMETRIC_MINISWHITE && c == 0 ? (1u << layout.bits) - 1 - sample : sample;
}

// Eight bits of a sample: the upper ones of sixteen, the whole range of fewer.
uint8_t EightBits(const TiffLayout& layout, uint32_t sample) {
  if (layout.bits == 16) return static_cast<uint8_t>(sample >> 8);
  if (layout.palette() || layout.bits == 8) return static_cast<uint8_t>(sample);
  return static_cast<uint8_t>(sample * 255 / ((1u << layout.bits) - 1));
}

// Colors that were multiplied by their transparency as they were, as in Pillow.
void Unmultiply(uint32_t width, uint8_t* rgba) {
  for (uint32_t x = 0; x < width; ++x, rgba += 4) {
    const int alpha = rgba[3];
    for (int c = 0; c < 3; ++c) rgba[c] = static_cast<uint8_t>(alpha == 0 ? 0 : std::min(rgba[c] * 255 / alpha, 255));
  }
}

absl::Status DecodeTiff(std::string_view bytes, const ImageHeader& header, uint32_t left, uint32_t top,
                        const MutableImageView* out) {
  TiffFile file(bytes);
  SHARDKIT_RETURN_IF_ERROR(file.Open(header.held_bytes));
  SHARDKIT_RETURN_IF_ERROR(file.CheckSupported());
  if (out == nullptr)
    return ReadRuns(file, 0, 0, header.width, header.height, file.layout().channels(), [](const TiffRun&) {});
  const TiffLayout& layout = file.layout();
  const bool alpha = out->channels == 4 && layout.alpha != EXTRASAMPLE_UNSPECIFIED;
  const int channels = layout.channels() + (alpha ? 1 : 0);
  // Pixels that ConvertRow takes as they lie: with a further sample for transparency, or without.
  const bool direct = layout.bits == 8 && !layout.separate && !layout.palette() &&
                      layout.photometric != PHOTOMETRIC_MINISWHITE &&
                      (out->channels == 4 ? layout.samples == channels : layout.samples <= channels + 1);
  std::vector<uint8_t> line(static_cast<size_t>(channels) * (layout.plain ? out->width : 0));
  return ReadRuns(file, left, top, left + out->width, top + out->height, channels, [&](const TiffRun& run) {
    uint8_t* const to =
        out->pixels + (run.y - top) * out->row_stride + size_t{run.x - left} * static_cast<size_t>(out->channels);
    if (!layout.plain) {
      ConvertRow(run.rows[0] + size_t{4} * run.first, 4, run.width, out->channels, to);
      return;
    }
    for (uint32_t i = 0; !direct && i < run.width; ++i) {
      for (int c = 0; c < channels; ++c) {
        line[i * static_cast<size_t>(channels) + static_cast<size_t>(c)] =
            EightBits(layout, SampleOf(layout, run, c, i));
      }
    }
    if (direct) {
      ConvertRow(run.rows[0] + size_t{run.first} * layout.samples, layout.samples, run.width, out->channels, to);
    } else if (layout.palette()) {
      ConvertRow(line.data(), file.palette(), run.width, out->channels, to);
    } else {
      ConvertRow(line.data(), channels, run.width, out->channels, to);
    }
    if (alpha && layout.alpha == EXTRASAMPLE_ASSOCALPHA) Unmultiply(run.width, to);
  });
}

absl::Status TiffNumbers(std::string_view bytes, const ImageHeader& header, std::span<uint8_t> out) {
  TiffFile file(bytes);
  SHARDKIT_RETURN_IF_ERROR(file.Open(header.held_bytes));
  SHARDKIT_RETURN_IF_ERROR(file.CheckSupported());
  const TiffLayout& layout = file.layout();
  if (!layout.plain) return Unimplemented("TIFF: its class numbers are not integers of 1 to 16 bits");
  return ReadRuns(file, 0, 0, header.width, header.height, 1, [&](const TiffRun& run) {
    const size_t first = size_t{run.y} * header.width + run.x;
    for (uint32_t i = 0; i < run.width; ++i) {
      const uint32_t sample = SampleOf(layout, run, 0, i);
      if (layout.bits == 16) {
        StoreLittle(out.data() + 2 * (first + i), static_cast<uint16_t>(sample));
      } else {
        out[first + i] = static_cast<uint8_t>(sample);
      }
    }
  });
}

}  // namespace

const ImageCodec kTiffCodec = {ImageFormat::kTiff, "", ProbeTiff, DecodeTiff, TiffNumbers};

}  // namespace shardkit::codec
