// Columns delivered as they are stored, and those that a user's function makes.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/errors.h"
#include "loader/columns/assembly.h"
#include "loader/engine/page_cache_values.h"
#include "shardkit/schema.h"

namespace shardkit::loader {
namespace {

// Scalars, and arrays of one shape. Values of a type that is not known are arrays of bytes.
class FixedColumn : public ColumnAssembler {
 public:
  using ColumnAssembler::ColumnAssembler;

  bool fill_may_fail() const override { return false; }

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    const bool known = stored_.has_known_type(), array = known && stored_.type == Type::kNdarray;
    Begin(assembly, BatchLayout::kTensor, !known ? Type::kU8 : array ? stored_.dtype : stored_.type, memory);
    memory->column.shape = {assembly.samples.size()};
    if (!known) memory->column.shape.push_back(stored_.value_size);
    if (array) memory->column.shape.insert(memory->column.shape.end(), stored_.shape->begin(), stored_.shape->end());
    memory->values.resize_discard(assembly.samples.size() * *stored_.fixed_size());
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch&, ColumnMemory* memory) const override {
    const size_t bytes = *stored_.fixed_size();
    if (bytes == 0) return;
    for (size_t i = begin; i < end; ++i) {
      const auto value = Value(assembly, i);
      char* const to = memory->values.data() + i * bytes;
      if (value) {
        std::memcpy(to, value->data(), bytes);
      } else {
        std::memset(to, 0, bytes);
      }
    }
  }
};

void Prefetch(std::string_view value) {
  constexpr size_t kLine = 64;
  constexpr size_t kMost = 4096;  // the processor prefetches the rest by itself
  for (size_t i = 0; i < std::min(value.size(), kMost); i += kLine) __builtin_prefetch(value.data() + i);
}

// Byte strings.
class RaggedColumn : public ColumnAssembler {
 public:
  using ColumnAssembler::ColumnAssembler;

  bool fill_may_fail() const override { return false; }

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kRagged, Type::kU8, memory);
    uint64_t end = 0;
    memory->offsets.push_back(0);
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      const auto value = Value(assembly, i);
      memory->offsets.push_back(end += value ? value->size() : 0);
    }
    memory->values.resize_discard(end);
  }

  bool takes_from_page_cache() const override { return true; }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch& scratch, ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      if (assembly.samples[i].in_file(position_)) {
        char* const to = memory->values.data() + memory->offsets[i];
        i = assembly.left->Copy(assembly, position_, i, end, to, scratch.run) - 1;
        continue;
      }
      // Shuffled samples are far apart, so the processor cannot guess where the next one is.
      if (i + 1 < end && !assembly.samples[i + 1].in_file(position_)) {
        Prefetch(Value(assembly, i + 1).value_or(std::string_view()));
      }
      const auto value = Value(assembly, i);
      if (value && !value->empty())
        std::memcpy(memory->values.data() + memory->offsets[i], value->data(), value->size());
    }
  }
};

// Views of the memory of blocks.
class ViewsColumn : public ColumnAssembler {
 public:
  using ColumnAssembler::ColumnAssembler;

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kViews, Type::kU8, memory);
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      memory->views.push_back(Value(assembly, i).value_or(std::string_view()));
    }
  }

  void Fill(Assembly&, size_t, size_t, WorkerScratch&, ColumnMemory*) const override {}

  bool holds_blocks() const override { return true; }
};

// Arrays, each with a shape of its own.
class ArraysColumn : public ColumnAssembler {
 public:
  using ColumnAssembler::ColumnAssembler;

  bool fill_may_fail() const override { return false; }

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kRagged, stored_.dtype, memory);
    const size_t n = assembly.samples.size();
    std::vector<std::vector<uint64_t>> shapes(n);
    size_t rank = 0;
    uint64_t end = 0;
    memory->offsets.push_back(0);
    for (size_t i = 0; i < n; ++i) {
      if (const auto value = Value(assembly, i)) {
        auto array = ParseNdarray(stored_, *value);
        if (array.ok()) {
          end += array->data.size() / ScalarSize(stored_.dtype);
          shapes[i] = std::move(array->shape);
        } else {
          assembly.Fail(i, Describe(array.status()));
        }
      }
      rank = std::max(rank, shapes[i].size());
      memory->offsets.push_back(end);
    }
    memory->column.shape_rank = static_cast<uint32_t>(rank);
    for (size_t i = 0; i < n; ++i) {
      const bool empty = memory->offsets[i] == memory->offsets[i + 1] && shapes[i].empty();
      memory->shapes.insert(memory->shapes.end(), rank - shapes[i].size(), empty ? 0 : 1);
      memory->shapes.insert(memory->shapes.end(), shapes[i].begin(), shapes[i].end());
    }
    memory->values.resize_discard(end * ScalarSize(stored_.dtype));
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch&, ColumnMemory* memory) const override {
    const size_t size = ScalarSize(stored_.dtype);
    for (size_t i = begin; i < end; ++i) {
      const size_t bytes = (memory->offsets[i + 1] - memory->offsets[i]) * size;
      if (bytes == 0) continue;
      const auto array = ParseNdarray(stored_, *Value(assembly, i));  // Layout has checked it
      std::memcpy(memory->values.data() + memory->offsets[i] * size, array->data.data(), bytes);
    }
  }
};

class FunctionColumn : public ColumnAssembler {
 public:
  FunctionColumn(size_t position, Column column, LoaderColumn options)
      : ColumnAssembler(position, std::move(column), std::move(options)) {
    bytes_ = ScalarSize(options_.dtype);
    for (const uint64_t size : options_.shape) bytes_ *= size;
  }

  void Layout(Assembly& assembly, ColumnMemory* memory) const override {
    Begin(assembly, BatchLayout::kTensor, options_.dtype, memory);
    memory->column.shape = {assembly.samples.size()};
    memory->column.shape.insert(memory->column.shape.end(), options_.shape.begin(), options_.shape.end());
    memory->values.resize_discard(assembly.samples.size() * bytes_);
  }

  void Fill(Assembly& assembly, size_t begin, size_t end, WorkerScratch&, ColumnMemory* memory) const override {
    for (size_t i = begin; i < end; ++i) {
      const BatchSample& sample = assembly.samples[i].identity;
      AugmentationRandom random = assembly.Random(i);
      uint8_t* const to = reinterpret_cast<uint8_t*>(memory->values.data()) + i * bytes_;
      if (bytes_ != 0) std::memset(to, 0, bytes_);
      absl::Status status =
          options_.function({Value(assembly, i), sample.dataset, sample.ordinal, assembly.epoch}, random, {to, bytes_});
      if (!status.ok()) assembly.Fail(i, Describe(status));
    }
  }

  bool heavy() const override { return true; }

 private:
  size_t bytes_ = 0;  // of one sample
};

}  // namespace

std::unique_ptr<ColumnAssembler> NewStoredColumn(size_t position, const Column& column, const LoaderColumn& options) {
  if (column.fixed_size()) return std::make_unique<FixedColumn>(position, column, options);
  if (column.type == Type::kNdarray && column.has_known_type())
    return std::make_unique<ArraysColumn>(position, column, options);
  return std::make_unique<RaggedColumn>(position, column, options);
}

std::unique_ptr<ColumnAssembler> NewViewsColumn(size_t position, const Column& column, const LoaderColumn& options) {
  return std::make_unique<ViewsColumn>(position, column, options);
}

std::unique_ptr<ColumnAssembler> NewFunctionColumn(size_t position, const Column& column, const LoaderColumn& options) {
  return std::make_unique<FunctionColumn>(position, column, options);
}

}  // namespace shardkit::loader
