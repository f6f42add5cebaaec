// WebP files, through libwebp. Of an animation the first frame is the image.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"
#include "codec/image/orientation.h"

namespace shardkit::codec {
namespace {

class WebpFile {
 public:
  WebpFile() = default;
  ~WebpFile() {
    WebPDemuxReleaseIterator(&frame_);
    WebPDemuxDelete(demuxer_);
  }
  WebpFile(const WebpFile&) = delete;
  WebpFile& operator=(const WebpFile&) = delete;

  absl::Status Open(std::string_view bytes) {
    const WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
    demuxer_ = WebPDemux(&data);
    if (demuxer_ == nullptr || WebPDemuxGetFrame(demuxer_, 1, &frame_) == 0) {
      return DataLoss("WebP: the chunks of ", bytes.size(), " bytes are damaged, or the file ends too early");
    }
    if (WebPGetFeatures(frame_.fragment.bytes, frame_.fragment.size, &features_) != VP8_STATUS_OK) {
      return DataLoss("WebP: the header of the pixels at byte ", Offset(bytes), " is damaged");
    }
    if (features_.width != frame_.width || features_.height != frame_.height || frame_.x_offset < 0 ||
        frame_.y_offset < 0 || int64_t{frame_.x_offset} + frame_.width > int64_t{width()} ||
        int64_t{frame_.y_offset} + frame_.height > int64_t{height()}) {
      return DataLoss("WebP: the pixels at byte ", Offset(bytes), " are of ", features_.width, " x ", features_.height,
                      ", and not within the image of ", width(), " x ", height());
    }
    return absl::OkStatus();
  }

  uint32_t width() const { return WebPDemuxGetI(demuxer_, WEBP_FF_CANVAS_WIDTH); }
  uint32_t height() const { return WebPDemuxGetI(demuxer_, WEBP_FF_CANVAS_HEIGHT); }
  const WebPIterator& frame() const { return frame_; }
  bool lossless() const { return features_.format == 2; }
  bool has_alpha() const { return features_.has_alpha != 0; }

  int Orientation() const {
    WebPChunkIterator chunk;
    if (WebPDemuxGetChunk(demuxer_, "EXIF", 1, &chunk) == 0) return 0;
    const int orientation = ExifOrientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
    WebPDemuxReleaseChunkIterator(&chunk);
    return orientation;
  }

 private:
  ptrdiff_t Offset(std::string_view bytes) const {
    return reinterpret_cast<const char*>(frame_.fragment.bytes) - bytes.data();
  }

  WebPDemuxer* demuxer_ = nullptr;
  WebPIterator frame_{};
  WebPBitstreamFeatures features_{};
};

absl::StatusOr<ImageHeader> ProbeWebp(std::string_view bytes) {
  WebpFile file;
  SHARDKIT_RETURN_IF_ERROR(file.Open(bytes));
  ImageHeader header{.width = file.width(), .height = file.height(), .orientation = file.Orientation()};
  // What libwebp holds of a lossless image, and of an alpha channel, which it also decodes where it is dropped; RGBA in
  // a buffer, where the pixels do not go directly to the caller.
  const auto pixels = static_cast<uint64_t>(file.frame().width) * static_cast<uint64_t>(file.frame().height);
  header.check_bytes = pixels * (file.lossless() ? 4 : file.has_alpha() ? 5 : 0);
  header.held_bytes = header.check_bytes + 4 * pixels;
  return header;
}

// Pixels of the frame: left and top, right and bottom.
struct Part {
  int left, top, right, bottom;

  int width() const { return right - left; }
  int height() const { return bottom - top; }
};

// To RGB, or to RGBA where `channels` is 4.
absl::Status DecodeFrame(const WebpFile& file, const Part& part, size_t channels, uint8_t* to, size_t stride) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return Internal("WebP: libwebp has another version than its headers");
  const WebPIterator& frame = file.frame();
  config.options.use_cropping = part.width() != frame.width || part.height() != frame.height ? 1 : 0;
  config.options.crop_left = part.left;
  config.options.crop_top = part.top;
  config.options.crop_width = part.width();
  config.options.crop_height = part.height();
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size =
      stride * static_cast<size_t>(part.height() - 1) + channels * static_cast<size_t>(part.width());
  const VP8StatusCode code = WebPDecode(frame.fragment.bytes, frame.fragment.size, &config);
  WebPFreeDecBuffer(&config.output);
  switch (code) {
    case VP8_STATUS_OK:
      return absl::OkStatus();
    case VP8_STATUS_OUT_OF_MEMORY:
      return ResourceExhausted("WebP: decoding ", frame.width, " x ", frame.height, " pixels takes too much memory");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return Unimplemented("WebP: libwebp does not decode this kind of file");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return DataLoss("WebP: the pixels end too early");
    default:
      return DataLoss("WebP: the pixels are damaged");
  }
}

// The part that libwebp is asked for: colors at an edge depend on the pixels beyond it, and begin at even positions.
Part WithNeighbours(const Part& part, int width, int height) {
  constexpr int kBeyond = 2;
  return {std::max(part.left - kBeyond, 0) & ~1, std::max(part.top - kBeyond, 0) & ~1,
          std::min(part.right + kBeyond, width), std::min(part.bottom + kBeyond, height)};
}

absl::Status DecodeWebp(std::string_view bytes, const ImageHeader& header, uint32_t left, uint32_t top,
                        const MutableImageView* out) {
  WebpFile file;
  SHARDKIT_RETURN_IF_ERROR(file.Open(bytes));
  const WebPIterator& frame = file.frame();
  if (out == nullptr) {
    // libwebp decodes all rows before the last.
    std::vector<uint8_t> row(size_t{3} * static_cast<size_t>(frame.width));
    return DecodeFrame(file, {0, frame.height - 1, frame.width, frame.height}, 3, row.data(), row.size());
  }
  const auto channels = static_cast<size_t>(out->channels);
  const size_t decoded_channels = channels == 4 ? 4 : 3;
  if (static_cast<uint32_t>(frame.width) != header.width || static_cast<uint32_t>(frame.height) != header.height) {
    // Around the first frame of an animation the image is empty.
    for (uint32_t y = 0; y < out->height; ++y) {
      std::memset(out->pixels + y * out->row_stride, 0, out->width * channels);
    }
  }
  // The part that is asked for, in pixels of the frame. Sides of WebP have 24 bits at most.
  const int x = static_cast<int>(left) - frame.x_offset, y = static_cast<int>(top) - frame.y_offset;
  const Part part{std::max(x, 0), std::max(y, 0), std::min(x + static_cast<int>(out->width), frame.width),
                  std::min(y + static_cast<int>(out->height), frame.height)};
  if (part.width() <= 0 || part.height() <= 0) return absl::OkStatus();
  uint8_t* const to =
      out->pixels + static_cast<size_t>(part.top - y) * out->row_stride + static_cast<size_t>(part.left - x) * channels;
  const bool whole = part.width() == frame.width && part.height() == frame.height;
  if (whole && channels == decoded_channels &&
      out->row_stride <= static_cast<size_t>(std::numeric_limits<int>::max())) {
    return DecodeFrame(file, part, channels, to, out->row_stride);
  }
  const Part decoded = WithNeighbours(part, frame.width, frame.height);
  const size_t stride = decoded_channels * static_cast<size_t>(decoded.width());
  std::vector<uint8_t> pixels(stride * static_cast<size_t>(decoded.height()));
  SHARDKIT_RETURN_IF_ERROR(DecodeFrame(file, decoded, decoded_channels, pixels.data(), stride));
  const uint8_t* from = pixels.data() + static_cast<size_t>(part.top - decoded.top) * stride +
                        decoded_channels * static_cast<size_t>(part.left - decoded.left);
  for (int row = 0; row < part.height(); ++row, from += stride) {
    ConvertRow(from, static_cast<int>(decoded_channels), static_cast<uint32_t>(part.width()), out->channels,
               to + static_cast<size_t>(row) * out->row_stride);
  }
  return absl::OkStatus();
}

}  // namespace

const ImageCodec kWebpCodec = {ImageFormat::kWebp, "", ProbeWebp, DecodeWebp, nullptr};

}  // namespace shardkit::codec
