// PNG files (ISO 15948), through libpng.
#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"
#include "codec/image/orientation.h"

namespace shardkit::codec {
namespace {

constexpr std::string_view kEndChecksum = "\xae\x42\x60\x82";  // of a chunk IEND, which has no data

// libpng reports errors with longjmp. The frames that it jumps over have no objects to destroy.
class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : bytes_(bytes) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  enum class As { kPixels, kNumbers };

  // Reads everything, or with `out` its pixels from column `left` and row `top` on. False for damage; message()
  // describes it.
  bool Run(uint32_t left, uint32_t top, const MutableImageView* out, As as = As::kPixels) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) return false;
    if (setjmp(jump_) != 0) return false;  // NOLINT(cert-err52-cpp): libpng has no other way
    png_set_read_fn(png_, this, OnRead);
    png_read_info(png_, info_);
    if (out != nullptr && as == As::kPixels) ToEightBits(out->channels == 4);
    if (out != nullptr && as == As::kNumbers) ToNumbers();
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    channels_ = png_get_channels(png_, info_);
    row_bytes_ = png_get_rowbytes(png_, info_);
    const bool keep = out != nullptr && passes > 1;
    const uint32_t height = png_get_image_height(png_, info_);
    const uint32_t bottom = out == nullptr ? 0 : top + out->height;
    const uint32_t end = out == nullptr || keep ? height : bottom;
    rows_.resize(row_bytes_ * (keep ? height : 1));
    for (int pass = 0; pass < passes; ++pass) {
      for (uint32_t y = 0; y < end; ++y) {
        png_bytep const row = rows_.data() + (keep ? y * row_bytes_ : 0);
        png_read_row(png_, row, nullptr);
        if (pass == passes - 1 && y >= top && y < bottom) Take(row, left, y - top, *out);
      }
    }
    if (end != height) return true;
    png_read_end(png_, nullptr);
    // Later versions of libpng read the last chunk's checksum, and do not compare it.
    if (std::string_view(bytes_.data() - kEndChecksum.size(), kEndChecksum.size()) != kEndChecksum) {
      png_error(png_, "IEND: CRC error");
    }
    return true;
  }

  const char* message() const { return message_; }

 private:
  // Converts to gray or RGB of eight bits: takes the upper byte of sixteen, and drops transparency unless it is wanted.
  void ToEightBits(bool alpha) {
    png_set_strip_16(png_);
    const int color = png_get_color_type(png_, info_);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (!alpha) {
      png_set_strip_alpha(png_);
    } else if (png_get_valid(png_, info_, PNG_INFO_tRNS) != 0) {
      png_set_tRNS_to_alpha(png_);
    }
  }

  // Leaves values as they are, each in bytes of its own.
  void ToNumbers() {
    png_set_packing(png_);
    if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);
    png_set_strip_alpha(png_);
  }

  // Takes the requested part of a row.
  void Take(const png_byte* row, uint32_t left, uint32_t y, const MutableImageView& out) const {
    ConvertRow(row + left * channels_, static_cast<int>(channels_), out.width, out.channels,
               out.pixels + y * out.row_stride);
  }

  static void OnError(png_structp png, png_const_charp message) {
    auto* const self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    std::longjmp(self->jump_, 1);  // NOLINT(cert-err52-cpp)
  }

  static void OnWarning(png_structp, png_const_charp) {}

  static void OnRead(png_structp png, png_bytep to, size_t length) {
    auto* const self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (length > self->bytes_.size()) png_error(png, "the file ends too early");
    std::memcpy(to, self->bytes_.data(), length);
    self->bytes_.remove_prefix(length);
  }

  std::string_view bytes_;  // the bytes that are not read yet
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  size_t channels_ = 0;  // of the rows that libpng delivers
  size_t row_bytes_ = 0;
  std::vector<png_byte> rows_;  // one, or all
  char message_[128] = "no memory";
  std::jmp_buf jump_;
};

// The orientation in the chunk eXIf, which lies before the pixels or behind them. 0 if there is none.
int Orientation(std::string_view bytes) {
  constexpr size_t kFront = 8, kAround = 12;  // length, name and CRC
  for (size_t at = kFront; bytes.size() - at >= kAround;) {
    const size_t length = LoadBig32(bytes.data() + at);
    if (length > bytes.size() - at - kAround) return 0;
    const std::string_view name = bytes.substr(at + 4, 4);
    if (name == "eXIf") return ExifOrientation(bytes.substr(at + 8, length));
    if (name == "IEND") return 0;
    at += kAround + length;
  }
  return 0;
}

absl::StatusOr<ImageHeader> ProbePng(std::string_view bytes) {
  // Signature, length and name of the first chunk; width, height, bits, color type, two methods, interlacing.
  constexpr std::string_view kFront("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  constexpr size_t kHeaderBytes = 29;
  if (!bytes.starts_with(kFront) || bytes.size() < kHeaderBytes) return DataLoss("PNG: does not begin with a header");
  ImageHeader header;
  header.width = LoadBig32(bytes.data() + 16);
  header.height = LoadBig32(bytes.data() + 20);
  header.orientation = Orientation(bytes);
  header.depth = static_cast<uint8_t>(bytes[24]);
  header.palette = bytes[25] == PNG_COLOR_TYPE_PALETTE;
  header.channels = (bytes[25] & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  if (header.width == 0 || header.height == 0) {
    return DataLoss("PNG: the header gives ", header.width, " x ", header.height, " pixels");
  }
  // All pixels of an interlaced image are held, perhaps with transparency, 2^64 bytes and more of one whose sides no
  // limit allows. Beside them libpng takes memory for one row and for chunks, at most 8 MB each.
  const auto side = [](uint32_t size) { return std::min<uint64_t>(size, uint64_t{kMaxImageSide} + 1); };
  const bool interlaced = bytes[28] != 0;
  if (interlaced)
    header.held_bytes = side(header.width) * side(header.height) * (static_cast<uint64_t>(header.channels) + 1);
  return header;
}

absl::Status DecodePng(std::string_view bytes, const ImageHeader&, uint32_t left, uint32_t top,
                       const MutableImageView* out) {
  PngReader reader(bytes);
  return reader.Run(left, top, out) ? absl::OkStatus() : DataLoss("PNG: ", reader.message());
}

absl::Status DecodePngNumbers(std::string_view bytes, const ImageHeader& header, std::span<uint8_t> out) {
  const uint32_t row_bytes = header.depth == 16 ? 2 * header.width : header.width;
  PngReader reader(bytes);
  const MutableImageView view{out.data(), row_bytes, header.height, 1, row_bytes};
  return reader.Run(0, 0, &view, PngReader::As::kNumbers) ? absl::OkStatus() : DataLoss("PNG: ", reader.message());
}

}  // namespace

const ImageCodec kPngCodec = {ImageFormat::kPng, "", ProbePng, DecodePng, DecodePngNumbers};

}  // namespace shardkit::codec
