// Measures a device and the transfers to it, and prints a table with the targets.
//
//   gpu_bench [--device NAME] [--dataset DIR] [--steps N] [--output FILE]
//
// NAME is cuda:0 by default; emulated replaces it on machines without a GPU. Without --dataset, photographs are made in
// a temporary folder. --output also writes the table to a file.
#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/backend.h"
#include "gpu/bandwidth.h"
#include "photos.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/loader.h"
#include "shardkit/pack.h"
#include "timing.h"

using namespace shardkit;
using namespace shardkit::bench;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kStepSeconds = 0.0946;
constexpr uint64_t kPhotos = 256;

struct Arguments {
  std::string device = "cuda:0";
  std::optional<std::string> dataset;
  uint64_t steps = 100;
  std::optional<std::string> output;
};

[[noreturn]] void Usage() {
  std::fprintf(stderr, "usage: gpu_bench [--device NAME] [--dataset DIR] [--steps N] [--output FILE]\n");
  std::exit(2);
}

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) Usage();
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--device") {
      arguments.device = value;
    } else if (name == "--dataset") {
      arguments.dataset = value;
    } else if (name == "--steps") {
      arguments.steps = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--output") {
      arguments.output = value;
    } else {
      Usage();
    }
  }
  // The first step is not counted.
  if (arguments.steps < 3) Usage();
  return arguments;
}

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

class ResultTable {
 public:
  void Row(const std::string& what, const std::string& measured, const std::string& target = "") {
    text_ += "| " + what + " | " + measured + " | " + target + " |\n";
    std::fprintf(stderr, "%-78s %14s %s\n", what.c_str(), measured.c_str(), target.c_str());
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "| What | Measured | Target |\n|---|---|---|\n";
};

std::string Machine(const DeviceInfo& info) {
  std::string processor = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    processor = line.substr(line.find(':') + 2);
    break;
  }
  std::string text = "Machine: " + processor + ", " + std::to_string(std::thread::hardware_concurrency()) +
                     " processors; " + info.name + ": " + info.description;
  if (info.cuda) text += ", driver for CUDA " + info.driver_version + ", built for CUDA " + info.runtime_version;
  return text + ".";
}

std::string Mebibytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

void MeasureBus(const std::string& device, const Cancellation& none, ResultTable* table) {
  const auto measured = Must(MeasureDevice(device, {}, none));
  for (const CopyMeasurement& copy : measured.copies) {
    table->Row(std::string(copy.to_device ? "to the device, " : "from the device, ") +
                   (copy.pinned ? "page-locked, " : "pageable, ") + Mebibytes(copy.bytes),
               copy.skipped.empty() ? Format("%.2f GB/s", copy.bytes_per_second / 1e9) : "skipped: " + copy.skipped);
  }
  for (const UploadMeasurement& upload : measured.uploads) {
    table->Row("through the ring / plain copy from page-locked memory, " + Mebibytes(upload.bytes),
               upload.skipped.empty() ? Format("%.3f x", upload.figures.ratio) : "skipped: " + upload.skipped, "0.97");
  }
  for (const OverlapMeasurement& overlap : measured.overlaps) {
    table->Row("overlap of copies and work, " + Mebibytes(overlap.bytes),
               overlap.skipped.empty() ? Format("%.3f", overlap.figures.score) : "skipped: " + overlap.skipped,
               overlap.bytes >= uint64_t{256} << 20 ? "0.99" : "0.95");
  }
}

void MeasureRuns(const std::shared_ptr<gpu::Backend>& device, const Cancellation& none, ResultTable* table) {
  const gpu::MaskSetup setup;
  const std::string masks =
      std::to_string(setup.count) + " masks of " + std::to_string(setup.height) + " x " + std::to_string(setup.width);
  const auto measured = gpu::MeasureMasks(device, setup, none);
  if (absl::IsResourceExhausted(measured.status())) {
    table->Row(masks, "skipped: " + std::string(measured.status().message()));
    return;
  }
  const gpu::MaskFigures figures = Must(measured);
  table->Row(masks + ": runs to pixels / fill of the same bytes, time", Format("%.2f x", figures.rasterize_ratio()),
             "at most 1.5");
  table->Row(masks + ": fill of the device", Format("%.3f ms", 1000 * figures.fill_seconds));
  table->Row(masks + ": runs over the bus and to pixels", Format("%.3f ms", 1000 * figures.runs_seconds));
  table->Row(masks + ": decoded by one thread, pixels over the bus", Format("%.3f ms", 1000 * figures.dense_seconds));
  table->Row(masks + ": the one / the other, speed", Format("%.1f x", figures.speedup()), "50");
}

// A temporary folder, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* const base = std::getenv("TMPDIR");
    path_ = std::string(base == nullptr || *base == 0 ? "/tmp" : base) + "/shardkit-gpu-bench-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) {
      std::fprintf(stderr, "gpu_bench: %s: %s\n", path_.c_str(), std::strerror(errno));
      std::exit(1);
    }
  }
  ~TemporaryFolder() { (void)RemoveTree(*PosixFileSystem(), path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string MakeDataset(const std::string& folder) {
  FileSystem& files = *PosixFileSystem();
  MakePhotos(files, JoinPath(folder, "photos"), kPhotos);
  const auto source = Must(OpenSource("files", {JoinPath(folder, "photos")}, {}));
  Must(Pack(files, *source, JoinPath(folder, "dataset")));
  return JoinPath(folder, "dataset");
}

std::string ImageColumn(const std::string& dataset) {
  const auto reader = Must(DatasetReader::Open(*PosixFileSystem(), dataset));
  for (const Column& column : reader->columns()) {
    if (column.type == Type::kJpeg) return column.name;
  }
  std::fprintf(stderr, "gpu_bench: %s: no column is of type jpeg\n", dataset.c_str());
  std::exit(1);
}

// Simulates a trainer: each step has a fixed duration and begins when its arrays are on the device.
void MeasureWait(const Arguments& arguments, const std::string& dataset, ResultTable* table) {
  constexpr float kMean[3] = {0.485F, 0.456F, 0.406F};
  constexpr float kDeviation[3] = {0.229F, 0.224F, 0.225F};
  const std::string column = ImageColumn(dataset);
  LoaderOptions options;
  options.device = arguments.device;
  options.plan.batch_size = 64;
  options.plan.remainder = Remainder::kDrop;
  options.epochs = 0;
  options.columns = {
      {.name = column, .decode = ColumnDecode::kImage, .output = NormalizedOutput(Type::kBf16, kMean, kDeviation)}};
  options.geometry = {.kind = GeometryOptions::Kind::kRandomResizedCrop, .width = 224};
  const auto loader = Must(Loader::Open(*PosixFileSystem(), {{.path = dataset}}, options));
  std::shared_ptr<const Batch> held;
  double first_arrival = 0, arrival = 0, arrivals = 0;
  for (uint64_t step = 0; step < arguments.steps; ++step) {
    // The previous step's batch is kept until the next batch arrives.
    auto batch = Must(loader->Next());
    if (step > 1) arrivals += arrival;
    held = std::move(batch);
    const auto begin = Clock::now();
    Must(held->Synchronize());
    arrival = std::chrono::duration<double>(Clock::now() - begin).count();
    if (step == 0) first_arrival = arrival;
    std::this_thread::sleep_for(std::chrono::duration<double>(kStepSeconds));
  }
  const LoaderReport report = loader->Report();
  const double steps = report.step_seconds - first_arrival;
  table->Row("consumer's wait, 64 crops of 224 a step of 94.6 ms, share of step time",
             Format("%.3f %%", 100 * (report.consumer_wait_seconds + arrivals) / steps), "at most 0.2 %");
  table->Row("the same: over the bus per sample", Format("%.1f kB", static_cast<double>(report.uploaded_bytes) /
                                                                        static_cast<double>(report.samples) / 1000));
  table->Row("the same: bounded by", Diagnose(report).stage);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  const std::shared_ptr<gpu::Backend> device = Must(gpu::OpenDevice(arguments.device));
  const Cancellation none;
  ResultTable table;
  MeasureBus(arguments.device, none, &table);
  MeasureRuns(device, none, &table);
  if (arguments.dataset.has_value()) {
    MeasureWait(arguments, *arguments.dataset, &table);
  } else {
    const TemporaryFolder folder;
    MeasureWait(arguments, MakeDataset(folder.path()), &table);
  }
  std::string text = Machine(device->info()) + "\n\nCommand: `gpu_bench --device " + arguments.device;
  if (arguments.dataset.has_value()) text += " --dataset DIR";
  text += "`, " + std::to_string(arguments.steps) + " steps\n\n" + table.text();
  std::fputs(text.c_str(), stdout);
  if (!arguments.output.has_value()) return 0;
  const auto file = Must(PosixFileSystem()->Create(*arguments.output));
  Must(file->Append(text));
  Must(file->Close());
  return 0;
}
