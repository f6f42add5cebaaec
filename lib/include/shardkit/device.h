// Devices that can hold the batches of a loader (LoaderOptions::device), and their transfer speed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/job.h"

namespace shardkit {

struct DeviceInfo {
  std::string name = "host";  // as in LoaderOptions::device, with a number: "host", "cuda:0", "emulated"
  std::string description;    // "NVIDIA H100 80GB HBM3", "host memory"
  bool cuda = false;
  int index = 0;                 // number of the device among those of its kind
  std::optional<int> numa_node;  // of the device, if the system reports it
  uint64_t memory_bytes = 0;
  int compute_capability = 0;  // major * 10 + minor; 0 without CUDA
  std::string driver_version;  // "13.0"; empty without CUDA
  std::string runtime_version;
};

// A queue of work on a device, done in order. On a CUDA device a cudaStream_t; null is the default stream. Null on
// other devices.
using DeviceStream = void*;

// The CUDA devices of this process in CUDA's order; empty if CUDA works but there is no device. Unavailable if this
// build or this machine has no CUDA: the message says which, and how to get it.
absl::StatusOr<std::vector<DeviceInfo>> CudaDevices();

// "cuda:N", where N is the rank on this machine modulo the number of its devices. InvalidArgument for a negative rank;
// NotFound if there is no device; Unavailable as CudaDevices.
absl::StatusOr<std::string> DeviceForRank(int64_t local_rank);

// Sizes to measure, in bytes.
struct DeviceSizes {
  std::vector<uint64_t> copies = {uint64_t{1} << 20, uint64_t{16} << 20, uint64_t{256} << 20, uint64_t{1} << 30};
  std::vector<uint64_t> overlaps = {uint64_t{16} << 20, uint64_t{256} << 20};
};

// Copies queued one after another, timed by the device's own events.
struct CopyMeasurement {
  uint64_t bytes = 0;
  bool to_device = true;
  bool pinned = false;  // the host memory is page-locked
  double bytes_per_second = 0;
  std::string skipped;  // why it was not measured
};

// Uploads as the loader does them, and plain copies for comparison. Bytes per second.
struct UploadFigures {
  double ring = 0;   // slots of a ring of page-locked memory; each is acquired, queued and returned
  double plain = 0;  // copies from page-locked memory, all queued at once
  double ratio = 0;  // median of ring / plain over the rounds; each round measures both
};
struct UploadMeasurement {
  uint64_t bytes = 0;
  UploadFigures figures;
  std::string skipped;
};

// Device seconds of several transfers in a row, together at least 256 MiB.
struct OverlapFigures {
  double transfer_seconds = 0;  // alone
  double work_seconds = 0;      // alone
  double both_seconds = 0;      // both, in two streams that begin at the same time
  // Share of the shorter activity that overlaps with the longer one, 0 to 1: (transfer + work - both) / min(transfer,
  // work). 1: both together take no longer than the longer one alone.
  double score = 0;
};
struct OverlapMeasurement {
  uint64_t bytes = 0;
  OverlapFigures figures;
  std::string skipped;
};

struct DeviceMeasurements {
  DeviceInfo device;
  std::vector<CopyMeasurement> copies;  // for each size: to the device pageable and pinned, then from it
  std::vector<UploadMeasurement> uploads;
  std::vector<OverlapMeasurement> overlaps;
};

// Measures a device: copies, uploads through the loader's ring, and the overlap of copies with work. `device` as in
// LoaderOptions::device, with its errors; InvalidArgument for "host". Takes seconds if the device is emulated.
//
// Allocates the memory it needs, warms up, measures several times and returns medians. Uses at most half of the memory
// limit of this process. Skips sizes that need more than that or than the device has. Cancelled between two
// measurements; the message names the current one. `progress`, if set, is called before each experiment with the number
// of finished experiments and the total.
absl::StatusOr<DeviceMeasurements> MeasureDevice(std::string_view device, const DeviceSizes& sizes,
                                                 const Cancellation& cancellation,
                                                 const std::function<void(uint64_t, uint64_t)>& progress = nullptr);

}  // namespace shardkit
