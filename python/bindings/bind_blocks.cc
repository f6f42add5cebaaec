// Scanning a dataset block by block: columns as arrays over the block's memory.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

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
      .def("check_mapped", [](const Block& block) { Raise(block.block->CheckMapped()); });
  nb::class_<Scanner>(module, "Scanner", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Scanner* self, const std::shared_ptr<Dataset>& dataset, int threads, int blocks_ahead,
             uint64_t first_sample, uint64_t end_sample, const ChosenSamples* samples) {
            new (self) Scanner(dataset, {.threads = threads,
                                         .blocks_ahead = blocks_ahead,
                                         .first_sample = first_sample,
                                         .end_sample = end_sample,
                                         .samples = samples != nullptr ? samples->ordinals : nullptr});
          },
          nb::arg("dataset"), nb::kw_only(), nb::arg("threads"), nb::arg("blocks_ahead"), nb::arg("first_sample"),
          nb::arg("end_sample"), nb::arg("samples").none())
      .def("__iter__", [](nb::handle_t<Scanner> self) { return self; })
      .def("__next__", &Scanner::Next);
}

}  // namespace shardkit::bindings
