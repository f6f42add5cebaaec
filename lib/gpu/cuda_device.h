// CUDA devices, or the stub that stands in for them where CUDA is compiled out.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "shardkit/gpu/backend.h"

namespace shardkit::gpu {

// Counted from 0; errors as OpenDevice's.
absl::StatusOr<std::shared_ptr<Backend>> OpenCudaDevice(int index);

}  // namespace shardkit::gpu
