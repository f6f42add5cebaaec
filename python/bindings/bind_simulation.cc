// Simulations of training jobs.
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "bind.h"
#include "job.h"
#include "loader_options.h"
#include "record.h"
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
SimulationReport SimulateJob(const DictList& datasets, const Dict& numbers, const Dict& given) {
  const SimulationOptions options = TakeOptions(given);
  const std::vector<LoaderDataset> parts = LoaderDatasets(datasets);
  const bool described = numbers.size() > 0;
  const DatasetNumbers taken = TakeNumbers(numbers);
  return Interruptibly(
      [&] { return described ? Simulate(taken, options) : Simulate(*DefaultFileSystem(), parts, options); });
}

}  // namespace

void BindSimulation(nb::module_& module) {
  Record<SimulatedEpoch>(module, "SimulatedEpoch",
                         "Of all ranks; requests and bytes are those of storage. `bytes_cached` were in the node's "
                         "cache, or on their way there for another rank; ranks wait for `wait_seconds` between steps.")
      .Field("steps", &SimulatedEpoch::steps)
      .Field("samples", &SimulatedEpoch::samples)
      .Field("requests", &SimulatedEpoch::requests)
      .Field("bytes_fetched", &SimulatedEpoch::bytes_fetched)
      .Field("bytes_cached", &SimulatedEpoch::bytes_cached)
      .Field("seconds", &SimulatedEpoch::seconds)
      .Field("wait_seconds", &SimulatedEpoch::wait_seconds)
      .bound()
      .def_prop_ro("samples_per_second", &SimulatedEpoch::samples_per_second, "Samples of all ranks.")
      .def_prop_ro("wait_share", &SimulatedEpoch::wait_share, "The part of the time in which ranks wait for a batch.");
  Record<SimulationReport>(
      module, "SimulationReport",
      "Times in seconds, memory in bytes of a rank; ``…_busy`` is a share of the time, 0 without a limit.\n\n"
      "`simulated_ranks` are those of whole nodes, at least 64 or all; the epochs are multiplied for the others. "
      "`bound` is ``\"training\"``, ``\"processors\"``, ``\"node bandwidth\"``, ``\"bandwidth\"``, "
      "``\"requests\"`` or ``\"latency\"``.")
      .Field("epochs", &SimulationReport::epochs)
      .Field("first_batch_seconds", &SimulationReport::first_batch_seconds)
      .Field("ranks", &SimulationReport::ranks)
      .Field("simulated_ranks", &SimulationReport::simulated_ranks)
      .Field("steps_per_epoch", &SimulationReport::steps_per_epoch)
      .Field("lanes", &SimulationReport::lanes)
      .Field("processors_busy", &SimulationReport::processors_busy)
      .Field("node_bandwidth_busy", &SimulationReport::node_bandwidth_busy)
      .Field("bandwidth_busy", &SimulationReport::bandwidth_busy)
      .Field("requests_busy", &SimulationReport::requests_busy)
      .Field(
          "bound", [](const SimulationReport& self) { return std::string(SimulationBoundName(self.bound)); },
          [](SimulationReport& self, nb::handle name) {
            self.bound = Named(nb::cast<std::string>(name), SimulationBound::kLatency, &SimulationBoundName);
          })
      .Field("peak_block_memory", &SimulationReport::peak_block_memory)
      .Field("plan_memory", &SimulationReport::plan_memory);
  module.def("simulate", &SimulateJob, nb::arg("datasets"), nb::arg("numbers"), nb::arg("options"));
}

}  // namespace shardkit::bindings
