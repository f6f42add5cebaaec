// What bench does with a device.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "bench_options.h"
#include "bench_run.h"
#include "shardkit/cancellation.h"
#include "shardkit/gpu/backend.h"
#include "shardkit/gpu/bandwidth.h"
#include "shardkit/gpu/device_loader.h"
#include "shardkit/loader.h"

namespace shardctl {

struct DeviceEpoch {
  shardkit::gpu::DeviceReport report;
  double arrival_seconds =
      0;  // for batches that Next had returned and whose arrays were on their way still, the first one apart
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

// As RunLoader, onto the device. In the run's report the consumer is the one of the batches on the device, and its
// waits include those for arrays on their way.
absl::StatusOr<BenchRun> RunDeviceLoader(const BenchArguments& arguments, const shardkit::LoaderOptions& options,
                                         const std::shared_ptr<shardkit::gpu::Backend>& device,
                                         const shardkit::Cancellation& cancellation, DeviceEpoch* epoch);

}  // namespace shardctl
