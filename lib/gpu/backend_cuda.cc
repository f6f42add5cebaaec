// A CUDA device. Links only the CUDA runtime. NVTX has only headers.
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/backend.h"
#include "gpu/host_memory.h"
#include "gpu/kernels/kernels_cuda.h"

namespace shardkit {
namespace gpu {
namespace {

absl::Status ToStatus(cudaError_t error, const std::string& device, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text =
      StrCat(device, ": ", call, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
  // CUDA keeps the error for the next call of cudaGetLastError. The caller's own code should not find ours.
  (void)cudaGetLastError();
  return error == cudaErrorMemoryAllocation ? ResourceExhausted(text) : Internal(text);
}

std::string VersionText(int version) { return StrCat(version / 1000, ".", version % 1000 / 10); }

// Unavailable, with what is wrong and what to do, when CUDA does not work at all.
absl::StatusOr<int> CountDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  (void)cudaGetLastError();
  if (error == cudaErrorNoDevice) return 0;
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  return Unavailable("CUDA: ", cudaGetErrorString(error), "; the driver ",
                     driver == 0 ? "is missing" : StrCat("is for CUDA ", VersionText(driver)),
                     ", this build is for CUDA ", VersionText(runtime),
                     ". Install NVIDIA's driver, or use the device \"host\"");
}

// The node of the PCI device, as Linux tells it.
std::optional<int> NumaNode(const cudaDeviceProp& properties) {
  char name[64];
  std::snprintf(name, sizeof(name), "%04x:%02x:%02x.0", properties.pciDomainID, properties.pciBusID,
                properties.pciDeviceID);
  std::ifstream file(StrCat("/sys/bus/pci/devices/", name, "/numa_node"));
  int node = -1;
  if (file >> node && node >= 0) return node;
  return std::nullopt;
}

absl::StatusOr<DeviceInfo> Describe(int index) {
  DeviceInfo info;
  info.name = StrCat("cuda:", index);
  cudaDeviceProp properties;
  SHARDKIT_RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, index), info.name, "cudaGetDeviceProperties"));
  info.description = properties.name;
  info.cuda = true;
  info.index = index;
  info.numa_node = NumaNode(properties);
  info.memory_bytes = properties.totalGlobalMem;
  info.compute_capability = properties.major * 10 + properties.minor;
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) info.driver_version = VersionText(version);
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) info.runtime_version = VersionText(version);
  return info;
}

// Changes the thread's current device for one call. The device before belongs to the caller, so it is restored.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : device_(device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = -1;
    if (before_ != device) error_ = cudaSetDevice(device);
  }
  ~CurrentDevice() {
    if (before_ >= 0 && before_ != device_) (void)cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  cudaError_t error() const { return error_; }

 private:
  const int device_;
  int before_ = -1;
  cudaError_t error_ = cudaSuccess;
};

cudaStream_t CudaStreamOf(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t CudaEventOf(Event event) { return static_cast<cudaEvent_t>(event); }

cudaMemcpyKind KindOf(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return cudaMemcpyHostToDevice;
    case CopyKind::kDeviceToHost:
      return cudaMemcpyDeviceToHost;
    case CopyKind::kDeviceToDevice:
      return cudaMemcpyDeviceToDevice;
  }
  return cudaMemcpyDefault;
}

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(DeviceInfo info) : info_(std::move(info)) {}

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<void*> AllocateDevice(uint64_t bytes) override {
    void* memory = nullptr;
    SHARDKIT_RETURN_IF_ERROR(Call("cudaMalloc", [&] { return cudaMalloc(&memory, bytes); }));
    return memory;
  }
  void FreeDevice(void* memory, uint64_t /*bytes*/) override {
    (void)Call("cudaFree", [&] { return cudaFree(memory); });
  }

  absl::StatusOr<void*> AllocatePinned(uint64_t bytes) override {
    void* memory = nullptr;
    // The pages get their node when they are locked, which is within the call.
    const PreferNumaNode prefer(info_.numa_node);
    SHARDKIT_RETURN_IF_ERROR(
        Call("cudaHostAlloc", [&] { return cudaHostAlloc(&memory, bytes, cudaHostAllocPortable); }));
    return memory;
  }
  void FreePinned(void* memory, uint64_t /*bytes*/) override {
    (void)Call("cudaFreeHost", [&] { return cudaFreeHost(memory); });
  }

  absl::StatusOr<Stream> CreateStream() override {
    cudaStream_t stream = nullptr;
    SHARDKIT_RETURN_IF_ERROR(
        Call("cudaStreamCreateWithFlags", [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }));
    return static_cast<Stream>(stream);
  }
  void DestroyStream(Stream stream) override {
    if (stream != nullptr) (void)Call("cudaStreamDestroy", [&] { return cudaStreamDestroy(CudaStreamOf(stream)); });
  }
  absl::Status SynchronizeStream(Stream stream) override {
    return Call("cudaStreamSynchronize", [&] { return cudaStreamSynchronize(CudaStreamOf(stream)); });
  }

  absl::StatusOr<Event> CreateEvent(bool timing) override {
    cudaEvent_t event = nullptr;
    const unsigned flags = cudaEventBlockingSync | (timing ? 0u : cudaEventDisableTiming);
    SHARDKIT_RETURN_IF_ERROR(Call("cudaEventCreateWithFlags", [&] { return cudaEventCreateWithFlags(&event, flags); }));
    return static_cast<Event>(event);
  }
  void DestroyEvent(Event event) override {
    (void)Call("cudaEventDestroy", [&] { return cudaEventDestroy(CudaEventOf(event)); });
  }
  absl::Status Record(Event event, Stream stream) override {
    return Call("cudaEventRecord", [&] { return cudaEventRecord(CudaEventOf(event), CudaStreamOf(stream)); });
  }
  absl::Status Wait(Stream stream, Event event) override {
    return Call("cudaStreamWaitEvent",
                [&] { return cudaStreamWaitEvent(CudaStreamOf(stream), CudaEventOf(event), 0); });
  }
  absl::StatusOr<bool> Query(Event event) override {
    bool reached = true;
    SHARDKIT_RETURN_IF_ERROR(Call("cudaEventQuery", [&] {
      const cudaError_t error = cudaEventQuery(CudaEventOf(event));
      if (error != cudaErrorNotReady) return error;
      (void)cudaGetLastError();
      reached = false;
      return cudaSuccess;
    }));
    return reached;
  }
  absl::Status Synchronize(Event event) override {
    return Call("cudaEventSynchronize", [&] { return cudaEventSynchronize(CudaEventOf(event)); });
  }
  absl::StatusOr<double> ElapsedSeconds(Event begin, Event end) override {
    float milliseconds = 0;
    SHARDKIT_RETURN_IF_ERROR(Call("cudaEventElapsedTime", [&] {
      return cudaEventElapsedTime(&milliseconds, CudaEventOf(begin), CudaEventOf(end));
    }));
    return static_cast<double>(milliseconds) / 1000;
  }

  absl::Status Copy(void* to, const void* from, uint64_t bytes, CopyKind kind, Stream stream) override {
    if (bytes == 0) return absl::OkStatus();
    return Call("cudaMemcpyAsync",
                [&] { return cudaMemcpyAsync(to, from, bytes, KindOf(kind), CudaStreamOf(stream)); });
  }
  absl::Status Fill(void* to, uint8_t value, uint64_t bytes, Stream stream) override {
    if (bytes == 0) return absl::OkStatus();
    return Call("cudaMemsetAsync", [&] { return cudaMemsetAsync(to, value, bytes, CudaStreamOf(stream)); });
  }
  absl::Status Launch(const NormalizeImages& arguments, Stream stream) override {
    return Call("normalize kernel", [&] { return LaunchNormalize(arguments, CudaStreamOf(stream)); });
  }
  absl::Status Launch(const ResampleImages& arguments, Stream stream) override {
    return Call("resample kernels", [&] { return LaunchResample(arguments, CudaStreamOf(stream)); });
  }
  absl::Status Launch(const RasterizeMasks& arguments, Stream stream) override {
    return Call("mask kernels", [&] { return LaunchRasterize(arguments, CudaStreamOf(stream)); });
  }
  absl::Status Spin(uint64_t rounds, Stream stream) override {
    return Call("spin kernel", [&] { return LaunchSpin(rounds, CudaStreamOf(stream)); });
  }

  void PushRange(const char* name) override { (void)nvtxRangePushA(name); }
  void PopRange() override { (void)nvtxRangePop(); }

 private:
  template <typename Function>
  absl::Status Call(const char* name, Function function) const {
    const CurrentDevice current(info_.index);
    return ToStatus(current.error() != cudaSuccess ? current.error() : function(), info_.name, name);
  }

  const DeviceInfo info_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Backend>> OpenCudaDevice(int index) {
  SHARDKIT_ASSIGN_OR_RETURN(const int count, CountDevices());
  if (index >= count) {
    return NotFound("cuda:", index, ": this machine has ",
                    count == 0 ? "no CUDA device" : StrCat(count, " CUDA devices, counted from 0"),
                    "; CUDA_VISIBLE_DEVICES may hide some");
  }
  SHARDKIT_ASSIGN_OR_RETURN(DeviceInfo info, Describe(index));
  return std::make_shared<CudaBackend>(std::move(info));
}

}  // namespace gpu

absl::StatusOr<std::vector<DeviceInfo>> CudaDevices() {
  SHARDKIT_ASSIGN_OR_RETURN(const int count, gpu::CountDevices());
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(DeviceInfo info, gpu::Describe(i));
    devices.push_back(std::move(info));
  }
  return devices;
}

}  // namespace shardkit
