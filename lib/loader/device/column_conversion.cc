#include "loader/device/column_conversion.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/orientation.h"
#include "codec/image/resize.h"
#include "shardkit/image.h"
#include "shardkit/loader.h"
#include "shardkit/rle.h"

namespace shardkit::loader {
namespace {

// A few bytes can stand for any number of pixels.
constexpr uint64_t kMostConversionBytes = uint64_t{64} << 30;

absl::Status TooManyBytes() {
  return ResourceExhausted("what becomes of a batch would take more than ", kMostConversionBytes,
                           " bytes; use a smaller batch or a geometry");
}

absl::StatusOr<uint64_t> BoundedProduct(std::initializer_list<uint64_t> factors) {
  uint64_t product = 1;
  for (const uint64_t factor : factors) {
    // Zeros first, so that the result does not depend on the order of the factors.
    if (factor == 0) return uint64_t{0};
  }
  for (const uint64_t factor : factors) {
    if (!CheckedMultiply(product, factor, &product) || product > kMostConversionBytes) return TooManyBytes();
  }
  return product;
}

absl::StatusOr<uint64_t> BoundedSum(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (!CheckedAdd(a, b, &sum) || sum > kMostConversionBytes) return TooManyBytes();
  return sum;
}

absl::Status Describe(const BatchColumn& column, const absl::Status& status) {
  return Annotate(status, StrCat("column \"", column.name, "\""));
}

// Parts of the metadata begin at multiples of this.
constexpr uint64_t kMetadataAlignment = 256;

class MetadataWriter {
 public:
  explicit MetadataWriter(std::vector<uint8_t>* metadata) : metadata_(metadata) {}

  // Where the part begins.
  template <typename T>
  uint64_t Add(std::span<const T> part) {
    static_assert(std::is_trivially_copyable_v<T>);
    const uint64_t begin = RoundUp(metadata_->size(), kMetadataAlignment);
    metadata_->resize(begin + part.size_bytes());
    if (!part.empty()) std::memcpy(metadata_->data() + begin, part.data(), part.size_bytes());
    return begin;
  }

 private:
  std::vector<uint8_t>* metadata_;
};

// Images: normalised. Those that have another size than the output are resized, turned and padded first.

absl::Status CheckOutput(const PixelOutput& output, int channels) {
  SHARDKIT_RETURN_IF_ERROR(CheckPixelOutput(output));
  if (channels != 1 && channels != 3) return InvalidArgument(channels, " channels; images have 1 or 3");
  return absl::OkStatus();
}

// Shape and size of `n` images.
absl::Status SetImageOutput(const PixelOutput& output, uint64_t n, uint64_t height, uint64_t width, uint64_t channels,
                            DeviceLayout* plan) {
  plan->layout = BatchLayout::kTensor;
  plan->dtype = output.type;
  plan->shape = output.planar ? std::vector<uint64_t>{n, channels, height, width}
                              : std::vector<uint64_t>{n, height, width, channels};
  SHARDKIT_ASSIGN_OR_RETURN(plan->output_bytes, BoundedProduct({n, height, width, channels, ScalarSize(output.type)}));
  return absl::OkStatus();
}

class NormalizeConversion : public ColumnConversion {
 public:
  explicit NormalizeConversion(const PixelOutput& output) : output_(output) {}

  absl::StatusOr<DeviceLayout> Prepare(const BatchColumn& column) const override {
    if (column.layout != BatchLayout::kTensor || column.dtype != Type::kU8 || column.shape.size() != 4) {
      return InvalidArgument("column \"", column.name, "\" does not hold images of one size");
    }
    SHARDKIT_RETURN_IF_ERROR(Describe(column, Check(column)));
    DeviceLayout plan;
    const std::vector<uint64_t>& shape = column.shape;
    SHARDKIT_RETURN_IF_ERROR(Describe(column, SetImageOutput(output_, shape[0], shape[1], shape[2], shape[3], &plan)));
    return plan;
  }

  absl::Status Launch(gpu::Backend& backend, DeviceStream stream, const BatchColumn& column, const DeviceLayout& plan,
                      const uint8_t* values, const uint8_t* /*metadata*/, uint8_t* /*scratch*/,
                      uint8_t* out) const override {
    if (plan.output_bytes == 0) return absl::OkStatus();
    gpu::NormalizeImages arguments;
    arguments.pixels = values;
    arguments.out = out;
    arguments.count = column.shape[0];
    arguments.height = static_cast<uint32_t>(column.shape[1]);
    arguments.width = static_cast<uint32_t>(column.shape[2]);
    arguments.channels = static_cast<int>(column.shape[3]);
    arguments.output = output_;
    return backend.Launch(arguments, stream);
  }

 private:
  absl::Status Check(const BatchColumn& column) const {
    const std::vector<uint64_t>& shape = column.shape;
    SHARDKIT_RETURN_IF_ERROR(CheckOutput(output_, shape[3] <= 3 ? static_cast<int>(shape[3]) : 0));
    if (!output_.planar) return InvalidArgument("the images are interleaved already; ask for planar ones");
    if (shape[1] > UINT32_MAX || shape[2] > UINT32_MAX)
      return InvalidArgument("images of ", shape[2], " x ", shape[1], " pixels");
    SHARDKIT_ASSIGN_OR_RETURN(const uint64_t bytes, BoundedProduct({shape[0], shape[1], shape[2], shape[3]}));
    if (bytes != column.values.size()) {
      return InvalidArgument(column.values.size(), " bytes of pixels; the shape says ", bytes);
    }
    return absl::OkStatus();
  }

  const PixelOutput output_;
};

// The beginning of the metadata.
struct ResampleHeader {
  uint64_t filters = 0;  // bytes from the metadata's beginning
  uint32_t most_rows = 0;
  uint32_t most_width = 0;
};

// Filters in the form that the kernels take. A filter is shared when the next request is the same.
class FilterTable {
 public:
  struct Place {
    uint64_t index = 0;
    uint32_t taps = 0;
    uint32_t begin = 0;  // positions that it uses: [begin, end)
    uint32_t end = 0;
  };

  explicit FilterTable(Interpolation interpolation) : interpolation_(interpolation) {}

  Place Add(uint32_t size, double from, double length, uint32_t count, bool mirror) {
    const Key key{size, from, length, count, mirror};
    if (last_ && last_->first == key) return last_->second;
    filter_.Build(size, from, length, count, interpolation_, mirror);
    Place place;
    place.index = numbers_.size();
    for (const uint32_t taps : filter_.taps) place.taps = std::max(place.taps, taps);
    place.begin = filter_.begin;
    place.end = filter_.end;
    for (uint32_t i = 0; i < count; ++i) {
      numbers_.push_back(static_cast<int32_t>(filter_.first[i]));
      numbers_.push_back(static_cast<int32_t>(filter_.taps[i]));
      for (size_t tap = 0; tap < place.taps; ++tap) {
        const size_t weight = size_t{i} * filter_.padded_taps + tap;
        numbers_.push_back(int32_t{filter_.high[weight]} * (1 << codec::kLowBits) + filter_.low[weight]);
      }
    }
    last_.emplace(key, place);
    return place;
  }

  const std::vector<int32_t>& numbers() const { return numbers_; }

  // Appends the numbers of `other`. Returns where they begin.
  uint64_t Append(const FilterTable& other) {
    const uint64_t begin = numbers_.size();
    numbers_.insert(numbers_.end(), other.numbers_.begin(), other.numbers_.end());
    return begin;
  }

 private:
  struct Key {
    uint32_t size;
    double from, length;
    uint32_t count;
    bool mirror;
    bool operator==(const Key&) const = default;
  };

  const Interpolation interpolation_;
  codec::AxisFilter filter_;
  std::vector<int32_t> numbers_;
  std::optional<std::pair<Key, Place>> last_;
};

class ResampleConversion : public ColumnConversion {
 public:
  ResampleConversion(const PixelOutput& output, uint32_t output_height, uint32_t output_width, int channels,
                     const ImageDecodeOptions& options)
      : output_(output),
        output_height_(output_height),
        output_width_(output_width),
        channels_(channels),
        interpolation_(options.interpolation),
        fill_(options.fill) {}

  absl::StatusOr<DeviceLayout> Prepare(const BatchColumn& column) const override {
    DeviceLayout plan;
    SHARDKIT_RETURN_IF_ERROR(Describe(column, Prepare(column, &plan)));
    return plan;
  }

  absl::Status Launch(gpu::Backend& backend, DeviceStream stream, const BatchColumn& column, const DeviceLayout& plan,
                      const uint8_t* values, const uint8_t* metadata, uint8_t* scratch, uint8_t* out) const override {
    if (plan.output_bytes == 0) return absl::OkStatus();
    ResampleHeader header;
    std::memcpy(&header, plan.metadata.data(), sizeof(header));
    gpu::ResampleImages arguments;
    arguments.pixels = values;
    arguments.images = reinterpret_cast<const gpu::ResampleImage*>(metadata + kMetadataAlignment);
    arguments.filters = reinterpret_cast<const int32_t*>(metadata + header.filters);
    arguments.scratch = scratch;
    arguments.out = out;
    arguments.count = column.geometries.size();
    arguments.most_rows = header.most_rows;
    arguments.most_width = header.most_width;
    arguments.output_height = output_height_;
    arguments.output_width = output_width_;
    arguments.channels = channels_;
    std::copy(fill_.begin(), fill_.end(), arguments.fill);
    arguments.output = output_;
    return backend.Launch(arguments, stream);
  }

 private:
  absl::Status Prepare(const BatchColumn& column, DeviceLayout* plan) const {
    const size_t n = column.geometries.size();
    if (column.layout != BatchLayout::kRagged || column.dtype != Type::kU8 || column.shape_rank != 3 ||
        column.shapes.size() != 3 * n || column.offsets.size() != n + 1) {
      return InvalidArgument("no images with geometries; set LoaderColumn::deferred");
    }
    SHARDKIT_RETURN_IF_ERROR(CheckOutput(output_, channels_));
    const auto channels = static_cast<uint64_t>(channels_);
    SHARDKIT_RETURN_IF_ERROR(SetImageOutput(output_, n, output_height_, output_width_, channels, plan));
    ResampleHeader header;
    std::vector<gpu::ResampleImage> images(n);
    FilterTable horizontal(interpolation_), vertical(interpolation_);
    for (size_t i = 0; i < n; ++i) {
      if (column.geometries[i].stored_width == 0) continue;
      SHARDKIT_RETURN_IF_ERROR(CheckImage(column, i));
      images[i] = Place(column.geometries[i], &horizontal, &vertical);
      images[i].pixels = column.offsets[i];
      images[i].scratch = plan->scratch_bytes;
      SHARDKIT_ASSIGN_OR_RETURN(const uint64_t bytes, BoundedProduct({images[i].rows, images[i].width, channels}));
      SHARDKIT_ASSIGN_OR_RETURN(plan->scratch_bytes, BoundedSum(plan->scratch_bytes, bytes));
      header.most_rows = std::max(header.most_rows, images[i].rows);
      header.most_width = std::max(header.most_width, images[i].width);
    }
    const uint64_t behind = horizontal.Append(vertical);
    for (gpu::ResampleImage& image : images) image.vertical += behind;
    MetadataWriter writer(&plan->metadata);
    writer.Add(std::span<const ResampleHeader>(&header, 1));
    writer.Add(std::span<const gpu::ResampleImage>(images));
    header.filters = writer.Add(std::span<const int32_t>(horizontal.numbers()));
    std::memcpy(plan->metadata.data(), &header, sizeof(header));
    return absl::OkStatus();
  }

  absl::Status CheckImage(const BatchColumn& column, size_t i) const {
    const Geometry& geometry = column.geometries[i];
    SHARDKIT_RETURN_IF_ERROR(CheckGeometry(geometry));
    if (geometry.output_height != output_height_ || geometry.output_width != output_width_) {
      return InvalidArgument("image ", i, " becomes ", geometry.output_width, " x ", geometry.output_height,
                             " pixels instead of ", output_width_, " x ", output_height_);
    }
    const uint64_t* const shape = column.shapes.data() + 3 * i;
    const auto channels = static_cast<uint64_t>(channels_);
    // Sides have at most 20 bits, so this does not overflow.
    const uint64_t bytes = uint64_t{geometry.stored_height} * geometry.stored_width * channels;
    if (shape[0] != geometry.stored_height || shape[1] != geometry.stored_width || shape[2] != channels ||
        !RangeWithin(column.offsets[i], bytes, column.values.size())) {
      return InvalidArgument("image ", i, " is of ", shape[1], " x ", shape[0], " pixels and ", shape[2],
                             " channels; its geometry is for ", geometry.stored_width, " x ", geometry.stored_height,
                             ", ", channels_, " channels were asked for");
    }
    return absl::OkStatus();
  }

  // The same as ImageDecoder at full scale: filters mirror, and axes are exchanged after the filters.
  static gpu::ResampleImage Place(const Geometry& geometry, FilterTable* horizontal, FilterTable* vertical) {
    const codec::StoredGeometry stored = codec::InStoredAxes(geometry);
    const codec::Turn& turn = stored.turn;
    Box box = stored.source;
    codec::ScaleSpan(8, geometry.stored_width, &box.x, &box.width);
    codec::ScaleSpan(8, geometry.stored_height, &box.y, &box.height);
    const FilterTable::Place across = horizontal->Add(geometry.stored_width, box.x, box.width, stored.width,
                                                      turn.transpose ? turn.mirror_y : turn.mirror_x);
    const FilterTable::Place down = vertical->Add(geometry.stored_height, box.y, box.height, stored.height,
                                                  turn.transpose ? turn.mirror_x : turn.mirror_y);
    gpu::ResampleImage image;
    image.horizontal = across.index;
    image.vertical = down.index;
    image.horizontal_taps = across.taps;
    image.vertical_taps = down.taps;
    image.stored_width = geometry.stored_width;
    image.stored_height = geometry.stored_height;
    image.top = down.begin;
    image.rows = down.end - down.begin;
    image.width = stored.width;
    image.height = stored.height;
    image.transpose = turn.transpose;
    image.content_width = geometry.content_width;
    image.content_height = geometry.content_height;
    image.content_left = geometry.content_left;
    image.content_top = geometry.content_top;
    return image;
  }

  const PixelOutput output_;
  const uint32_t output_height_;
  const uint32_t output_width_;
  const int channels_;
  const Interpolation interpolation_;
  const std::array<uint8_t, 3> fill_;
};

}  // namespace

std::unique_ptr<ColumnConversion> NewNormalizeConversion(const PixelOutput& output) {
  return std::make_unique<NormalizeConversion>(output);
}

std::unique_ptr<ColumnConversion> NewResampleConversion(const PixelOutput& output, uint32_t output_height,
                                                        uint32_t output_width, int channels,
                                                        const ImageDecodeOptions& options) {
  return std::make_unique<ResampleConversion>(output, output_height, output_width, channels, options);
}

namespace {

// Masks: applies geometries to run lengths and makes pixels, in the loader's layout (loader/columns/mask_columns.cc).

// The beginning of the metadata.
struct MaskHeader {
  uint64_t count = 0;
  uint64_t tiles = 0;
  uint64_t tables = 0;  // bytes from the metadata's beginning
};

// Tables of the stored position for each output position, for masks whose pixels move.
class PositionTables {
 public:
  // Sets everything in *mask that depends on the geometry. Tables are shared when the next geometry is the same.
  void Place(const Geometry& geometry, gpu::RasterizeMask* mask) {
    if (!last_ || geometry != last_->first) last_.emplace(geometry, Make(geometry));
    *mask = last_->second;
  }

  const std::vector<uint32_t>& numbers() const { return numbers_; }

 private:
  gpu::RasterizeMask Make(const Geometry& geometry) {
    gpu::RasterizeMask mask;
    mask.stored_height = geometry.stored_height;
    mask.stored_width = geometry.stored_width;
    mask.height = geometry.output_height;
    mask.width = geometry.output_width;
    mask.content_height = geometry.content_height;
    mask.content_width = geometry.content_width;
    mask.content_left = geometry.content_left;
    mask.content_top = geometry.content_top;
    if (geometry.WithoutPadding().IsIdentity()) return mask;
    const codec::Turn turn = codec::TurnOf(geometry.orientation);
    const Box& box = geometry.source;
    mask.transpose = turn.transpose;
    mask.columns =
        Add(geometry.upright_width(), box.x, box.width, geometry.content_width, turn.mirror_x, geometry.flip);
    mask.rows = Add(geometry.upright_height(), box.y, box.height, geometry.content_height, turn.mirror_y, false);
    return mask;
  }

  uint64_t Add(uint32_t size, double from, double length, uint32_t count, bool mirror_stored, bool flip) {
    const uint64_t begin = numbers_.size();
    numbers_.resize(begin + count);
    for (uint32_t i = 0; i < count; ++i) {
      numbers_[begin + (flip ? count - 1 - i : i)] = codec::NearestStored(size, from, length, count, i, mirror_stored);
    }
    return begin;
  }

  std::vector<uint32_t> numbers_;
  std::optional<std::pair<Geometry, gpu::RasterizeMask>> last_;
};

class MaskConversion : public ColumnConversion {
 public:
  MaskConversion(bool packed, bool padded, uint32_t output_height, uint32_t output_width)
      : packed_(packed), padded_(padded), output_height_(output_height), output_width_(output_width) {}

  absl::StatusOr<DeviceLayout> Prepare(const BatchColumn& column) const override {
    DeviceLayout plan;
    SHARDKIT_RETURN_IF_ERROR(Describe(column, Prepare(column, &plan)));
    return plan;
  }

  absl::Status Launch(gpu::Backend& backend, DeviceStream stream, const BatchColumn& /*column*/,
                      const DeviceLayout& plan, const uint8_t* values, const uint8_t* metadata, uint8_t* scratch,
                      uint8_t* out) const override {
    if (plan.output_bytes == 0) return absl::OkStatus();
    MaskHeader header;
    std::memcpy(&header, plan.metadata.data(), sizeof(header));
    gpu::RasterizeMasks arguments;
    arguments.masks = reinterpret_cast<const gpu::RasterizeMask*>(metadata + kMetadataAlignment);
    arguments.runs = reinterpret_cast<const uint32_t*>(values);
    arguments.ends = reinterpret_cast<uint32_t*>(scratch);
    arguments.tables = reinterpret_cast<const uint32_t*>(metadata + header.tables);
    arguments.out = out;
    arguments.count = header.count;
    arguments.tiles = header.tiles;
    arguments.packed = packed_;
    return backend.Launch(arguments, stream);
  }

 private:
  uint64_t RowBytes(uint32_t width) const { return packed_ ? PackedRowBytes(width) : width; }

  // Checks that the column has masks with geometries, one after the other.
  absl::Status Check(const BatchColumn& column) const {
    const size_t count = column.geometries.size();
    if (column.layout != BatchLayout::kMaskRuns || column.dtype != Type::kU32 || column.offsets.empty() ||
        column.shape_rank != 2 || column.shapes.size() != 2 * count || column.item_offsets.size() != count + 1) {
      return InvalidArgument("no masks with geometries; set LoaderColumn::deferred");
    }
    if (padded_ && (output_height_ == 0 || output_width_ == 0))
      return InvalidArgument("padding needs masks of one size");
    const auto ascending = [](std::span<const uint64_t> offsets, uint64_t end) {
      return offsets.front() == 0 && offsets.back() == end && std::ranges::is_sorted(offsets);
    };
    if (!ascending(column.offsets, count) || !ascending(column.item_offsets, column.values.size() / sizeof(uint32_t))) {
      return InvalidArgument("the offsets do not fit ", count, " masks in ", column.values.size(), " bytes");
    }
    return absl::OkStatus();
  }

  absl::Status CheckMask(const BatchColumn& column, size_t item) const {
    const Geometry& geometry = column.geometries[item];
    SHARDKIT_RETURN_IF_ERROR(CheckGeometry(geometry));
    if (output_width_ != 0 && (geometry.output_height != output_height_ || geometry.output_width != output_width_)) {
      return InvalidArgument("mask ", item, " becomes ", geometry.output_width, " x ", geometry.output_height,
                             " pixels instead of ", output_width_, " x ", output_height_);
    }
    const uint64_t height = column.shapes[2 * item], width = column.shapes[2 * item + 1];
    const bool fits = height == geometry.stored_height && width == geometry.stored_width;
    // When the sides fit they have at most 20 bits, so the product does not overflow.
    if (!fits || height * width > kMaxMaskPixels) {
      return InvalidArgument("mask ", item, " is of ", width, " x ", height, " pixels; its geometry is for ",
                             geometry.stored_width, " x ", geometry.stored_height);
    }
    if (column.item_offsets[item + 1] - column.item_offsets[item] > UINT32_MAX) {
      return InvalidArgument("mask ", item, " has 2^32 runs or more");
    }
    return absl::OkStatus();
  }

  absl::Status Prepare(const BatchColumn& column, DeviceLayout* plan) const {
    SHARDKIT_RETURN_IF_ERROR(Check(column));
    const size_t samples = column.offsets.size() - 1;
    uint64_t most = 0;
    for (size_t i = 0; i < samples; ++i) most = std::max(most, column.offsets[i + 1] - column.offsets[i]);
    MaskHeader header;
    std::vector<gpu::RasterizeMask> masks;
    PositionTables tables;
    const auto add = [&](gpu::RasterizeMask mask) -> absl::Status {
      const uint64_t bytes = mask.height * RowBytes(mask.width);  // at most 2^40
      mask.out = plan->output_bytes;
      mask.first_tile = header.tiles;
      header.tiles += bytes / gpu::kMaskTileBytes + (bytes % gpu::kMaskTileBytes != 0);
      SHARDKIT_ASSIGN_OR_RETURN(plan->output_bytes, BoundedSum(plan->output_bytes, bytes));
      masks.push_back(mask);
      return absl::OkStatus();
    };
    gpu::RasterizeMask missing;
    missing.height = output_height_;
    missing.width = output_width_;
    plan->item_offsets.push_back(0);
    for (size_t i = 0; i < samples; ++i) {
      for (uint64_t item = column.offsets[i]; item < column.offsets[i + 1]; ++item) {
        SHARDKIT_RETURN_IF_ERROR(CheckMask(column, item));
        gpu::RasterizeMask mask;
        tables.Place(column.geometries[item], &mask);
        mask.runs = column.item_offsets[item];
        mask.run_count = column.item_offsets[item + 1] - mask.runs;
        SHARDKIT_RETURN_IF_ERROR(add(mask));
        plan->item_offsets.push_back(plan->output_bytes);
        plan->shapes.insert(plan->shapes.end(), {mask.height, mask.width});
      }
      for (uint64_t mask = column.offsets[i + 1] - column.offsets[i]; padded_ && mask < most; ++mask) {
        SHARDKIT_RETURN_IF_ERROR(add(missing));
      }
    }
    plan->layout = BatchLayout::kMasks;
    plan->dtype = Type::kU8;
    plan->shape_rank = 2;
    plan->offsets.assign(column.offsets.begin(), column.offsets.end());
    if (padded_) {
      plan->shape = {samples, most, output_height_, RowBytes(output_width_)};
      plan->item_offsets.clear();
    } else if (output_width_ != 0) {
      plan->shape = {column.geometries.size(), output_height_, RowBytes(output_width_)};
    }
    plan->scratch_bytes = column.values.size();
    header.count = masks.size();
    MetadataWriter writer(&plan->metadata);
    writer.Add(std::span<const MaskHeader>(&header, 1));
    writer.Add(std::span<const gpu::RasterizeMask>(masks));
    header.tables = writer.Add(std::span<const uint32_t>(tables.numbers()));
    std::memcpy(plan->metadata.data(), &header, sizeof(header));
    return absl::OkStatus();
  }

  const bool packed_;
  const bool padded_;
  const uint32_t output_height_;
  const uint32_t output_width_;
};

}  // namespace

std::unique_ptr<ColumnConversion> NewMaskConversion(bool packed, bool padded, uint32_t output_height,
                                                    uint32_t output_width) {
  return std::make_unique<MaskConversion>(packed, padded, output_height, output_width);
}

}  // namespace shardkit::loader
