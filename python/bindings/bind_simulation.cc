// Simulations of training jobs.
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "bind.h"
#include "job.h"
#include "loader_options.h"
#include "shardkit/remote.h"
#include "shardkit/simulate.h"
#include "status.h"

namespace shardkit::bindings {
namespace {

namespace nb = nanobind;

SimulationOptions TakeOptions(const nb::dict& given) {
  OptionReader reader(given, "simulate");
  SimulationOptions options;
  TakePlanOptions(reader, options.plan);
  reader.Take("nodes", options.nodes);
  reader.Take("ranks_per_node", options.ranks_per_node);
  reader.Take("epochs", options.epochs);
  reader.Take("steps", options.steps);
  reader.Take("step_seconds", options.step_seconds);
  reader.Take("decode_seconds", options.decode_seconds);
  reader.Take("check_bytes_per_second", options.check_bytes_per_second);
  reader.Take("decode_threads", options.decode_threads);
  reader.Take("read_threads", options.read_threads);
  reader.Take("memory_bytes", options.memory_bytes);
  reader.Take("cache_bytes", options.cache_bytes);
  reader.Take("latency", options.storage.latency);
  reader.Take("latency_p99", options.storage.latency_p99);
  reader.Take("node_bytes_per_second", options.storage.node_bytes_per_second);
  reader.Take("bytes_per_second", options.storage.bytes_per_second);
  reader.Take("requests_per_second", options.storage.requests_per_second);
  reader.Finish();
  return options;
}

DatasetNumbers TakeNumbers(const nb::dict& given) {
  OptionReader reader(given, "simulate");
  DatasetNumbers numbers;
  reader.Take("samples", numbers.samples);
  reader.Take("sample_bytes", numbers.sample_bytes);
  reader.Take("shards", numbers.shards);
  reader.Take("block_bytes", numbers.block_bytes);
  reader.Finish();
  return numbers;
}

// `numbers` instead of the datasets, unless it is empty.
Dict SimulateJob(const DictList& datasets, const Dict& numbers, const Dict& given) {
  const SimulationOptions options = TakeOptions(given);
  const std::vector<LoaderDataset> parts = LoaderDatasets(datasets);
  const bool described = numbers.size() > 0;
  const DatasetNumbers taken = TakeNumbers(numbers);
  const SimulationReport report = Interruptibly(
      [&] { return described ? Simulate(taken, options) : Simulate(*DefaultFileSystem(), parts, options); });
  nb::dict result;
  nb::list epochs;
  for (const SimulatedEpoch& epoch : report.epochs) {
    nb::dict each;
    each["steps"] = epoch.steps;
    each["samples"] = epoch.samples;
    each["requests"] = epoch.requests;
    each["bytes_fetched"] = epoch.bytes_fetched;
    each["bytes_cached"] = epoch.bytes_cached;
    each["seconds"] = epoch.seconds;
    each["wait_seconds"] = epoch.wait_seconds;
    epochs.append(each);
  }
  result["epochs"] = epochs;
  result["first_batch_seconds"] = report.first_batch_seconds;
  result["ranks"] = report.ranks;
  result["simulated_ranks"] = report.simulated_ranks;
  result["steps_per_epoch"] = report.steps_per_epoch;
  result["lanes"] = report.lanes;
  result["processors_busy"] = report.processors_busy;
  result["node_bandwidth_busy"] = report.node_bandwidth_busy;
  result["bandwidth_busy"] = report.bandwidth_busy;
  result["requests_busy"] = report.requests_busy;
  result["bound"] = std::string(SimulationBoundName(report.bound));
  result["peak_block_memory"] = report.peak_block_memory;
  result["plan_memory"] = report.plan_memory;
  return result;
}

}  // namespace

void BindSimulation(nb::module_& module) {
  module.def("simulate", &SimulateJob, nb::arg("datasets"), nb::arg("numbers"), nb::arg("options"));
}

}  // namespace shardkit::bindings
