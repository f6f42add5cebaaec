#include "bench_device.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "bench_loop.h"
#include "progress.h"
#include "shardkit/filesystem.h"

namespace shardctl {
namespace {

using shardkit::gpu::Backend;
using shardkit::gpu::DeviceBatch;

shardkit::gpu::DeviceLoaderOptions DeviceLoaderOptionsOf(const BenchArguments& arguments,
                                                         const shardkit::LoaderOptions& loader) {
  // The statistics of ImageNet that torchvision's models are trained with.
  constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};
  constexpr float kDeviation[3] = {0.229F, 0.224F, 0.225F};
  shardkit::gpu::DeviceLoaderOptions options;
  options.loader = loader;
  options.pinned_bytes = arguments.device.pinned_bytes;
  options.device_geometry = arguments.device.geometry;
  if (arguments.device.pixels == shardkit::Type::kU8) return options;
  for (shardkit::LoaderColumn& column : options.loader.columns) {
    if (column.decode != shardkit::ColumnDecode::kImage) continue;
    column.output = shardkit::NormalizedOutput(arguments.device.pixels, kMean, kDeviation);
  }
  return options;
}

// A trainer's own stream.
class ConsumerStream {
 public:
  static absl::StatusOr<std::unique_ptr<ConsumerStream>> Create(Backend& device) {
    const auto stream = device.CreateStream();
    if (!stream.ok()) return stream.status();
    return std::unique_ptr<ConsumerStream>(new ConsumerStream(device, *stream));
  }
  ~ConsumerStream() {
    (void)device_.SynchronizeStream(stream_);
    device_.DestroyStream(stream_);
  }
  ConsumerStream(const ConsumerStream&) = delete;
  ConsumerStream& operator=(const ConsumerStream&) = delete;

  shardkit::gpu::Stream get() const { return stream_; }

 private:
  ConsumerStream(Backend& device, shardkit::gpu::Stream stream) : device_(device), stream_(stream) {}

  Backend& device_;
  const shardkit::gpu::Stream stream_;
};

uint64_t BytesOf(const DeviceBatch& batch) {
  uint64_t bytes = 0;
  for (size_t c = 0; c < batch.column_count(); ++c) bytes += batch.column(c).bytes;
  return bytes;
}

// The loader's report, with the figures of the consumer of the device's batches.
shardkit::LoaderReport ForConsumer(const DeviceEpoch& epoch, double first_arrival_seconds, uint64_t bytes) {
  const shardkit::gpu::DeviceReport& device = epoch.report;
  shardkit::LoaderReport report = device.loader;
  report.seconds = device.seconds;
  report.batches = device.batches;
  report.samples = device.samples;
  report.bytes = bytes;
  report.first_batch_seconds = device.first_batch_seconds + first_arrival_seconds;
  report.step_seconds = std::max(0.0, device.step_seconds - first_arrival_seconds);
  report.consumer_wait_seconds = device.consumer_wait_seconds + epoch.arrival_seconds;
  return report;
}

}  // namespace

absl::StatusOr<DeviceResult> MeasureCopies(const BenchArguments& arguments, const std::shared_ptr<Backend>& device,
                                           const shardkit::Cancellation& cancellation) {
  Progress progress("experiments");
  auto measurements =
      shardkit::gpu::MeasureDevice(device, arguments.device.sizes, cancellation,
                                   [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); });
  if (!measurements.ok()) return measurements.status();
  // The reported peak is that of the loader's run, without the copies of up to a gigabyte.
  ForgetPeakResident();
  return DeviceResult{device->info(), *std::move(measurements), std::nullopt};
}

absl::StatusOr<BenchRun> RunDeviceLoader(const BenchArguments& arguments, const shardkit::LoaderOptions& options,
                                         const std::shared_ptr<Backend>& device,
                                         const shardkit::Cancellation& cancellation, DeviceEpoch* epoch) {
  BenchRun run;
  const auto begin = Clock::now();
  std::unique_ptr<shardkit::ReadableFileSystem> slow;
  auto loader = shardkit::gpu::DeviceLoader::Open(device, FilesToRead(arguments, cancellation, &slow),
                                                  arguments.order.datasets, DeviceLoaderOptionsOf(arguments, options));
  if (!loader.ok()) return loader.status();
  run.open_seconds = SecondsSince(begin);
  run.plan_samples = (*loader)->plan().samples_per_epoch();
  const uint64_t steps = (*loader)->plan().StepsFrom(0);
  const uint64_t batches =
      steps > UINT64_MAX / options.epochs ? arguments.steps : std::min(arguments.steps, steps * options.epochs);
  const auto stream = ConsumerStream::Create(*device);
  if (!stream.ok()) return stream.status();
  Progress progress("batches");
  uint64_t bytes = 0;
  double first_arrival = 0;
  {
    const CancelLoader<shardkit::gpu::DeviceLoader> cancel(**loader, cancellation);
    // A trainer keeps a batch until it has the next one.
    std::shared_ptr<const DeviceBatch> held;
    double arrival = 0;
    for (uint64_t i = 0; i < batches; ++i) {
      auto batch = (*loader)->Next();
      if (!batch.ok()) return batch.status();
      if (*batch == nullptr) break;
      // Counted with the step that ends here, like the loader's own waits.
      if (i > 1) epoch->arrival_seconds += arrival;
      held = *std::move(batch);
      const auto taken = Clock::now();
      absl::Status status = held->WaitOn((*stream)->get());
      // A step begins when its arrays are on the device.
      if (status.ok()) status = held->Synchronize();
      if (!status.ok()) return status;
      arrival = SecondsSince(taken);
      if (i == 0) first_arrival = arrival;
      bytes += BytesOf(*held);
      progress.Update(i + 1, batches, bytes);
      SimulateStep(arguments.step_seconds, cancellation);
    }
    epoch->report = (*loader)->Report();
  }
  if (const absl::Status status = cancellation.Check("reading"); !status.ok()) return status;
  run.report = ForConsumer(*epoch, first_arrival, bytes);
  run.trace = (*loader)->Trace();
  run.fallback_reason = (*loader)->fallback_reason();
  run.peak_resident = PeakResident();
  return run;
}

}  // namespace shardctl
