// Lists of masks, as the column type rle stores them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "arrays.h"
#include "bind.h"
#include "shardkit/rle.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

RleList FromStored(const nb::bytes& value) {
  RleList masks;
  Raise(ParseRleValue({value.c_str(), value.size()}, &masks));
  return masks;
}

nb::bytes ToStored(const RleList& masks) {
  std::string value;
  Raise(AppendRleValue(masks, &value));
  return nb::bytes(value.data(), value.size());
}

using Dense = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

RleList FromDense(const Dense& pixels) {
  const size_t height = pixels.shape(1);
  const size_t width = pixels.shape(2);
  if (height > UINT32_MAX || width > UINT32_MAX) throw nb::value_error("masks of more than 2^32 - 1 pixels");
  RleList masks;
  Raise([&]() -> absl::Status {
    const GilReleased released;
    for (size_t i = 0; i < pixels.shape(0); ++i) {
      auto mask = EncodeDense({pixels.data() + i * height * width, height * width}, static_cast<uint32_t>(height),
                              static_cast<uint32_t>(width));
      if (!mask.ok()) return mask.status();
      masks.Append(*mask);
    }
    return absl::OkStatus();
  }());
  return masks;
}

// Appends a mask from COCO's compressed text.
void AppendCoco(RleList& masks, uint32_t height, uint32_t width, const nb::bytes& text) {
  Rle mask{height, width, {}};
  Raise(RunsFromCocoText({text.c_str(), text.size()}, &mask.runs));
  Raise(ValidateRle(mask));
  masks.Append(mask);
}

void AppendRuns(RleList& masks, uint32_t height, uint32_t width, std::vector<uint32_t> runs) {
  const Rle mask{height, width, std::move(runs)};
  Raise(ValidateRle(mask));
  masks.Append(mask);
}

void AppendPolygons(RleList& masks, uint32_t height, uint32_t width, const std::vector<std::vector<double>>& polygons) {
  const auto mask = RleFromPolygons(polygons, height, width);
  Raise(mask.status());
  masks.Append(*mask);
}

nb::bytes CocoText(const RleList& masks, size_t i) {
  if (i >= masks.size()) throw nb::index_error("no such mask");
  std::string text;
  AppendCocoText(masks[i].runs, &text);
  return nb::bytes(text.data(), text.size());
}

// All masks as one array; they have to be of one size.
Array<uint8_t> Rasterize(const RleList& masks, bool packed) {
  for (size_t i = 1; i < masks.size(); ++i) {
    if (masks.heights[i] != masks.heights[0] || masks.widths[i] != masks.widths[0]) {
      throw nb::value_error("the masks differ in size: rasterize them one by one");
    }
  }
  const uint64_t height = masks.size() == 0 ? 0 : masks.heights[0];
  const uint64_t width = masks.size() == 0 ? 0 : masks.widths[0];
  const uint64_t row = packed ? PackedRowBytes(static_cast<uint32_t>(width)) : width;
  const uint64_t shape[] = {masks.size(), height, row};
  void* data = nullptr;
  nb::object array = NewArray(Type::kU8, shape, &data);
  Raise([&]() -> absl::Status {
    const GilReleased released;
    for (size_t i = 0; i < masks.size(); ++i) {
      const std::span<uint8_t> out(static_cast<uint8_t*>(data) + i * height * row, height * row);
      const absl::Status status = packed ? DecodePacked(masks[i], out) : DecodeDense(masks[i], out);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }());
  return array;
}

Array<int64_t> Areas(const RleList& masks) {
  const uint64_t count = masks.size();
  void* data = nullptr;
  nb::object array = NewArray(Type::kI64, {&count, 1}, &data);
  for (size_t i = 0; i < count; ++i) static_cast<int64_t*>(data)[i] = static_cast<int64_t>(Area(masks[i]));
  return array;
}

Array<uint32_t> Boxes(const RleList& masks) {
  const uint64_t shape[] = {masks.size(), 4};
  void* data = nullptr;
  nb::object array = NewArray(Type::kU32, shape, &data);
  for (size_t i = 0; i < masks.size(); ++i) {
    std::ranges::copy(BoundingBox(masks[i]), static_cast<uint32_t*>(data) + 4 * i);
  }
  return array;
}

Array<uint32_t> MaskSizes(const RleList& masks) {
  const uint64_t shape[] = {masks.size(), 2};
  void* data = nullptr;
  nb::object array = NewArray(Type::kU32, shape, &data);
  for (size_t i = 0; i < masks.size(); ++i) {
    static_cast<uint32_t*>(data)[2 * i] = masks.heights[i];
    static_cast<uint32_t*>(data)[2 * i + 1] = masks.widths[i];
  }
  return array;
}

// Some of the masks, in this order.
RleList Select(const RleList& masks, const std::vector<size_t>& indexes) {
  RleList selected;
  for (const size_t i : indexes) {
    if (i >= masks.size()) throw nb::index_error("no such mask");
    selected.Append(masks[i]);
  }
  return selected;
}

}  // namespace

void BindMasks(nb::module_& module) {
  nb::class_<RleList>(module, "RleList")
      .def(nb::init<>())
      .def_static("from_stored", &FromStored, nb::arg("value"))
      .def_static("from_dense", &FromDense, nb::arg("pixels"))
      .def("to_stored", &ToStored)
      .def("append_coco", &AppendCoco, nb::arg("height"), nb::arg("width"), nb::arg("text"))
      .def("append_runs", &AppendRuns, nb::arg("height"), nb::arg("width"), nb::arg("runs"))
      .def("append_polygons", &AppendPolygons, nb::arg("height"), nb::arg("width"), nb::arg("polygons"))
      .def("coco_text", &CocoText, nb::arg("index"))
      .def("dense", [](const RleList& masks) { return Rasterize(masks, false); })
      .def("packed", [](const RleList& masks) { return Rasterize(masks, true); })
      .def("areas", &Areas)
      .def("boxes", &Boxes)
      .def("sizes", &MaskSizes)
      .def("select", &Select, nb::arg("indexes"))
      .def("__len__", &RleList::size)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"));
}

}  // namespace shardkit::bindings
