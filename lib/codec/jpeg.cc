// Whole-image decoding and encoding with TurboJPEG.
#include "shardkit/jpeg.h"

#include <turbojpeg.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit {
namespace {

// Whether libjpeg-turbo's message says that it lacks a feature, not that the file is damaged.
bool SaysUnsupported(std::string_view message) {
  for (const std::string_view part :
       {"nsupported", "not implemented", "not compiled", "omitted at compile"}) {
    if (message.find(part) != std::string_view::npos) return true;
  }
  return false;
}

absl::Status CheckDecodable(const JpegInfo& info, uint64_t max_pixels) {
  const uint64_t pixels = uint64_t{info.width} * info.height;
  if (pixels > max_pixels) {
    return ResourceExhausted("JPEG: ", info.width, " x ", info.height, " pixels are above the limit of ",
                             max_pixels);
  }
  if (info.lossless) return Unimplemented("JPEG: lossless coding is not supported");
  if (info.bits != 8) return Unimplemented("JPEG: ", info.bits, " bits per sample are not supported, only 8");
  if (info.components != 1 && info.components != 3 && info.components != 4) {
    return Unimplemented("JPEG: ", info.components, " components are not supported, only 1, 3 and 4");
  }
  return absl::OkStatus();
}

// Four bytes CMYK -> three bytes RGB, in place. As in every CMYK JPEG in use (Adobe's convention), a sample
// is the light that passes: 255 is no ink.
void CmykToRgb(std::vector<uint8_t>* pixels) {
  const uint8_t* from = pixels->data();
  const uint8_t* const end = from + pixels->size();
  for (uint8_t* to = pixels->data(); from != end; from += 4, to += 3) {
    const unsigned black = from[3];
    for (int i = 0; i < 3; ++i) to[i] = static_cast<uint8_t>((from[i] * black + 127) / 255);
  }
  pixels->resize(pixels->size() / 4 * 3);
}

}  // namespace

JpegDecoder::JpegDecoder() : handle_(tjInitDecompress()) {
  if (handle_ == nullptr) throw std::bad_alloc();
}
JpegDecoder::~JpegDecoder() { tjDestroy(handle_); }

absl::Status JpegDecoder::Decode(std::string_view bytes, DecodedImage* image) {
  SHARDKIT_ASSIGN_OR_RETURN(const JpegInfo info, ProbeJpeg(bytes));
  SHARDKIT_RETURN_IF_ERROR(CheckDecodable(info, max_pixels_));
  const int samples = info.components;  // 1, 3 or 4, as the pixel formats below
  image->width = info.width;
  image->height = info.height;
  image->channels = samples == 1 ? 1 : 3;
  image->pixels.resize(size_t{info.width} * info.height * static_cast<size_t>(samples));
  const int format = samples == 1 ? TJPF_GRAY : samples == 3 ? TJPF_RGB : TJPF_CMYK;
  // Size and components come from ProbeJpeg, not from tjDecompressHeader3, which refuses unusual subsampling
  // that tjDecompress2 decodes. The library never writes beyond the size given here. A scan limit, because a
  // small progressive file can ask for hours of work.
  const int result = tjDecompress2(handle_, reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<unsigned long>(bytes.size()), image->pixels.data(),
                                   static_cast<int>(info.width), 0, static_cast<int>(info.height), format,
                                   TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS);
  if (result != 0) {
    const std::string_view message = tjGetErrorStr2(handle_);
    if (SaysUnsupported(message)) return Unimplemented("JPEG: ", message);
    return DataLoss("JPEG: ", message);
  }
  if (samples == 4) CmykToRgb(&image->pixels);
  return absl::OkStatus();
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
  if (tjCompress2(handle.get(), rgb, static_cast<int>(width), 0, static_cast<int>(height), TJPF_RGB, &buffer,
                  &size, subsampling, options.quality, TJFLAG_NOREALLOC) != 0) {
    out->clear();
    return absl::InternalError(tjGetErrorStr2(handle.get()));
  }
  out->resize(size);
  return absl::OkStatus();
}

}  // namespace shardkit
