#include <charconv>

#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/backend.h"
#include "gpu/host_backend.h"

namespace shardkit {
namespace gpu {

absl::StatusOr<std::shared_ptr<Backend>> OpenDevice(std::string_view name) {
  if (name == "emulated") return std::make_shared<HostBackend>();
  int index = 0;
  if (name.starts_with("cuda:")) {
    const std::string_view number = name.substr(5);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error != std::errc() || end != number.data() + number.size() || index < 0) index = -1;
  } else if (name != "cuda") {
    index = -1;
  }
  if (index < 0)
    return InvalidArgument("device \"", name, "\": give \"cuda\", \"cuda:N\" with N from 0, or \"emulated\"");
  return OpenCudaDevice(index);
}

}  // namespace gpu

absl::StatusOr<std::string> DeviceForRank(int64_t local_rank) {
  if (local_rank < 0) return InvalidArgument("device: a local rank of ", local_rank, "; ranks are counted from 0");
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, CudaDevices());
  if (devices.empty()) return NotFound("device: this machine has no CUDA device for local rank ", local_rank);
  return devices[static_cast<size_t>(local_rank) % devices.size()].name;
}

}  // namespace shardkit
