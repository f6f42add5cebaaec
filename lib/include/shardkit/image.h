// From a stored image file to the pixels of a training step: crop, size and orientation, and the same geometry for the
// masks, boxes and points of the image.
//
// Coordinates. A stored image (or mask) is as in the file. The upright image is the stored one after its EXIF
// orientation has been applied, as a person sees it. Positions are continuous: pixel (x, y) covers [x, x + 1) by [y, y
// + 1), with (0, 0) the upper left corner. Nothing here does I/O or starts threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/rle.h"
#include "shardkit/schema.h"

namespace shardkit {

// Borrowed pixels, row-major, channels interleaved: pixel (x, y) begins at pixels + y * row_stride + x * channels.
// Memory outside the pixels, including gaps between rows, is not touched.
struct ImageView {
  const uint8_t* pixels = nullptr;
  uint32_t width = 0;     // pixels
  uint32_t height = 0;    // pixels
  int channels = 3;       // 1, 3, or 4 with transparency
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

// The format of an image file, from its first bytes (format-spec/values.md, section 4.2). JPEG, PNG and BMP can be
// decoded, and where the build has libwebp, giflib, libtiff and libavif, WebP, GIF, TIFF and AVIF: of an animation or a
// file of several images, the first.
enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp, kGif, kBmp, kTiff, kAvif, kJpegXl, kPnm };

// The first kImageHeadBytes bytes are enough: the rest of the file does not change the result. Pure.
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

// The transformation of an image and everything on it, in this order. The stored image is turned upright. `source` is
// cut from it and resized to content_width x content_height. With `flip`, this content is mirrored (its column x
// becomes column content_width - 1 - x). Its upper left corner is placed at (content_left, content_top) of the output,
// surrounded by padding. `flip` does not move the content.
struct Geometry {
  uint32_t stored_width = 0;   // pixels, as in the file
  uint32_t stored_height = 0;  // pixels, as in the file
  int orientation = 1;         // EXIF: 1 to 8
  Box source;                  // in pixels of the upright image, inside it
  uint32_t content_width = 0;
  uint32_t content_height = 0;
  uint32_t content_left = 0;   // pixels of padding at the left of the content
  uint32_t content_top = 0;    // and above it
  uint32_t output_width = 0;   // at least content_left + content_width
  uint32_t output_height = 0;  // at least content_top + content_height
  bool flip = false;

  uint32_t upright_width() const { return orientation >= 5 ? stored_height : stored_width; }
  uint32_t upright_height() const { return orientation >= 5 ? stored_width : stored_height; }
  // The same content as the whole output.
  Geometry WithoutPadding() const;
  // Whether the output is the stored image, pixel for pixel.
  bool IsIdentity() const;
  bool operator==(const Geometry&) const = default;
};

// The largest width and height in pixels, stored or output, that a Geometry may have.
inline constexpr uint32_t kMaxImageSide = 1 << 20;

// InvalidArgument, naming the field, if one is out of range: a size of 0 or above kMaxImageSide, an orientation outside
// 1 to 8, an empty box, a box that leaves the image (by more than 1e-6 pixels, to allow for rounding), or content that
// leaves the output.
absl::Status CheckGeometry(const Geometry& geometry);

// The size and orientation of a stored image.
struct StoredSize {
  uint32_t width = 0;   // pixels, as in the file
  uint32_t height = 0;  // pixels
  int orientation = 1;  // EXIF; 0 (the file does not say) counts as 1
};

// The size and orientation of an image of a format that can be decoded, from its headers. DataLoss if the file does not
// give its size or has no known format; Unimplemented, naming the format and what the build lacks, for another format.
// Thread-safe.
absl::StatusOr<StoredSize> ProbeImage(std::string_view bytes);

// The functions below are pure. They accept any argument. If an argument makes no sense (a size of 0, a crop larger
// than the image), CheckGeometry and all users of the Geometry refuse the result.

// The whole upright image at its own size.
Geometry FullImage(const StoredSize& stored);

// The whole upright image, resized to width x height.
Geometry Resize(const StoredSize& stored, uint32_t width, uint32_t height);

// torchvision's Resize(resize) and CenterCrop(crop) in one. The shorter side becomes `resize`, the longer one
// int(resize * longer / shorter). Then crop x crop pixels are cut from the middle, starting at round((side - crop) /
// 2), halves to even. Needs crop <= resize: torchvision would pad, but this gives a box outside the image.
Geometry CenterCrop(const StoredSize& stored, uint32_t resize, uint32_t crop);

// The longer side becomes `target`, the shorter one int(side * target / longer + 0.5), at least 1. Padded to target x
// target. Like ResizeLongestSide of Segment Anything.
Geometry ResizeLongestSide(const StoredSize& stored, uint32_t target);

// The whole upright image, as large as fits in width x height, each side rounded, in the middle: padding at the left
// and above is the smaller half. Like the letterbox of YOLO.
Geometry Letterbox(const StoredSize& stored, uint32_t width, uint32_t height);

// Toggles `flip`.
Geometry FlipHorizontal(Geometry geometry);

// Random numbers for one sample in one epoch: the same on every machine, thread and version of the library. With all
// arithmetic modulo 2^64 and
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

struct RandomResizedCropOptions {
  double min_scale = 0.08;  // area of the box / area of the image
  double max_scale = 1.0;
  double min_ratio = 3.0 / 4.0;  // width / height of the box
  double max_ratio = 4.0 / 3.0;
};

// torchvision's RandomResizedCrop. Up to ten times it draws an area, uniform in the scale range, and a ratio, uniform
// in its logarithm. The first box of whole pixels that fits in the image is placed at random. If none fits, the result
// is the largest box in the middle with a ratio in range. Draws at most 22 numbers: two for each try (area, ratio),
// then two (y, x). The box is the same on all machines with nearly the same exp, log and sqrt in the C library:
// rounding to pixels hides small differences.
Geometry RandomResizedCrop(const StoredSize& stored, uint32_t width, uint32_t height, AugmentationRandom& random,
                           const RandomResizedCropOptions& options = {});

struct RandomCropOptions {
  uint32_t padding = 0;  // pixels of padding around the image that the crop may include; below the crop's sides
  double min_zoom = 1;   // the sides of the image are first multiplied by a number from min_zoom to max_zoom
  double max_zoom = 1;
};

// torchvision's RandomCrop with `padding` and pad_if_needed: width x height pixels at a random place of the image and
// its padding; all places are equally likely. If the padded image is smaller than the crop, it is at a random place in
// the crop. A zoom before it, uniform in its range, makes it the ScaleJitter of detection and the random scale of
// segmentation; the image then has sides of at most kMaxImageSide pixels. Draws three numbers: zoom, y, x.
Geometry RandomCrop(const StoredSize& stored, uint32_t width, uint32_t height, AugmentationRandom& random,
                    const RandomCropOptions& options = {});

// Options of the transformation of a sample's images and the data that belongs to them.
struct GeometryOptions {
  enum class Kind {
    kNative,             // as stored; sizes differ from sample to sample
    kResize,             // to width x height; does not keep the proportions
    kCenterCrop,         // shorter side to `resize`, then width x width from the middle
    kRandomResizedCrop,  // a random box, to width x height
    kRandomCrop,         // width x height pixels at a random place, resized only by `window`'s zoom
    kLongestSide,        // longer side to `width`, padded at the right or below to width x width
    kLetterbox,          // as large as fits in width x height, in the middle of padding
  };
  Kind kind = Kind::kNative;
  uint32_t width = 0;   // pixels
  uint32_t height = 0;  // pixels; 0 is `width`
  uint32_t resize = 0;  // pixels; 0 is `width`
  RandomResizedCropOptions crop;
  RandomCropOptions window;
  double flip_probability = 0;           // 0 to 1: of mirroring left and right
  double vertical_flip_probability = 0;  // 0 to 1: of mirroring top and bottom
  bool rotate90 = false;                 // turns by 0, 90, 180 or 270 degrees, equally often, before the crop
  bool apply_orientation = false;        // turns the image (and masks) upright by its EXIF orientation

  // Geometries of a sample that differ in this number draw their crops and flips independently.
  uint64_t stream = 0;
};

struct Point {
  double x = 0;
  double y = 0;

  bool operator==(const Point&) const = default;
};

// Maps a position on the stored image to the output. The result is outside the output if `source` does not contain the
// position.
Point MapPoint(const Geometry& geometry, const Point& stored);
// The same for a box. The result is not cut at the edges of the output.
Box MapBox(const Geometry& geometry, const Box& stored);

// ---- Pixels ----

// Interpolation between stored pixels. Both kinds are antialiased when they shrink, like Pillow's filters.
enum class Interpolation {
  kBilinear,  // a triangle as wide as two output pixels
  kBicubic,   // Keys' cubic with a = -0.5, as wide as four: sharper
};

// Reuses its memory. One thread at a time.
class Resizer {
 public:
  Resizer();
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  // Fills `out` with `source` of `image`, resized. Equals, bit for bit, Pillow's image.resize((out.width, out.height),
  // Image.BILINEAR or BICUBIC, box=...) if the box's edges and size are exact as 32-bit floats, to which Pillow rounds
  // them; otherwise each value is within 1. Resizes rows first, then columns. Pillow 13 uses the other order when a
  // picture grows wider and shrinks in height, and rounds differently there. As in Pillow, pixels of `image` around the
  // box count if the filter reaches them. InvalidArgument for an empty size, an empty box, a box that leaves `image`,
  // and for another number of channels of `out`.
  absl::Status Resize(const ImageView& image, const Box& source, Interpolation interpolation,
                      const MutableImageView& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Copies the stored `image` upright (EXIF 1 to 8) into `out`, and with `flip` then mirrors it left to right. `out` has
// the upright size and does not overlap `image`. InvalidArgument for another size or orientation.
absl::Status ApplyOrientation(const ImageView& image, int orientation, bool flip, const MutableImageView& out);

// Limits memory, because an image of few bytes can claim gigabytes of pixels. Enough for 78 million pixels of RGB.
inline constexpr uint64_t kDefaultImageMemory = uint64_t{224} << 20;

struct ImageDecodeOptions {
  // Decodes at 1/8, 1/4 or 1/2 of the size (libjpeg's DCT scaling) if that still has at least the content's width and
  // height. Faster, but gives other pixels. False: only decoding outside the region is saved.
  bool scaled_decode = true;
  // Takes the upper 8 bits (rounded, of an AVIF) of a file of more bits per channel. False: such a file is refused
  // (InvalidArgument), because 8 bits hold only one of 256 values of a depth map or a thermal image.
  bool reduce_depth = false;
  // Refuses JPEGs that libjpeg decodes with a warning (DataLoss). False: see ImageDecoder::warning.
  bool strict = false;
  Interpolation interpolation = Interpolation::kBilinear;
  // Value of the padding, per channel; gray output uses the first.
  std::array<uint8_t, 3> fill = {0, 0, 0};
  // Limit of the bytes for decoding one image; `out` counts only if its size depends on the image. Images that need
  // more are refused (ResourceExhausted).
  uint64_t max_memory = kDefaultImageMemory;
};

// Decodes image files to training input. Reuses its memory. One thread at a time; use one decoder per thread.
class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  // Fills `out`, which has the geometry's output size; its channels, 1, 3 or 4, choose gray, RGB or RGBA. Decodes only
  // the region that the geometry needs. The identity decodes directly into `out`, without a copy.
  //
  // RGBA: 255 where a file has no transparency (of BMPs it is not read), straight colors, also of TIFFs' and AVIFs'
  // premultiplied ones. Resizing treats each channel alone, as that of OpenCV does; Pillow's weighs colors by their
  // transparency. Padding is `fill`, with 0.
  //
  // Other formats than JPEG: pixels as by Pillow's convert("RGB") and convert("L"): gray is repeated, colors become
  // gray by 0.299, 0.587 and 0.114, and transparency is dropped without blending. They are decoded at full size, a PNG
  // from the first row to the last one of the region; an interlaced PNG completely. Gray output of a file with a
  // palette of colors is refused: its indices may be classes, and the lightness of their colors does not identify them.
  //
  // JPEG: pixels as by JpegDecoder::DecodeRegion at the chosen scale, resized by Resizer from the geometry's box; at
  // full scale without a crop, as by JpegDecoder::Decode. If the geometry turns or mirrors, each bilinear value is
  // within 2 of the result of separate steps; bicubic values that are cut at 0 and 255 between the two passes differ
  // more.
  //
  // As in DecodeRegion, damage outside the region may not be found. After an error the contents of `out` are
  // unspecified. InvalidArgument for a geometry that CheckGeometry refuses, that was made for another file size, or
  // that does not match `out`, and for a file refused as above; otherwise the errors of ProbeImage and
  // JpegDecoder::Decode.
  absl::Status Decode(std::string_view bytes, const Geometry& geometry, const ImageDecodeOptions& options,
                      const MutableImageView& out);

  // As Decode, for uncompressed pixels of 1, 3 or 4 channels. Of the options, only interpolation and fill apply.
  // Conversion between gray and colors as for a PNG.
  absl::Status Transform(const ImageView& image, const Geometry& geometry, const ImageDecodeOptions& options,
                         const MutableImageView& out);

  // As JpegDecoder::warning, for the part of the last image that was read. Empty for other formats, in which all
  // damage is an error.
  std::string_view warning() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Random changes of pixel values, not of their places.
struct AugmentOptions {
  // As torchvision's ColorJitter: factors of brightness, contrast and saturation, uniform from 1 - x (at least 0) to 1
  // + x, and a turn of the hue, uniform from -x to x of the whole circle, in a random order.
  double brightness = 0;  // 0 or more
  double contrast = 0;
  double saturation = 0;
  double hue = 0;                    // 0 to 0.5
  double jitter_probability = 1;     // of these four together
  double grayscale_probability = 0;  // of gray instead of colors, in all channels
  // As torchvision's RandomErasing: a box of 2 to 33 % of the area, with ratios from 0.3 to 3.3, becomes `erased`.
  double erase_probability = 0;
  std::array<uint8_t, 3> erased = {0, 0, 0};

  // Whether any pixel may change.
  bool Changes() const;
};

// InvalidArgument, naming the field, for a field out of range.
absl::Status CheckAugmentOptions(const AugmentOptions& options);

// Changes `image` in place. The same random numbers make the same pixels on every machine. Brightness, contrast and
// saturation blend like Pillow's ImageEnhance, within 1: with black, with the mean of the gray image, with the gray
// image. Gray images have no saturation and hue. First draws whether each of the three changes is done, then the order
// and the four amounts, for any options.
void AugmentPixels(const AugmentOptions& options, AugmentationRandom& random, const MutableImageView& image);

// Conversion of u8 pixels. kU8 keeps them, interleaved (height, width, channel). The other types are planar (channel,
// height, width): value = round(fma(pixel, scale[channel], bias[channel])), computed in binary32 with one rounding and
// then rounded to the type, halves to even. Planar u8 pixels are only moved.
struct PixelOutput {
  Type type = Type::kU8;  // kU8, kF32, kF16 or kBf16
  bool planar = false;    // always true for the float types
  float scale[3] = {1, 1, 1};
  float bias[3] = {0, 0, 0};
};

// `mean` and `deviation` are of pixels scaled to 0…1, as for torchvision's Normalize: scale = 1 / (255 * deviation) and
// bias = -mean / deviation, computed in double and rounded to float. A fourth channel, transparency, is pixel / 255 in
// any case.
PixelOutput NormalizedOutput(Type type, const float (&mean)[3], const float (&deviation)[3]);

// InvalidArgument for an output of another type, and for a float type that is not planar.
absl::Status CheckPixelOutput(const PixelOutput& output);

// ---- Masks ----

// Applies the geometry of an image to its masks. It is prepared once and then cheap for each mask. Reuses its memory.
// One thread at a time.
//
// A mask is as stored (before orientation), geometry.stored_height x stored_width. Output pixel (x, y) of the content
// is the mask's pixel nearest to its centre. Exactly, in double precision and this order of operations, with x mirrored
// first if the geometry flips: the upright mask's pixel
//   floor(source.x + (x + 0.5) * source.width / content_width), at most upright_width - 1,
// and the same for y. Padding is 0. The work is proportional to the runs and the output, not to the stored mask.
class MaskRasterizer {
 public:
  MaskRasterizer();
  ~MaskRasterizer();
  MaskRasterizer(MaskRasterizer&&) noexcept;
  MaskRasterizer& operator=(MaskRasterizer&&) noexcept;

  // CheckGeometry's errors. Must be called before Dense and Packed.
  absl::Status SetGeometry(const Geometry& geometry);

  // Row-major, one byte per pixel, 0 or 1. InvalidArgument unless `out` has output_height * output_width bytes and the
  // mask has the stored size of the geometry. DataLoss if its runs do not sum to that size. For an identity geometry
  // this is DecodeDense.
  absl::Status Dense(const RleView& mask, std::span<uint8_t> out);

  // One bit per pixel, as DecodePacked. `out` has output_height * PackedRowBytes(output_width) bytes.
  absl::Status Packed(const RleView& mask, std::span<uint8_t> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// For a single mask. Thread-safe.
absl::Status RasterizeMask(const RleView& mask, const Geometry& geometry, std::span<uint8_t> out);
absl::Status RasterizeMaskPacked(const RleView& mask, const Geometry& geometry, std::span<uint8_t> out);

// ---- Label maps ----

// Fills `out` with the class numbers that a PNG or TIFF holds for the pixels of an image: gray values as stored (of 1
// to 16 bits, not scaled), or indices into a palette, whose colors do not count. Each number is of the pixel by
// MaskRasterizer's rule, never a blend of several. Padding is `fill`. `out` has output_height x output_width numbers of
// `dtype`, an integer of 8 to 64 bits, in this machine's byte order. Thread-safe.
//
// - InvalidArgument: a geometry that CheckGeometry refuses or that was made for another size; an `out`, `dtype` or
//   `fill` that does not fit; another kind of file; a file of colors without a palette.
// - DataLoss: the file is damaged.
// - OutOfRange: a number does not fit `dtype`.
// - ResourceExhausted: the stored numbers take more than `max_memory` bytes.
absl::Status DecodeLabelMap(std::string_view bytes, const Geometry& geometry, Type dtype, int64_t fill,
                            uint64_t max_memory, std::span<uint8_t> out);

// Reads the headers of JPEG files and decodes them to pixels (libjpeg-turbo).

// From the markers only (ITU-T T.81, Annex B; Exif 2.32, 4.6); no pixel is decoded.
struct JpegInfo {
  uint32_t width = 0;        // pixels, as coded (before any EXIF rotation)
  uint32_t height = 0;       // pixels
  int components = 0;        // 1 gray, 3 YCbCr or RGB, 4 CMYK or YCCK
  int bits = 8;              // per sample
  bool progressive = false;  // SOF2, SOF6, SOF10 or SOF14
  bool lossless = false;     // SOF3, SOF7, SOF11 or SOF15
  bool arithmetic = false;   // arithmetic entropy coding
  // Bytes of DCT coefficients, 2 bytes each, that a decoder must hold for the whole image, even to decode a part of it.
  // Not 0 if the first scan has only some of them: progressive files, and sequential files with a scan per component.
  uint64_t coefficient_bytes = 0;
  int exif_orientation = 0;  // 1 to 8; 0 if the file does not say
};

// DataLoss if the bytes are not a JPEG or end before the frame header. Thread-safe.
absl::StatusOr<JpegInfo> ProbeJpeg(std::string_view bytes);

struct DecodedImage {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 0;             // 1 or 3
  std::vector<uint8_t> pixels;  // height x width x channels, row-major
};

// The part of an image to decode, and options.
struct JpegRegionOptions {
  // The region, in pixels of the whole image at full size, as coded; it must lie inside the image. A width of 0 means
  // everything right of x, a height of 0 everything below y.
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  int scale = 8;     // 1 to 8: decoded to scale / 8 of the size (libjpeg's DCT scaling)
  int channels = 0;  // 0 as in the file (3 for CMYK), 1 gray, 3 RGB
};

struct DecodedRegion {
  DecodedImage image;
  // Position of the first pixel of `image` in the whole image decoded at this scale, and the size of that whole image:
  // ceil(size * scale / 8).
  uint32_t left = 0;
  uint32_t top = 0;
  uint32_t whole_width = 0;
  uint32_t whole_height = 0;
};

// Decodes images or parts of them. Reuses its memory. One thread at a time; use one decoder per thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Decodes to RGB, or gray for one-component files, into *image, and reuses its memory. DataLoss if libjpeg-turbo
  // cannot decode the damaged file; for damage with only a warning, see warning(). Unimplemented, with the feature's
  // name, for unsupported files (lossless, 12 or 16 bits). ResourceExhausted above max_memory.
  absl::Status Decode(std::string_view bytes, DecodedImage* image);

  // As Decode, into the caller's memory, which has the image's size; out.channels (1, 3 or 4) chooses gray, RGB or
  // RGBA. InvalidArgument if `out` has another size. After an error the contents of `out` are unspecified.
  absl::Status DecodeInto(std::string_view bytes, const MutableImageView& out);

  // Decodes a region. Its pixels equal the pixels of the whole image decoded at the same scale: at scale s, the columns
  // floor(x * s / 8) up to ceil((x + width) * s / 8), and the rows likewise. Errors as Decode; InvalidArgument for a
  // region outside the image or options out of range.
  //
  // In files of one scan (nearly all files that are not progressive) decoding stops below the region. Damage and
  // truncation more than two rows of MCUs below the region are therefore not found (a row of MCUs is 8 or 16 pixels at
  // full size, up to 32 with unusual subsampling). A region that reaches the last row is checked to the end of the
  // image. Files of several scans are read completely. Columns beside the region and rows above it are always
  // entropy-decoded and checked.
  absl::Status DecodeRegion(std::string_view bytes, const JpegRegionOptions& options, DecodedRegion* region);

  // Decodes everything, with all checks of Decode, but keeps no pixels: needs memory for some rows and
  // coefficient_bytes.
  absl::Status Check(std::string_view bytes);

  // Limit of the memory for one image, in bytes: its decoded pixels (unless they go into the caller's memory) and its
  // coefficient_bytes. Checked from the frame header, before any allocation. Default 224 MiB: 78 million pixels of RGB,
  // or 39 million of a progressive file with 4:2:0 chroma. An arithmetic-coded image may have at most as many pixels as
  // bytes of the limit, even for a small region: a few bytes may claim billions of pixels, which would take long to
  // decode.
  void set_max_memory(uint64_t bytes) { max_memory_ = bytes; }

  // The first warning of libjpeg-turbo for the last image that was decoded or checked, such as "JPEG: Premature end of
  // JPEG file"; empty if there was none. Other programs decode such images silently: extra bytes before a marker change
  // no pixel, and after a truncation the rest is gray. Borrowed until the next image.
  std::string_view warning() const { return warning_; }

  // Whether a warning is an error (DataLoss). Default false.
  void set_strict(bool strict) { strict_ = strict; }

 private:
  struct RegionState;
  absl::Status DecodeWhole(std::string_view bytes, const JpegInfo& info, const MutableImageView& out);
  RegionState& Region();
  void* handle_ = nullptr;
  std::unique_ptr<RegionState> region_;  // created when first needed
  std::vector<uint8_t> scratch_;
  uint64_t max_memory_ = kDefaultImageMemory;
  bool strict_ = false;
  std::string warning_;
};

struct JpegEncodeOptions {
  int quality = 90;       // 1 to 100
  bool subsample = true;  // 4:2:0 chroma
};

// Encodes height x width x 3 RGB bytes, row-major, replacing *out. InvalidArgument on a size mismatch.
absl::Status EncodeJpeg(const uint8_t* rgb, uint32_t width, uint32_t height, const JpegEncodeOptions& options,
                        std::string* out);

}  // namespace shardkit
