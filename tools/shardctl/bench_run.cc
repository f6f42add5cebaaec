#include "bench_run.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "bench_loop.h"
#include "page_cache.h"
#include "progress.h"
#include "shardkit/remote.h"

namespace shardctl {

void SimulateStep(double seconds, const shardkit::Cancellation& cancellation) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (auto now = Clock::now(); now < end && !cancellation.cancelled(); now = Clock::now()) {
    std::this_thread::sleep_until(std::min(end, now + kNotice));
  }
}

// Not getrusage: its maximum includes the memory of the process that started this one.
uint64_t PeakResident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

void ForgetPeakResident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";  // resets only the peak, see proc(5)
}

shardkit::ReadableFileSystem& FilesToRead(const BenchArguments& arguments, const shardkit::Cancellation& cancellation,
                                          std::unique_ptr<shardkit::ReadableFileSystem>* slow) {
  shardkit::FileSystem& fast = *shardkit::DefaultFileSystem();
  if (!arguments.latency.has_value()) return fast;
  LatencyOptions options = *arguments.latency;
  options.cancellation = &cancellation;
  *slow = NewLatencyFileSystem(fast, options);
  return **slow;
}

absl::StatusOr<BenchRun> RunLoader(const BenchArguments& arguments, const shardkit::LoaderOptions& options,
                                   const shardkit::Cancellation& cancellation) {
  BenchRun run;
  const auto begin = Clock::now();
  std::unique_ptr<shardkit::ReadableFileSystem> slow;
  auto loader = shardkit::Loader::Open(FilesToRead(arguments, cancellation, &slow), arguments.order.datasets, options);
  if (!loader.ok()) return loader.status();
  run.open_seconds = SecondsSince(begin);
  run.plan_samples = (*loader)->plan().samples_per_epoch();
  const uint64_t steps = (*loader)->plan().StepsFrom(0);
  const uint64_t batches =
      steps > UINT64_MAX / options.epochs ? arguments.steps : std::min(arguments.steps, steps * options.epochs);
  Progress progress("batches");
  {
    const CancelLoader cancel(**loader, cancellation);  // its end takes time that is not the loader's
    uint64_t bytes = 0;
    double arrival = 0, first_arrival = 0;
    for (uint64_t i = 0; i < batches; ++i) {
      const auto batch = (*loader)->Next();
      if (!batch.ok()) return batch.status();
      if (*batch == nullptr) break;
      // A step begins when its arrays are on the device. The wait is counted with the step that ends here, like the
      // loader's own waits.
      if (i > 1) run.arrival_seconds += arrival;
      const auto taken = Clock::now();
      if (const absl::Status status = (*batch)->Synchronize(); !status.ok()) return status;
      arrival = SecondsSince(taken);
      if (i == 0) first_arrival = arrival;
      for (size_t c = 0; c < (*batch)->column_count(); ++c) bytes += (*batch)->column(c).values.size();
      progress.Update(i + 1, batches, bytes);
      SimulateStep(arguments.step_seconds, cancellation);
    }
    run.report = (*loader)->Report();
    run.report.first_batch_seconds += first_arrival;
    run.report.step_seconds = std::max(0.0, run.report.step_seconds - first_arrival);
    run.report.consumer_wait_seconds += run.arrival_seconds;
    run.cache = shardkit::ReadCacheTraffic();
  }
  if (const absl::Status status = cancellation.Check("reading"); !status.ok()) return status;
  run.trace = (*loader)->Trace();
  run.fallback_reason = (*loader)->fallback_reason();
  run.peak_resident = PeakResident();
  if (arguments.order.world_size > 1) {
    const uint64_t epoch = options.cursor.has_value() ? options.cursor->epoch : 0;
    const auto read = ReadAmplification((*loader)->plan(), epoch, arguments.order.world_size, kSamplesCounted);
    if (!read.ok()) return read.status();
    run.read_amplification = *read;
  }
  return run;
}

absl::StatusOr<Ceilings> MeasureCeilings(const BenchArguments& arguments, const std::vector<std::string>& files,
                                         const shardkit::LoaderOptions& options, const shardkit::LoaderReport& report,
                                         const shardkit::Cancellation& cancellation) {
  Ceilings ceilings;
  if (arguments.cold) ceilings.storage_cold = DropFromPageCache(files).empty();
  const auto storage = MeasureStorage(files, arguments.read.mode, report.read.threads, arguments.cold, cancellation);
  if (!storage.ok()) return storage.status();
  ceilings.storage = *storage;
  ceilings.memory_copy = MeasureMemoryCopy();
  for (const shardkit::LoaderColumn& column : options.columns) {
    if (column.decode != shardkit::ColumnDecode::kImage) continue;
    const auto jpeg =
        MeasureJpeg(arguments.order.datasets[0], column.name, arguments.read, report.decode.threads, cancellation);
    if (!jpeg.ok()) return jpeg.status();
    if (jpeg->images == 0) continue;  // the images have other formats
    ceilings.jpeg = *jpeg;
    break;
  }
  if (const absl::Status status = cancellation.Check("measuring the machine"); !status.ok()) return status;
  return ceilings;
}

}  // namespace shardctl
