// Measures a device: copies, uploads through the ring, overlap of copies and work, masks.
//
// All functions allocate what they need, warm up, measure several times and return medians. They take seconds when the
// device is the host. They use at most half of the memory limit of this process, including memory of the host device.
// ResourceExhausted, with the figures, for sizes that exceed that or the device's memory. Cancelled between two
// measurements, naming the current one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/gpu/backend.h"
#include "shardkit/job.h"

namespace shardkit::gpu {

// Bytes per second of copies of `bytes` > 0, queued one after the other, by the device's own events. `pinned`: the
// host's side is page-locked; otherwise it is ordinary memory that was touched before. With kDeviceToDevice both sides
// are on the device.
absl::StatusOr<double> MeasureCopy(const std::shared_ptr<Backend>& backend, uint64_t bytes, CopyKind kind, bool pinned,
                                   const Cancellation& cancellation);

// Bytes per second.
struct UploadFigures {
  double ring = 0;   // slots of a StagingRing through an Uploader; each is acquired, queued and returned
  double plain = 0;  // Backend::Copy from page-locked memory, all queued at once
  double ratio = 0;  // median of ring / plain over the rounds; each round measures both
};

// Runs the same number of transfers of `bytes` > 0 in both ways, alternately.
absl::StatusOr<UploadFigures> MeasureUploads(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                             const Cancellation& cancellation);

// Device seconds of several transfers in a row, together at least 256 MiB.
struct OverlapFigures {
  double transfer_seconds = 0;  // alone
  double work_seconds = 0;      // alone
  double both_seconds = 0;      // in two streams that begin at the same time
  // The share of the shorter one that overlaps with the longer one, 0 to 1: (transfer + work - both) / min(transfer,
  // work). 1: both together take no longer than the longer one alone.
  double score = 0;
};

// Transfers of `bytes` > 0 from page-locked memory, and as many pieces of arithmetic (Backend::Spin). Each piece takes
// about as long as a transfer.
absl::StatusOr<OverlapFigures> MeasureOverlap(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                              const Cancellation& cancellation);

// All masks have one blob each, the same every time.
struct MaskSetup {
  uint32_t count = 100;
  uint32_t height = 1500;  // pixels, 16 or more
  uint32_t width = 2250;
  uint32_t columns = 209;  // of the blob: 1 to width; the mask has 2 * columns + 1 runs
};

struct MaskFigures {
  uint64_t dense_bytes = 0;
  uint64_t run_bytes = 0;
  double rasterize_seconds = 0;  // device time, from runs on the device to dense masks
  double fill_seconds = 0;       // device time of Backend::Fill with the same bytes
  double runs_seconds = 0;       // upload runs from page-locked memory and rasterise, until the host sees the end
  double dense_seconds = 0;      // decode on one thread to page-locked memory and upload the dense masks

  double rasterize_ratio() const { return fill_seconds > 0 ? rasterize_seconds / fill_seconds : 0; }
  double speedup() const { return runs_seconds > 0 ? dense_seconds / runs_seconds : 0; }
};

// Internal when the masks on the device differ from those of DecodeDense.
absl::StatusOr<MaskFigures> MeasureMasks(const std::shared_ptr<Backend>& backend, const MaskSetup& setup,
                                         const Cancellation& cancellation);

// The sizes that MeasureDevice measures.
struct DeviceSizes {
  std::vector<uint64_t> copies = {uint64_t{1} << 20, uint64_t{16} << 20, uint64_t{256} << 20, uint64_t{1} << 30};
  std::vector<uint64_t> overlaps = {uint64_t{16} << 20, uint64_t{256} << 20};
};

struct CopyMeasurement {
  uint64_t bytes = 0;
  CopyKind kind = CopyKind::kHostToDevice;
  bool pinned = false;
  double bytes_per_second = 0;
  std::string skipped;  // why it was not measured
};
struct UploadMeasurement {
  uint64_t bytes = 0;
  UploadFigures figures;
  std::string skipped;
};
struct OverlapMeasurement {
  uint64_t bytes = 0;
  OverlapFigures figures;
  std::string skipped;
};

struct DeviceMeasurements {
  std::vector<CopyMeasurement> copies;  // for each size: pageable and pinned to the device, the same from it
  std::vector<UploadMeasurement> uploads;
  std::vector<OverlapMeasurement> overlaps;
};

// Skips sizes that need too much memory. `progress`, if set, is called before each experiment with the numbers of
// finished and of all experiments.
absl::StatusOr<DeviceMeasurements> MeasureDevice(const std::shared_ptr<Backend>& backend, const DeviceSizes& sizes,
                                                 const Cancellation& cancellation,
                                                 const std::function<void(uint64_t, uint64_t)>& progress = nullptr);

}  // namespace shardkit::gpu
