// Predicts how a training job reads, before it runs: how fast, how much of what, and the limiting factor.
//
// Ranks are simulated with the loader's plan, windows, memory and reading ahead, in virtual time; storage, decoding and
// training are as in the options. Only the datasets' manifests and block directories are read, or nothing for
// DatasetNumbers. The same arguments give the same report on every machine.
//
// Not simulated: second requests for slow ones, and retries.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/loader.h"
#include "shardkit/plan.h"

namespace shardkit {

// Storage as the nodes see it. A limit of 0 is no limit.
struct StorageModel {
  // Seconds from sending a request to its first byte: half of the requests take less, one in a hundred takes more than
  // latency_p99; log-normal otherwise. latency_p99 = 0: all take the same time.
  double latency = 0;
  double latency_p99 = 0;
  double node_bytes_per_second = 0;  // of each node
  double bytes_per_second = 0;       // of all nodes together
  double requests_per_second = 0;    // of all nodes together
};

struct SimulationOptions {
  PlanOptions plan;
  uint64_t nodes = 1;
  uint64_t ranks_per_node = 1;
  uint64_t epochs = 1;
  uint64_t steps = 0;       // ends after this many, over all epochs; 0: after the last
  double step_seconds = 0;  // of training on one batch; all ranks begin a step together
  // Seconds of one processor for one sample, and bytes of blocks that it receives, checks and decompresses in a second
  // (0: in no time).
  double decode_seconds = 0;
  double check_bytes_per_second = 0;
  int decode_threads = 1;                       // of a rank; also its processors, which check blocks, too
  int read_threads = 0;                         // of a rank; 0: as the loader chooses
  uint64_t memory_bytes = uint64_t{768} << 20;  // of a rank, as LoaderOptions::memory_bytes
  uint64_t cache_bytes = 0;  // of a node: its page cache, or its cache directory; 0: each rank reads for itself
  StorageModel storage;
  uint64_t seed = 0;  // of the latencies
};

// A dataset that need not exist. Its samples have the same size.
struct DatasetNumbers {
  uint64_t samples = 0;
  uint64_t sample_bytes = 0;  // as stored
  uint64_t shards = 1;
  uint64_t block_bytes = uint64_t{4} << 20;
};

// The main reason for waiting steps.
enum class SimulationBound {
  kTraining,  // none: less than a twentieth of the time is spent waiting
  kProcessors,
  kNodeBandwidth,
  kBandwidth,
  kRequests,  // storage.requests_per_second
  kLatency,   // and the memory for requests in flight: nothing else is busy
};
std::string_view SimulationBoundName(SimulationBound bound);

struct SimulatedEpoch {
  uint64_t steps = 0;
  uint64_t samples = 0;  // of all ranks, like the next three
  double requests = 0;   // to storage; the first epoch includes opening
  double bytes_fetched = 0;
  double bytes_cached = 0;  // found in the cache, or on their way to it for another rank
  double seconds = 0;
  double wait_seconds = 0;  // between steps

  double samples_per_second() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
  double wait_share() const { return seconds > 0 ? wait_seconds / seconds : 0; }
};

struct SimulationReport {
  std::vector<SimulatedEpoch> epochs;
  double first_batch_seconds = 0;  // from opening the datasets to the first step
  uint64_t ranks = 0;
  // Whole nodes are simulated, at least 64 ranks or all. Their figures are scaled up for the others.
  uint64_t simulated_ranks = 0;
  uint64_t steps_per_epoch = 0;
  uint32_t lanes = 0;
  // Share of the time that each was busy, 0 without a limit.
  double processors_busy = 0, node_bandwidth_busy = 0, bandwidth_busy = 0, requests_busy = 0;
  SimulationBound bound = SimulationBound::kTraining;
  uint64_t peak_block_memory = 0;  // bytes, of the rank with the most
  uint64_t plan_memory = 0;        // bytes, of each rank
};

// Simulates training on these datasets. InvalidArgument as for a plan, and for numbers that are negative or not finite.
// Time: about 2 µs for each sample of a simulated rank.
absl::StatusOr<SimulationReport> Simulate(ReadableFileSystem& file_system, std::span<const LoaderDataset> datasets,
                                          const SimulationOptions& options);

// As above, for a described dataset.
absl::StatusOr<SimulationReport> Simulate(const DatasetNumbers& numbers, const SimulationOptions& options);

}  // namespace shardkit
