// Measures a device: copies, uploads through the ring, overlap of copies and work, masks.
//
// All functions allocate what they need, warm up, measure several times and return medians. They take seconds when the
// device is emulated. They use at most half of the memory limit of this process, including memory of the emulated
// device. ResourceExhausted, with the figures, for sizes that exceed that or the device's memory. Cancelled between two
// measurements, naming the current one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/backend.h"
#include "shardkit/job.h"

namespace shardkit::gpu {

// Bytes per second of copies of `bytes` > 0, queued one after the other, by the device's own events. `pinned`: the
// host's side is page-locked; otherwise it is ordinary memory that was touched before. With kDeviceToDevice both sides
// are on the device.
absl::StatusOr<double> MeasureCopy(const std::shared_ptr<Backend>& backend, uint64_t bytes, CopyKind kind, bool pinned,
                                   const Cancellation& cancellation);

// Runs the same number of transfers of `bytes` > 0 in both ways, alternately.
absl::StatusOr<UploadFigures> MeasureUploads(const std::shared_ptr<Backend>& backend, uint64_t bytes,
                                             const Cancellation& cancellation);

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

}  // namespace shardkit::gpu
