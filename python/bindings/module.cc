// The extension module shardkit._core. It holds no logic: what it offers, the library does.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "status.h"

NB_MODULE(_core, module) {
  module.attr("__version__") = SHARDKIT_VERSION;
  using namespace shardkit::bindings;  // NOLINT: this file only calls them
  // A program that ends with an exception keeps objects in its traceback: nothing that its user has to know.
  nanobind::set_leak_warnings(false);
  BindErrors(module);
  BindSchema(module);
  BindDataset(module);
  BindBlocks(module);
  BindMasks(module);
  BindImages(module);
  BindReports(module);
  BindWriter(module);
  BindChanges(module);
  BindJobs(module);
  BindBatch(module);
  BindLoader(module);
  BindSimulation(module);
}
