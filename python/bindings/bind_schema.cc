// Columns, and values in the form in which they are stored.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "bind.h"
#include "options.h"
#include "shardkit/schema.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

std::string StorageName(Storage storage) {
  switch (storage) {
    case Storage::kFixed:
      return "fixed";
    case Storage::kInline:
      return "inline";
    case Storage::kBlob:
      return "blob";
    case Storage::kPaged:
      return "paged";
    case Storage::kDerived:
      break;
  }
  return "derived";
}

Column MakeColumn(const std::string& name, const std::string& type, bool nullable, bool is_key,
                  const std::optional<std::string>& dtype, std::optional<std::vector<uint64_t>> shape,
                  const std::string& codec, Metadata metadata) {
  Column column;
  column.name = name;
  column.type = TypeNamed(type);
  column.nullable = nullable;
  column.is_key = is_key;
  if (dtype) column.dtype = TypeNamed(*dtype);
  column.shape = std::move(shape);
  column.SetCodec(CodecNamed(codec));
  column.metadata = std::move(metadata);
  return column;
}

nb::bytes EncodeArray(const std::string& dtype, const std::vector<uint64_t>& shape, const nb::bytes& data) {
  std::string value;
  Raise(AppendNdarray(TypeNamed(dtype), shape, {data.c_str(), data.size()}, &value));
  return nb::bytes(value.data(), value.size());
}

}  // namespace

void BindSchema(nb::module_& module) {
  nb::class_<Column>(module, "Column")
      .def(nb::new_(&MakeColumn), nb::arg("name"), nb::arg("type"), nb::kw_only(), nb::arg("nullable") = false,
           nb::arg("is_key") = false, nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::none(),
           nb::arg("codec") = "none", nb::arg("metadata") = Metadata())
      .def_ro("name", &Column::name)
      .def_prop_ro("type", [](const Column& column) { return TypeName(column.type); })
      .def_prop_ro("codec", [](const Column& column) { return CodecName(column.codec); })
      .def_ro("nullable", &Column::nullable)
      .def_ro("is_key", &Column::is_key)
      .def_prop_ro("dtype",
                   [](const Column& column) {
                     return column.type == Type::kNdarray ? std::optional(TypeName(column.dtype)) : std::nullopt;
                   })
      .def_ro("shape", &Column::shape)
      .def_prop_ro("storage", [](const Column& column) { return StorageName(column.storage); })
      .def_ro("metadata", &Column::metadata)
      // Empty where the column has none.
      .def_prop_ro("class_names", [](const Column& column) { return ValueOrRaise(ClassNames(column)); });
  module.def("encode_array", &EncodeArray);
  // The shape of a stored array of its own shape, and where its elements begin in the value.
  module.def("array_shape", [](const Column& column, const nb::bytearray& value) {
    const NdarrayView view = ValueOrRaise(ParseNdarray(column, {value.c_str(), value.size()}));
    return std::pair(view.shape, static_cast<size_t>(view.data.data() - value.c_str()));
  });
}

}  // namespace shardkit::bindings
