// Batches: columns as arrays over the batch's memory.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "batch.h"
#include "bind.h"
#include "shardkit/dlpack.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

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
    case BatchLayout::kPadded:
      return "padded";
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

nb::object Shapes(std::span<const uint64_t> shapes, uint32_t rank, BatchLayout layout, nb::handle owner) {
  if (shapes.empty()) return nb::none();
  const uint64_t numbers = rank > 0 ? rank : layout == BatchLayout::kTokens ? 4 : 2;
  const uint64_t size[] = {shapes.size() / numbers, numbers};
  return MakeArray(shapes.data(), Type::kI64, size, owner, false);
}

nb::object Present(std::span<const uint8_t> present, nb::handle owner) {
  if (present.empty()) return nb::none();
  const uint64_t count = present.size();
  return MakeArray(present.data(), Type::kBool, {&count, 1}, owner, false);
}

// (layout, dtype, values, offsets, item_offsets, shapes, present); None for what the layout does not have, and for
// values on a device. Ragged texts have the dtype utf8 or json.
using DescribedColumn = nb::typed<nb::tuple, nb::str, nb::str, nb::any, nb::any, nb::any, nb::any, nb::any>;

DescribedColumn Describe(nb::handle_t<PythonBatch> self, size_t i) {
  const Batch& batch = *nb::inst_ptr<PythonBatch>(self)->batch;
  if (i >= batch.column_count()) throw nb::index_error("no such column");
  const BatchColumn& column = batch.column(i);
  nb::object values = nb::none();
  if (column.layout == BatchLayout::kViews) {
    values = Views(column, self);
  } else if (batch.device().name == "host") {
    const uint64_t size = std::max<uint64_t>(1, ScalarSize(column.dtype));
    const uint64_t flat = column.values.size() / size;
    values = column.shape.empty() ? MakeArray(column.values.data(), column.dtype, {&flat, 1}, self, true)
                                  : MakeArray(column.values.data(), column.dtype, column.shape, self, true);
  }
  const bool text =
      column.layout == BatchLayout::kRagged && (column.stored == Type::kUtf8 || column.stored == Type::kJson);
  return nb::make_tuple(LayoutName(column.layout), TypeName(text ? column.stored : column.dtype), values,
                        Numbers(column.offsets, self), Numbers(column.item_offsets, self),
                        Shapes(column.shapes, column.shape_rank, column.layout, self), Present(column.present, self));
}

// The geometries of a column: [images or masks, 14], in the order of Python's GEOMETRY.
Array<double> Geometries(const PythonBatch& self, size_t i) {
  if (i >= self.batch->column_count()) throw nb::index_error("no such column");
  const auto geometries = self.batch->column(i).geometries;
  const uint64_t shape[] = {geometries.size(), 14};
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
    *out++ = geometry.content_left;
    *out++ = geometry.content_top;
    *out++ = geometry.output_width;
    *out++ = geometry.output_height;
    *out++ = geometry.flip ? 1 : 0;
  }
  return array;
}

// (dataset, shard, ordinal, position, copy) of each sample: [samples, 5].
Array<int64_t> Samples(const PythonBatch& self) {
  const auto samples = self.batch->samples();
  const uint64_t shape[] = {samples.size(), 5};
  void* data = nullptr;
  nb::object array = NewArray(Type::kI64, shape, &data);
  auto* out = static_cast<int64_t*>(data);
  for (const BatchSample& sample : samples) {
    *out++ = sample.dataset;
    *out++ = sample.shard;
    *out++ = static_cast<int64_t>(sample.ordinal);
    *out++ = static_cast<int64_t>(sample.position);
    *out++ = sample.copy;
  }
  return array;
}

// Which samples are padding: [samples].
Array<bool> Padding(const PythonBatch& self) {
  const auto samples = self.batch->samples();
  const uint64_t shape[] = {samples.size()};
  void* data = nullptr;
  nb::object array = NewArray(Type::kBool, shape, &data);
  std::ranges::transform(samples, static_cast<bool*>(data), &BatchSample::padding);
  return array;
}

nb::typed<nb::list, nb::str> Keys(const PythonBatch& self) {
  nb::list keys;
  for (size_t i = 0; i < self.batch->size(); ++i) {
    const std::string_view key = self.batch->key(i);
    keys.append(nb::str(key.data(), key.size()));
  }
  return keys;
}

nb::typed<nb::list, std::tuple<int64_t, int64_t, nb::str>> Skipped(const PythonBatch& self) {
  nb::list skipped;
  for (const BadSample& sample : self.batch->skipped()) {
    skipped.append(
        nb::make_tuple(sample.sample.dataset, sample.sample.ordinal, Text(std::string(sample.status.message()))));
  }
  return skipped;
}

// A capsule of DLPack. `stream` is an address, as torch.cuda.Stream.cuda_stream; its later work waits for the values.
Any Dlpack(const PythonBatch& self, size_t i, uint64_t stream) {
  if (i >= self.batch->column_count()) throw nb::index_error("no such column");
  DLManagedTensor* const tensor =
      WithoutGil([&] { return ToDlpack(self.batch, i, BatchArray::kValues, reinterpret_cast<DeviceStream>(stream)); });
  // Whoever takes the tensor gives the capsule another name, and calls the deleter.
  PyObject* const capsule = PyCapsule_New(tensor, "dltensor", [](PyObject* object) {
    if (PyCapsule_IsValid(object, "dltensor") == 0) return;
    DeleteDlpack(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(object, "dltensor")));
  });
  if (capsule == nullptr) {
    DeleteDlpack(tensor);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

}  // namespace

void BindBatch(nb::module_& module) {
  nb::class_<PythonBatch> batch(module, "Batch", nb::is_weak_referenceable());
  batch.def("column", &Describe, nb::arg("index"))
      .def("geometries", &Geometries, nb::arg("index"))
      .def("dlpack", &Dlpack, nb::arg("index"), nb::arg("stream"))
      .def("synchronize", [](const PythonBatch& self) { WithoutGil([&] { return self.batch->Synchronize(); }); })
      .def_prop_ro("device", [](const PythonBatch& self) { return self.batch->device().name; })
      .def_prop_ro("epoch", [](const PythonBatch& self) { return self.batch->epoch(); })
      .def_prop_ro("step", [](const PythonBatch& self) { return self.batch->step(); })
      .def_prop_ro("memory", [](const PythonBatch& self) { return self.batch->memory(); })
      .def("__len__", [](const PythonBatch& self) { return self.batch->size(); })
      .def("samples", &Samples)
      .def("padding", &Padding)
      .def("keys", &Keys)
      .def("skipped", &Skipped);
}

}  // namespace shardkit::bindings
