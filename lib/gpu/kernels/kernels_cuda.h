// Queue the kernels (kernels.h) in a stream of the current CUDA device. Errors are those of the launch, not of the
// work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/kernels/kernels.h"

namespace shardkit::gpu {

cudaError_t LaunchNormalize(const NormalizeImages& arguments, cudaStream_t stream);
cudaError_t LaunchResample(const ResampleImages& arguments, cudaStream_t stream);
cudaError_t LaunchRasterize(const RasterizeMasks& arguments, cudaStream_t stream);

// Keeps every multiprocessor busy with arithmetic for a time proportional to `rounds`, without touching memory.
cudaError_t LaunchSpin(uint64_t rounds, cudaStream_t stream);

}  // namespace shardkit::gpu
