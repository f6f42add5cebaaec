// shardctl bench
#include "bench_loop.h"
#include "bench_options.h"
#include "bench_report.h"
#include "bench_run.h"
#include "file_target.h"
#include "interrupt.h"
#include "numbers.h"
#include "output.h"
#include "page_cache.h"
#include "progress.h"
#include "report.h"
#include "verbs.h"

namespace shardctl {
namespace {

absl::StatusOr<shardkit::LoaderOptions> LoaderOptionsOf(const BenchArguments& arguments) {
  const auto dataset = OpenDataset(arguments.paths[0], arguments.read, {}, arguments.order.datasets[0].generation);
  if (!dataset.ok()) return dataset.status();
  auto columns = ChooseColumns((*dataset)->columns(), arguments.columns, arguments.decode,
                               static_cast<uint32_t>(arguments.context));
  if (!columns.ok()) {
    return absl::Status(columns.status().code(), arguments.paths[0] + ": " + std::string(columns.status().message()));
  }
  shardkit::LoaderOptions options;
  options.plan = arguments.order.plan;
  options.rank = arguments.order.rank.value_or(0);
  options.world_size = arguments.order.world_size;
  options.empty_batches = true;  // nobody takes a mean over them
  options.epochs = arguments.epochs;
  options.columns = *std::move(columns);
  options.geometry = arguments.decode.geometry;
  options.bad_samples = arguments.skip_errors ? shardkit::BadSamples::kSkip : shardkit::BadSamples::kFail;
  options.read = arguments.read;
  options.memory_bytes = arguments.memory;
  options.decode_threads = static_cast<int>(arguments.decode_threads);
  options.read_threads = static_cast<int>(arguments.read_threads);
  options.trace = arguments.trace.has_value();
  if (arguments.device.name.has_value()) options.device = *arguments.device.name;
  options.device_geometry = arguments.device.geometry;
  options.pinned_bytes = arguments.device.pinned_bytes;
  if (arguments.device.pixels == shardkit::Type::kU8) return options;
  for (shardkit::LoaderColumn& column : options.columns) {
    // The statistics of ImageNet that torchvision's models are trained with.
    constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};
    constexpr float kDeviation[3] = {0.229F, 0.224F, 0.225F};
    if (column.decode != shardkit::ColumnDecode::kImage) continue;
    column.output = shardkit::NormalizedOutput(arguments.device.pixels, kMean, kDeviation);
  }
  return options;
}

// The experiments that need no dataset.
absl::StatusOr<shardkit::DeviceMeasurements> MeasureCopies(const BenchArguments& arguments,
                                                           const shardkit::Cancellation& cancellation) {
  Progress progress("experiments");
  auto measurements = shardkit::MeasureDevice(*arguments.device.name, arguments.device.sizes, cancellation,
                                              [&](uint64_t done, uint64_t total) { progress.Update(done, total, 0); });
  // The reported peak is that of the loader's run, without the copies of up to a gigabyte.
  ForgetPeakResident();
  return measurements;
}

absl::StatusOr<BenchResult> Measure(const BenchArguments& arguments, const shardkit::Cancellation& cancellation) {
  BenchResult result;
  if (arguments.paths.empty()) {
    auto measured = MeasureCopies(arguments, cancellation);
    if (!measured.ok()) return measured.status();
    result.device = *std::move(measured);
    return result;
  }
  const absl::StatusOr<shardkit::LoaderOptions> options = LoaderOptionsOf(arguments);
  if (!options.ok()) return options.status();
  std::vector<std::string> files;
  for (const shardkit::LoaderDataset& dataset : arguments.order.datasets) {
    const auto found = FilesOfDataset(dataset.path, arguments.read, dataset.generation);
    if (!found.ok()) return found.status();
    files.insert(files.end(), found->begin(), found->end());
  }
  // Opened before the work, so that a path that cannot be written fails at once.
  std::unique_ptr<FileTarget> trace;
  if (arguments.trace.has_value()) {
    auto target = FileTarget::Open(*arguments.trace);
    if (!target.ok()) return target.status();
    trace = *std::move(target);
  }
  if (arguments.device.name.has_value()) {
    auto measured = MeasureCopies(arguments, cancellation);
    if (!measured.ok()) return measured.status();
    result.device = *std::move(measured);
  }
  if (arguments.cold) result.warm_reason = DropFromPageCache(files);
  if (!result.warm_reason.empty()) Note("--cold: " + result.warm_reason + ": what follows was read from memory");
  auto run = RunLoader(arguments, *options, cancellation);
  if (!run.ok()) return run.status();
  result.run = *std::move(run);
  if (!result.run.fallback_reason.empty()) Note(result.run.fallback_reason);
  if (trace != nullptr) {
    absl::Status status = trace->Append(result.run.trace);
    if (status.ok()) status = trace->Commit();
    if (!status.ok()) return status;
  }
  const auto ceilings = MeasureCeilings(arguments, files, *options, result.run.report, cancellation);
  if (!ceilings.ok()) return ceilings.status();
  result.ceilings = *ceilings;
  return result;
}

}  // namespace

int RunBench(int argc, char** argv) {
  BenchArguments arguments;
  if (const std::optional<int> code = ParseBenchArguments(argc, argv, &arguments)) return *code;
  const shardkit::Cancellation* cancellation = CancelOnSignal();
  const absl::StatusOr<BenchResult> result = Measure(arguments, *cancellation);
  if (absl::IsCancelled(result.status())) {
    PrintError("shardctl: interrupted; the measurement is not complete");
    return kExitEnvironment;
  }
  if (!result.ok()) return Fail(result.status());
  arguments.order.NoteClumps();
  if (arguments.json) {
    PrintBenchJson(arguments, *result);
  } else {
    PrintBench(arguments, *result);
  }
  const shardkit::LoaderReport& report = result->run.report;
  if (report.warned_images > 0) {
    Stdout().Flush();
    PrintError("shardctl: warning: " + Counted(report.warned_images, "image") + " decoded with a warning of libjpeg");
  }
  if (report.skipped == 0) return kExitSuccess;
  Stdout().Flush();
  for (const shardkit::BadSample& bad : report.first_skipped) {
    PrintError("shardctl: " + arguments.paths[bad.sample.dataset] + ": skipped sample " +
               std::to_string(bad.sample.ordinal) + " (epoch " + std::to_string(bad.epoch) +
               "): " + std::string(bad.status.message()));
  }
  PrintError("shardctl: " + Counted(report.skipped, "sample") + " skipped");
  return kExitSkipped;
}

}  // namespace shardctl
