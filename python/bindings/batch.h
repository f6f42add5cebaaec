// Batches as Python owns them. Their arrays keep the Python object, and with it the memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "arrays.h"
#include "bind.h"
#include "shardkit/gpu/device_loader.h"
#include "shardkit/loader.h"
#include "status.h"

namespace shardkit::bindings {

struct PythonBatch {
  std::shared_ptr<const Batch> batch;
};

// (layout, dtype, values, offsets, item_offsets, shapes, present); None for what the layout does not have.
using DescribedColumn = nanobind::typed<nanobind::tuple, nanobind::str, nanobind::str, nanobind::any, nanobind::any,
                                        nanobind::any, nanobind::any, nanobind::any>;

struct PythonDeviceBatch {
  std::shared_ptr<const gpu::DeviceBatch> batch;
};

// (dataset, shard, ordinal, position) of each sample: [samples, 4].
template <typename AnyBatch>
Array<int64_t> Samples(const AnyBatch& self) {
  const auto samples = self.batch->samples();
  const uint64_t shape[] = {samples.size(), 4};
  void* data = nullptr;
  nanobind::object array = NewArray(Type::kI64, shape, &data);
  auto* out = static_cast<int64_t*>(data);
  for (const BatchSample& sample : samples) {
    *out++ = sample.dataset;
    *out++ = sample.shard;
    *out++ = static_cast<int64_t>(sample.ordinal);
    *out++ = static_cast<int64_t>(sample.position);
  }
  return array;
}

// Which samples are padding: [samples].
template <typename AnyBatch>
Array<bool> Padding(const AnyBatch& self) {
  const auto samples = self.batch->samples();
  const uint64_t shape[] = {samples.size()};
  void* data = nullptr;
  nanobind::object array = NewArray(Type::kBool, shape, &data);
  std::ranges::transform(samples, static_cast<bool*>(data), &BatchSample::padding);
  return array;
}

template <typename AnyBatch>
nanobind::typed<nanobind::list, nanobind::str> Keys(const AnyBatch& self) {
  nanobind::list keys;
  for (size_t i = 0; i < self.batch->size(); ++i) {
    const std::string_view key = self.batch->key(i);
    keys.append(nanobind::str(key.data(), key.size()));
  }
  return keys;
}

template <typename AnyBatch>
nanobind::typed<nanobind::list, std::tuple<int64_t, int64_t, nanobind::str>> Skipped(const AnyBatch& self) {
  nanobind::list skipped;
  for (const BadSample& sample : self.batch->skipped()) {
    skipped.append(
        nanobind::make_tuple(sample.sample.dataset, sample.sample.ordinal, Text(std::string(sample.status.message()))));
  }
  return skipped;
}

// Adds what batches have wherever their columns are.
template <typename AnyBatch>
void BindBatchMembers(nanobind::class_<AnyBatch>& bound) {
  bound.def_prop_ro("epoch", [](const AnyBatch& self) { return self.batch->epoch(); })
      .def_prop_ro("step", [](const AnyBatch& self) { return self.batch->step(); })
      .def_prop_ro("memory", [](const AnyBatch& self) { return self.batch->memory(); })
      .def("__len__", [](const AnyBatch& self) { return self.batch->size(); })
      .def("samples", &Samples<AnyBatch>)
      .def("padding", &Padding<AnyBatch>)
      .def("keys", &Keys<AnyBatch>)
      .def("skipped", &Skipped<AnyBatch>);
}

// "tensor", "ragged", ...
const char* LayoutName(BatchLayout layout);

// Offsets, or None when there are none.
nanobind::object Numbers(std::span<const uint64_t> numbers, nanobind::handle owner);

// [items, numbers of each], or None: shapes of `rank`, and without one the height and width of masks, or the row, begin
// and length of tokens' pieces.
nanobind::object Shapes(std::span<const uint64_t> shapes, uint32_t rank, BatchLayout layout, nanobind::handle owner);

// Whether each sample has the value, or None when all have.
nanobind::object Present(std::span<const uint8_t> present, nanobind::handle owner);

}  // namespace shardkit::bindings
