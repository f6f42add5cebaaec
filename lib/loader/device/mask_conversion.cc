// Masks: applies geometries to run lengths and makes pixels, in the loader's layout (loader/mask_columns.cc).
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/orientation.h"
#include "loader/device/column_conversion.h"
#include "loader/device/conversion_support.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"

namespace shardkit::loader {
namespace {

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

  absl::StatusOr<ConversionPlan> Prepare(const BatchColumn& column) const override {
    ConversionPlan plan;
    SHARDKIT_RETURN_IF_ERROR(Describe(column, Prepare(column, &plan)));
    return plan;
  }

  absl::Status Launch(gpu::Backend& backend, DeviceStream stream, const BatchColumn& /*column*/,
                      const ConversionPlan& plan, const uint8_t* values, const uint8_t* metadata, uint8_t* scratch,
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

  absl::Status Prepare(const BatchColumn& column, ConversionPlan* plan) const {
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
