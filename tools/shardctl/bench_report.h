// The output of bench.
#pragma once

#include <optional>
#include <string>

#include "bench_options.h"
#include "bench_run.h"
#include "shardkit/device.h"

namespace shardctl {

struct BenchResult {
  BenchRun run;
  Ceilings ceilings;
  std::optional<shardkit::DeviceMeasurements> device;
  std::string warm_reason;  // why --cold could not empty the page cache
};

void PrintBench(const BenchArguments& arguments, const BenchResult& result);
void PrintBenchJson(const BenchArguments& arguments, const BenchResult& result);

}  // namespace shardctl
