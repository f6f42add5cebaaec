// The parts of the extension module. Each adds its classes and functions to the module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <cstdint>
#include <optional>
#include <variant>

namespace shardkit::bindings {

// What arguments and results are for Python's type checkers; the build makes shardkit/_core.pyi of them.
using Any = nanobind::typed<nanobind::object, nanobind::any>;
using Dict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;
using DictList = nanobind::typed<nanobind::list, Dict>;
using StoredBytes =
    nanobind::typed<nanobind::object, std::optional<std::variant<nanobind::bytes, nanobind::bytearray>>>;
using WritableBytes = nanobind::ndarray<uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <typename T>
using Array = nanobind::typed<nanobind::object, nanobind::ndarray<nanobind::numpy, T>>;

void BindSchema(nanobind::module_& module);
void BindDataset(nanobind::module_& module);
void BindBlocks(nanobind::module_& module);
void BindBatch(nanobind::module_& module);
void BindLoader(nanobind::module_& module);
void BindSimulation(nanobind::module_& module);
void BindMasks(nanobind::module_& module);
void BindImages(nanobind::module_& module);
void BindReports(nanobind::module_& module);
void BindWriter(nanobind::module_& module);
void BindChanges(nanobind::module_& module);
void BindJobs(nanobind::module_& module);

}  // namespace shardkit::bindings
