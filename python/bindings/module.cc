// The extension module shardkit._core. It holds no logic: what it offers, the library does.
#include <nanobind/nanobind.h>

#include "status.h"

NB_MODULE(_core, module) {
  module.attr("__version__") = SHARDKIT_VERSION;
  shardkit::bindings::BindErrors(module);
}
