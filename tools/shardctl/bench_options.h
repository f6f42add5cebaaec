// The options of bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench_decode.h"
#include "dataset_access.h"
#include "device_options.h"
#include "latency_filesystem.h"
#include "order_options.h"

namespace shardctl {

struct BenchArguments {
  std::vector<std::string> paths;  // empty: only the device is measured
  OrderOptions order;
  uint64_t epochs = 1;
  uint64_t steps = UINT64_MAX;  // over all epochs
  double step_seconds = 0;      // of simulated training
  std::optional<LatencyOptions> latency;
  uint64_t memory = uint64_t{768} << 20;
  uint64_t decode_threads = 0;  // 0: the loader chooses
  uint64_t read_threads = 0;
  DecodeWish decode;
  std::vector<std::string> columns;
  uint64_t context = 4096;
  bool cold = false;
  bool skip_errors = false;
  shardkit::ReadOptions read;
  std::optional<std::string> trace;
  DeviceOptions device;
  bool json = false;
};

// Empty when bench should run. Otherwise prints help or an error and returns the exit code.
std::optional<int> ParseBenchArguments(int argc, char** argv, BenchArguments* arguments);

}  // namespace shardctl
