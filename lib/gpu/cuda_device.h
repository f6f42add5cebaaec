// CUDA devices, or a stub in builds without CUDA.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "gpu/backend.h"

namespace shardkit::gpu {

// `index` counts from 0. Errors are those of OpenDevice.
absl::StatusOr<std::shared_ptr<Backend>> OpenCudaDevice(int index);

}  // namespace shardkit::gpu
