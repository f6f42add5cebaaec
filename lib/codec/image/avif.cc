// AVIF files, through libavif. Of a sequence the primary item is the image.
#include <avif/avif.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"

namespace shardkit::codec {
namespace {

// ---- What decoding takes ----
//
// The headers of the container do not bind the coded images, and libaom allocates what these say. So they are read
// before it.

// Numbers of any count of bits. Beyond the end they are 0.
class Bits {
 public:
  explicit Bits(std::string_view bytes) : bytes_(bytes) {}

  uint32_t Take(uint32_t count) {
    uint32_t number = 0;
    for (; count > 0; --count, ++at_) {
      const size_t byte = at_ / 8;
      const unsigned bit = byte < bytes_.size() ? static_cast<uint8_t>(bytes_[byte]) >> (7 - at_ % 8) & 1 : 0;
      number = number << 1 | bit;
    }
    return number;
  }
  void Skip(size_t count) { at_ += count; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

// The pixels of the largest frame after this sequence header (AV1 Bitstream and Decoding Process, 5.5.1).
uint64_t MostPixels(std::string_view sequence_header) {
  Bits bits(sequence_header);
  bits.Skip(4);  // profile, still picture
  if (bits.Take(1) != 0) {
    bits.Skip(5);  // level of a reduced header
  } else {
    uint32_t delay_bits = 0;  // 0: no model of the decoder
    if (bits.Take(1) != 0) {
      bits.Skip(64);
      if (bits.Take(1) != 0) {
        uint32_t zeros = 0;
        while (zeros < 32 && bits.Take(1) == 0) ++zeros;
        if (zeros < 32) bits.Skip(zeros);
      }
      if (bits.Take(1) != 0) {
        delay_bits = bits.Take(5) + 1;
        bits.Skip(32 + 5 + 5);
      }
    }
    const bool display_delay = bits.Take(1) != 0;
    for (uint32_t points = bits.Take(5) + 1; points > 0; --points) {
      bits.Skip(12);
      if (bits.Take(5) > 7) bits.Skip(1);  // tier
      if (delay_bits > 0 && bits.Take(1) != 0) bits.Skip(2 * size_t{delay_bits} + 1);
      if (display_delay && bits.Take(1) != 0) bits.Skip(4);
    }
  }
  const uint32_t width_bits = bits.Take(4) + 1, height_bits = bits.Take(4) + 1;
  const uint64_t width = uint64_t{bits.Take(width_bits)} + 1, height = uint64_t{bits.Take(height_bits)} + 1;
  return width * height;
}

// Of all items of a file.
struct CodedImages {
  uint64_t count = 0;   // items that hold AV1
  uint64_t pixels = 0;  // of the largest
  uint64_t frames = 1;  // most of one item; some of them are kept for the others

  // `item` is a row of open bitstream units (5.3), or something else.
  void Add(std::string_view item) {
    constexpr unsigned kSequenceHeader = 1, kFrameHeader = 3, kFrame = 6;
    bool av1 = false;
    uint64_t shown = 0;
    while (!item.empty()) {
      const auto header = static_cast<uint8_t>(item[0]);
      if ((header & 0x82) != 2) break;  // none, or without a size, which libaom refuses
      item.remove_prefix(std::min<size_t>((header & 4) != 0 ? 2 : 1, item.size()));
      uint64_t size = 0;
      bool more = true;
      for (int i = 0; more && i < 8 && !item.empty(); ++i, item.remove_prefix(1)) {
        size |= uint64_t{static_cast<uint8_t>(item[0]) & 0x7fu} << (7 * i);
        more = (item[0] & 0x80) != 0;
      }
      if (more || size > item.size()) break;
      const unsigned type = header >> 3 & 15;
      if (type == kSequenceHeader) {
        av1 = true;
        pixels = std::max(pixels, MostPixels(item.substr(0, size)));
      }
      shown += type == kFrameHeader || type == kFrame ? 1 : 0;
      item.remove_prefix(size);
    }
    count += av1 ? 1 : 0;
    if (av1) frames = std::max(frames, shown);
  }
};

struct IsoBox {
  std::string_view type;
  std::string_view content;
};

// Takes the next box (ISO 14496-12, 4.2). False at the end, and where libavif reports damage.
bool TakeBox(std::string_view* bytes, IsoBox* box) {
  if (bytes->size() < 8) return false;
  box->type = bytes->substr(4, 4);
  uint64_t size = LoadBig32(bytes->data()), header = 8;
  if (size == 1) {
    if (bytes->size() < 16) return false;
    size = uint64_t{LoadBig32(bytes->data() + 8)} << 32 | LoadBig32(bytes->data() + 12);
    header = 16;
  }
  if (box->type == "uuid") header += 16;
  if (size < header || size > bytes->size()) return false;
  box->content = bytes->substr(header, size - header);
  bytes->remove_prefix(size);
  return true;
}

// Finds the items (8.11.3). Where `locations` is damaged, libavif reports it.
absl::StatusOr<CodedImages> FindItems(std::string_view file, std::string_view within, std::string_view locations) {
  // Items can share bytes, and so a few of them could take any time.
  uint64_t left = 4 * file.size() + (uint64_t{16} << 20);
  CodedImages found;
  Bits bits(locations);
  size_t rest = locations.size();
  const auto take = [&](uint32_t bytes) {
    rest -= std::min<size_t>(bytes, rest);
    const uint64_t upper = bytes > 4 ? bits.Take(8 * (bytes - 4)) : 0;
    return upper << 32 | bits.Take(8 * std::min(bytes, 4u));
  };
  const auto version = static_cast<uint32_t>(take(4) >> 24);
  const auto sizes = static_cast<uint32_t>(take(2));
  const uint32_t offset_bytes = sizes >> 12, length_bytes = sizes >> 8 & 15, base_bytes = sizes >> 4 & 15;
  if (std::max({offset_bytes, length_bytes, base_bytes}) > 8) return found;
  for (uint64_t items = take(version < 2 ? 2 : 4); items > 0 && rest > 0; --items) {
    take(version < 2 ? 2 : 4);
    const bool inside = version > 0 && (take(2) & 15) == 1;
    take(2);
    const uint64_t base = take(base_bytes), extents = take(2);
    const std::string_view from = inside ? within : file;
    std::string merged;
    std::string_view item;
    for (uint64_t i = 0; i < extents && rest > 0; ++i) {
      uint64_t offset = 0;
      const bool valid = CheckedAdd(base, take(offset_bytes), &offset);
      const uint64_t length = take(length_bytes);
      if (!valid || !RangeWithin(offset, length, from.size())) return found;
      if (length > left) return DataLoss("AVIF: its items take the same bytes again and again");
      left -= length;
      item = from.substr(offset, length);
      if (extents == 1) break;
      merged += item;
    }
    found.Add(extents == 1 ? item : merged);
  }
  return found;
}

absl::StatusOr<CodedImages> FindCodedImages(std::string_view file) {
  IsoBox box;
  for (std::string_view rest = file; TakeBox(&rest, &box);) {
    if (box.type != "meta" || box.content.size() < 4) continue;
    std::string_view within, locations;
    for (std::string_view boxes = box.content.substr(4); TakeBox(&boxes, &box);) {
      if (box.type == "idat") within = box.content;
      if (box.type == "iloc") locations = box.content;
    }
    return FindItems(file, within, locations);
  }
  return CodedImages{};
}

// ---- Decoding ----

struct DecoderDeleter {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};
using Decoder = std::unique_ptr<avifDecoder, DecoderDeleter>;

absl::Status Check(avifResult result) {
  switch (result) {
    case AVIF_RESULT_OK:
      return absl::OkStatus();
    case AVIF_RESULT_OUT_OF_MEMORY:
      return ResourceExhausted("AVIF: there is not enough memory");
    case AVIF_RESULT_NO_CODEC_AVAILABLE:
    case AVIF_RESULT_NOT_IMPLEMENTED:
    case AVIF_RESULT_UNSUPPORTED_DEPTH:
      return Unimplemented("AVIF: libavif with libaom says: ", avifResultToString(result));
    default:
      return DataLoss("AVIF: ", avifResultToString(result));
  }
}

// Reads the headers.
absl::StatusOr<Decoder> Open(std::string_view bytes) {
  Decoder decoder(avifDecoderCreate());
  if (decoder == nullptr) return ResourceExhausted("AVIF: there is not enough memory");
  decoder->maxThreads = 1;
  decoder->ignoreExif = decoder->ignoreXMP = AVIF_TRUE;
  // libavif before 1.4 lets dav1d print what it finds damaged.
  decoder->codecChoice = AVIF_CODEC_CHOICE_AOM;
  // Many files lack these or have them wrong, and decoding does not need them.
  decoder->strictFlags &= ~static_cast<avifStrictFlags>(AVIF_STRICT_CLAP_VALID | AVIF_STRICT_PIXI_REQUIRED);
  SHARDKIT_RETURN_IF_ERROR(Check(avifDecoderSetSource(decoder.get(), AVIF_DECODER_SOURCE_PRIMARY_ITEM)));
  SHARDKIT_RETURN_IF_ERROR(
      Check(avifDecoderSetIOMemory(decoder.get(), reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())));
  SHARDKIT_RETURN_IF_ERROR(Check(avifDecoderParse(decoder.get())));
  if (decoder->image->width == 0 || decoder->image->height == 0) return DataLoss("AVIF: the headers give no size");
  return decoder;
}

// The orientation of EXIF that turns as the file says: by quarters anticlockwise, then by a mirror. EXIF in an AVIF
// does not count (ISO 23008-12, 6.5.10).
int OrientationOf(const avifImage& image) {
  constexpr int kTurned[] = {1, 8, 3, 6};
  constexpr int kTopAndBottom[] = {4, 5, 2, 7};  // turned, and then mirrored top to bottom
  constexpr int kLeftAndRight[] = {2, 7, 4, 5};
  const bool turned = (image.transformFlags & AVIF_TRANSFORM_IROT) != 0;
  const bool mirrored = (image.transformFlags & AVIF_TRANSFORM_IMIR) != 0;
  if (!turned && !mirrored) return 0;
  const int angle = turned ? image.irot.angle % 4 : 0;
  if (!mirrored) return kTurned[angle];
#if AVIF_VERSION_MAJOR >= 1
  const int axis = image.imir.axis;
#else
  const int axis = image.imir.mode;
#endif
  return (axis == 0 ? kTopAndBottom : kLeftAndRight)[angle];
}

absl::StatusOr<ImageHeader> ProbeAvif(std::string_view bytes) {
  SHARDKIT_ASSIGN_OR_RETURN(const Decoder decoder, Open(bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const CodedImages coded, FindCodedImages(bytes));
  const avifImage& image = *decoder->image;
  ImageHeader header{.width = image.width, .height = image.height, .orientation = OrientationOf(image)};
  header.channels = image.yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1 : 3;
  header.depth = static_cast<int>(image.depth);
  // libaom's frames, before and after film grain, with 11 bytes for each pixel that it keeps of blocks: all tiles of an
  // image together, and what they are joined to; RGBA in a buffer, where the pixels do not go directly to the caller.
  constexpr uint64_t kBlockBytes = 11, kMostFrames = 10;
  const bool subsampled = image.yuvFormat == AVIF_PIXEL_FORMAT_YUV420 || header.channels == 1;
  const uint64_t plane_bytes = (subsampled ? 2u : 3u) * (image.depth > 8 ? 2u : 1u);
  const uint64_t pixels = uint64_t{image.width} * image.height;
  const uint64_t frames = coded.count * std::min(coded.frames, kMostFrames);
  if (!CheckedMultiply(coded.pixels, frames * (kBlockBytes + 2 * plane_bytes), &header.check_bytes) ||
      !CheckedAdd(header.check_bytes, coded.count > 1 ? (plane_bytes + 1) * pixels : 0, &header.check_bytes) ||
      !CheckedAdd(header.check_bytes, 4 * pixels, &header.held_bytes)) {
    header.check_bytes = header.held_bytes = UINT64_MAX;
  }
  return header;
}

absl::Status DecodeAvif(std::string_view bytes, const ImageHeader& header, uint32_t left, uint32_t top,
                        const MutableImageView* out) {
  SHARDKIT_ASSIGN_OR_RETURN(const Decoder decoder, Open(bytes));
  SHARDKIT_ASSIGN_OR_RETURN(const CodedImages coded, FindCodedImages(bytes));
  // What a coded image of another size than its header's is scaled to.
  decoder->imageSizeLimit = static_cast<uint32_t>(std::clamp<uint64_t>(coded.pixels, 1, decoder->imageSizeLimit));
  SHARDKIT_RETURN_IF_ERROR(Check(avifDecoderNextImage(decoder.get())));
  avifImage image = *decoder->image;  // borrows the planes
  if (image.width != header.width || image.height != header.height) {
    return DataLoss("AVIF: the image has ", image.width, " x ", image.height, " pixels, its headers ", header.width,
                    " x ", header.height);
  }
  // The check takes one row, for colors that libavif does not convert.
  if (out == nullptr) image.height = 1;
  // libavif would blend with black where it drops transparency.
  const bool wanted = (out != nullptr && out->channels == 4) || image.alphaPremultiplied != AVIF_FALSE;
  const bool alpha = image.alphaPlane != nullptr && wanted;
  if (!alpha) image.alphaPlane = nullptr;
  const int channels = alpha ? 4 : 3;
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, &image);
  rgb.format = alpha ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  rgb.depth = 8;
  const bool direct = out != nullptr && out->channels == channels && out->width == image.width &&
                      out->height == image.height && out->row_stride <= std::numeric_limits<uint32_t>::max();
  const size_t stride = direct ? out->row_stride : static_cast<size_t>(channels) * image.width;
  std::vector<uint8_t> pixels(direct ? 0 : stride * image.height);
  rgb.pixels = direct ? out->pixels : pixels.data();
  rgb.rowBytes = static_cast<uint32_t>(stride);
  SHARDKIT_RETURN_IF_ERROR(Check(avifImageYUVToRGB(&image, &rgb)));
  for (uint32_t y = 0; !direct && out != nullptr && y < out->height; ++y) {
    ConvertRow(pixels.data() + (top + y) * stride + left * static_cast<size_t>(channels), channels, out->width,
               out->channels, out->pixels + y * out->row_stride);
  }
  return absl::OkStatus();
}

}  // namespace

const ImageCodec kAvifCodec = {ImageFormat::kAvif, "", ProbeAvif, DecodeAvif, nullptr};

}  // namespace shardkit::codec
