// Applies a geometry to an image file: region, scale, resizing, turning, padding.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/content_type.h"
#include "codec/jpeg_pixels.h"
#include "codec/jpeg_region.h"
#include "codec/orientation.h"
#include "codec/png.h"
#include "codec/resize.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

absl::Status CheckOutput(const Geometry& geometry, const MutableImageView& out) {
  const size_t row_bytes = out.width * static_cast<size_t>(out.channels);
  if (out.pixels == nullptr || out.width != geometry.output_width || out.height != geometry.output_height ||
      (out.channels != 1 && out.channels != 3) || out.row_stride < row_bytes) {
    return InvalidArgument("image: the output of ", out.width, " x ", out.height, " pixels, ", out.channels,
                           " channels and rows of ", out.row_stride, " bytes does not fit the geometry's ",
                           geometry.output_width, " x ", geometry.output_height, "; channels are 1 or 3");
  }
  return absl::OkStatus();
}

// The smallest scale, in eighths, at which the box still has as many pixels as its output. Powers of two only:
// libjpeg-turbo has vectorised transforms for them, and the others are slower than full size.
int ChooseScale(const codec::StoredGeometry& stored) {
  for (const int scale : {1, 2, 4}) {
    if (stored.source.width * scale >= stored.width * 8.0 && stored.source.height * scale >= stored.height * 8.0) {
      return scale;
    }
  }
  return 8;
}

void FillPixels(const MutableImageView& out, uint32_t left, uint32_t top, const std::array<uint8_t, 3>& fill) {
  if (left >= out.width || top >= out.height) return;
  const auto channels = static_cast<size_t>(out.channels);
  const size_t bytes = (out.width - left) * channels;
  const bool even = channels == 1 || (fill[0] == fill[1] && fill[1] == fill[2]);
  for (uint32_t y = top; y < out.height; ++y) {
    uint8_t* const row = out.pixels + y * out.row_stride + left * channels;
    if (even) {
      std::memset(row, fill[0], bytes);
    } else {
      for (size_t i = 0; i < bytes; ++i) row[i] = fill[i % channels];
    }
  }
}

// Memory above this is freed after an image.
constexpr size_t kKeptScratchBytes = size_t{64} << 20;

// ResourceExhausted, like CheckDecodable.
absl::Status CheckDecodable(const codec::PngInfo& info, uint64_t pixel_bytes, uint64_t max_memory) {
  // A whole interlaced image may have 2^64 bytes and more.
  if (info.width <= kMaxImageSide && info.height <= kMaxImageSide && pixel_bytes + info.held_bytes() <= max_memory) {
    return absl::OkStatus();
  }
  return ResourceExhausted("PNG: decoding ", info.width, " x ", info.height, info.interlaced ? " interlaced" : "",
                           " pixels takes more than ", max_memory, " bytes of memory");
}

// Whether the output holds what the file tells.
absl::Status CheckMeaning(const codec::PngInfo& info, int channels, bool reduce_depth) {
  if (info.depth == 16 && !reduce_depth) {
    return InvalidArgument("PNG: has 16 bits per channel, and the output 8: reduce_depth takes the upper 8 of them");
  }
  if (info.palette && channels == 1) {
    return InvalidArgument(
        "PNG: has a palette, whose indices are lost in gray, and with them the classes of a label map; 3 channels give "
        "its colors");
  }
  return absl::OkStatus();
}

// Headers of either kind of file; the members of the other kind are empty.
struct ImageFileInfo {
  std::optional<codec::PngInfo> png;
  JpegInfo jpeg;
  StoredSize size;
};

absl::StatusOr<ImageFileInfo> Probe(std::string_view bytes) {
  ImageFileInfo info;
  switch (const ImageFormat format = DetectImageFormat(bytes)) {
    case ImageFormat::kJpeg: {
      SHARDKIT_ASSIGN_OR_RETURN(info.jpeg, ProbeJpeg(bytes));
      info.size = {info.jpeg.width, info.jpeg.height, info.jpeg.exif_orientation};
      return info;
    }
    case ImageFormat::kPng: {
      SHARDKIT_ASSIGN_OR_RETURN(info.png, codec::ProbePng(bytes));
      info.size = {info.png->width, info.png->height, 0};
      return info;
    }
    case ImageFormat::kUnknown:
      return DataLoss("image: no signature of a known format at byte 0");
    default:
      return Unimplemented("image: ", ImageFormatName(format), " is not decoded to pixels, only JPEG and PNG");
  }
}

void Trim(std::vector<uint8_t>* scratch) {
  if (scratch->capacity() > kKeptScratchBytes) std::vector<uint8_t>().swap(*scratch);
}

absl::Status CheckDecodable(const ImageFileInfo& info, uint64_t pixel_bytes, uint64_t max_memory) {
  return info.png ? CheckDecodable(*info.png, pixel_bytes, max_memory)
                  : codec::CheckDecodable(info.jpeg, pixel_bytes, max_memory);
}

}  // namespace

absl::StatusOr<StoredSize> ProbeImage(std::string_view bytes) {
  SHARDKIT_ASSIGN_OR_RETURN(const ImageFileInfo info, Probe(bytes));
  return info.size;
}

struct ImageDecoder::State {
  JpegDecoder whole;
  codec::JpegRegionReader reader;
  codec::BilinearResizer resizer;
  std::vector<uint8_t> region;
  std::string warning;
  std::vector<uint8_t> turned;  // content in the axes of the stored image, when turning exchanges the axes

  absl::Status DecodeContent(std::string_view bytes, const ImageFileInfo& info, const Geometry& geometry,
                             const ImageDecodeOptions& options, const MutableImageView& content);
};

// The content without padding.
absl::Status ImageDecoder::State::DecodeContent(std::string_view bytes, const ImageFileInfo& info,
                                                const Geometry& geometry, const ImageDecodeOptions& options,
                                                const MutableImageView& content) {
  const codec::StoredGeometry stored = codec::InStoredAxes(geometry);
  const bool png = info.png.has_value();
  const int scale = options.scaled_decode && !png ? ChooseScale(stored) : 8;
  if (!png) SHARDKIT_RETURN_IF_ERROR(reader.Start(bytes, info.jpeg, scale, content.channels, options.strict));
  const uint32_t whole_width = png ? info.png->width : reader.whole_width();
  const uint32_t whole_height = png ? info.png->height : reader.whole_height();
  Box box = stored.source;
  codec::ScaleSpan(scale, whole_width, &box.x, &box.width);
  codec::ScaleSpan(scale, whole_height, &box.y, &box.height);
  // Resizing also mirrors. The axes are exchanged after it.
  const codec::Turn& turn = stored.turn;
  resizer.Prepare(whole_width, whole_height, box, stored.width, stored.height,
                  turn.transpose ? turn.mirror_y : turn.mirror_x, turn.transpose ? turn.mirror_x : turn.mirror_y);

  const auto channels = static_cast<size_t>(content.channels);
  if (!png) SHARDKIT_RETURN_IF_ERROR(reader.Crop(resizer.left(), resizer.right()));
  // Keeps all columns that libjpeg delivers, which avoids a copy.
  const uint32_t left = png ? resizer.left() : reader.crop_left();
  const uint32_t width = png ? resizer.right() - left : reader.crop_width();
  const uint32_t height = resizer.bottom() - resizer.top();
  const size_t row_bytes = width * channels;
  const uint64_t turned_pixels = turn.transpose ? uint64_t{stored.width} * stored.height : 0;
  SHARDKIT_RETURN_IF_ERROR(CheckDecodable(info, row_bytes * height + turned_pixels * channels, options.max_memory));
  region.resize(row_bytes * height);
  const MutableImageView part{region.data(), width, height, content.channels, row_bytes};
  SHARDKIT_RETURN_IF_ERROR(
      png ? codec::DecodePng(bytes, *info.png, left, resizer.top(), part)
          : reader.Read(left, resizer.top(), left + width, resizer.bottom(), part.pixels, row_bytes));
  if (!turn.transpose) {
    resizer.Run(part, left, resizer.top(), content);
    return absl::OkStatus();
  }
  const size_t turned_bytes = stored.width * channels;
  turned.resize(turned_bytes * stored.height);
  const MutableImageView view{turned.data(), stored.width, stored.height, content.channels, turned_bytes};
  resizer.Run(part, left, resizer.top(), view);
  codec::CopyTurned(view, {.transpose = true}, content);
  return absl::OkStatus();
}

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

absl::Status ImageDecoder::Decode(std::string_view bytes, const Geometry& geometry, const ImageDecodeOptions& options,
                                  const MutableImageView& out) {
  state_->warning.clear();
  SHARDKIT_RETURN_IF_ERROR(CheckGeometry(geometry));
  SHARDKIT_RETURN_IF_ERROR(CheckOutput(geometry, out));
  SHARDKIT_ASSIGN_OR_RETURN(const ImageFileInfo info, Probe(bytes));
  SHARDKIT_RETURN_IF_ERROR(CheckDecodable(info, 0, options.max_memory));
  if (info.png) SHARDKIT_RETURN_IF_ERROR(CheckMeaning(*info.png, out.channels, options.reduce_depth));
  if (info.size.width != geometry.stored_width || info.size.height != geometry.stored_height) {
    return InvalidArgument("image: the geometry is for ", geometry.stored_width, " x ", geometry.stored_height,
                           " pixels; the file has ", info.size.width, " x ", info.size.height);
  }
  State& state = *state_;
  MutableImageView content = out;
  content.width = geometry.content_width;
  content.height = geometry.content_height;
  Geometry unpadded = geometry;
  unpadded.output_width = geometry.content_width;
  unpadded.output_height = geometry.content_height;
  if (unpadded.IsIdentity() && info.png) {
    SHARDKIT_RETURN_IF_ERROR(codec::DecodePng(bytes, *info.png, 0, 0, content));
  } else if (unpadded.IsIdentity()) {
    state.whole.set_max_memory(options.max_memory);
    state.whole.set_strict(options.strict);
    SHARDKIT_RETURN_IF_ERROR(state.whole.DecodeInto(bytes, content));
    state.warning = state.whole.warning();
  } else {
    SHARDKIT_RETURN_IF_ERROR(state.DecodeContent(bytes, info, geometry, options, content));
    if (!info.png) state.warning = state.reader.warning();
    Trim(&state.region);
    Trim(&state.turned);
  }
  FillPixels(out, content.width, 0, options.fill);
  MutableImageView upper = out;
  upper.width = content.width;
  FillPixels(upper, 0, content.height, options.fill);
  return absl::OkStatus();
}

std::string_view ImageDecoder::warning() const { return state_->warning; }

}  // namespace shardkit
