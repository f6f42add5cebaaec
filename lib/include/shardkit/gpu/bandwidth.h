// What a device can do beside a loader: copies, uploads through the ring, what overlaps with what, masks.
//
// All of them allocate what they need, warm up, measure several times and return medians; they take seconds where the
// device is the host. ResourceExhausted, with the figures, for sizes that the device or the memory limit of this
// process does not allow: at most half of the limit is taken, memory of the host device included. Cancelled between two
// measurements, naming what was under way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/gpu/backend.h"

namespace shardkit::gpu {

// Bytes per second of copies of `bytes` > 0, queued one after the other, as the device's own events tell. `pinned`: the
// host's side is page-locked; otherwise it is ordinary memory, all of it touched before. Both sides are the device's
// for kDeviceToDevice.
absl::StatusOr<double> MeasureCopy(const std::shared_ptr<Backend>& backend, uint64_t bytes, CopyKind kind, bool pinned,
                                   const Cancellation& cancellation);

// Bytes per second.
struct UploadFigures {
  double ring = 0;   // slots of a StagingRing through an Uploader, each slot taken, queued and given back
  double plain = 0;  // Backend::Copy from page-locked memory, all queued at once
  double ratio = 0;  // ring / plain: the median over the rounds, in each of which both are measured
};

// The same number of transfers of `bytes` > 0 both ways, in turn.
absl::StatusOr<UploadFigures> MeasureUploads(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                             const Cancellation& cancellation);

// Seconds of the device, of several transfers in a row of together at least 256 MiB.
struct OverlapFigures {
  double transfer_seconds = 0;  // alone
  double work_seconds = 0;      // alone
  double both_seconds = 0;      // in two streams, begun at the same moment
  // What the shorter one hides of itself behind the other: (transfer + work - both) / min(transfer, work), in 0…1. 1:
  // both take no longer than the longer one alone.
  double score = 0;
};

// Transfers of `bytes` > 0 from page-locked memory, and as many pieces of arithmetic (Backend::Spin), each of which
// takes about as long as a transfer.
absl::StatusOr<OverlapFigures> MeasureOverlap(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                              const Cancellation& cancellation);

// Masks of one blob each, the same every time.
struct MaskSetup {
  uint32_t count = 100;
  uint32_t height = 1500;  // pixels, 16 or more
  uint32_t width = 2250;
  uint32_t columns = 209;  // of the blob: two runs each, and one more; 1 to width
};

struct MaskFigures {
  uint64_t dense_bytes = 0;
  uint64_t run_bytes = 0;
  double rasterize_seconds = 0;  // of the device: runs that are there to dense masks
  double fill_seconds = 0;       // of the device: Backend::Fill of the same bytes
  double runs_seconds = 0;       // runs from page-locked memory over the bus and rasterised, until the host knows of it
  double dense_seconds = 0;      // the same decoded by one thread to page-locked memory, and that uploaded

  double rasterize_ratio() const { return fill_seconds > 0 ? rasterize_seconds / fill_seconds : 0; }
  double speedup() const { return runs_seconds > 0 ? dense_seconds / runs_seconds : 0; }
};

// Internal when the masks on the device are not those that DecodeDense makes.
absl::StatusOr<MaskFigures> MeasureMasks(const std::shared_ptr<Backend>& backend, const MaskSetup& setup,
                                         const Cancellation& cancellation);

// All that is of interest about copies, in one go.
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
  std::vector<CopyMeasurement> copies;  // of each size: to the device pageable and pinned, from the device the same
  std::vector<UploadMeasurement> uploads;
  std::vector<OverlapMeasurement> overlaps;
};

// Sizes for which there is not the memory are skipped. `progress`, when there is one, is called before each experiment
// with the number of those done and of all.
absl::StatusOr<DeviceMeasurements> MeasureDevice(const std::shared_ptr<Backend>& backend, const DeviceSizes& sizes,
                                                 const Cancellation& cancellation,
                                                 const std::function<void(uint64_t, uint64_t)>& progress = nullptr);

}  // namespace shardkit::gpu
