#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "loader/assembly.h"
#include "loader/sample_geometry.h"
#include "shardkit/image.h"

namespace shardkit::loader {
namespace {

class ImageColumn : public ColumnAssembler {
 public:
  ImageColumn(size_t position, Column column, LoaderColumn options, const GeometryOptions& geometry)
      : ColumnAssembler(position, std::move(column), std::move(options)), geometry_(geometry) {}

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    const OutputSize fixed = options_.deferred ? OutputSize{} : FixedOutputSize(geometry_);
    const size_t n = assembly.samples.size();
    const uint64_t channels = static_cast<uint64_t>(options_.channels);
    if (fixed.width != 0) {
      Begin(assembly, BatchLayout::kTensor, Type::kU8, memory);
      memory->column.shape = {n, fixed.height, fixed.width, channels};
      memory->values.resize_discard(n * fixed.height * fixed.width * channels);
      return;
    }
    Begin(assembly, BatchLayout::kRagged, Type::kU8, memory);
    memory->column.shape_rank = 3;
    memory->offsets.push_back(0);
    uint64_t end = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto geometry = GeometryOf(assembly, i);
      uint64_t height = 0, width = 0;
      if (!geometry.ok()) {
        assembly.Fail(i, Describe(geometry.status()));
      } else if (*geometry) {
        height = options_.deferred ? (*geometry)->stored_height : (*geometry)->output_height;
        width = options_.deferred ? (*geometry)->stored_width : (*geometry)->output_width;
      }
      if (options_.deferred) memory->geometries.push_back(geometry.ok() ? geometry->value_or(Geometry{}) : Geometry{});
      if (height * width * channels > options_.image.max_memory) {
        assembly.Fail(
            i, Describe(ResourceExhausted("image: ", width, " x ", height, " pixels take ", height * width * channels,
                                          " bytes of memory, over the limit of ", options_.image.max_memory)));
        height = width = 0;
      }
      memory->shapes.insert(memory->shapes.end(), {height, width, channels});
      memory->offsets.push_back(end += height * width * channels);
    }
    memory->values.resize_discard(end);
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& scratch, ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      const auto geometry = GeometryOf(assembly, i);
      MutableImageView out;
      out.channels = options_.channels;
      uint64_t first;
      if (memory->column.layout == BatchLayout::kTensor) {
        out.height = static_cast<uint32_t>(memory->column.shape[1]);
        out.width = static_cast<uint32_t>(memory->column.shape[2]);
        first = uint64_t{out.height} * out.width * static_cast<uint64_t>(out.channels) * i;
      } else {
        out.height = static_cast<uint32_t>(memory->shapes[3 * i]);
        out.width = static_cast<uint32_t>(memory->shapes[3 * i + 1]);
        first = memory->offsets[i];
      }
      out.row_stride = size_t{out.width} * static_cast<size_t>(out.channels);
      out.pixels = reinterpret_cast<uint8_t*>(memory->values.data()) + first;
      absl::Status status = geometry.status();
      if (status.ok() && !*geometry) {
        if (out.height != 0) std::memset(out.pixels, 0, out.row_stride * out.height);
        continue;
      }
      if (status.ok()) {
        const Geometry whole = FullImage({out.width, out.height, 1});
        status = scratch.image.Decode(*Value(assembly, i), options_.deferred ? whole : **geometry, options_.image, out);
      }
      if (!status.ok()) {
        assembly.Fail(i, Describe(status));
      } else if (!scratch.image.warning().empty()) {
        ++assembly.warned_images;
      }
    }
  }

  bool heavy() const override { return true; }

 private:
  // Empty when the sample has no image.
  absl::StatusOr<std::optional<Geometry>> GeometryOf(const Assembly& assembly, size_t i) const {
    const auto value = Value(assembly, i);
    if (!value) return std::optional<Geometry>();
    const auto stored = ProbeImage(*value);
    if (!stored.ok()) return stored.status();
    auto geometry = MakeGeometry(geometry_, *stored, assembly.Random(i));
    if (!geometry.ok()) return geometry.status();
    return std::optional<Geometry>(*geometry);
  }

  const GeometryOptions geometry_;
};

class LabelColumn : public ColumnAssembler {
 public:
  LabelColumn(size_t position, Column column, LoaderColumn options, const GeometryOptions& geometry,
              std::optional<size_t> image_position)
      : ColumnAssembler(position, std::move(column), std::move(options)),
        geometry_(geometry),
        image_position_(image_position) {}

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    const OutputSize fixed = FixedOutputSize(geometry_);
    const size_t n = assembly.samples.size();
    const uint64_t size = ScalarSize(options_.dtype);
    if (fixed.width != 0) {
      Begin(assembly, BatchLayout::kTensor, options_.dtype, memory);
      memory->column.shape = {n, fixed.height, fixed.width};
      memory->values.resize_discard(n * fixed.height * fixed.width * size);
      return;
    }
    Begin(assembly, BatchLayout::kRagged, options_.dtype, memory);
    memory->column.shape_rank = 2;
    memory->offsets.push_back(0);
    for (size_t i = 0; i < n; ++i) {
      const auto geometry = GeometryOf(assembly, i);
      uint64_t height = 0, width = 0;
      if (geometry.ok() && *geometry) {
        height = (*geometry)->output_height;
        width = (*geometry)->output_width;
      }
      absl::Status status = geometry.status();
      if (status.ok() && height * width * size > options_.image.max_memory) {
        status = ResourceExhausted("label map: ", width, " x ", height, " pixels take ", height * width * size,
                                   " bytes of memory, over the limit of ", options_.image.max_memory);
      }
      if (!status.ok()) {
        assembly.Fail(i, Describe(status));
        height = width = 0;
      }
      memory->shapes.insert(memory->shapes.end(), {height, width});
      memory->offsets.push_back(memory->offsets.back() + height * width);
    }
    memory->values.resize_discard(memory->offsets.back() * size);
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& /*scratch*/,
            ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      const bool tensor = memory->column.layout == BatchLayout::kTensor;
      const uint64_t pixels = tensor ? memory->column.shape[1] * memory->column.shape[2] : 0;
      const uint64_t first = tensor ? i * pixels : memory->offsets[i];
      const uint64_t count = tensor ? pixels : memory->offsets[i + 1] - first;
      const uint64_t size = ScalarSize(options_.dtype);
      const std::span<uint8_t> out(reinterpret_cast<uint8_t*>(memory->values.data()) + first * size, count * size);
      const auto geometry = GeometryOf(assembly, i);
      absl::Status status = geometry.status();
      if (status.ok() && !*geometry) {
        std::ranges::fill(out, uint8_t{0});
      } else if (status.ok()) {
        status = DecodeLabelMap(*Value(assembly, i), **geometry, options_.dtype, options_.label_fill,
                                options_.image.max_memory, out);
      }
      if (!status.ok()) assembly.Fail(i, Describe(status));
    }
  }

  bool heavy() const override { return true; }

 private:
  // Empty when the sample has no label map.
  absl::StatusOr<std::optional<Geometry>> GeometryOf(const Assembly& assembly, size_t i) const {
    const auto value = Value(assembly, i);
    if (!value) return std::optional<Geometry>();
    SHARDKIT_ASSIGN_OR_RETURN(const StoredSize stored, ProbeImage(*value));
    SHARDKIT_ASSIGN_OR_RETURN(
        const Geometry geometry,
        GeometryBesideImage(geometry_, image_position_, assembly, i, stored.width, stored.height, "the label map"));
    return std::optional<Geometry>(geometry);
  }

  const GeometryOptions geometry_;
  const std::optional<size_t> image_position_;
};

}  // namespace

std::unique_ptr<ColumnAssembler> NewLabelColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const GeometryOptions& geometry, std::optional<size_t> image_position) {
  return std::make_unique<LabelColumn>(position, column, options, geometry, image_position);
}

std::unique_ptr<ColumnAssembler> NewImageColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const GeometryOptions& geometry) {
  return std::make_unique<ImageColumn>(position, column, options, geometry);
}

}  // namespace shardkit::loader
