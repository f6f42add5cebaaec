// shardctl simulate
#include "shardkit/simulate.h"

#include <algorithm>

#include "command_line.h"
#include "json.h"
#include "numbers.h"
#include "order_options.h"
#include "output.h"
#include "report.h"
#include "shardkit/remote.h"
#include "table.h"
#include "verbs.h"

namespace shardctl {
namespace {

struct SimulateArguments {
  std::vector<std::string> paths;
  OrderOptions order;
  shardkit::SimulationOptions options;
  shardkit::DatasetNumbers numbers;
  bool json = false;
};

using shardkit::SimulatedEpoch;
using shardkit::SimulationReport;

std::string Bytes(double bytes) { return FormatBytes(static_cast<uint64_t>(bytes)); }

void PrintText(const SimulationReport& report) {
  Table table("rrrrrrr");
  table.AddRow({"epoch", "steps", "samples/s", "waiting", "requests", "fetched", "cached"});
  for (size_t i = 0; i < report.epochs.size(); ++i) {
    const SimulatedEpoch& epoch = report.epochs[i];
    table.AddRow({std::to_string(i), std::to_string(epoch.steps), FormatFixed(epoch.samples_per_second(), 0),
                  FormatPercent(epoch.wait_share()), FormatFixed(epoch.requests, 0), Bytes(epoch.bytes_fetched),
                  Bytes(epoch.bytes_cached)});
  }
  Stdout().Write(table.Format());
  std::string text = "\nfirst batch  after " + FormatFixed(report.first_batch_seconds, 3) + " s\n";
  text += "bound by     " + std::string(SimulationBoundName(report.bound)) + "\n";
  text += "busy         processors " + FormatPercent(report.processors_busy) + ", a node's link " +
          FormatPercent(report.node_bandwidth_busy) + ", the storage's " + FormatPercent(report.bandwidth_busy) +
          ", requests " + FormatPercent(report.requests_busy) + "\n";
  text += "memory       of a rank: blocks " + FormatBytes(report.peak_block_memory) + ", plan " +
          FormatBytes(report.plan_memory) + "\n";
  text += "simulated    " + std::to_string(report.simulated_ranks) + " of " + Counted(report.ranks, "rank") + ", " +
          Counted(report.lanes, "lane") + "; an epoch has " + Counted(report.steps_per_epoch, "step") + "\n";
  Stdout().Write(text);
}

void PrintDocument(const SimulationReport& report) {
  Json document;
  document["epochs"] = Json::array();
  for (const SimulatedEpoch& epoch : report.epochs) {
    document["epochs"].push_back({{"steps", epoch.steps},
                                  {"samples", epoch.samples},
                                  {"samples_per_second", epoch.samples_per_second()},
                                  {"seconds", epoch.seconds},
                                  {"wait_share", epoch.wait_share()},
                                  {"requests", epoch.requests},
                                  {"bytes_fetched", epoch.bytes_fetched},
                                  {"bytes_cached", epoch.bytes_cached}});
  }
  document["first_batch_seconds"] = report.first_batch_seconds;
  document["bound"] = SimulationBoundName(report.bound);
  document["busy"] = {{"processors", report.processors_busy},
                      {"node_bandwidth", report.node_bandwidth_busy},
                      {"bandwidth", report.bandwidth_busy},
                      {"requests", report.requests_busy}};
  document["peak_block_memory"] = report.peak_block_memory;
  document["plan_memory"] = report.plan_memory;
  document["ranks"] = report.ranks;
  document["simulated_ranks"] = report.simulated_ranks;
  document["lanes"] = report.lanes;
  document["steps_per_epoch"] = report.steps_per_epoch;
  PrintJson(document);
}

// "20ms", or "20ms,100ms".
absl::Status ParseLatency(const std::string& text, shardkit::StorageModel* storage) {
  const std::vector<std::string> parts = SplitAtCommas(text);
  if (parts.size() > 2) return absl::InvalidArgumentError("give one time, or two: half take less, and 99 of 100");
  for (size_t i = 0; i < parts.size(); ++i) {
    const absl::StatusOr<double> seconds = ParseTime(parts[i]);
    if (!seconds.ok()) return seconds.status();
    (i == 0 ? storage->latency : storage->latency_p99) = *seconds;
  }
  if (parts.size() == 2 && storage->latency_p99 < storage->latency) {
    return absl::InvalidArgumentError("99 of 100 requests cannot end sooner than half of them");
  }
  return absl::OkStatus();
}

std::optional<int> ParseSimulateArguments(int argc, char** argv, SimulateArguments* arguments) {
  CommandLine line("simulate", "predict how many nodes would read a dataset, and what bounds them",
                   "[OPTION]... [DATASET]...");
  shardkit::SimulationOptions& options = arguments->options;
  std::optional<uint64_t> ranks_per_node;
  std::optional<std::string> step_time, decode_time, latency;
  uint64_t node_bandwidth = 0, bandwidth = 0, check_rate = 0, request_rate = 0, threads = 1;
  options.steps = 1000;
  line.Arguments("DATASET", 0, SIZE_MAX, &arguments->paths);
  line.Count("--samples", "N", &arguments->numbers.samples, 1, uint64_t{1} << 47,
             "without a DATASET: samples of one that need not exist");
  line.Size("--sample-size", &arguments->numbers.sample_bytes, "and the bytes of each of them");
  line.Count("--shards", "N", &arguments->numbers.shards, 1, UINT32_MAX, "and in how many shards they lie [1]");
  line.Size("--block-size", &arguments->numbers.block_bytes, "and how large their blocks are [4MiB]");
  arguments->order.AddTo(&line);
  line.Count("--ranks-per-node", "N", &ranks_per_node, 1, 1024,
             "ranks that share a node's link and cache [8, or all when there are fewer]");
  line.Count("--epochs", "N", &options.epochs, 1, UINT32_MAX, "epochs to simulate [1]");
  line.Count("--steps", "N", &options.steps, 1, UINT64_MAX, "stop after N steps [1000]");
  line.Text("--step-time", "TIME", &step_time, "what training on a batch takes, as 250ms [0ms]");
  line.Text("--decode-time", "TIME", &decode_time, "what one processor takes for one sample, as 300us [0us]");
  line.Size("--check-rate", &check_rate,
            "bytes of blocks that one processor receives, checks and decompresses in a second [no limit]");
  line.Count("--threads", "N", &threads, 1, 1024, "processors of a rank [1]");
  line.Size("--memory", &options.memory_bytes, "budget of a rank's loader for blocks and batches [768MiB]");
  line.Text("--latency", "TIME[,P99]", &latency,
            "from sending a request to its first byte: half of them take less; one in a hundred takes more than P99");
  line.Size("--node-bandwidth", &node_bandwidth, "bytes per second of a node [no limit]");
  line.Size("--bandwidth", &bandwidth, "bytes per second of all nodes together [no limit]");
  line.Count("--request-rate", "N", &request_rate, 1, UINT64_MAX, "requests per second of all nodes [no limit]");
  line.Size("--node-cache", &options.cache_bytes,
            "what a node keeps of what it has read: its --cache-limit, or its page cache [0]");
  line.StoreOptions(StoreUse::kRead);
  line.Flag("--json", &arguments->json, "print one JSON document");
  line.Notes(
      "Ranks are simulated with the loader's own plan and policies in virtual time; nothing is read but manifests and\n"
      "block directories, or nothing at all. Of many nodes at least 64 ranks are simulated, and their figures\n"
      "multiplied. Left out are second requests for slow ones, and retries.");
  line.Example("shardctl simulate photos --world-size 16 --latency 20ms,100ms --node-bandwidth 3GB --step-time 250ms",
               "would two nodes of 8 ranks wait for their batches?");
  line.Example("shardctl simulate --samples 10000000 --sample-size 100KB --world-size 64 --latency 30ms,200ms --json",
               "a dataset that is still to be made");
  if (const std::optional<int> code = line.Parse(argc, argv)) return code;
  const bool described = arguments->numbers.samples != 0 && arguments->numbers.sample_bytes != 0;
  if (arguments->paths.empty() && !described) {
    return line.UsageError("give a DATASET, or --samples and --sample-size of one that need not exist");
  }
  if (!arguments->paths.empty() && (arguments->numbers.samples != 0 || arguments->numbers.sample_bytes != 0)) {
    return line.UsageError("--samples and --sample-size describe a dataset in place of DATASET");
  }
  if (const absl::Status status = arguments->order.Finish(arguments->paths); !status.ok()) {
    return line.UsageError(std::string(status.message()));
  }
  for (const auto& [name, text, seconds] : {std::tuple("--step-time", &step_time, &options.step_seconds),
                                            std::tuple("--decode-time", &decode_time, &options.decode_seconds)}) {
    if (!text->has_value()) continue;
    const absl::StatusOr<double> time = ParseTime(**text);
    if (!time.ok()) return line.UsageError(std::string(name) + ": " + std::string(time.status().message()));
    *seconds = *time;
  }
  if (latency.has_value()) {
    if (const absl::Status status = ParseLatency(*latency, &options.storage); !status.ok()) {
      return line.UsageError("--latency: " + std::string(status.message()));
    }
  }
  const uint64_t world_size = arguments->order.world_size;
  options.ranks_per_node = ranks_per_node.value_or(std::min<uint64_t>(8, world_size));
  if (world_size % options.ranks_per_node != 0) {
    return line.UsageError("--ranks-per-node: " + std::to_string(options.ranks_per_node) +
                           " does not divide --world-size, " + std::to_string(world_size));
  }
  options.nodes = world_size / options.ranks_per_node;
  options.plan = arguments->order.plan;
  options.decode_threads = static_cast<int>(threads);
  options.check_bytes_per_second = static_cast<double>(check_rate);
  options.storage.node_bytes_per_second = static_cast<double>(node_bandwidth);
  options.storage.bytes_per_second = static_cast<double>(bandwidth);
  options.storage.requests_per_second = static_cast<double>(request_rate);
  return std::nullopt;
}

}  // namespace

int RunSimulate(int argc, char** argv) {
  SimulateArguments arguments;
  if (const std::optional<int> code = ParseSimulateArguments(argc, argv, &arguments)) return *code;
  const auto report = arguments.paths.empty() ? shardkit::Simulate(arguments.numbers, arguments.options)
                                              : shardkit::Simulate(*shardkit::DefaultFileSystem(),
                                                                   arguments.order.datasets, arguments.options);
  if (!report.ok()) return Fail(report.status());
  if (!arguments.paths.empty()) arguments.order.NoteClumps();
  if (arguments.json) {
    PrintDocument(*report);
  } else {
    PrintText(*report);
  }
  return kExitSuccess;
}

}  // namespace shardctl
