// Arrays of a sample's items: boxes and points through the geometry of their image, and what belongs to them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/float_types.h"
#include "base/status_macros.h"
#include "loader/columns/assembly.h"
#include "loader/columns/sample_geometry.h"
#include "shardkit/image.h"
#include "shardkit/sample.h"

namespace shardkit::loader {
namespace {

constexpr uint64_t kMostValues = uint64_t{1} << 33;  // of a batch

// The value as a number, which numbers that fit in double are exactly.
template <typename Take>
bool WithNumbers(Type type, const char* data, const Take& take) {
  const auto of = [&]<typename T>(T) {
    return take([data](uint64_t i) {
      T number;
      std::memcpy(&number, data + i * sizeof(T), sizeof(T));
      return static_cast<double>(number);
    });
  };
  switch (type) {
    case Type::kF64:
      return of(double{});
    case Type::kF32:
      return of(float{});
    case Type::kI64:
      return of(int64_t{});
    case Type::kI32:
      return of(int32_t{});
    case Type::kI16:
      return of(int16_t{});
    case Type::kU16:
      return of(uint16_t{});
    case Type::kU32:
      return of(uint32_t{});
    case Type::kU64:
      return of(uint64_t{});
    case Type::kI8:
      return of(int8_t{});
    case Type::kU8:
      return of(uint8_t{});
    default:
      return false;
  }
}

Box FromFormat(BoxFormat format, const double (&values)[4]) {
  const auto [a, b, c, d] = values;
  switch (format) {
    case BoxFormat::kXyxy:
      return {a, b, c - a, d - b};
    case BoxFormat::kCxcywh:
      return {a - c / 2, b - d / 2, c, d};
    case BoxFormat::kXywh:
      break;
  }
  return {a, b, c, d};
}

void ToFormat(BoxFormat format, const Box& box, float* out) {
  const double right = box.x + box.width, lower = box.y + box.height;
  const double made[3][4] = {{box.x, box.y, box.width, box.height},
                             {box.x, box.y, right, lower},
                             {box.x + box.width / 2, box.y + box.height / 2, box.width, box.height}};
  for (int i = 0; i < 4; ++i) out[i] = static_cast<float>(made[static_cast<size_t>(format)][i]);
}

// The part of the box within the picture.
Box Clipped(const Box& box, const Geometry& geometry) {
  const double first_x = geometry.content_left, first_y = geometry.content_top;
  const double left = std::clamp(box.x, first_x, first_x + geometry.content_width);
  const double top = std::clamp(box.y, first_y, first_y + geometry.content_height);
  const double right = std::clamp(box.x + box.width, left, first_x + geometry.content_width);
  const double lower = std::clamp(box.y + box.height, top, first_y + geometry.content_height);
  return {left, top, right - left, lower - top};
}

// The items of one sample, parsed.
struct Items {
  uint64_t count = 0;
  uint64_t each = 1;            // numbers of an item
  std::vector<uint64_t> shape;  // of an item
  const char* data = nullptr;
};

absl::StatusOr<Items> ParseItems(const Column& column, std::string_view value) {
  SHARDKIT_ASSIGN_OR_RETURN(const NdarrayView array, ParseNdarray(column, value));
  Items items;
  if (array.shape.empty()) return InvalidArgument("is a single number, not an array with one entry for each item");
  items.count = array.shape[0];
  items.shape.assign(array.shape.begin() + 1, array.shape.end());
  for (const uint64_t size : items.shape) items.each *= size;
  items.data = array.data.data();
  return items;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> KeptAlong(const ItemsOfSamples& along, const std::string& column,
                                                const Assembly& assembly, size_t i, uint64_t count) {
  SHARDKIT_ASSIGN_OR_RETURN(ItemsOfSamples::Taken taken, along.Of(assembly, i));
  if (taken.stored == count) return std::move(taken.kept);
  return InvalidArgument("has ", count, " items, and column \"", column, "\" ", taken.stored);
}

void ChooseItems(const LoaderColumn& options, const Assembly& assembly, size_t i, std::span<const double> sizes,
                 std::vector<uint32_t>* kept) {
  constexpr uint64_t kStream = ~uint64_t{0};  // apart from crops
  const size_t most = options.most;
  if (most == 0 || kept->size() <= most) return;
  if (options.choose == ItemChoice::kRandom) {
    AugmentationRandom random = assembly.Random(i, kStream);
    for (size_t k = 0; k < most; ++k) std::swap((*kept)[k], (*kept)[k + random.Below(kept->size() - k)]);
  } else if (options.choose == ItemChoice::kLargest) {
    std::ranges::stable_sort(*kept, std::greater<>(), [&](uint32_t item) { return sizes[item]; });
  }
  kept->resize(most);
  std::ranges::sort(*kept);
}

namespace {

// Which boxes of a sample a batch has, and where they lie in it.
class BoxesOfSamples : public ItemsOfSamples {
 public:
  BoxesOfSamples(size_t position, Column column, LoaderColumn options, const GeometryOptions& geometry,
                 StoredImage image, std::shared_ptr<const ItemsOfSamples> along)
      : position_(position),
        column_(std::move(column)),
        options_(std::move(options)),
        geometry_(geometry),
        image_(std::move(image)),
        along_(std::move(along)) {}

  absl::StatusOr<Taken> Of(const Assembly& assembly, size_t i) const override { return Boxes(assembly, i, nullptr); }

  // *boxes, unless it is null, becomes the boxes that are kept.
  absl::StatusOr<Taken> Boxes(const Assembly& assembly, size_t i, std::vector<Box>* boxes) const {
    Taken taken;
    const auto value = assembly.samples[i].Value(position_);
    if (!value) return taken;
    SHARDKIT_ASSIGN_OR_RETURN(const Items items, ParseItems(column_, *value));
    if (items.count > 0 && (items.shape.size() != 1 || items.each != 4)) {
      return InvalidArgument("a box has four numbers, not ", items.each);
    }
    taken.stored = items.count;
    if (along_ != nullptr) {
      SHARDKIT_ASSIGN_OR_RETURN(taken.kept, KeptAlong(*along_, options_.along, assembly, i, items.count));
    }
    if (items.count == 0) return taken;
    SHARDKIT_ASSIGN_OR_RETURN(const Geometry geometry,
                              GeometryOfItems(geometry_, image_, options_.upright, assembly, i));
    std::vector<Box> all(items.count);
    std::vector<double> areas(items.count);
    const bool known = WithNumbers(column_.dtype, items.data, [&](const auto& number) {
      for (uint64_t box = 0; box < items.count; ++box) {
        double values[4];
        for (uint64_t k = 0; k < 4; ++k) values[k] = number(4 * box + k);
        const Box mapped = MapBox(geometry, FromFormat(options_.box_format, values));
        const Box seen = Clipped(mapped, geometry);
        all[box] = options_.clip ? seen : mapped;
        areas[box] = seen.width * seen.height;
        // NaN fails, too.
        if (along_ == nullptr && areas[box] >= options_.min_area) taken.kept.push_back(static_cast<uint32_t>(box));
      }
      return true;
    });
    if (!known) return InvalidArgument("boxes of ", TypeName(column_.dtype), " are none");
    if (along_ == nullptr) ChooseItems(options_, assembly, i, areas, &taken.kept);
    if (boxes != nullptr) {
      for (const uint32_t box : taken.kept) boxes->push_back(all[box]);
    }
    return taken;
  }

 private:
  const size_t position_;
  const Column column_;
  const LoaderColumn options_;
  const GeometryOptions geometry_;
  const StoredImage image_;
  const std::shared_ptr<const ItemsOfSamples> along_;  // null: these choose
};

// What boxes, points and items have in common: [n, most items, …], padded.
class ItemsColumn : public ColumnAssembler {
 public:
  // `along` says which items there are; null: all.
  ItemsColumn(size_t position, Column column, LoaderColumn options, Type dtype,
              std::shared_ptr<const ItemsOfSamples> along)
      : ColumnAssembler(position, std::move(column), std::move(options)), dtype_(dtype), along_(std::move(along)) {}

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kPadded, dtype_, memory);
    memory->offsets.push_back(0);
    uint64_t most = 0;
    std::optional<std::vector<uint64_t>> shape = ShapeOfItems();
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      const absl::StatusOr<uint64_t> count = Count(assembly, i, &shape);
      if (!count.ok()) assembly.Fail(i, Describe(count.status()));
      memory->offsets.push_back(memory->offsets.back() + count.value_or(0));
      most = std::max(most, count.value_or(0));
    }
    memory->column.shape = {assembly.samples.size(), most};
    if (shape) memory->column.shape.insert(memory->column.shape.end(), shape->begin(), shape->end());
    uint64_t values = std::ranges::find(memory->column.shape, 0u) == memory->column.shape.end() ? 1 : 0;
    for (const uint64_t size : memory->column.shape) {
      if (size != 0 && values > kMostValues / size) {
        for (size_t i = 0; i < assembly.samples.size(); ++i) {
          if (memory->offsets[i + 1] - memory->offsets[i] == most) {
            assembly.Fail(i,
                          Describe(ResourceExhausted("its ", most, " items pad the whole batch to too many numbers")));
          }
        }
        return;
      }
      values *= size;
    }
    memory->values.resize_discard(values * ScalarSize(dtype_));
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch&, ColumnMemory* memory) const override {
    const std::vector<uint64_t>& shape = memory->column.shape;
    uint64_t bytes = ScalarSize(dtype_);  // of an item
    for (size_t k = 2; k < shape.size(); ++k) bytes *= shape[k];
    for (size_t i = begin; i < end; ++i) {
      char* const to = memory->values.data() + i * shape[1] * bytes;
      const uint64_t count = memory->offsets[i + 1] - memory->offsets[i];
      if (count > 0) {
        if (absl::Status status = FillItems(assembly, i, to); !status.ok()) assembly.Fail(i, Describe(status));
      }
      Pad(to + count * bytes, (shape[1] - count) * bytes);
    }
  }

 protected:
  // Of an item, where the dataset says it; else that of the first sample with items.
  virtual std::optional<std::vector<uint64_t>> ShapeOfItems() const {
    if (!stored_.shape || stored_.shape->empty()) return std::nullopt;
    return std::vector<uint64_t>(stored_.shape->begin() + 1, stored_.shape->end());
  }

  virtual absl::StatusOr<uint64_t> Count(const Assembly& assembly, size_t i,
                                         std::optional<std::vector<uint64_t>>* shape) const {
    const auto value = Value(assembly, i);
    if (!value) return uint64_t{0};
    SHARDKIT_ASSIGN_OR_RETURN(const Items items, ParseItems(stored_, *value));
    if (items.count > 0) {
      if (!*shape) *shape = items.shape;
      if (items.shape != **shape) {
        return InvalidArgument("its items have another shape than those of other samples of the batch");
      }
    }
    if (along_ == nullptr) return items.count;
    SHARDKIT_ASSIGN_OR_RETURN(const auto kept, KeptAlong(*along_, options_.along, assembly, i, items.count));
    return kept.size();
  }

  // Writes the items of a sample that has some.
  virtual absl::Status FillItems(const Assembly& assembly, size_t i, char* to) const {
    SHARDKIT_ASSIGN_OR_RETURN(const Items items, ParseItems(stored_, *Value(assembly, i)));
    const uint64_t bytes = items.each * ScalarSize(stored_.dtype);
    if (along_ == nullptr) {
      std::memcpy(to, items.data, items.count * bytes);
      return absl::OkStatus();
    }
    SHARDKIT_ASSIGN_OR_RETURN(const ItemsOfSamples::Taken taken, along_->Of(assembly, i));
    for (const uint32_t item : taken.kept) {
      std::memcpy(to, items.data + item * bytes, bytes);
      to += bytes;
    }
    return absl::OkStatus();
  }

  // Fills what no item has.
  void Pad(char* to, uint64_t bytes) const {
    std::memset(to, 0, bytes);
    if (options_.padding == 0) return;
    char number[8];
    const size_t size = ScalarSize(dtype_);
    if (dtype_ == Type::kF32) {
      const auto value = static_cast<float>(options_.padding);
      std::memcpy(number, &value, size);
    } else if (dtype_ == Type::kF64) {
      const auto value = static_cast<double>(options_.padding);
      std::memcpy(number, &value, size);
    } else {
      // The lower bytes of a number come first (base/endian.h).
      std::memcpy(number, &options_.padding, size);
    }
    for (uint64_t at = 0; at < bytes; at += size) std::memcpy(to + at, number, size);
  }

  const Type dtype_;
  const std::shared_ptr<const ItemsOfSamples> along_;
};

class BoxesColumn : public ItemsColumn {
 public:
  BoxesColumn(size_t position, Column column, LoaderColumn options, std::shared_ptr<const BoxesOfSamples> boxes)
      : ItemsColumn(position, std::move(column), std::move(options), Type::kF32, nullptr), boxes_(std::move(boxes)) {}

 private:
  std::optional<std::vector<uint64_t>> ShapeOfItems() const override { return std::vector<uint64_t>{4}; }

  absl::StatusOr<uint64_t> Count(const Assembly& assembly, size_t i,
                                 std::optional<std::vector<uint64_t>>*) const override {
    SHARDKIT_ASSIGN_OR_RETURN(const ItemsOfSamples::Taken taken, boxes_->Of(assembly, i));
    return taken.kept.size();
  }

  absl::Status FillItems(const Assembly& assembly, size_t i, char* to) const override {
    std::vector<Box> boxes;
    SHARDKIT_RETURN_IF_ERROR(boxes_->Boxes(assembly, i, &boxes).status());
    for (const Box& box : boxes) {
      float made[4];
      ToFormat(options_.output_boxes, box, made);
      std::memcpy(to, made, sizeof(made));
      to += sizeof(made);
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const BoxesOfSamples> boxes_;
};

// Of each row of two or more numbers the first two are x and y; the others stay as they are.
class PointsColumn : public ItemsColumn {
 public:
  PointsColumn(size_t position, Column column, LoaderColumn options, const GeometryOptions& geometry, StoredImage image,
               std::shared_ptr<const ItemsOfSamples> along)
      : ItemsColumn(position, std::move(column), std::move(options), Type::kF32, std::move(along)),
        geometry_(geometry),
        image_(std::move(image)) {}

 private:
  absl::Status FillItems(const Assembly& assembly, size_t i, char* to) const override {
    SHARDKIT_ASSIGN_OR_RETURN(const Items items, ParseItems(stored_, *Value(assembly, i)));
    if (items.shape.empty() || items.shape.back() < 2) {
      return InvalidArgument("points have two numbers or more, x and y before others");
    }
    SHARDKIT_ASSIGN_OR_RETURN(const Geometry geometry,
                              GeometryOfItems(geometry_, image_, options_.upright, assembly, i));
    std::vector<uint32_t> kept;
    if (along_ != nullptr) {
      SHARDKIT_ASSIGN_OR_RETURN(ItemsOfSamples::Taken taken, along_->Of(assembly, i));
      kept = std::move(taken.kept);
    }
    const uint64_t row = items.shape.back(), count = along_ != nullptr ? kept.size() : items.count;
    const bool known = WithNumbers(stored_.dtype, items.data, [&](const auto& number) {
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t first = (along_ != nullptr ? kept[k] : k) * items.each;
        for (uint64_t at = 0; at < items.each; at += row) {
          const Point point = MapPoint(geometry, {number(first + at), number(first + at + 1)});
          for (uint64_t c = 0; c < row; ++c) {
            const double value = c == 0 ? point.x : c == 1 ? point.y : number(first + at + c);
            const auto made = static_cast<float>(value);
            std::memcpy(to, &made, sizeof(made));
            to += sizeof(made);
          }
        }
      }
      return true;
    });
    return known ? absl::OkStatus() : InvalidArgument("points of ", TypeName(stored_.dtype), " are none");
  }

  const GeometryOptions geometry_;
  const StoredImage image_;
};

}  // namespace

std::shared_ptr<const ItemsOfSamples> NewItemsOfBoxes(size_t position, const Column& column,
                                                      const LoaderColumn& options, const SampleContext& context) {
  if (!context.image) return nullptr;
  return std::make_shared<const BoxesOfSamples>(position, column, options, context.geometry, *context.image, nullptr);
}

std::unique_ptr<ColumnAssembler> NewItemsColumn(size_t position, const Column& column, const LoaderColumn& options,
                                                const SampleContext& context) {
  const auto found = context.items.find(options.along);
  auto along = found != context.items.end() ? found->second : nullptr;
  if (options.decode == ColumnDecode::kBoxes) {
    auto boxes = std::make_shared<const BoxesOfSamples>(position, column, options, context.geometry, *context.image,
                                                        std::move(along));
    return std::make_unique<BoxesColumn>(position, column, options, std::move(boxes));
  }
  if (options.decode == ColumnDecode::kPoints) {
    return std::make_unique<PointsColumn>(position, column, options, context.geometry, *context.image,
                                          std::move(along));
  }
  return std::make_unique<ItemsColumn>(position, column, options, column.dtype, std::move(along));
}

}  // namespace shardkit::loader
