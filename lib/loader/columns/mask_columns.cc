#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "loader/columns/assembly.h"
#include "loader/columns/sample_geometry.h"
#include "shardkit/image.h"
#include "shardkit/rle.h"

namespace shardkit::loader {
namespace {

// Gives the geometries of a sample's masks.
class MaskGeometries {
 public:
  explicit MaskGeometries(const SampleContext& context) : options_(context.geometry), image_(context.image) {}

  OutputSize fixed() const { return FixedOutputSize(options_); }

  absl::StatusOr<Geometry> Of(const Assembly& assembly, size_t i, const RleList& sizes, size_t mask) const {
    return GeometryBesideImage(options_, image_, assembly, i, sizes.widths[mask], sizes.heights[mask],
                               StrCat("mask ", mask));
  }

 private:
  const GeometryOptions options_;
  const std::optional<StoredImage> image_;
};

// Masks that choose which of them a batch has.
class MasksOfSamples : public ItemsOfSamples {
 public:
  MasksOfSamples(size_t position, LoaderColumn options) : position_(position), options_(std::move(options)) {}

  absl::StatusOr<Taken> Of(const Assembly& assembly, size_t i) const override {
    Taken taken;
    const auto value = assembly.samples[i].Value(position_);
    if (!value) return taken;
    RleList masks;
    std::vector<double> areas;
    if (options_.choose == ItemChoice::kLargest) {
      SHARDKIT_RETURN_IF_ERROR(ParseRleValue(*value, &masks));
      for (size_t mask = 0; mask < masks.size(); ++mask) areas.push_back(static_cast<double>(Area(masks[mask])));
    } else {
      SHARDKIT_RETURN_IF_ERROR(ParseRleSizes(*value, &masks));
    }
    taken.stored = masks.size();
    taken.kept.resize(masks.size());
    std::iota(taken.kept.begin(), taken.kept.end(), 0u);
    ChooseItems(options_, assembly, i, areas, &taken.kept);
    return taken;
  }

 private:
  const size_t position_;
  const LoaderColumn options_;
};

// The masks of a sample that a batch has: all, or those that a column chooses.
class KeptMasks {
 public:
  // `along` names the column of `items`, which is null for all masks.
  KeptMasks(std::shared_ptr<const ItemsOfSamples> items, std::string along)
      : items_(std::move(items)), along_(std::move(along)) {}

  // Parses the masks of a sample, which has some, with runs or without, and leaves out those that it does not have.
  template <typename Parse>
  absl::Status Read(const Assembly& assembly, size_t i, std::string_view value, const Parse& parse,
                    RleList* masks) const {
    SHARDKIT_RETURN_IF_ERROR(parse(value, masks));
    if (items_ == nullptr) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const auto kept, KeptAlong(*items_, along_, assembly, i, masks->size()));
    uint64_t end = 0;
    for (size_t k = 0; k < kept.size(); ++k) {
      const uint32_t mask = kept[k];
      const uint64_t begin = masks->run_begin[mask], count = masks->run_begin[mask + 1] - begin;
      if (!masks->runs.empty())
        std::copy_n(masks->runs.begin() + static_cast<ptrdiff_t>(begin), count,
                    masks->runs.begin() + static_cast<ptrdiff_t>(end));
      masks->heights[k] = masks->heights[mask];
      masks->widths[k] = masks->widths[mask];
      masks->run_begin[k + 1] = end += count;
    }
    masks->heights.resize(kept.size());
    masks->widths.resize(kept.size());
    masks->run_begin.resize(kept.size() + 1);
    if (!masks->runs.empty()) masks->runs.resize(end);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const ItemsOfSamples> items_;
  const std::string along_;
};

// A few bytes of runs can stand for 4 GiB of pixels.
absl::Status AddMaskBytes(uint64_t bytes, uint64_t* end) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 30;
  if (*end + bytes > kMaxBytes) {
    return ResourceExhausted("the masks of a batch would take more than ", kMaxBytes,
                             " bytes; use runs, a smaller batch or a geometry");
  }
  *end += bytes;
  return absl::OkStatus();
}

uint64_t MaskBytes(const Geometry& geometry, bool packed) {
  return geometry.output_height * (packed ? PackedRowBytes(geometry.output_width) : geometry.output_width);
}

// Masks as run lengths: as stored, or with geometries that are applied later.
class MaskRunsColumn : public ColumnAssembler {
 public:
  MaskRunsColumn(size_t position, Column column, LoaderColumn options, std::optional<MaskGeometries> deferred,
                 KeptMasks kept)
      : ColumnAssembler(position, std::move(column), std::move(options)),
        deferred_(std::move(deferred)),
        kept_(std::move(kept)) {}

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kMaskRuns, Type::kU32, memory);
    memory->column.shape_rank = 2;
    memory->offsets.push_back(0);
    memory->item_offsets.push_back(0);
    uint64_t deferred_bytes = 0;
    RleList sizes;
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      sizes.Clear();
      if (const auto value = Value(assembly, i)) {
        absl::Status status = kept_.Read(assembly, i, *value, ParseRleSizes, &sizes);
        if (status.ok() && deferred_) status = AddGeometries(assembly, i, sizes, &deferred_bytes, &memory->geometries);
        if (!status.ok()) {
          assembly.Fail(i, Describe(status));
          sizes.Clear();
        }
      }
      const uint64_t runs_before = memory->item_offsets.back();
      for (size_t mask = 0; mask < sizes.size(); ++mask) {
        memory->item_offsets.push_back(runs_before + sizes.run_begin[mask + 1]);
        memory->shapes.push_back(sizes.heights[mask]);
        memory->shapes.push_back(sizes.widths[mask]);
      }
      memory->offsets.push_back(memory->item_offsets.size() - 1);
    }
    memory->values.resize_discard(memory->item_offsets.back() * sizeof(uint32_t));
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& scratch, ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      const auto value = Value(assembly, i);
      if (!value) continue;
      if (absl::Status status = kept_.Read(assembly, i, *value, ParseRleValue, &scratch.masks); !status.ok()) {
        assembly.Fail(i, Describe(status));
        continue;
      }
      const std::vector<uint32_t>& runs = scratch.masks.runs;
      if (runs.empty()) continue;
      char* const to = memory->values.data() + memory->item_offsets[memory->offsets[i]] * sizeof(uint32_t);
      std::memcpy(to, runs.data(), runs.size() * sizeof(uint32_t));
    }
  }

 private:
  // Adds the geometries of all masks of the sample, or of none. *bytes is what the batch's masks will take.
  absl::Status AddGeometries(const Assembly& assembly, size_t i, const RleList& sizes, uint64_t* bytes,
                             std::vector<Geometry>* geometries) const {
    const size_t before = geometries->size();
    const uint64_t bytes_before = *bytes;
    for (size_t mask = 0; mask < sizes.size(); ++mask) {
      const bool as_before =
          mask > 0 && sizes.heights[mask] == sizes.heights[mask - 1] && sizes.widths[mask] == sizes.widths[mask - 1];
      absl::StatusOr<Geometry> geometry = as_before ? geometries->back() : deferred_->Of(assembly, i, sizes, mask);
      absl::Status status = geometry.status();
      if (status.ok())
        status = AddMaskBytes(MaskBytes(*geometry, options_.decode == ColumnDecode::kPackedMasks), bytes);
      if (!status.ok()) {
        geometries->resize(before);
        *bytes = bytes_before;
        return status;
      }
      geometries->push_back(*geometry);
    }
    return absl::OkStatus();
  }

  const std::optional<MaskGeometries> deferred_;
  const KeptMasks kept_;
};

class MasksColumn : public ColumnAssembler {
 public:
  MasksColumn(size_t position, Column column, LoaderColumn options, MaskGeometries geometries, KeptMasks kept)
      : ColumnAssembler(position, std::move(column), std::move(options)),
        geometries_(std::move(geometries)),
        kept_(std::move(kept)),
        packed_(options_.decode == ColumnDecode::kPackedMasks) {}

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kMasks, Type::kU8, memory);
    const OutputSize fixed = geometries_.fixed();
    const uint64_t fixed_bytes = uint64_t{fixed.height} * RowBytes(fixed.width);
    memory->offsets.push_back(0);
    memory->item_offsets.push_back(0);
    memory->column.shape_rank = 2;
    uint64_t most = 0;
    RleList sizes;
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      sizes.Clear();
      if (const auto value = Value(assembly, i)) {
        if (absl::Status status = LayOut(assembly, i, *value, fixed, &sizes, memory); !status.ok()) {
          assembly.Fail(i, Describe(status));
          // Drops the sample's earlier masks too, so that they get no memory: a few bytes of runs can stand for any
          // number of pixels.
          memory->item_offsets.resize(memory->offsets.back() + 1);
          memory->shapes.resize(2 * memory->offsets.back());
        }
      }
      memory->offsets.push_back(memory->item_offsets.size() - 1);
      most = std::max(most, memory->offsets[i + 1] - memory->offsets[i]);
    }
    const uint64_t masks = memory->item_offsets.size() - 1;
    if (options_.pad_masks) {
      memory->column.shape = {assembly.samples.size(), most, fixed.height, RowBytes(fixed.width)};
      memory->values.resize_discard(assembly.samples.size() * most * fixed_bytes);
      memory->item_offsets.clear();
    } else {
      if (fixed.width != 0) memory->column.shape = {masks, fixed.height, RowBytes(fixed.width)};
      memory->values.resize_discard(memory->item_offsets.back());
    }
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& scratch, ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      uint8_t* const values = reinterpret_cast<uint8_t*>(memory->values.data());
      const uint64_t count = memory->offsets[i + 1] - memory->offsets[i];
      if (options_.pad_masks) {
        const std::vector<uint64_t>& shape = memory->column.shape;
        const uint64_t bytes = shape[2] * shape[3];
        uint8_t* const first = values + i * shape[1] * bytes;
        if (shape[1] > count) std::memset(first + count * bytes, 0, (shape[1] - count) * bytes);
        FillSample(assembly, i, scratch, [&](size_t mask) { return std::span(first + mask * bytes, bytes); });
      } else {
        const uint64_t* const places = memory->item_offsets.data() + memory->offsets[i];
        FillSample(assembly, i, scratch,
                   [&](size_t mask) { return std::span(values + places[mask], places[mask + 1] - places[mask]); });
      }
    }
  }

  bool heavy() const override { return true; }

 private:
  uint64_t RowBytes(uint32_t width) const { return packed_ ? PackedRowBytes(width) : width; }

  absl::Status LayOut(const Assembly& assembly, size_t i, std::string_view value, const OutputSize& fixed,
                      RleList* sizes, ColumnMemory* memory) const {
    SHARDKIT_RETURN_IF_ERROR(kept_.Read(assembly, i, value, ParseRleSizes, sizes));
    uint64_t height = fixed.height, width = fixed.width;
    for (size_t mask = 0; mask < sizes->size(); ++mask) {
      const bool as_before = mask > 0 && sizes->heights[mask] == sizes->heights[mask - 1] &&
                             sizes->widths[mask] == sizes->widths[mask - 1];
      if (fixed.width == 0 && !as_before) {
        SHARDKIT_ASSIGN_OR_RETURN(const Geometry geometry, geometries_.Of(assembly, i, *sizes, mask));
        height = geometry.output_height;
        width = geometry.output_width;
      }
      uint64_t end = memory->item_offsets.back();
      SHARDKIT_RETURN_IF_ERROR(AddMaskBytes(height * RowBytes(static_cast<uint32_t>(width)), &end));
      memory->item_offsets.push_back(end);
      memory->shapes.push_back(height);
      memory->shapes.push_back(width);
    }
    return absl::OkStatus();
  }

  template <typename Place>
  void FillSample(Assembly& assembly, size_t i, WorkerScratch& scratch, Place place) const {
    const auto value = Value(assembly, i);
    if (!value) return;
    absl::Status status = [&]() -> absl::Status {
      SHARDKIT_RETURN_IF_ERROR(kept_.Read(assembly, i, *value, ParseRleValue, &scratch.masks));
      uint32_t height = 0, width = 0;
      for (size_t mask = 0; mask < scratch.masks.size(); ++mask) {
        const RleView runs = scratch.masks[mask];
        if (mask == 0 || runs.height != height || runs.width != width) {
          SHARDKIT_ASSIGN_OR_RETURN(const Geometry geometry, geometries_.Of(assembly, i, scratch.masks, mask));
          SHARDKIT_RETURN_IF_ERROR(scratch.rasterizer.SetGeometry(geometry));
          height = runs.height;
          width = runs.width;
        }
        SHARDKIT_RETURN_IF_ERROR(packed_ ? scratch.rasterizer.Packed(runs, place(mask))
                                         : scratch.rasterizer.Dense(runs, place(mask)));
      }
      return absl::OkStatus();
    }();
    if (!status.ok()) assembly.Fail(i, Describe(status));
  }

  const MaskGeometries geometries_;
  const KeptMasks kept_;
  const bool packed_;
};

}  // namespace

std::shared_ptr<const ItemsOfSamples> NewItemsOfMasks(size_t position, const Column& column,
                                                      const LoaderColumn& options) {
  const bool masks = options.decode == ColumnDecode::kMasks || options.decode == ColumnDecode::kPackedMasks;
  if (!masks || column.type != Type::kRle) return nullptr;
  return std::make_shared<const MasksOfSamples>(position, options);
}

std::unique_ptr<ColumnAssembler> NewMaskRunsColumn(size_t position, const Column& column, const LoaderColumn& options) {
  return std::make_unique<MaskRunsColumn>(position, column, options, std::nullopt, KeptMasks(nullptr, ""));
}

std::unique_ptr<ColumnAssembler> NewMasksColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const SampleContext& context) {
  const MaskGeometries geometries(context);
  const bool all = options.along.empty() && options.most == 0;
  const std::string& chooser = options.along.empty() ? options.name : options.along;
  KeptMasks kept(all ? nullptr : context.items.at(chooser), chooser);
  if (options.deferred) {
    return std::make_unique<MaskRunsColumn>(position, column, options, geometries, std::move(kept));
  }
  return std::make_unique<MasksColumn>(position, column, options, geometries, std::move(kept));
}

}  // namespace shardkit::loader
