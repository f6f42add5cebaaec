// The measurements of bench on a device.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "bench_options.h"
#include "bench_run.h"
#include "shardkit/gpu/backend.h"
#include "shardkit/gpu/bandwidth.h"
#include "shardkit/gpu/device_loader.h"
#include "shardkit/job.h"
#include "shardkit/loader.h"

namespace shardctl {

struct DeviceEpoch {
  shardkit::gpu::DeviceReport report;
  double arrival_seconds =
      0;  // waiting for arrays still on their way after Next returned their batch; without the first batch
};

struct DeviceResult {
  shardkit::gpu::DeviceInfo info;
  shardkit::gpu::DeviceMeasurements measurements;
  std::optional<DeviceEpoch> epoch;
};

// The experiments that need no dataset.
absl::StatusOr<DeviceResult> MeasureCopies(const BenchArguments& arguments,
                                           const std::shared_ptr<shardkit::gpu::Backend>& device,
                                           const shardkit::Cancellation& cancellation);

// Like RunLoader, with batches on the device. The consumer in the run's report is the consumer of these batches. Its
// waits include the waits for arrays on their way to the device.
absl::StatusOr<BenchRun> RunDeviceLoader(const BenchArguments& arguments, const shardkit::LoaderOptions& options,
                                         const std::shared_ptr<shardkit::gpu::Backend>& device,
                                         const shardkit::Cancellation& cancellation, DeviceEpoch* epoch);

}  // namespace shardctl
