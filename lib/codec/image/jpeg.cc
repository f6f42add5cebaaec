// Whole-image decoding and encoding with TurboJPEG; regions are in jpeg_region.cc.
#include "shardkit/image.h"

#include <turbojpeg.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"
#include "codec/image/jpeg_pixels.h"
#include "codec/image/jpeg_region.h"

namespace shardkit {
namespace codec {

absl::Status JpegError(std::string_view message) {
  for (const std::string_view part : {"nsupported", "not implemented", "not compiled", "omitted at compile"}) {
    if (message.find(part) != std::string_view::npos) return Unimplemented("JPEG: ", message);
  }
  return DataLoss("JPEG: ", message);
}

absl::Status CheckDecodable(const JpegInfo& info, uint64_t pixel_bytes, uint64_t max_memory) {
  // Neither number reaches 2^63: sides have 16 bits, and there are at most 255 components.
  if (pixel_bytes + info.coefficient_bytes > max_memory) {
    return ResourceExhausted("JPEG: decoding ", info.width, " x ", info.height,
                             info.coefficient_bytes > 0 ? " progressive" : "", " pixels takes ",
                             pixel_bytes + info.coefficient_bytes, " bytes of memory, over the limit of ", max_memory);
  }
  // Arithmetic coding can hold any number of pixels in no bytes, even past the end of the file. Decoding them takes
  // time.
  if (info.arithmetic && uint64_t{info.width} * info.height > max_memory) {
    return ResourceExhausted("JPEG: ", info.width, " x ", info.height,
                             " pixels of arithmetic coding are more than the limit of ", max_memory);
  }
  if (info.lossless) return Unimplemented("JPEG: lossless coding is not supported");
  if (info.bits != 8) return Unimplemented("JPEG: ", info.bits, " bits per sample are not supported, only 8");
  if (info.components != 1 && info.components != 3 && info.components != 4) {
    return Unimplemented("JPEG: ", info.components, " components are not supported, only 1, 3 and 4");
  }
  return absl::OkStatus();
}

void ConvertCmyk(const uint8_t* from, size_t count, int channels, uint8_t* to) {
  const uint8_t* const end = from + count * 4;
  for (; from != end; from += 4, to += channels) {
    const unsigned black = from[3];
    unsigned rgb[3];
    for (int i = 0; i < 3; ++i) rgb[i] = (from[i] * black + 127) / 255;
    if (channels == 1) {
      to[0] = LumaOf(rgb[0], rgb[1], rgb[2]);
      continue;
    }
    for (int i = 0; i < 3; ++i) to[i] = static_cast<uint8_t>(rgb[i]);
    if (channels == 4) to[3] = 255;
  }
}

}  // namespace codec

struct JpegDecoder::RegionState {
  codec::JpegRegionReader reader;
};

JpegDecoder::JpegDecoder() : handle_(tjInitDecompress()) {
  if (handle_ == nullptr) throw std::bad_alloc();
}
JpegDecoder::~JpegDecoder() { tjDestroy(handle_); }

absl::Status JpegDecoder::Decode(std::string_view bytes, DecodedImage* image) {
  warning_.clear();
  SHARDKIT_ASSIGN_OR_RETURN(const JpegInfo info, ProbeJpeg(bytes));
  image->channels = info.components == 1 ? 1 : 3;
  const size_t row_bytes = info.width * static_cast<size_t>(image->channels);
  SHARDKIT_RETURN_IF_ERROR(codec::CheckDecodable(info, uint64_t{row_bytes} * info.height, max_memory_));
  image->width = info.width;
  image->height = info.height;
  image->pixels.resize(row_bytes * info.height);
  return DecodeWhole(bytes, info, {image->pixels.data(), info.width, info.height, image->channels, row_bytes});
}

absl::Status JpegDecoder::DecodeInto(std::string_view bytes, const MutableImageView& out) {
  warning_.clear();
  SHARDKIT_ASSIGN_OR_RETURN(const JpegInfo info, ProbeJpeg(bytes));
  SHARDKIT_RETURN_IF_ERROR(codec::CheckDecodable(info, 0, max_memory_));
  const size_t row_bytes = out.width * static_cast<size_t>(out.channels);
  constexpr size_t kMaxPitch = 0x7fffffff;
  if (out.pixels == nullptr || out.width != info.width || out.height != info.height ||
      !codec::IsChannelCount(out.channels) || out.row_stride < row_bytes || out.row_stride > kMaxPitch) {
    return InvalidArgument("JPEG: ", info.width, " x ", info.height, " pixels do not go into an output of ", out.width,
                           " x ", out.height, " with ", out.channels, " channels and rows of ", out.row_stride,
                           " bytes");
  }
  return DecodeWhole(bytes, info, out);
}

absl::Status JpegDecoder::DecodeWhole(std::string_view bytes, const JpegInfo& info, const MutableImageView& out) {
  if (info.components != 4) {
    // Size and components come from ProbeJpeg, not from tjDecompressHeader3, which refuses unusual subsampling that
    // tjDecompress2 decodes. The library never writes beyond the size given here. Scans are limited because a small
    // progressive file can cause hours of work.
    const int result = tjDecompress2(handle_, reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<unsigned long>(bytes.size()), out.pixels, static_cast<int>(out.width),
                                     static_cast<int>(out.row_stride), static_cast<int>(out.height),
                                     out.channels == 1   ? TJPF_GRAY
                                     : out.channels == 3 ? TJPF_RGB
                                                         : TJPF_RGBA,
                                     TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS);
    if (result == 0) return absl::OkStatus();
    if (strict_ || tjGetErrorCode(handle_) != TJERR_WARNING) return codec::JpegError(tjGetErrorStr2(handle_));
    // TurboJPEG tells of a warning also where an error followed it. The other reader tells them apart.
  }
  constexpr int kFullSize = 8;
  codec::JpegRegionReader& reader = Region().reader;
  SHARDKIT_RETURN_IF_ERROR(reader.Start(bytes, info, kFullSize, out.channels, strict_));
  SHARDKIT_RETURN_IF_ERROR(reader.Crop(0, out.width));
  SHARDKIT_RETURN_IF_ERROR(reader.Read(0, 0, out.width, out.height, out.pixels, out.row_stride));
  warning_ = reader.warning();
  return absl::OkStatus();
}

JpegDecoder::RegionState& JpegDecoder::Region() {
  if (region_ == nullptr) region_ = std::make_unique<RegionState>();
  return *region_;
}

absl::Status JpegDecoder::DecodeRegion(std::string_view bytes, const JpegRegionOptions& options,
                                       DecodedRegion* region) {
  warning_.clear();
  SHARDKIT_ASSIGN_OR_RETURN(const JpegInfo info, ProbeJpeg(bytes));
  SHARDKIT_RETURN_IF_ERROR(codec::CheckDecodable(info, 0, max_memory_));
  if (options.scale < 1 || options.scale > 8 ||
      (options.channels != 0 && options.channels != 1 && options.channels != 3)) {
    return InvalidArgument("JPEG: scale ", options.scale, " and channels ", options.channels,
                           "; they are 1 to 8, and 0, 1 or 3");
  }
  const uint64_t right = options.width == 0 ? info.width : uint64_t{options.x} + options.width;
  const uint64_t bottom = options.height == 0 ? info.height : uint64_t{options.y} + options.height;
  if (options.x >= info.width || options.y >= info.height || right > info.width || bottom > info.height) {
    return InvalidArgument("JPEG: a region of ", options.width, " x ", options.height, " at (", options.x, ", ",
                           options.y, ") is not inside the image of ", info.width, " x ", info.height);
  }
  const int channels = options.channels != 0 ? options.channels : info.components == 1 ? 1 : 3;
  const auto scale = static_cast<uint64_t>(options.scale);
  region->left = static_cast<uint32_t>(options.x * scale / 8);
  region->top = static_cast<uint32_t>(options.y * scale / 8);
  const auto end_column = static_cast<uint32_t>((right * scale + 7) / 8);
  const auto end_row = static_cast<uint32_t>((bottom * scale + 7) / 8);
  const uint64_t pixels = uint64_t{end_column - region->left} * (end_row - region->top);
  SHARDKIT_RETURN_IF_ERROR(codec::CheckDecodable(info, pixels * static_cast<uint64_t>(channels), max_memory_));
  codec::JpegRegionReader& reader = Region().reader;
  SHARDKIT_RETURN_IF_ERROR(reader.Start(bytes, info, options.scale, channels, strict_));

  region->whole_width = reader.whole_width();
  region->whole_height = reader.whole_height();
  DecodedImage& image = region->image;
  image.width = end_column - region->left;
  image.height = end_row - region->top;
  image.channels = channels;
  const size_t row_bytes = image.width * static_cast<size_t>(channels);
  image.pixels.resize(row_bytes * image.height);
  SHARDKIT_RETURN_IF_ERROR(reader.Crop(region->left, end_column));
  const absl::Status status =
      reader.Read(region->left, region->top, end_column, end_row, image.pixels.data(), row_bytes);
  warning_ = reader.warning();
  return status;
}

absl::Status JpegDecoder::Check(std::string_view bytes) {
  warning_.clear();
  SHARDKIT_ASSIGN_OR_RETURN(const JpegInfo info, ProbeJpeg(bytes));
  SHARDKIT_RETURN_IF_ERROR(codec::CheckDecodable(info, 0, max_memory_));
  codec::JpegRegionReader& reader = Region().reader;
  const int channels = info.components == 1 ? 1 : 3;
  constexpr int kFullSize = 8;
  SHARDKIT_RETURN_IF_ERROR(reader.Start(bytes, info, kFullSize, channels, strict_));
  SHARDKIT_RETURN_IF_ERROR(reader.Crop(0, info.width));
  scratch_.resize(info.width * static_cast<size_t>(channels));
  const absl::Status status = reader.Read(0, 0, info.width, info.height, scratch_.data(), /*stride=*/0);
  warning_ = reader.warning();
  return status;
}

absl::Status EncodeJpeg(const uint8_t* rgb, uint32_t width, uint32_t height, const JpegEncodeOptions& options,
                        std::string* out) {
  constexpr uint32_t kMaxDimension = 65500;  // libjpeg's JPEG_MAX_DIMENSION
  if (rgb == nullptr || width == 0 || height == 0 || width > kMaxDimension || height > kMaxDimension) {
    return InvalidArgument("cannot encode ", width, " x ", height, " pixels as JPEG: 1 to ", kMaxDimension,
                           " each way");
  }
  if (options.quality < 1 || options.quality > 100) {
    return InvalidArgument("JPEG quality ", options.quality, " is outside 1 to 100");
  }
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitCompress(), tjDestroy);
  if (handle == nullptr) throw std::bad_alloc();
  const int subsampling = options.subsample ? TJSAMP_420 : TJSAMP_444;
  unsigned long size = tjBufSize(static_cast<int>(width), static_cast<int>(height), subsampling);
  if (size == static_cast<unsigned long>(-1)) {
    return InvalidArgument("cannot encode ", width, " x ", height, " pixels as JPEG: too large");
  }
  out->resize(size);
  unsigned char* buffer = reinterpret_cast<unsigned char*>(out->data());
  if (tjCompress2(handle.get(), rgb, static_cast<int>(width), 0, static_cast<int>(height), TJPF_RGB, &buffer, &size,
                  subsampling, options.quality, TJFLAG_NOREALLOC) != 0) {
    out->clear();
    return absl::InternalError(tjGetErrorStr2(handle.get()));
  }
  out->resize(size);
  return absl::OkStatus();
}

}  // namespace shardkit
