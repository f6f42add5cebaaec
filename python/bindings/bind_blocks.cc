// Scanning a dataset block by block: columns as arrays over the block's memory.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "dataset.h"
#include "shardkit/schema.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

// Of one list of values; small enough for a processor's nearest caches.
constexpr uint64_t kRunBytes = uint64_t{256} << 10;
// What an object of Python takes besides its bytes, about.
constexpr uint64_t kObjectBytes = 64;

// Borrowed by the arrays over it, which keep the Python object.
struct Block {
  std::shared_ptr<const Dataset> dataset;
  std::unique_ptr<ScannedBlock> block;
};

class Scanner {
 public:
  Scanner(std::shared_ptr<const Dataset> dataset, const ScanOptions& options) : dataset_(std::move(dataset)) {
    scanner_ = dataset_->Read([&] { return dataset_->reader().Scan(options); }, cancellation_);
  }

  ~Scanner() {
    cancellation_->Cancel();
    const GilReleased released;  // its threads finish their blocks first
    scanner_.reset();
  }

  // Throws StopIteration at the end.
  Block Next() {
    auto block = dataset_->Read([&] { return scanner_->Next(); }, cancellation_);
    if (block == nullptr) throw nb::stop_iteration();
    return {dataset_, std::move(block)};
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  std::unique_ptr<BlockScanner> scanner_;
};

const ColumnView& ColumnAt(const Block& block, size_t column) {
  if (column >= block.block->view().column_count()) throw nb::index_error("no such column");
  return block.block->view().column(column);
}

// The values of a column of one size, as an array [samples, ...]; None for other columns.
Any FixedValues(nb::handle_t<Block> self, size_t i) {
  const Block& block = *nb::inst_ptr<Block>(self);
  const ColumnView& values = ColumnAt(block, i);
  const Column& column = block.dataset->reader().columns()[i];
  if (!column.has_known_type() || !column.fixed_size() || !values.loaded()) return nb::none();
  std::vector<uint64_t> shape{values.size()};
  Type dtype = column.type;
  if (column.type == Type::kNdarray) {
    dtype = column.dtype;
    shape.insert(shape.end(), column.shape->begin(), column.shape->end());
  }
  if (ScalarSize(dtype) == 0) return nb::none();
  const char* const data = values.size() == 0 ? "" : values.bytes(0).data();
  return MakeArray(data, dtype, shape, self, false);
}

// Where the value lies, as an array of its bytes; None when absent.
nb::typed<nb::object, std::optional<Array<uint8_t>>> ValueBytes(nb::handle_t<Block> self, size_t column,
                                                                uint32_t sample) {
  const ColumnView& values = ColumnAt(*nb::inst_ptr<Block>(self), column);
  if (sample >= values.size()) throw nb::index_error("no such sample in the block");
  const auto value = values.value(sample);
  if (!value) return nb::none();
  const uint64_t size = value->size();
  return MakeArray(value->data(), Type::kU8, {&size, 1}, self, false);
}

StoredBytes Stored(std::optional<std::string_view> value, bool writable) {
  if (!value) return nb::none();
  if (writable) return nb::bytearray(value->data(), value->size());
  return nb::bytes(value->data(), value->size());
}

StoredBytes StoredValue(const Block& block, size_t column, uint32_t sample, bool writable) {
  const ColumnView& values = ColumnAt(block, column);
  if (sample >= values.size()) throw nb::index_error("no such sample in the block");
  return Stored(values.value(sample), writable);
}

// The values from `first` on, at least one and at most about kRunBytes of them: a call for each small value would cost
// more than its copy.
nb::typed<nb::list, StoredBytes> StoredValues(const Block& block, size_t column, uint32_t first, bool writable) {
  const ColumnView& values = ColumnAt(block, column);
  if (first >= values.size()) throw nb::index_error("no such sample in the block");
  nb::list run;
  uint64_t bytes = 0;
  for (uint32_t i = first; i < values.size() && bytes < kRunBytes; ++i) {
    const auto value = values.value(i);
    bytes += value.value_or("").size() + kObjectBytes;
    run.append(Stored(value, writable));
  }
  return run;
}

// One byte for each sample, 0 where the value is absent.
Array<bool> BlockPresent(const Block& block, size_t column) {
  const ColumnView& values = ColumnAt(block, column);
  const uint64_t count = values.size();
  void* data = nullptr;
  nb::object array = NewArray(Type::kBool, {&count, 1}, &data);
  for (uint32_t i = 0; i < count; ++i) static_cast<bool*>(data)[i] = values.present(i);
  return array;
}

// The length of each value in bytes, 0 where it is absent.
Array<int64_t> BlockSizes(const Block& block, size_t column) {
  const ColumnView& values = ColumnAt(block, column);
  const uint64_t count = values.size();
  void* data = nullptr;
  nb::object array = NewArray(Type::kI64, {&count, 1}, &data);
  for (uint32_t i = 0; i < count; ++i) {
    static_cast<int64_t*>(data)[i] = static_cast<int64_t>(values.value(i).value_or("").size());
  }
  return array;
}

// The bytes of all values one after another, where they lie if they lie so, and where each begins, and the last ends.
std::pair<Array<int64_t>, Array<uint8_t>> JoinedValues(nb::handle_t<Block> self, size_t column) {
  const ColumnView& values = ColumnAt(*nb::inst_ptr<Block>(self), column);
  const uint64_t places = uint64_t{values.size()} + 1;
  void* data = nullptr;
  Array<int64_t> begins = NewArray(Type::kI64, {&places, 1}, &data);
  auto* const begin = static_cast<int64_t*>(data);
  const char* first = "";
  uint64_t total = 0;
  bool adjacent = true;
  for (uint32_t i = 0; i < values.size(); ++i) {
    begin[i] = static_cast<int64_t>(total);
    const std::string_view value = values.value(i).value_or(std::string_view());
    if (value.empty()) continue;
    if (total == 0) first = value.data();
    adjacent = adjacent && reinterpret_cast<uintptr_t>(value.data()) == reinterpret_cast<uintptr_t>(first) + total;
    total += value.size();
  }
  begin[values.size()] = static_cast<int64_t>(total);
  if (adjacent) return {std::move(begins), MakeArray(first, Type::kU8, {&total, 1}, self, false)};
  Array<uint8_t> bytes = NewArray(Type::kU8, {&total, 1}, &data);
  auto* out = static_cast<char*>(data);
  for (uint32_t i = 0; i < values.size(); ++i) {
    const std::string_view value = values.value(i).value_or(std::string_view());
    out = std::copy(value.begin(), value.end(), out);
  }
  return {std::move(begins), std::move(bytes)};
}

// Arrays that have shapes of their own: the shapes, zeros where a value is absent, and the elements of all.
std::pair<Array<int64_t>, Any> JoinedArrays(nb::handle_t<Block> self, size_t column, size_t dimensions) {
  const Block& block = *nb::inst_ptr<Block>(self);
  const ColumnView& values = ColumnAt(block, column);
  const Column& declared = block.dataset->reader().columns()[column];
  const uint64_t sizes[] = {values.size(), dimensions};
  void* data = nullptr;
  Array<int64_t> shapes = NewArray(Type::kI64, sizes, &data);
  auto* shape = static_cast<int64_t*>(data);
  std::vector<std::string_view> elements;
  uint64_t total = 0;
  for (uint32_t i = 0; i < values.size(); ++i, shape += dimensions) {
    const auto value = values.value(i);
    std::fill_n(shape, dimensions, 0);
    if (!value) continue;
    const NdarrayView array = ValueOrRaise(ParseNdarray(declared, *value));
    if (array.shape.size() != dimensions) {
      Raise(absl::InvalidArgumentError(
          "sample " + std::to_string(block.block->first_sample() + i) + ": column \"" + declared.name +
          "\": an array of " + std::to_string(array.shape.size()) + " dimensions, where the column's first has " +
          std::to_string(dimensions) +
          ": lists of Arrow are nested equally deep; leave the column out by columns=[...]"));
    }
    std::ranges::copy(array.shape, shape);
    elements.push_back(array.data);
    total += array.data.size();
  }
  const uint64_t count = total / std::max<uint32_t>(1, ScalarSize(declared.dtype));
  nb::object joined = NewArray(declared.dtype, {&count, 1}, &data);
  auto* out = static_cast<char*>(data);
  for (const std::string_view each : elements) out = std::copy(each.begin(), each.end(), out);
  return {std::move(shapes), std::move(joined)};
}

}  // namespace

void BindBlocks(nb::module_& module) {
  nb::class_<Block>(module, "Block", nb::is_weak_referenceable())
      .def_prop_ro("first_sample", [](const Block& block) { return block.block->first_sample(); })
      .def_prop_ro("sample_count", [](const Block& block) { return block.block->view().sample_count(); })
      .def_prop_ro("shard", [](const Block& block) { return block.block->shard(); })
      .def_prop_ro("block", [](const Block& block) { return block.block->block(); })
      .def("fixed_values", &FixedValues, nb::arg("column"))
      .def("value_bytes", &ValueBytes, nb::arg("column"), nb::arg("sample"))
      .def("stored_value", &StoredValue, nb::arg("column"), nb::arg("sample"), nb::arg("writable"))
      .def("stored_values", &StoredValues, nb::arg("column"), nb::arg("first"), nb::arg("writable"))
      .def("present", &BlockPresent, nb::arg("column"))
      .def("sizes", &BlockSizes, nb::arg("column"))
      .def("joined_values", &JoinedValues, nb::arg("column"))
      .def("joined_arrays", &JoinedArrays, nb::arg("column"), nb::arg("dimensions"))
      .def("check_mapped", [](const Block& block) { Raise(block.block->CheckMapped()); });
  nb::class_<Scanner>(module, "Scanner", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Scanner* self, const std::shared_ptr<Dataset>& dataset, int threads, int blocks_ahead, int most_held,
             uint64_t first_sample, uint64_t end_sample, const ChosenSamples* samples) {
            new (self) Scanner(dataset, {.threads = threads,
                                         .blocks_ahead = blocks_ahead,
                                         .most_held = most_held,
                                         .first_sample = first_sample,
                                         .end_sample = end_sample,
                                         .samples = samples != nullptr ? samples->ordinals : nullptr});
          },
          nb::arg("dataset"), nb::kw_only(), nb::arg("threads"), nb::arg("blocks_ahead"), nb::arg("most_held"),
          nb::arg("first_sample"), nb::arg("end_sample"), nb::arg("samples").none())
      .def("__iter__", [](nb::handle_t<Scanner> self) { return self; })
      .def("__next__", &Scanner::Next);
}

}  // namespace shardkit::bindings
