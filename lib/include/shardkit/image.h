// From a stored JPEG or PNG to the pixels that a training step takes: which part of the image, how large, which way
// up, and the same for the masks, boxes and points that belong to it.
//
// Coordinates. A stored image (or mask) is what the file holds. The upright image is the stored one after its
// EXIF orientation has been applied, as one looks at it. Positions are continuous: pixel (x, y) covers
// [x, x + 1) by [y, y + 1), with (0, 0) the upper left corner. Nothing here does I/O or starts threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/rle.h"

namespace shardkit {

// Borrowed pixels, row-major, channels interleaved: pixel (x, y) begins at pixels + y * row_stride +
// x * channels. Nothing outside the pixels is touched, be it between two rows.
struct ImageView {
  const uint8_t* pixels = nullptr;
  uint32_t width = 0;     // pixels
  uint32_t height = 0;    // pixels
  int channels = 3;       // 1 or 3
  size_t row_stride = 0;  // bytes from one row to the next, at least width * channels
};

struct MutableImageView {
  uint8_t* pixels = nullptr;
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 3;
  size_t row_stride = 0;

  operator ImageView() const { return {pixels, width, height, channels, row_stride}; }  // NOLINT
};

// ---- Formats ----

// Of an image file, as its first bytes say (format-spec/spec.md, section 4.2). JPEG and PNG are decoded to pixels.
enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp, kGif, kBmp, kTiff, kAvif, kJpegXl };

// The first kImageHeadBytes bytes tell as much as the whole file. Pure.
inline constexpr size_t kImageHeadBytes = 64;
ImageFormat DetectImageFormat(std::string_view bytes);

// "JPEG", "WebP", …; "unknown".
std::string_view ImageFormatName(ImageFormat format);

// ---- Geometry ----

// In pixels; may be fractional.
struct Box {
  double x = 0;  // left edge
  double y = 0;  // upper edge
  double width = 0;
  double height = 0;

  bool operator==(const Box&) const = default;
};

// What becomes of an image and of all that lies on it. First the stored image is turned upright; then
// `source` is taken from it and resized to content_width x content_height; then, with `flip`, this content is
// mirrored (its column x becomes column content_width - 1 - x); it comes to the upper left corner of the
// output, and what it leaves to the right and below is padding. Padding is never mirrored to the left.
struct Geometry {
  uint32_t stored_width = 0;   // pixels, as in the file
  uint32_t stored_height = 0;  // pixels, as in the file
  int orientation = 1;         // EXIF: 1 to 8
  Box source;                  // in pixels of the upright image, inside it
  uint32_t content_width = 0;
  uint32_t content_height = 0;
  uint32_t output_width = 0;   // at least content_width
  uint32_t output_height = 0;  // at least content_height
  bool flip = false;

  uint32_t upright_width() const { return orientation >= 5 ? stored_height : stored_width; }
  uint32_t upright_height() const { return orientation >= 5 ? stored_width : stored_height; }
  // Whether the output is the stored image, pixel for pixel.
  bool IsIdentity() const;
  bool operator==(const Geometry&) const = default;
};

// Pixels each way that a Geometry may have at most, stored or put out.
inline constexpr uint32_t kMaxImageSide = 1 << 20;

// InvalidArgument, naming the field, when one is out of range: a size of 0 or above kMaxImageSide, an
// orientation outside 1 to 8, an empty box or one that leaves the image (by more than 1e-6 pixels, for the
// rounding of those who compute boxes), content larger than the output.
absl::Status CheckGeometry(const Geometry& geometry);

// A stored image before anything is done to it.
struct StoredSize {
  uint32_t width = 0;   // pixels, as in the file
  uint32_t height = 0;  // pixels
  int orientation = 1;  // EXIF; 0, which stands for a file that does not say, counts as 1
};

// Of a JPEG or PNG, by its headers. That a PNG may have an orientation, too (its eXIf chunk), is not looked at.
// DataLoss when the file does not say, or is of no known format; Unimplemented, naming the format, for another one.
// Thread-safe.
absl::StatusOr<StoredSize> ProbeImage(std::string_view bytes);

// The functions below are pure. They accept any argument; what makes no sense (a size of 0, a crop larger
// than what it is cut from) gives a Geometry that CheckGeometry refuses, as does everything that uses one.

// The whole upright image at its own size.
Geometry FullImage(const StoredSize& stored);

// The whole upright image, resized to width x height.
Geometry Resize(const StoredSize& stored, uint32_t width, uint32_t height);

// torchvision's Resize(resize) and CenterCrop(crop) in one: the shorter side becomes `resize`, the longer one
// int(resize * longer / shorter), and crop x crop pixels are cut from the middle, from round((side - crop) /
// 2) on, halves to even. Needs crop <= resize: torchvision would pad, this gives a box outside the image.
Geometry CenterCrop(const StoredSize& stored, uint32_t resize, uint32_t crop);

// The longer side becomes `target`, the shorter one in proportion, rounded (int(side * target / longer +
// 0.5), at least 1); padded to target x target. As ResizeLongestSide of Segment Anything.
Geometry ResizeLongestSide(const StoredSize& stored, uint32_t target);

// Toggles `flip`.
Geometry FlipHorizontal(Geometry geometry);

// Random numbers for one sample in one epoch: the same on every machine, thread and version of the library.
// With all arithmetic modulo 2^64 and
//   mix(z):  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
//            z ^ (z >> 31)
//   G = 0x9e3779b97f4a7c15
//   key = mix(mix(mix(seed + G) + epoch + G) + sample + G)
// number i, counted from 1, is mix(key + i * G).
class AugmentationRandom {
 public:
  AugmentationRandom(uint64_t seed, uint64_t epoch, uint64_t sample);

  uint64_t Next();
  // [0, 1): the top 53 bits of Next(), times 2^-53.
  double Uniform();
  // low + (high - low) * Uniform().
  double Uniform(double low, double high);
  // [0, count): the upper 64 bits of the 128-bit product Next() * count. 0 for a count of 0.
  uint64_t Below(uint64_t count);

 private:
  uint64_t state_;
};

struct RandomCropOptions {
  double min_scale = 0.08;  // area of the box / area of the image
  double max_scale = 1.0;
  double min_ratio = 3.0 / 4.0;  // width / height of the box
  double max_ratio = 4.0 / 3.0;
};

// torchvision's RandomResizedCrop: up to ten times an area, uniform in the scale range, and a ratio, uniform
// in its logarithm, are drawn; the first box of whole pixels that fits in the image is put at a random place;
// when none does, the largest box in the middle whose ratio is in range. Draws at most 22 numbers: two for
// each try (area, ratio), then two (y, x). The box is the same on machines whose C libraries agree on exp,
// log and sqrt to well within what rounding to pixels leaves over.
Geometry RandomResizedCrop(const StoredSize& stored, uint32_t width, uint32_t height, AugmentationRandom& random,
                           const RandomCropOptions& options = {});

struct Point {
  double x = 0;
  double y = 0;

  bool operator==(const Point&) const = default;
};

// Where a position on the stored image comes to lie on the output; outside of it when `source` does not hold
// it.
Point MapPoint(const Geometry& geometry, const Point& stored);
// The same of a box. Not cut off at the edges of the output.
Box MapBox(const Geometry& geometry, const Box& stored);

// ---- Pixels ----

// Reuses its memory. One thread at a time.
class Resizer {
 public:
  Resizer();
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  // Fills `out` with `source` of `image`, resized: bilinear, and antialiased where it shrinks (a triangle
  // filter as wide as two output pixels). Equal, to the bit, to Pillow's
  // image.resize((out.width, out.height), Image.BILINEAR, box=...) when the box's edges and its size are
  // 32-bit floats, to which Pillow rounds them; else within 1. As there, pixels of `image` around the box
  // count where the filter reaches them. InvalidArgument for an empty size, a box that is empty or leaves
  // `image`, other channels in `out`.
  absl::Status ResizeBilinear(const ImageView& image, const Box& source, const MutableImageView& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Copies the stored `image` upright (EXIF 1 to 8) into `out` and then, with `flip`, mirrors it left to right.
// `out` has the upright size and does not overlap `image`; InvalidArgument for another size or orientation.
absl::Status ApplyOrientation(const ImageView& image, int orientation, bool flip, const MutableImageView& out);

// An image of few bytes can claim gigabytes of pixels. Enough for 78 million pixels of RGB.
inline constexpr uint64_t kDefaultImageMemory = uint64_t{224} << 20;

struct ImageDecodeOptions {
  // Decode at 1/8, 1/4 or 1/2 of the size (libjpeg's DCT scaling) where that still has at least as many
  // pixels each way as the content has. Faster; not the same pixels. False: only the region is saved.
  bool scaled_decode = true;
  // Value of the padding, per channel; the first for gray output.
  std::array<uint8_t, 3> fill = {0, 0, 0};
  // Bytes that decoding one image may take beyond `out`, and of outputs whose size the image decides, `out` too. Images
  // that need more are refused (ResourceExhausted).
  uint64_t max_memory = kDefaultImageMemory;
};

// Decodes JPEGs and PNGs to training input. Reuses its memory. One thread at a time; use one per thread.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  // Fills `out`, which has the geometry's output size; its channels, 1 or 3, say whether gray or RGB. Only
  // the region that the geometry needs is decoded. The identity decodes straight into `out`, without a copy.
  //
  // Of a PNG the pixels are those of Pillow's convert("RGB") and convert("L"): gray is repeated, colors become gray by
  // 0.299, 0.587 and 0.114, transparency is dropped, not laid on a background. Of 16 bits the upper 8 are taken. It is
  // decoded at its own size, from the first row to the last one of the region; an interlaced one as a whole.
  //
  // Of a JPEG the pixels are those of JpegDecoder::DecodeRegion at the scale chosen, resized by Resizer from the
  // geometry's box; at full scale without a crop, those of JpegDecoder::Decode. Where the geometry turns or
  // mirrors, each is within 2 of the same done by separate steps.
  //
  // InvalidArgument for a geometry that CheckGeometry refuses, that is made for another size than the file
  // has, or that does not fit `out`; the errors of ProbeImage; otherwise those of JpegDecoder::Decode. As
  // in DecodeRegion, damage beyond the region can go unseen. After an error `out` holds anything.
  absl::Status Decode(std::string_view bytes, const Geometry& geometry, const ImageDecodeOptions& options,
                      const MutableImageView& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- Masks ----

// Masks of one image through its geometry: prepared once, then cheap for each mask. Reuses its memory. One
// thread at a time.
//
// A mask is given as stored (before orientation), geometry.stored_height x stored_width. Output pixel (x, y)
// of the content is the mask's pixel nearest to its centre. Exactly, in double precision and this order of
// operations, with x mirrored first when the geometry flips: the upright mask's pixel
//   floor(source.x + (x + 0.5) * source.width / content_width), at most upright_width - 1,
// and so for y. Padding is 0. The work is proportional to the runs and the output, not to the stored mask.
class MaskRasterizer {
 public:
  MaskRasterizer();
  ~MaskRasterizer();
  MaskRasterizer(MaskRasterizer&&) noexcept;
  MaskRasterizer& operator=(MaskRasterizer&&) noexcept;

  // CheckGeometry's errors. To be called before the others.
  absl::Status SetGeometry(const Geometry& geometry);

  // Row-major, one byte per pixel, 0 or 1. `out` has output_height * output_width bytes. InvalidArgument when
  // it has not, or the mask has another size than the geometry says; DataLoss when its runs do not sum to it.
  // For an identity geometry this is DecodeDense.
  absl::Status Dense(const RleView& mask, std::span<uint8_t> out);

  // One bit per pixel, as DecodePacked. `out` has output_height * PackedRowBytes(output_width) bytes.
  absl::Status Packed(const RleView& mask, std::span<uint8_t> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One mask alone. Thread-safe.
absl::Status RasterizeMask(const RleView& mask, const Geometry& geometry, std::span<uint8_t> out);
absl::Status RasterizeMaskPacked(const RleView& mask, const Geometry& geometry, std::span<uint8_t> out);

}  // namespace shardkit
