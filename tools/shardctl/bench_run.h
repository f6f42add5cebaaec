// Runs a loader as a trainer does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench_options.h"
#include "ceilings.h"
#include "shardkit/job.h"
#include "shardkit/loader.h"
#include "shardkit/remote.h"

namespace shardctl {

struct BenchRun {
  double open_seconds = 0;
  shardkit::LoaderReport report;  // the consumer's waits include those for arrays on their way to the device
  // Waiting for arrays still on their way after Next returned their batch; without the first batch.
  double arrival_seconds = 0;
  shardkit::CacheTraffic cache;   // on local disk, of what lies in an object store
  uint64_t plan_samples = 0;      // per epoch, over all ranks
  double read_amplification = 1;  // what all ranks read for each byte that they need
  uint64_t peak_resident = 0;     // bytes of the whole process
  std::string trace;
  std::string fallback_reason;
};

// The file system to read from: the local one, or, with --simulate-latency, one that *slow then owns.
shardkit::ReadableFileSystem& FilesToRead(const BenchArguments& arguments, const shardkit::Cancellation& cancellation,
                                          std::unique_ptr<shardkit::ReadableFileSystem>* slow);

absl::StatusOr<BenchRun> RunLoader(const BenchArguments& arguments, const shardkit::LoaderOptions& options,
                                   const shardkit::Cancellation& cancellation);

// What the machine can do without the loader.
struct Ceilings {
  StorageCeiling storage;
  bool storage_cold = false;
  double memory_copy = 0;  // bytes per second
  std::optional<JpegCeiling> jpeg;
};

// `files` are the datasets' files; `options` and `report` belong to the run.
absl::StatusOr<Ceilings> MeasureCeilings(const BenchArguments& arguments, const std::vector<std::string>& files,
                                         const shardkit::LoaderOptions& options, const shardkit::LoaderReport& report,
                                         const shardkit::Cancellation& cancellation);

}  // namespace shardctl
