// Applies a geometry to an image file: region, scale, resizing, turning, padding.
#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"
#include "codec/image/jpeg_pixels.h"
#include "codec/image/jpeg_region.h"
#include "codec/image/orientation.h"
#include "codec/image/resize.h"
#include "shardkit/image.h"

namespace shardkit {
namespace {

absl::Status CheckOutput(const Geometry& geometry, const MutableImageView& out) {
  const size_t row_bytes = out.width * static_cast<size_t>(out.channels);
  if (out.pixels == nullptr || out.width != geometry.output_width || out.height != geometry.output_height ||
      !codec::IsChannelCount(out.channels) || out.row_stride < row_bytes) {
    return InvalidArgument("image: the output of ", out.width, " x ", out.height, " pixels, ", out.channels,
                           " channels and rows of ", out.row_stride, " bytes does not fit the geometry's ",
                           geometry.output_width, " x ", geometry.output_height, "; channels are 1, 3 or 4");
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

// The part of `out` that the content covers.
MutableImageView ContentOf(const Geometry& geometry, const MutableImageView& out) {
  return {out.pixels + geometry.content_top * out.row_stride +
              size_t{geometry.content_left} * static_cast<size_t>(out.channels),
          geometry.content_width, geometry.content_height, out.channels, out.row_stride};
}

void FillPixels(const MutableImageView& out, uint32_t left, uint32_t top, uint32_t right, uint32_t bottom,
                const std::array<uint8_t, 3>& fill) {
  if (left >= right) return;
  const auto channels = static_cast<size_t>(out.channels);
  const size_t bytes = (right - left) * channels;
  const std::array<uint8_t, 4> values = {fill[0], fill[1], fill[2], 0};  // not seen, where there is transparency
  const bool even = std::equal(values.begin() + 1, values.begin() + channels, values.begin());
  for (uint32_t y = top; y < bottom; ++y) {
    uint8_t* const row = out.pixels + y * out.row_stride + left * channels;
    if (even) {
      std::memset(row, fill[0], bytes);
    } else {
      for (size_t i = 0; i < bytes; ++i) row[i] = values[i % channels];
    }
  }
}

// What is around the content.
void FillPadding(const Geometry& geometry, const MutableImageView& out, const std::array<uint8_t, 3>& fill) {
  const uint32_t top = geometry.content_top, bottom = top + geometry.content_height;
  const uint32_t left = geometry.content_left, right = left + geometry.content_width;
  FillPixels(out, 0, 0, out.width, top, fill);
  FillPixels(out, 0, top, left, bottom, fill);
  FillPixels(out, right, top, out.width, bottom, fill);
  FillPixels(out, 0, bottom, out.width, out.height, fill);
}

// Copies pixels [left, left + to.width) of rows from `top` on, gray and colors as Pillow converts them.
void CopyPixels(const ImageView& image, uint32_t left, uint32_t top, const MutableImageView& to) {
  for (uint32_t y = 0; y < to.height; ++y) {
    codec::ConvertRow(image.pixels + (top + y) * image.row_stride + left * static_cast<size_t>(image.channels),
                      image.channels, to.width, to.channels, to.pixels + y * to.row_stride);
  }
}

// Memory above this is freed after an image.
constexpr size_t kKeptScratchBytes = size_t{64} << 20;

// Whether the output holds what the file tells.
absl::Status CheckMeaning(ImageFormat format, const codec::ImageHeader& header, int channels, bool reduce_depth) {
  if (header.depth > 8 && !reduce_depth) {
    return InvalidArgument(ImageFormatName(format), ": has ", header.depth, " bits per channel, and the output 8: ",
                           "reduce_depth takes the upper 8 of them, a label map (of u16) all of a gray PNG or TIFF");
  }
  if (header.palette && channels == 1) {
    return InvalidArgument(ImageFormatName(format), ": has a palette, whose indices are lost in gray, and with them ",
                           "the classes of a label map; 3 channels give its colors");
  }
  return absl::OkStatus();
}

// Headers of a file: those of a JPEG, or with its codec those of another format.
struct ImageFileInfo {
  const codec::ImageCodec* codec = nullptr;
  codec::ImageHeader header;
  JpegInfo jpeg;
  StoredSize size;
};

absl::StatusOr<ImageFileInfo> Probe(std::string_view bytes) {
  ImageFileInfo info;
  if (DetectImageFormat(bytes) == ImageFormat::kJpeg) {
    SHARDKIT_ASSIGN_OR_RETURN(info.jpeg, ProbeJpeg(bytes));
    info.size = {info.jpeg.width, info.jpeg.height, info.jpeg.exif_orientation};
    return info;
  }
  SHARDKIT_ASSIGN_OR_RETURN(info.codec, codec::CodecOf(bytes));
  SHARDKIT_ASSIGN_OR_RETURN(info.header, info.codec->probe(bytes));
  info.size = {info.header.width, info.header.height, info.header.orientation};
  return info;
}

void Trim(std::vector<uint8_t>* scratch) {
  if (scratch->capacity() > kKeptScratchBytes) std::vector<uint8_t>().swap(*scratch);
}

absl::Status CheckDecodable(const ImageFileInfo& info, uint64_t pixel_bytes, uint64_t max_memory) {
  return info.codec != nullptr ? codec::CheckDecodable(info.codec->format, info.header, pixel_bytes, max_memory)
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
  codec::FilterResizer resizer;
  std::vector<uint8_t> region;
  std::string warning;
  std::vector<uint8_t> turned;  // content in the axes of the stored image, when turning exchanges the axes

  absl::Status DecodeContent(std::string_view bytes, const ImageFileInfo& info, const Geometry& geometry,
                             const ImageDecodeOptions& options, const MutableImageView& content);
  void Prepare(const codec::StoredGeometry& stored, int scale, uint32_t whole_width, uint32_t whole_height,
               Interpolation interpolation);
  void Resize(const ImageView& part, uint32_t left, const codec::StoredGeometry& stored,
              const MutableImageView& content);
};

// The box is of the image decoded at `scale` eighths.
void ImageDecoder::State::Prepare(const codec::StoredGeometry& stored, int scale, uint32_t whole_width,
                                  uint32_t whole_height, Interpolation interpolation) {
  Box box = stored.source;
  codec::ScaleSpan(scale, whole_width, &box.x, &box.width);
  codec::ScaleSpan(scale, whole_height, &box.y, &box.height);
  // Resizing also mirrors. The axes are exchanged after it.
  const codec::Turn& turn = stored.turn;
  resizer.Prepare(whole_width, whole_height, box, stored.width, stored.height, interpolation,
                  turn.transpose ? turn.mirror_y : turn.mirror_x, turn.transpose ? turn.mirror_x : turn.mirror_y);
}

// `part` begins at (left, resizer.top()).
void ImageDecoder::State::Resize(const ImageView& part, uint32_t left, const codec::StoredGeometry& stored,
                                 const MutableImageView& content) {
  if (!stored.turn.transpose) {
    resizer.Run(part, left, resizer.top(), content);
    return;
  }
  const size_t turned_bytes = stored.width * static_cast<size_t>(content.channels);
  turned.resize(turned_bytes * stored.height);
  const MutableImageView view{turned.data(), stored.width, stored.height, content.channels, turned_bytes};
  resizer.Run(part, left, resizer.top(), view);
  codec::CopyTurned(view, {.transpose = true}, content);
  Trim(&turned);
}

// The content without padding.
absl::Status ImageDecoder::State::DecodeContent(std::string_view bytes, const ImageFileInfo& info,
                                                const Geometry& geometry, const ImageDecodeOptions& options,
                                                const MutableImageView& content) {
  const codec::StoredGeometry stored = codec::InStoredAxes(geometry);
  const bool jpeg = info.codec == nullptr;
  const int scale = options.scaled_decode && jpeg ? ChooseScale(stored) : 8;
  if (jpeg) SHARDKIT_RETURN_IF_ERROR(reader.Start(bytes, info.jpeg, scale, content.channels, options.strict));
  const uint32_t whole_width = jpeg ? reader.whole_width() : info.header.width;
  const uint32_t whole_height = jpeg ? reader.whole_height() : info.header.height;
  Prepare(stored, scale, whole_width, whole_height, options.interpolation);

  const auto channels = static_cast<size_t>(content.channels);
  if (jpeg) SHARDKIT_RETURN_IF_ERROR(reader.Crop(resizer.left(), resizer.right()));
  // Keeps all columns that libjpeg delivers, which avoids a copy.
  const uint32_t left = jpeg ? reader.crop_left() : resizer.left();
  const uint32_t width = jpeg ? reader.crop_width() : resizer.right() - left;
  const uint32_t height = resizer.bottom() - resizer.top();
  const size_t row_bytes = width * channels;
  const uint64_t turned_pixels = stored.turn.transpose ? uint64_t{stored.width} * stored.height : 0;
  SHARDKIT_RETURN_IF_ERROR(CheckDecodable(info, row_bytes * height + turned_pixels * channels, options.max_memory));
  region.resize(row_bytes * height);
  const MutableImageView part{region.data(), width, height, content.channels, row_bytes};
  SHARDKIT_RETURN_IF_ERROR(
      jpeg ? reader.Read(left, resizer.top(), left + width, resizer.bottom(), part.pixels, row_bytes)
           : info.codec->decode(bytes, info.header, left, resizer.top(), &part));
  Resize(part, left, stored, content);
  Trim(&region);
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
  if (info.codec != nullptr) {
    SHARDKIT_RETURN_IF_ERROR(CheckMeaning(info.codec->format, info.header, out.channels, options.reduce_depth));
  }
  if (info.size.width != geometry.stored_width || info.size.height != geometry.stored_height) {
    return InvalidArgument("image: the geometry is for ", geometry.stored_width, " x ", geometry.stored_height,
                           " pixels; the file has ", info.size.width, " x ", info.size.height);
  }
  State& state = *state_;
  const MutableImageView content = ContentOf(geometry, out);
  const bool identity = geometry.WithoutPadding().IsIdentity();
  if (identity && info.codec != nullptr) {
    SHARDKIT_RETURN_IF_ERROR(info.codec->decode(bytes, info.header, 0, 0, &content));
  } else if (identity) {
    state.whole.set_max_memory(options.max_memory);
    state.whole.set_strict(options.strict);
    SHARDKIT_RETURN_IF_ERROR(state.whole.DecodeInto(bytes, content));
    state.warning = state.whole.warning();
  } else {
    SHARDKIT_RETURN_IF_ERROR(state.DecodeContent(bytes, info, geometry, options, content));
    if (info.codec == nullptr) state.warning = state.reader.warning();
  }
  FillPadding(geometry, out, options.fill);
  return absl::OkStatus();
}

absl::Status ImageDecoder::Transform(const ImageView& image, const Geometry& geometry,
                                     const ImageDecodeOptions& options, const MutableImageView& out) {
  State& state = *state_;
  state.warning.clear();
  SHARDKIT_RETURN_IF_ERROR(CheckGeometry(geometry));
  SHARDKIT_RETURN_IF_ERROR(CheckOutput(geometry, out));
  if (image.pixels == nullptr || image.width != geometry.stored_width || image.height != geometry.stored_height ||
      !codec::IsChannelCount(image.channels) || image.row_stride < image.width * static_cast<size_t>(image.channels)) {
    return InvalidArgument("image: the geometry is for ", geometry.stored_width, " x ", geometry.stored_height,
                           " pixels; given are ", image.width, " x ", image.height, " of ", image.channels,
                           " channels, which are 1, 3 or 4, in rows of ", image.row_stride, " bytes");
  }
  const MutableImageView content = ContentOf(geometry, out);
  FillPadding(geometry, out, options.fill);
  if (geometry.WithoutPadding().IsIdentity()) {
    CopyPixels(image, 0, 0, content);
    return absl::OkStatus();
  }
  const codec::StoredGeometry stored = codec::InStoredAxes(geometry);
  state.Prepare(stored, 8, image.width, image.height, options.interpolation);
  const uint32_t left = state.resizer.left(), top = state.resizer.top();
  if (image.channels == out.channels) {
    const uint8_t* const from = image.pixels + top * image.row_stride;
    state.Resize({from, image.width, image.height - top, image.channels, image.row_stride}, 0, stored, content);
    return absl::OkStatus();
  }
  const size_t row_bytes = (state.resizer.right() - left) * static_cast<size_t>(out.channels);
  state.region.resize(row_bytes * (state.resizer.bottom() - top));
  const MutableImageView part{state.region.data(), state.resizer.right() - left, state.resizer.bottom() - top,
                              out.channels, row_bytes};
  CopyPixels(image, left, top, part);
  state.Resize(part, left, stored, content);
  Trim(&state.region);
  return absl::OkStatus();
}

std::string_view ImageDecoder::warning() const { return state_->warning; }

}  // namespace shardkit
