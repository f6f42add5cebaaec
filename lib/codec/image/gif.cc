// GIF files, through giflib. Of an animation the first frame is the image.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"

namespace shardkit::codec {
namespace {

// The file up to the pixels of its first frame.
class GifFile {
 public:
  explicit GifFile(std::string_view bytes) : bytes_(bytes), size_(bytes.size()) {}
  ~GifFile() {
    int error = 0;
    if (file_ != nullptr) DGifCloseFile(file_, &error);
  }
  GifFile(const GifFile&) = delete;
  GifFile& operator=(const GifFile&) = delete;

  absl::Status Open() {
    int error = D_GIF_ERR_NOT_ENOUGH_MEM;
    file_ = DGifOpen(this, OnRead, &error);
    if (file_ == nullptr) return Error(error);
    for (;;) {
      GifRecordType type;
      if (DGifGetRecordType(file_, &type) == GIF_ERROR) return Error(file_->Error);
      if (type == TERMINATE_RECORD_TYPE) return DataLoss("GIF: has no image");
      if (type == IMAGE_DESC_RECORD_TYPE) break;
      if (type == EXTENSION_RECORD_TYPE) SHARDKIT_RETURN_IF_ERROR(ReadExtension());
    }
    if (DGifGetImageDesc(file_) == GIF_ERROR) return Error(file_->Error);
    const GifImageDesc& frame = file_->Image;
    if (frame.Width <= 0 || frame.Height <= 0 || frame.Left < 0 || frame.Top < 0) {
      return DataLoss("GIF: the first frame has ", frame.Width, " x ", frame.Height, " pixels");
    }
    const ColorMapObject* const map = frame.ColorMap != nullptr ? frame.ColorMap : file_->SColorMap;
    for (size_t i = 0; i < 256; ++i) {
      // Indices without a color are shades of gray, as in Pillow.
      const bool given = map != nullptr && i < static_cast<size_t>(map->ColorCount);
      const auto gray = static_cast<uint8_t>(i);
      const GifColorType color = given ? map->Colors[i] : GifColorType{gray, gray, gray};
      palette_.colors[3 * i] = color.Red;
      palette_.colors[3 * i + 1] = color.Green;
      palette_.colors[3 * i + 2] = color.Blue;
    }
    if (transparent_) palette_.transparent = *transparent_;
    return absl::OkStatus();
  }

  const GifImageDesc& frame() const { return file_->Image; }
  const Palette& palette() const { return palette_; }
  // The image contains its first frame, also where the file gives a smaller size.
  uint32_t width() const { return static_cast<uint32_t>(std::max(file_->SWidth, frame().Left + frame().Width)); }
  uint32_t height() const { return static_cast<uint32_t>(std::max(file_->SHeight, frame().Top + frame().Height)); }
  // Of what lies around the frame.
  uint8_t outside() const { return transparent_.value_or(0); }

  // The next row that the file has of the frame; interlaced frames do not have them in order.
  absl::Status ReadRow(GifPixelType* to) {
    return DGifGetLine(file_, to, frame().Width) == GIF_ERROR ? Error(file_->Error) : absl::OkStatus();
  }

 private:
  absl::Status ReadExtension() {
    int kind = 0;
    GifByteType* data = nullptr;  // a length and that many bytes; null behind the last
    if (DGifGetExtension(file_, &kind, &data) == GIF_ERROR) return Error(file_->Error);
    while (data != nullptr) {
      GraphicsControlBlock control;
      if (kind == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(data[0], data + 1, &control) == GIF_OK &&
          control.TransparentColor != NO_TRANSPARENT_COLOR) {
        transparent_ = static_cast<uint8_t>(control.TransparentColor);
      }
      if (DGifGetExtensionNext(file_, &data) == GIF_ERROR) return Error(file_->Error);
    }
    return absl::OkStatus();
  }

  absl::Status Error(int error) const {
    if (error == D_GIF_ERR_NOT_ENOUGH_MEM) return ResourceExhausted("GIF: there is not enough memory");
    const char* const message = GifErrorString(error);
    return DataLoss("GIF: byte ", size_ - bytes_.size(), ": ", message != nullptr ? message : "damaged");
  }

  static int OnRead(GifFileType* file, GifByteType* to, int length) {
    auto* const self = static_cast<GifFile*>(file->UserData);
    const size_t taken = std::min(self->bytes_.size(), static_cast<size_t>(std::max(length, 0)));
    if (taken > 0) std::memcpy(to, self->bytes_.data(), taken);
    self->bytes_.remove_prefix(taken);
    return static_cast<int>(taken);
  }

  std::string_view bytes_;  // the bytes that are not read yet
  const size_t size_;
  GifFileType* file_ = nullptr;
  Palette palette_;
  std::optional<uint8_t> transparent_;
};

absl::StatusOr<ImageHeader> ProbeGif(std::string_view bytes) {
  GifFile file(bytes);
  SHARDKIT_RETURN_IF_ERROR(file.Open());
  ImageHeader header{.width = file.width(), .height = file.height()};
  header.palette = !file.palette().IsGray(256);
  header.channels = header.palette ? 3 : 1;
  return header;
}

// Where the rows of the file belong in the frame.
class RowOrder {
 public:
  explicit RowOrder(const GifImageDesc& frame) : height_(frame.Height), interlaced_(frame.Interlace) {}

  int Next() {
    constexpr int kFirst[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
    const int row = row_;
    row_ += interlaced_ ? kStep[pass_] : 1;
    while (interlaced_ && row_ >= height_ && pass_ < 3) row_ = kFirst[++pass_];
    return row;
  }

 private:
  const int height_;
  const bool interlaced_;
  int row_ = 0;
  int pass_ = 0;
};

absl::Status DecodeGif(std::string_view bytes, const ImageHeader&, uint32_t left, uint32_t top,
                       const MutableImageView* out) {
  GifFile file(bytes);
  SHARDKIT_RETURN_IF_ERROR(file.Open());
  const GifImageDesc& frame = file.frame();
  // A row of the image: the frame's, and what is around it.
  std::vector<GifPixelType> row(file.width(), file.outside());
  GifPixelType* const inside = row.data() + frame.Left;
  const auto put = [&](uint32_t y) {
    if (out == nullptr || y < top || y - top >= out->height) return;
    ConvertRow(row.data() + left, file.palette(), out->width, out->channels, out->pixels + (y - top) * out->row_stride);
  };
  const auto first = static_cast<uint32_t>(frame.Top), end = first + static_cast<uint32_t>(frame.Height);
  for (uint32_t y = 0; out != nullptr && y < file.height(); ++y) {
    if (y < first || y >= end) put(y);
  }
  RowOrder order(frame);
  const uint32_t bottom = out == nullptr ? file.height() : top + out->height;
  const bool to_the_end = frame.Interlace || bottom == file.height();
  for (int i = 0; i < frame.Height; ++i) {
    const uint32_t y = first + static_cast<uint32_t>(order.Next());
    if (y >= bottom && !to_the_end) break;
    SHARDKIT_RETURN_IF_ERROR(file.ReadRow(inside));
    put(y);
  }
  return absl::OkStatus();
}

}  // namespace

const ImageCodec kGifCodec = {ImageFormat::kGif, "", ProbeGif, DecodeGif, nullptr};

}  // namespace shardkit::codec
