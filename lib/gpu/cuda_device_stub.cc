// Replaces backend_cuda.cc in builds without CUDA.
#include "base/errors.h"
#include "gpu/backend.h"

namespace shardkit {
namespace gpu {
namespace {

absl::Status CompiledOut() {
  return Unavailable(
      "CUDA: this build of Shardkit is without it. Install the CUDA Toolkit (12 or later), see that nvcc is in PATH or "
      "in "
      "/usr/local/cuda/bin, and build with meson setup -Dcuda=enabled; or use the device \"host\"");
}

}  // namespace

absl::StatusOr<std::shared_ptr<Backend>> OpenCudaDevice(int /*index*/) { return CompiledOut(); }

}  // namespace gpu

absl::StatusOr<std::vector<DeviceInfo>> CudaDevices() { return gpu::CompiledOut(); }

}  // namespace shardkit
