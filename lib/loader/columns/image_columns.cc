#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/status_macros.h"
#include "codec/image/pixel_values.h"
#include "loader/columns/assembly.h"
#include "loader/columns/sample_geometry.h"
#include "shardkit/image.h"

namespace shardkit::loader {
namespace {

// Apart from crops.
constexpr uint64_t kAugmentStream = uint64_t{1} << 62;

// Images, or label maps, of which a pixel is one number.
class ImageColumn : public ColumnAssembler {
 public:
  ImageColumn(size_t position, Column column, LoaderColumn options, const SampleContext& context)
      : ColumnAssembler(position, std::move(column), std::move(options)),
        geometry_(context.geometry),
        image_(context.image),
        labels_(options_.decode == ColumnDecode::kLabels),
        channels_(labels_ ? 1 : static_cast<uint64_t>(options_.channels)),
        planar_(!labels_ && options_.output.planar),
        dtype_(labels_ ? options_.dtype : options_.output.type) {}

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    const OutputSize fixed = options_.deferred ? OutputSize{} : Fixed();
    const size_t n = assembly.samples.size();
    if (fixed.width != 0) {
      Begin(assembly, BatchLayout::kTensor, dtype_, memory);
      if (!labels_) memory->geometries.resize(n);
      memory->column.shape = {n};
      AddShape(fixed.height, fixed.width, &memory->column.shape);
      memory->values.resize_discard(n * fixed.height * fixed.width * pixel_bytes());
      return;
    }
    Begin(assembly, BatchLayout::kRagged, dtype_, memory);
    if (!labels_) memory->geometries.resize(n);
    memory->column.shape_rank = labels_ ? 2 : 3;
    memory->offsets.push_back(0);
    for (size_t i = 0; i < n; ++i) {
      const auto geometry = GeometryOf(assembly, i);
      uint64_t height = 0, width = 0;
      if (!geometry.ok()) {
        assembly.Fail(i, Describe(geometry.status()));
      } else if (*geometry) {
        height = options_.deferred ? (*geometry)->stored_height : (*geometry)->output_height;
        width = options_.deferred ? (*geometry)->stored_width : (*geometry)->output_width;
      }
      if (options_.deferred && geometry.ok()) memory->geometries[i] = geometry->value_or(Geometry());
      if (const uint64_t bytes = height * width * pixel_bytes(); bytes > options_.image.max_memory) {
        assembly.Fail(
            i, Describe(ResourceExhausted(labels_ ? "label map: " : "image: ", width, " x ", height, " pixels take ",
                                          bytes, " bytes of memory, over the limit of ", options_.image.max_memory)));
        height = width = 0;
      }
      AddShape(height, width, &memory->shapes);
      memory->offsets.push_back(memory->offsets.back() + height * width * channels_);
    }
    memory->values.resize_discard(memory->offsets.back() * ScalarSize(dtype_));
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& scratch, ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      MutableImageView out;
      out.channels = static_cast<int>(channels_);
      uint64_t first;
      if (memory->column.layout == BatchLayout::kTensor) {
        const uint64_t* const shape = memory->column.shape.data() + (planar_ ? 2 : 1);
        out.height = static_cast<uint32_t>(shape[0]);
        out.width = static_cast<uint32_t>(shape[1]);
        first = uint64_t{out.height} * out.width * channels_ * i;
      } else {
        const uint64_t* const shape = memory->shapes.data() + i * memory->column.shape_rank + (planar_ ? 1 : 0);
        out.height = static_cast<uint32_t>(shape[0]);
        out.width = static_cast<uint32_t>(shape[1]);
        first = memory->offsets[i];
      }
      out.row_stride = out.width * pixel_bytes();
      out.pixels = reinterpret_cast<uint8_t*>(memory->values.data()) + first * ScalarSize(dtype_);
      Geometry geometry;
      const absl::Status status = FillOne(assembly, i, scratch, out, &geometry);
      if (!labels_) memory->geometries[i] = geometry;
      if (!status.ok()) assembly.Fail(i, Describe(status));
    }
  }

  bool heavy() const override { return true; }

 private:
  // The size of all images; 0 x 0 where they differ.
  OutputSize Fixed() const {
    if (geometry_.kind != GeometryOptions::Kind::kNative || !stored_.shape) return FixedOutputSize(geometry_);
    // Arrays of one shape, which are images (NewColumnAssembler).
    const uint64_t height = (*stored_.shape)[0], width = (*stored_.shape)[1];
    const bool taken = std::max(height, width) <= kMaxImageSide && (height == width || !geometry_.rotate90);
    return taken ? OutputSize{static_cast<uint32_t>(height), static_cast<uint32_t>(width)} : OutputSize();
  }

  uint64_t pixel_bytes() const { return channels_ * ScalarSize(dtype_); }

  void AddShape(uint64_t height, uint64_t width, std::vector<uint64_t>* shape) const {
    if (planar_) shape->push_back(channels_);
    shape->insert(shape->end(), {height, width});
    if (!planar_ && !labels_) shape->push_back(channels_);
  }

  absl::Status FillOne(Assembly& assembly, size_t i, WorkerScratch& scratch, const MutableImageView& out,
                       Geometry* used) const {
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<Geometry> geometry, GeometryOf(assembly, i));
    const std::span<uint8_t> bytes(out.pixels, out.row_stride * out.height);
    if (!geometry && planar_) {
      // Black, as the device makes of an absent image.
      scratch.pixels.resize_discard(uint64_t{out.width} * out.height * channels_);
      std::memset(scratch.pixels.data(), 0, scratch.pixels.size());
      Convert(scratch, out);
    } else if (!geometry && !bytes.empty()) {
      std::memset(bytes.data(), 0, bytes.size());
      // Without a label map no pixel has a class; 0 is one. The lower bytes of a number come first (base/endian.h).
      for (size_t at = 0; labels_ && at < bytes.size(); at += ScalarSize(dtype_)) {
        std::memcpy(bytes.data() + at, &options_.label_fill, ScalarSize(dtype_));
      }
    }
    if (!geometry) return absl::OkStatus();
    *used = *geometry;
    const std::string_view value = *Value(assembly, i);
    if (labels_) {
      return DecodeLabelMap(value, *geometry, dtype_, options_.label_fill, options_.image.max_memory, bytes);
    }
    const Geometry whole = FullImage({out.width, out.height, 1});
    MutableImageView decoded = out;
    if (planar_) {
      decoded.row_stride = out.width * channels_;
      scratch.pixels.resize_discard(decoded.row_stride * out.height);
      decoded.pixels = reinterpret_cast<uint8_t*>(scratch.pixels.data());
    }
    const Geometry& applied = options_.deferred ? whole : *geometry;
    if (stored_.type == Type::kNdarray) {
      SHARDKIT_ASSIGN_OR_RETURN(const ImageView view, ArrayImage(stored_, value));
      SHARDKIT_RETURN_IF_ERROR(scratch.image.Transform(view, applied, options_.image, decoded));
    } else {
      SHARDKIT_RETURN_IF_ERROR(scratch.image.Decode(value, applied, options_.image, decoded));
    }
    if (augments_) {
      AugmentationRandom random = assembly.Random(i, geometry_.stream ^ kAugmentStream);
      AugmentPixels(options_.augment, random, decoded);
    }
    if (planar_) Convert(scratch, out);
    if (!scratch.image.warning().empty()) ++assembly.warned_images;
    return absl::OkStatus();
  }

  void Convert(const WorkerScratch& scratch, const MutableImageView& out) const {
    codec::ConvertPixels(options_.output, options_.channels, reinterpret_cast<const uint8_t*>(scratch.pixels.data()),
                         uint64_t{out.height} * out.width, out.pixels);
  }

  // Empty when the sample has no image.
  absl::StatusOr<std::optional<Geometry>> GeometryOf(const Assembly& assembly, size_t i) const {
    SHARDKIT_ASSIGN_OR_RETURN(const std::optional<StoredSize> stored, own_.SizeOf(assembly, i));
    if (!stored) return std::optional<Geometry>();
    const auto geometry =
        labels_ ? GeometryBesideImage(geometry_, image_, assembly, i, stored->width, stored->height, "the label map")
                : MakeGeometry(geometry_, *stored, assembly, i);
    if (!geometry.ok()) return geometry.status();
    return std::optional<Geometry>(*geometry);
  }

  const GeometryOptions geometry_;
  const StoredImage own_{position_, stored_};
  const std::optional<StoredImage> image_;
  const bool labels_;
  const bool augments_ = options_.augment.Changes();
  const uint64_t channels_;
  const bool planar_;
  const Type dtype_;
};

}  // namespace

std::unique_ptr<ColumnAssembler> NewImageColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const SampleContext& context) {
  return std::make_unique<ImageColumn>(position, column, options, context);
}

}  // namespace shardkit::loader
