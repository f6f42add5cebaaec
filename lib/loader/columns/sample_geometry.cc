#include "loader/columns/sample_geometry.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/image_codec.h"

namespace shardkit::loader {
namespace {

uint32_t HeightOf(const GeometryOptions& options) { return options.height != 0 ? options.height : options.width; }

bool IsSquare(GeometryOptions::Kind kind) {
  return kind == GeometryOptions::Kind::kCenterCrop || kind == GeometryOptions::Kind::kLongestSide;
}

// EXIF's orientation of an image that is turned by 90 degrees, clockwise, or mirrored top to bottom after
// `orientation`.
constexpr int kQuarterTurn[] = {0, 6, 7, 8, 5, 2, 3, 4, 1};
constexpr int kUpsideDown[] = {0, 4, 3, 2, 1, 8, 7, 6, 5};

// As if the upright image was another one. Draws apart from crops, which stay what they are without it.
int Turned(const GeometryOptions& options, int orientation, const Assembly& assembly, size_t i) {
  constexpr uint64_t kStream = uint64_t{1} << 63;
  if (orientation < 1 || orientation > 8) return orientation;  // CheckGeometry refuses it
  AugmentationRandom random = assembly.Random(i, options.stream ^ kStream);
  const uint64_t quarters = random.Below(4);
  if (random.Uniform() < options.vertical_flip_probability) orientation = kUpsideDown[orientation];
  for (uint64_t turn = 0; options.rotate90 && turn < quarters; ++turn) orientation = kQuarterTurn[orientation];
  return orientation;
}

}  // namespace

absl::StatusOr<std::optional<StoredSize>> StoredImage::SizeOf(const Assembly& assembly, size_t i) const {
  const auto value = assembly.samples[i].Value(position);
  if (!value) return std::nullopt;
  if (column.type == Type::kNdarray) {
    SHARDKIT_ASSIGN_OR_RETURN(const ImageView view, ArrayImage(column, *value));
    return StoredSize{view.width, view.height, 1};
  }
  SHARDKIT_ASSIGN_OR_RETURN(const StoredSize size, ProbeImage(*value));
  return size;
}

absl::StatusOr<ImageView> ArrayImage(const Column& column, std::string_view value) {
  SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, ParseNdarray(column, value));
  const auto& shape = array.shape;
  const bool gray = shape.size() == 2;
  if (!gray && (shape.size() != 3 || !codec::IsChannelCount(shape[2]))) {
    std::string text;
    for (const uint64_t side : shape) absl::StrAppend(&text, text.empty() ? "" : " x ", side);
    return InvalidArgument("an array of ", text, " is no image, which has height x width, or x 1, 3 or 4 channels");
  }
  if (shape[0] == 0 || shape[1] == 0 || shape[0] > kMaxImageSide || shape[1] > kMaxImageSide) {
    return InvalidArgument("an image of ", shape[1], " x ", shape[0], " pixels; sides are 1 to ", kMaxImageSide);
  }
  ImageView view;
  view.pixels = reinterpret_cast<const uint8_t*>(array.data.data());
  view.height = static_cast<uint32_t>(shape[0]);
  view.width = static_cast<uint32_t>(shape[1]);
  view.channels = gray ? 1 : static_cast<int>(shape[2]);
  view.row_stride = view.width * static_cast<size_t>(view.channels);
  return view;
}

absl::Status CheckGeometryOptions(const GeometryOptions& options) {
  for (const double probability : {options.flip_probability, options.vertical_flip_probability}) {
    if (!(probability >= 0 && probability <= 1)) {
      return InvalidArgument("geometry: a flip probability of ", probability, " is outside 0 to 1");
    }
  }
  if (options.kind == GeometryOptions::Kind::kNative) return absl::OkStatus();
  if (options.width == 0 || options.width > kMaxImageSide || HeightOf(options) > kMaxImageSide) {
    return InvalidArgument("geometry: ", options.width, " x ", HeightOf(options), " pixels; give 1 to ", kMaxImageSide,
                           " each way");
  }
  if (IsSquare(options.kind) && HeightOf(options) != options.width) {
    return InvalidArgument("geometry: this kind makes squares; leave height at 0");
  }
  if (options.kind == GeometryOptions::Kind::kCenterCrop && options.resize != 0 && options.resize < options.width) {
    return InvalidArgument("geometry: cannot crop ", options.width, " pixels from a side of ", options.resize);
  }
  const RandomCropOptions& window = options.window;
  if (options.kind == GeometryOptions::Kind::kRandomCrop &&
      (window.padding >= std::min(options.width, HeightOf(options)) ||
       !(window.min_zoom > 0 && window.min_zoom <= window.max_zoom && window.max_zoom <= 1000))) {
    return InvalidArgument("geometry: padding is below both sides of the crop, and zooms 0 < min <= max <= 1000, not ",
                           window.padding, " and ", window.min_zoom, " to ", window.max_zoom);
  }
  const RandomResizedCropOptions& crop = options.crop;
  if (options.kind == GeometryOptions::Kind::kRandomResizedCrop &&
      !(crop.min_scale > 0 && crop.min_scale <= crop.max_scale && crop.max_scale <= 1 && crop.min_ratio > 0 &&
        crop.min_ratio <= crop.max_ratio && crop.max_ratio < 1e6)) {
    return InvalidArgument("geometry: scales are 0 < min <= max <= 1 and ratios 0 < min <= max, not ", crop.min_scale,
                           " to ", crop.max_scale, " and ", crop.min_ratio, " to ", crop.max_ratio);
  }
  return absl::OkStatus();
}

absl::StatusOr<const LoaderColumn*> ImageOf(const LoaderColumn& column, std::span<const LoaderColumn> columns) {
  const auto is_image = [](const LoaderColumn& each) { return each.decode == ColumnDecode::kImage; };
  if (is_image(column)) return &column;
  if (!column.of.empty()) {
    const auto found = std::ranges::find(columns, column.of, &LoaderColumn::name);
    if (found != columns.end() && is_image(*found)) return &*found;
    return InvalidArgument("loader: column \"", column.name, "\" belongs to \"", column.of,
                           "\", which is no image of the ", "batch");
  }
  const LoaderColumn* first = nullptr;
  for (const LoaderColumn& each : columns) {
    if (!is_image(each)) continue;
    if (!each.geometry) return &each;
    if (first == nullptr) first = &each;
  }
  return first;
}

OutputSize FixedOutputSize(const GeometryOptions& options) {
  if (options.kind == GeometryOptions::Kind::kNative) return {};
  return {HeightOf(options), options.width};
}

absl::StatusOr<Geometry> MakeGeometry(const GeometryOptions& options, StoredSize stored, const Assembly& assembly,
                                      size_t i) {
  AugmentationRandom random = assembly.Random(i, options.stream);
  if (!options.apply_orientation || stored.orientation == 0) stored.orientation = 1;
  if (options.rotate90 || options.vertical_flip_probability > 0) {
    stored.orientation = Turned(options, stored.orientation, assembly, i);
  }
  Geometry geometry;
  switch (options.kind) {
    case GeometryOptions::Kind::kNative:
      geometry = FullImage(stored);
      break;
    case GeometryOptions::Kind::kResize:
      geometry = Resize(stored, options.width, HeightOf(options));
      break;
    case GeometryOptions::Kind::kCenterCrop:
      geometry = CenterCrop(stored, options.resize != 0 ? options.resize : options.width, options.width);
      break;
    case GeometryOptions::Kind::kRandomResizedCrop:
      geometry = RandomResizedCrop(stored, options.width, HeightOf(options), random, options.crop);
      break;
    case GeometryOptions::Kind::kRandomCrop:
      geometry = RandomCrop(stored, options.width, HeightOf(options), random, options.window);
      break;
    case GeometryOptions::Kind::kLongestSide:
      geometry = ResizeLongestSide(stored, options.width);
      break;
    case GeometryOptions::Kind::kLetterbox:
      geometry = Letterbox(stored, options.width, HeightOf(options));
      break;
  }
  // Draws whatever the probability is, so that changing it does not change later draws.
  if (random.Uniform() < options.flip_probability) {
    geometry = FlipHorizontal(geometry);
    // The padding of a crop is part of the picture that is mirrored.
    if (options.kind == GeometryOptions::Kind::kRandomCrop) {
      geometry.content_left = geometry.output_width - geometry.content_width - geometry.content_left;
    }
  }
  SHARDKIT_RETURN_IF_ERROR(CheckGeometry(geometry));
  return geometry;
}

absl::StatusOr<Geometry> GeometryBesideImage(const GeometryOptions& options, const std::optional<StoredImage>& image,
                                             const Assembly& assembly, size_t i, uint32_t width, uint32_t height,
                                             std::string_view what) {
  StoredSize stored{width, height, 1};
  std::optional<StoredSize> size;
  if (image) {
    SHARDKIT_ASSIGN_OR_RETURN(size, image->SizeOf(assembly, i));
  }
  if (size) {
    const bool turned = options.apply_orientation && size->orientation >= 5;
    const bool upright = turned && size->width == height && size->height == width && width != height;
    if (!upright && (size->width != width || size->height != height)) {
      return DataLoss(what, " is of ", width, " x ", height, " pixels, its image of ", size->width, " x ",
                      size->height);
    }
    if (!upright) stored.orientation = size->orientation;
  }
  return MakeGeometry(options, stored, assembly, i);
}

absl::StatusOr<Geometry> GeometryOfItems(const GeometryOptions& options, const StoredImage& image, bool upright,
                                         const Assembly& assembly, size_t i) {
  SHARDKIT_ASSIGN_OR_RETURN(const std::optional<StoredSize> size, image.SizeOf(assembly, i));
  if (!size) return InvalidArgument("has no image, whose size tells where its boxes and points lie");
  StoredSize stored = *size;
  if (upright && !options.apply_orientation && stored.orientation > 1) {
    return InvalidArgument(
        "its image is turned by its EXIF orientation, ", stored.orientation, ", and is not here: turn it ",
        "(apply_orientation), or say that what lies on it is drawn on the stored picture (upright false)");
  }
  if (upright && options.apply_orientation) {
    if (stored.orientation >= 5) std::swap(stored.width, stored.height);
    stored.orientation = 1;
  }
  return MakeGeometry(options, stored, assembly, i);
}

}  // namespace shardkit::loader
