#include "gpu/kernels/kernels_cuda.h"
#include "gpu/kernels/normalize_body.h"
#include "gpu/kernels/rasterize_body.h"
#include "gpu/kernels/resample_body.h"

namespace shardkit::gpu {
namespace {

// `threads` of block_grid.h on the device.
struct DeviceThreads {
  template <typename Phase>
  __host__ __device__ void operator()(const Phase& phase) const {
#ifdef __CUDA_ARCH__
    phase(threadIdx.x);
    __syncthreads();
#endif
  }
};

__device__ BlockPlace Place() { return {{blockIdx.x, blockIdx.y, blockIdx.z}, {gridDim.x, gridDim.y, gridDim.z}}; }

template <typename Pixel, int kChannels>
__global__ void __launch_bounds__(kBlockThreads) NormalizeKernel(const __grid_constant__ NormalizeImages arguments) {
  __shared__ NormalizeShared<kChannels> shared;
  NormalizeBlock<Pixel, kChannels>(arguments, Place(), shared, DeviceThreads());
}

template <int kChannels>
__global__ void __launch_bounds__(kBlockThreads) HorizontalKernel(const __grid_constant__ ResampleImages arguments) {
  HorizontalBlock<kChannels>(arguments, Place(), DeviceThreads());
}

template <typename Pixel, int kChannels>
__global__ void __launch_bounds__(kBlockThreads) VerticalKernel(const __grid_constant__ ResampleImages arguments) {
  __shared__ VerticalShared<kChannels> shared;
  VerticalBlock<Pixel, kChannels>(arguments, Place(), shared, DeviceThreads());
}

__global__ void __launch_bounds__(kBlockThreads) SumRunsKernel(const __grid_constant__ RasterizeMasks arguments) {
  __shared__ SumRunsShared shared;
  SumRunsBlock(arguments, Place(), shared, DeviceThreads());
}

template <bool kPacked>
__global__ void __launch_bounds__(kBlockThreads, 4) RasterizeKernel(const __grid_constant__ RasterizeMasks arguments) {
  __shared__ RasterizeShared shared;
  RasterizeBlock<kPacked>(arguments, Place(), shared, DeviceThreads());
}

// The value is never below 0, but the compiler cannot know that. So it has to compute it, and `never` may be null.
__global__ void __launch_bounds__(kBlockThreads) SpinKernel(uint64_t rounds, float* never) {
  float value = static_cast<float>(threadIdx.x);
  for (uint64_t i = 0; i < rounds; ++i) value = fmaf(value, 0.999f, 0.5f);
  if (value < 0) *never = value;
}

dim3 Dim(const GridSize& grid) { return {grid.x, grid.y, grid.z}; }

bool IsEmpty(const GridSize& grid) { return grid.x == 0 || grid.y == 0 || grid.z == 0; }

}  // namespace

cudaError_t LaunchNormalize(const NormalizeImages& arguments, cudaStream_t stream) {
  const GridSize grid = NormalizeGrid(arguments);
  if (IsEmpty(grid)) return cudaSuccess;
  codec::WithPixelType(arguments.output.type, [&](auto pixel) {
    using Pixel = decltype(pixel);
    if (arguments.channels == 1) {
      NormalizeKernel<Pixel, 1><<<Dim(grid), kBlockThreads, 0, stream>>>(arguments);
    } else {
      NormalizeKernel<Pixel, 3><<<Dim(grid), kBlockThreads, 0, stream>>>(arguments);
    }
  });
  return cudaGetLastError();
}

cudaError_t LaunchResample(const ResampleImages& arguments, cudaStream_t stream) {
  const GridSize vertical = VerticalGrid(arguments);
  if (IsEmpty(vertical)) return cudaSuccess;
  const GridSize horizontal = HorizontalGrid(arguments);
  // Empty when there is no image at all.
  if (!IsEmpty(horizontal)) {
    if (arguments.channels == 1) {
      HorizontalKernel<1><<<Dim(horizontal), kBlockThreads, 0, stream>>>(arguments);
    } else {
      HorizontalKernel<3><<<Dim(horizontal), kBlockThreads, 0, stream>>>(arguments);
    }
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  codec::WithPixelType(arguments.output.type, [&](auto pixel) {
    using Pixel = decltype(pixel);
    if (arguments.channels == 1) {
      VerticalKernel<Pixel, 1><<<Dim(vertical), kBlockThreads, 0, stream>>>(arguments);
    } else {
      VerticalKernel<Pixel, 3><<<Dim(vertical), kBlockThreads, 0, stream>>>(arguments);
    }
  });
  return cudaGetLastError();
}

cudaError_t LaunchRasterize(const RasterizeMasks& arguments, cudaStream_t stream) {
  const GridSize grid = RasterizeGrid(arguments);
  if (IsEmpty(grid)) return cudaSuccess;
  SumRunsKernel<<<Dim(SumRunsGrid(arguments)), kBlockThreads, 0, stream>>>(arguments);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  if (arguments.packed) {
    RasterizeKernel<true><<<Dim(grid), kBlockThreads, 0, stream>>>(arguments);
  } else {
    RasterizeKernel<false><<<Dim(grid), kBlockThreads, 0, stream>>>(arguments);
  }
  return cudaGetLastError();
}

cudaError_t LaunchSpin(uint64_t rounds, cudaStream_t stream) {
  int device = 0;
  int multiprocessors = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      error != cudaSuccess) {
    return error;
  }
  // Two blocks keep the arithmetic units of a multiprocessor busy and leave room for the blocks of other kernels.
  SpinKernel<<<static_cast<unsigned>(2 * multiprocessors), kBlockThreads, 0, stream>>>(rounds, nullptr);
  return cudaGetLastError();
}

}  // namespace shardkit::gpu
