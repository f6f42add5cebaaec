// Batches: columns as arrays over the batch's memory.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "batch.h"
#include "bind.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

const char* LayoutName(BatchLayout layout) {
  switch (layout) {
    case BatchLayout::kTensor:
      return "tensor";
    case BatchLayout::kRagged:
      return "ragged";
    case BatchLayout::kMasks:
      return "masks";
    case BatchLayout::kMaskRuns:
      return "mask_runs";
    case BatchLayout::kTokens:
      return "tokens";
    case BatchLayout::kViews:
      return "views";
  }
  return "";
}

nb::object Numbers(std::span<const uint64_t> numbers, nb::handle owner) {
  if (numbers.empty()) return nb::none();
  const uint64_t size = numbers.size();
  return MakeArray(numbers.data(), Type::kI64, {&size, 1}, owner, false);  // all are below 2^63
}

// The views of kViews: for each sample the bytes where they lie, or None.
nb::list Views(const BatchColumn& column, nb::handle owner) {
  nb::list views;
  for (const std::string_view& view : column.views) {
    const uint64_t size = view.size();
    if (view.data() == nullptr) {
      views.append(nb::none());
    } else {
      views.append(MakeArray(view.data(), Type::kU8, {&size, 1}, owner, false));
    }
  }
  return views;
}

// (layout, dtype, values, offsets, item_offsets, shapes, present); None for what the layout does not have.
nb::tuple Describe(nb::handle_t<PythonBatch> self, size_t i) {
  const Batch& batch = *nb::inst_ptr<PythonBatch>(self)->batch;
  if (i >= batch.column_count()) throw nb::index_error("no such column");
  const BatchColumn& column = batch.column(i);
  nb::object values = nb::none();
  if (column.layout == BatchLayout::kViews) {
    values = Views(column, self);
  } else {
    const uint64_t size = std::max<uint64_t>(1, ScalarSize(column.dtype));
    const uint64_t flat = column.values.size() / size;
    values = column.shape.empty() ? MakeArray(column.values.data(), column.dtype, {&flat, 1}, self, true)
                                  : MakeArray(column.values.data(), column.dtype, column.shape, self, true);
  }
  nb::object shapes = nb::none();
  if (!column.shapes.empty() && column.shape_rank > 0) {
    const uint64_t size[] = {column.shapes.size() / column.shape_rank, column.shape_rank};
    shapes = MakeArray(column.shapes.data(), Type::kI64, size, self, false);
  } else if (!column.shapes.empty()) {
    // Masks: height and width of each; tokens: row, begin and length of each piece.
    const uint64_t rank = column.layout == BatchLayout::kTokens ? 3 : 2;
    const uint64_t size[] = {column.shapes.size() / rank, rank};
    shapes = MakeArray(column.shapes.data(), Type::kI64, size, self, false);
  }
  nb::object present = nb::none();
  if (!column.present.empty()) {
    const uint64_t count = column.present.size();
    present = MakeArray(column.present.data(), Type::kBool, {&count, 1}, self, false);
  }
  return nb::make_tuple(LayoutName(column.layout), TypeName(column.dtype), values, Numbers(column.offsets, self),
                        Numbers(column.item_offsets, self), shapes, present);
}

// The geometries of a deferred column: [images or masks, 12], in the order of Python's GEOMETRY; none of other columns.
nb::object Geometries(const PythonBatch& self, size_t i) {
  if (i >= self.batch->column_count()) throw nb::index_error("no such column");
  const auto geometries = self.batch->column(i).geometries;
  const uint64_t shape[] = {geometries.size(), 12};
  void* data = nullptr;
  nb::object array = NewArray(Type::kF64, shape, &data);
  auto* out = static_cast<double*>(data);
  for (const Geometry& geometry : geometries) {
    *out++ = geometry.stored_width;
    *out++ = geometry.stored_height;
    *out++ = geometry.orientation;
    *out++ = geometry.source.x;
    *out++ = geometry.source.y;
    *out++ = geometry.source.width;
    *out++ = geometry.source.height;
    *out++ = geometry.content_width;
    *out++ = geometry.content_height;
    *out++ = geometry.output_width;
    *out++ = geometry.output_height;
    *out++ = geometry.flip ? 1 : 0;
  }
  return array;
}

// (dataset, shard, ordinal, position) of each sample: [samples, 4].
nb::object Samples(const PythonBatch& self) {
  const auto samples = self.batch->samples();
  const uint64_t shape[] = {samples.size(), 4};
  void* data = nullptr;
  nb::object array = NewArray(Type::kI64, shape, &data);
  auto* out = static_cast<int64_t*>(data);
  for (const BatchSample& sample : samples) {
    *out++ = sample.dataset;
    *out++ = sample.shard;
    *out++ = static_cast<int64_t>(sample.ordinal);
    *out++ = static_cast<int64_t>(sample.position);
  }
  return array;
}

nb::list Keys(const PythonBatch& self) {
  nb::list keys;
  for (size_t i = 0; i < self.batch->size(); ++i) {
    const std::string_view key = self.batch->key(i);
    keys.append(nb::str(key.data(), key.size()));
  }
  return keys;
}

nb::list Skipped(const PythonBatch& self) {
  nb::list skipped;
  for (const BadSample& sample : self.batch->skipped()) {
    skipped.append(nb::make_tuple(sample.sample.dataset, sample.sample.ordinal, std::string(sample.status.message())));
  }
  return skipped;
}

}  // namespace

void BindBatch(nb::module_& module) {
  nb::class_<PythonBatch>(module, "Batch", nb::is_weak_referenceable())
      .def_prop_ro("epoch", [](const PythonBatch& self) { return self.batch->epoch(); })
      .def_prop_ro("step", [](const PythonBatch& self) { return self.batch->step(); })
      .def_prop_ro("memory", [](const PythonBatch& self) { return self.batch->memory(); })
      .def("__len__", [](const PythonBatch& self) { return self.batch->size(); })
      .def("column", &Describe, nb::arg("index"))
      .def("geometries", &Geometries, nb::arg("index"))
      .def("samples", &Samples)
      .def("keys", &Keys)
      .def("skipped", &Skipped);
}

}  // namespace shardkit::bindings
