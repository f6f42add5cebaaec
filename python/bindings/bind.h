// The parts of the extension module. Each adds its classes and functions to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace shardkit::bindings {

void BindSchema(nanobind::module_& module);
void BindDataset(nanobind::module_& module);
void BindBlocks(nanobind::module_& module);
void BindBatch(nanobind::module_& module);
void BindLoader(nanobind::module_& module);
void BindSimulation(nanobind::module_& module);
void BindDevice(nanobind::module_& module);
void BindMasks(nanobind::module_& module);
void BindImages(nanobind::module_& module);
void BindWriter(nanobind::module_& module);
void BindChanges(nanobind::module_& module);
void BindJobs(nanobind::module_& module);

}  // namespace shardkit::bindings
