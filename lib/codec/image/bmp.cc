// BMP files (Microsoft's BITMAPFILEHEADER and the headers behind it). No library in use reads them alone.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"

namespace shardkit::codec {
namespace {

enum BmpCompression : uint32_t { kRgb = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3, kAlphaBitFields = 6 };

struct BmpFile {
  uint32_t width = 0;
  uint32_t height = 0;
  bool top_down = false;
  uint32_t bits = 0;  // of a pixel
  uint32_t compression = kRgb;
  uint64_t pixels = 0;            // where they begin
  uint32_t masks[3] = {0, 0, 0};  // of red, green and blue, in pixels of 16 and 32 bits
  size_t color_count = 0;
  Palette palette;

  bool indexed() const { return bits <= 8; }
  bool run_lengths() const { return compression == kRle8 || compression == kRle4; }
  uint64_t row_bytes() const { return (uint64_t{width} * bits + 31) / 32 * 4; }
};

absl::Status ReadColors(std::string_view bytes, uint64_t at, size_t entry, BmpFile* file) {
  // A count that exceeds what the pixels can say, or that runs into the pixels, is a mistake of the writer.
  const uint64_t end = std::min<uint64_t>(file->pixels, bytes.size());
  const uint64_t room = at < end ? (end - at) / entry : 0;
  file->color_count = static_cast<size_t>(std::min<uint64_t>({file->color_count, room, uint64_t{1} << file->bits}));
  for (size_t i = 0; i < file->color_count; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      file->palette.colors[3 * i + c] = static_cast<uint8_t>(bytes[at + i * entry + 2 - c]);
    }
  }
  return file->color_count > 0 ? absl::OkStatus() : DataLoss("BMP: has no colors at byte ", at);
}

absl::StatusOr<BmpFile> ReadHeaders(std::string_view bytes) {
  constexpr size_t kFileHeader = 14, kCoreHeader = 12, kInfoHeader = 40, kMostHeader = 124;
  if (bytes.size() < kFileHeader + kCoreHeader) return DataLoss("BMP: ends within its headers");
  const uint32_t header = LoadLittle<uint32_t>(bytes.data() + kFileHeader);
  const bool core = header == kCoreHeader;
  if (!core && (header < kInfoHeader || header > kMostHeader)) {
    return DataLoss("BMP: the header at byte ", kFileHeader, " has ", header, " bytes, not 12 or 40 to 124");
  }
  if (bytes.size() - kFileHeader < header) return DataLoss("BMP: ends within its headers");
  const char* const at = bytes.data() + kFileHeader;
  BmpFile file;
  file.pixels = LoadLittle<uint32_t>(bytes.data() + 10);
  const int64_t width = core ? LoadLittle<uint16_t>(at + 4) : LoadLittle<int32_t>(at + 4);
  const int64_t height = core ? LoadLittle<uint16_t>(at + 6) : LoadLittle<int32_t>(at + 8);
  file.bits = LoadLittle<uint16_t>(at + (core ? 10 : 14));
  if (width <= 0 || height == 0) return DataLoss("BMP: the header gives ", width, " x ", height, " pixels");
  file.width = static_cast<uint32_t>(width);
  file.height = static_cast<uint32_t>(std::abs(height));
  file.top_down = height < 0;
  file.color_count = size_t{1} << std::min(file.bits, 8u);
  if (!core) {
    file.compression = LoadLittle<uint32_t>(at + 16);
    if (const uint32_t count = LoadLittle<uint32_t>(at + 32); count > 0) file.color_count = count;
  }
  const bool fields = file.compression == kBitFields || file.compression == kAlphaBitFields;
  const bool packed = file.bits == 16 || file.bits == 32;
  const bool supported = file.compression == kRgb
                             ? file.bits == 1 || file.bits == 4 || file.bits == 8 || packed || file.bits == 24
                         : file.compression == kRle8 ? file.bits == 8 && !file.top_down
                         : file.compression == kRle4 ? file.bits == 4 && !file.top_down
                                                     : fields && packed;
  if (!supported) {
    return Unimplemented("BMP: ", file.bits, " bits per pixel of compression ", file.compression, " are not supported");
  }
  uint64_t behind = kFileHeader + header;
  if (packed && fields) {
    // In a short header they follow, in longer ones they are part of it: at the same place.
    constexpr size_t kMasks = kFileHeader + kInfoHeader;
    if (bytes.size() < kMasks + 12) return DataLoss("BMP: ends within its headers");
    for (size_t c = 0; c < 3; ++c) file.masks[c] = LoadLittle<uint32_t>(bytes.data() + kMasks + 4 * c);
  } else if (packed) {
    const uint32_t top = file.bits == 16 ? 0x7c00 : 0xff0000;
    const int step = file.bits == 16 ? 5 : 8;
    for (int c = 0; c < 3; ++c) file.masks[c] = top >> (step * c);
  } else if (file.indexed()) {
    SHARDKIT_RETURN_IF_ERROR(ReadColors(bytes, behind, core ? 3 : 4, &file));
  }
  if (file.pixels < behind) return DataLoss("BMP: the pixels begin at byte ", file.pixels, ", within the headers");
  if (!file.run_lengths() && !RangeWithin(file.pixels, file.row_bytes() * file.height, bytes.size())) {
    return DataLoss("BMP: ", file.width, " x ", file.height, " pixels from byte ", file.pixels,
                    " on are more than the file has");
  }
  return file;
}

absl::StatusOr<ImageHeader> ProbeBmp(std::string_view bytes) {
  SHARDKIT_ASSIGN_OR_RETURN(const BmpFile file, ReadHeaders(bytes));
  ImageHeader header{.width = file.width, .height = file.height};
  header.palette = file.indexed() && !file.palette.IsGray(file.color_count);
  header.channels = file.indexed() && !header.palette ? 1 : 3;
  header.held_bytes = header.check_bytes = file.run_lengths() ? file.width : 0;
  return header;
}

// What the bits of `mask` say, 0 to 255.
uint8_t Channel(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift;
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / most);
}

// Pixels [left, left + width) of a stored row: as indices, or as RGB.
void UnpackRow(const BmpFile& file, const char* from, uint32_t left, uint32_t width, uint8_t* to) {
  if (file.indexed()) {
    const unsigned most = (1u << file.bits) - 1;
    for (uint64_t bit = uint64_t{left} * file.bits; width > 0; --width, bit += file.bits) {
      *to++ = static_cast<uint8_t>(static_cast<uint8_t>(from[bit / 8]) >> (8 - file.bits - bit % 8) & most);
    }
    return;
  }
  const size_t step = file.bits / 8;
  from += left * step;
  const bool bytes = file.bits == 24 ||
                     (file.bits == 32 && file.masks[0] == 0xff0000 && file.masks[1] == 0xff00 && file.masks[2] == 0xff);
  for (; width > 0; --width, from += step, to += 3) {
    if (bytes) {
      for (size_t c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(from[2 - c]);
    } else {
      const uint32_t pixel = step == 2 ? LoadLittle<uint16_t>(from) : LoadLittle<uint32_t>(from);
      for (size_t c = 0; c < 3; ++c) to[c] = Channel(pixel, file.masks[c]);
    }
  }
}

// Rows of indices from runs, in the order of the file.
class RunReader {
 public:
  RunReader(std::string_view bytes, const BmpFile& file) : bytes_(bytes), at_(file.pixels), nibbles_(file.bits == 4) {}

  // Fills the row if it is wanted. False where the bytes end within it.
  bool ReadRow(bool wanted, std::vector<uint8_t>* row) {
    if (wanted) std::fill(row->begin(), row->end(), uint8_t{0});
    if (rows_to_skip_ > 0) {
      if (--rows_to_skip_ > 0) return true;
      // The row in which a move ends goes on at its position.
    } else {
      x_ = 0;
    }
    while (!ended_) {
      uint8_t count, value;
      if (!Take(&count) || !Take(&value)) return false;
      if (count > 0) {
        for (uint32_t i = 0; i < count; ++i) Put(row, Index(value, i));
      } else if (value == kEndOfRow) {
        return true;
      } else if (value == kEndOfImage) {
        ended_ = true;
      } else if (value == kMove) {
        uint8_t right, down;
        if (!Take(&right) || !Take(&down)) return false;
        x_ += right;
        if (down > 0) {
          rows_to_skip_ = down;
          return true;
        }
      } else if (!Copy(value, row)) {
        return false;
      }
    }
    return true;
  }

  uint64_t at() const { return at_; }
  bool ended() const { return ended_; }

 private:
  static constexpr uint8_t kEndOfRow = 0, kEndOfImage = 1, kMove = 2;

  bool Take(uint8_t* byte) {
    if (at_ >= bytes_.size()) return false;
    *byte = static_cast<uint8_t>(bytes_[at_++]);
    return true;
  }

  uint8_t Index(uint8_t value, uint32_t i) const {
    return !nibbles_ ? value : static_cast<uint8_t>(i % 2 == 0 ? value >> 4 : value & 15);
  }

  void Put(std::vector<uint8_t>* row, uint8_t index) {
    if (x_ < row->size()) (*row)[x_] = index;
    ++x_;
  }

  // Indices as they are, padded to an even number of bytes.
  bool Copy(uint32_t count, std::vector<uint8_t>* row) {
    const uint32_t length = nibbles_ ? (count + 1) / 2 : count;
    uint8_t value = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if ((!nibbles_ || i % 2 == 0) && !Take(&value)) return false;
      Put(row, Index(value, i));
    }
    return length % 2 == 0 || Take(&value);
  }

  const std::string_view bytes_;
  uint64_t at_;
  const bool nibbles_;
  uint64_t x_ = 0;
  uint32_t rows_to_skip_ = 0;
  bool ended_ = false;
};

absl::Status DecodeBmp(std::string_view bytes, const ImageHeader& header, uint32_t left, uint32_t top,
                       const MutableImageView* out) {
  SHARDKIT_ASSIGN_OR_RETURN(const BmpFile file, ReadHeaders(bytes));
  if (!file.run_lengths() && out == nullptr) return absl::OkStatus();  // the file has all of its rows
  const uint32_t bottom = out == nullptr ? header.height : top + out->height;
  RunReader runs(bytes, file);
  std::vector<uint8_t> row(file.run_lengths() ? file.width : (file.indexed() ? 1 : 3) * size_t{out->width});
  // Runs are read from the first row of the file on, other rows where they lie.
  for (uint32_t i = 0; i < file.height; ++i) {
    const uint32_t y = file.top_down ? i : file.height - 1 - i;
    const bool wanted = out != nullptr && y >= top && y < bottom;
    if (file.run_lengths()) {
      if (!runs.ReadRow(wanted, &row)) return DataLoss("BMP: ends at byte ", runs.at(), ", within the pixels");
    } else if (wanted) {
      UnpackRow(file, bytes.data() + file.pixels + i * file.row_bytes(), left, out->width, row.data());
    }
    if (out == nullptr && runs.ended()) break;
    if (!wanted) continue;
    uint8_t* const to = out->pixels + (y - top) * out->row_stride;
    if (file.indexed()) {
      ConvertRow(row.data() + (file.run_lengths() ? left : 0), file.palette, out->width, out->channels, to);
    } else {
      ConvertRow(row.data(), 3, out->width, out->channels, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace

const ImageCodec kBmpCodec = {ImageFormat::kBmp, "", ProbeBmp, DecodeBmp, nullptr};

}  // namespace shardkit::codec
