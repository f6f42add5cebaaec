// A batch as Python owns it. Its arrays keep the Python object, and with it the memory.
#pragma once

#include <memory>

#include "shardkit/batch.h"

namespace shardkit::bindings {

struct PythonBatch {
  std::shared_ptr<const Batch> batch;
};

}  // namespace shardkit::bindings
