// Batches as Python owns them. Their arrays keep the Python object, and with it the memory.
#pragma once

#include <memory>

#include "shardkit/loader.h"

namespace shardkit::bindings {

struct PythonBatch {
  std::shared_ptr<const Batch> batch;
};

}  // namespace shardkit::bindings
