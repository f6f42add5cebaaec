#include "shardkit/simulate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "loader/open_datasets.h"
#include "loader/plan/section_order.h"
#include "loader/simulation/rank.h"
#include "shardkit/shard.h"

namespace shardkit {
namespace {

using loader::SimulatedJob;
using loader::SimulatedRank;

constexpr uint64_t kRanksSimulated = 64;
constexpr double kLittleWaiting = 0.05;
constexpr double kBusy = 0.85;

// Of a block in a plan with one epoch's order.
constexpr uint64_t kPlanBlockBytes = sizeof(PlanBlock) + 16;

// What a rank's plan takes.
uint64_t PlanMemory(const Plan& plan) {
  uint64_t bytes = 0;
  for (const PlanDataset& dataset : plan.datasets()) {
    uint64_t blocks = dataset.block_count();
    if (!dataset.shards.empty()) {
      blocks = std::min(blocks, 2 * loader::SectionBlocks(plan.options(), plan.lanes()));
    }
    bytes += dataset.shards.size() * sizeof(PlanShard) + blocks * kPlanBlockBytes;
  }
  return bytes;
}

// What happens when.
class Timeline {
 public:
  void At(double time, std::function<void()> run) { events_.push({time, next_++, std::move(run)}); }

  // Until nothing is left to happen.
  void Run() {
    while (!events_.empty()) {
      const std::function<void()> run = std::move(const_cast<Event&>(events_.top()).run);
      events_.pop();
      run();
    }
  }

 private:
  struct Event {
    double time;
    uint64_t number;
    std::function<void()> run;

    bool operator<(const Event& other) const { return std::tie(other.time, other.number) < std::tie(time, number); }
  };
  std::priority_queue<Event> events_;
  uint64_t next_ = 0;
};

// All ranks train together: a step begins when each has its batch.
class Training {
 public:
  Training(SimulatedJob& job, std::vector<std::unique_ptr<SimulatedRank>>& ranks) : job_(job), ranks_(ranks) {}

  void Ask(double now) {
    asked_ = now;
    missing_ = ranks_.size();
    for (const auto& rank : ranks_) {
      rank->Next(now, [this](double then) {
        if (--missing_ == 0) job_.at(then, [this, then] { Step(then); });
      });
    }
  }

  double first_batch_seconds = 0;
  double end = 0;

 private:
  void Step(double now) {
    SimulatedEpoch& epoch = job_.epochs[step_ / job_.plan.StepsFrom(0)];
    if (step_ == 0) first_batch_seconds = now;
    epoch.wait_seconds += now - asked_;
    const double done = now + job_.options.step_seconds;
    epoch.seconds += done - asked_;
    ++epoch.steps;
    end = done;
    if (++step_ < job_.steps) job_.at(done, [this, done] { Ask(done); });
  }

  SimulatedJob& job_;
  std::vector<std::unique_ptr<SimulatedRank>>& ranks_;
  uint64_t step_ = 0;
  size_t missing_ = 0;
  double asked_ = 0;
};

absl::Status CheckOptions(const SimulationOptions& options) {
  const std::pair<const char*, double> numbers[] = {
      {"step_seconds", options.step_seconds},
      {"decode_seconds", options.decode_seconds},
      {"check_bytes_per_second", options.check_bytes_per_second},
      {"latency", options.storage.latency},
      {"latency_p99", options.storage.latency_p99},
      {"node_bytes_per_second", options.storage.node_bytes_per_second},
      {"bytes_per_second", options.storage.bytes_per_second},
      {"requests_per_second", options.storage.requests_per_second},
  };
  for (const auto& [name, value] : numbers) {
    if (!std::isfinite(value) || value < 0) {
      return InvalidArgument("simulation: ", name, " is ", value, "; give a number that is not negative");
    }
  }
  if (options.storage.latency_p99 != 0 && options.storage.latency_p99 < options.storage.latency) {
    return InvalidArgument("simulation: latency_p99 is below latency, the median");
  }
  uint64_t ranks = 0;
  if (options.nodes == 0 || options.ranks_per_node == 0 || options.epochs == 0 || options.decode_threads < 1 ||
      !CheckedMultiply(options.nodes, options.ranks_per_node, &ranks) || ranks > UINT32_MAX) {
    return InvalidArgument(
        "simulation: nodes, ranks_per_node, epochs and decode_threads begin at 1, and there are at "
        "most 2^32 - 1 ranks");
  }
  return absl::OkStatus();
}

SimulationBound Bound(const SimulationReport& report) {
  double seconds = 0, waits = 0;
  for (const SimulatedEpoch& epoch : report.epochs) {
    seconds += epoch.seconds;
    waits += epoch.wait_seconds;
  }
  if (waits < kLittleWaiting * seconds) return SimulationBound::kTraining;
  const std::pair<double, SimulationBound> busy[] = {
      {report.processors_busy, SimulationBound::kProcessors},
      {report.requests_busy, SimulationBound::kRequests},
      {report.bandwidth_busy, SimulationBound::kBandwidth},
      {report.node_bandwidth_busy, SimulationBound::kNodeBandwidth},
  };
  const auto most = std::ranges::max(busy);
  return most.first >= kBusy ? most.second : SimulationBound::kLatency;
}

absl::StatusOr<SimulationReport> Run(std::vector<PlanDataset> shapes, std::span<const loader::BlockPlaces> places,
                                     const SimulationOptions& options) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto plan, Plan::Create(std::move(shapes), options.plan));
  SimulationReport report;
  report.ranks = options.nodes * options.ranks_per_node;
  const uint64_t nodes =
      std::min(options.nodes, (kRanksSimulated + options.ranks_per_node - 1) / options.ranks_per_node);
  report.simulated_ranks = nodes * options.ranks_per_node;
  report.steps_per_epoch = plan->StepsFrom(0);
  report.lanes = plan->lanes();
  report.plan_memory = PlanMemory(*plan);

  uint64_t steps = 0;
  if (!CheckedMultiply(report.steps_per_epoch, options.epochs, &steps)) steps = UINT64_MAX;
  if (options.steps != 0) steps = std::min(steps, options.steps);
  const double share = static_cast<double>(nodes) / static_cast<double>(options.nodes);
  Timeline timeline;
  SimulatedJob job{options, *plan, places, {}, {}, {}, {options, nodes, share}, steps, [&](double time, auto run) {
                     timeline.At(time, std::move(run));
                   }};
  job.epochs.resize((steps + report.steps_per_epoch - 1) / std::max<uint64_t>(report.steps_per_epoch, 1));
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  for (uint64_t rank = 0; rank < report.simulated_ranks; ++rank) {
    ranks.push_back(std::make_unique<SimulatedRank>(job, rank, report.ranks, rank / options.ranks_per_node));
  }
  if (steps > 0) {
    for (const auto& rank : ranks) rank->Open(0);
    Training training(job, ranks);
    training.Ask(0);
    timeline.Run();
    SHARDKIT_RETURN_IF_ERROR(job.failure);
    report.first_batch_seconds = training.first_batch_seconds;
    if (training.end > 0) {
      for (const auto& rank : ranks) {
        report.processors_busy = std::max(report.processors_busy, rank->processor_seconds() / training.end);
      }
      report.node_bandwidth_busy = job.storage.node_busy() / training.end;
      report.bandwidth_busy = job.storage.link_busy() / training.end;
      report.requests_busy = job.storage.requests_busy() / training.end;
    }
  }
  for (const auto& rank : ranks)
    report.peak_block_memory = std::max(report.peak_block_memory, rank->peak_block_memory());
  report.epochs = std::move(job.epochs);
  for (SimulatedEpoch& epoch : report.epochs) {
    epoch.samples = static_cast<uint64_t>(std::llround(static_cast<double>(epoch.samples) / share));
    epoch.requests /= share;
    epoch.bytes_fetched /= share;
    epoch.bytes_cached /= share;
  }
  report.bound = Bound(report);
  return report;
}

}  // namespace

std::string_view SimulationBoundName(SimulationBound bound) {
  constexpr std::string_view kNames[] = {"training",  "processors", "node bandwidth",
                                         "bandwidth", "requests",   "latency"};
  return kNames[static_cast<size_t>(bound)];
}

absl::StatusOr<SimulationReport> Simulate(ReadableFileSystem& file_system, std::span<const LoaderDataset> datasets,
                                          const SimulationOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<PlanDataset> shapes;
  std::vector<loader::BlockPlaces> places(datasets.size());
  for (size_t i = 0; i < datasets.size(); ++i) {
    DatasetOptions open;
    open.generation = datasets[i].generation;
    SHARDKIT_ASSIGN_OR_RETURN(auto reader, DatasetReader::Open(file_system, datasets[i].path, open));
    SHARDKIT_ASSIGN_OR_RETURN(loader::Shape shape,
                              loader::ReadShape(file_system, std::move(reader), datasets[i], datasets.size() == 1,
                                                options.plan, {}, &places[i]));
    shapes.push_back(std::move(shape.dataset));
  }
  return Run(std::move(shapes), places, options);
}

absl::StatusOr<SimulationReport> Simulate(const DatasetNumbers& numbers, const SimulationOptions& options) {
  SHARDKIT_RETURN_IF_ERROR(CheckOptions(options));
  uint64_t bytes = 0;
  if (numbers.samples == 0 || numbers.sample_bytes == 0 || numbers.shards == 0 || numbers.block_bytes == 0 ||
      numbers.shards > numbers.samples || numbers.shards > UINT32_MAX ||
      !CheckedMultiply(numbers.samples, numbers.sample_bytes, &bytes)) {
    return InvalidArgument("simulation: a dataset of ", numbers.samples, " samples of ", numbers.sample_bytes,
                           " bytes in ", numbers.shards, " shards of blocks of ", numbers.block_bytes,
                           " bytes cannot be; each is at least 1, and each shard has a sample");
  }
  const uint64_t in_block =
      std::clamp<uint64_t>(numbers.block_bytes / numbers.sample_bytes, 1, ShardOptions().max_block_samples);
  PlanDataset shape;
  std::vector<loader::BlockPlaces> places(1);
  uint64_t first = 0, blocks = 0;
  for (uint64_t shard = 0; shard < numbers.shards; ++shard) {
    const uint64_t count = numbers.samples / numbers.shards + (shard < numbers.samples % numbers.shards ? 1 : 0);
    const uint64_t in_shard = (count + in_block - 1) / in_block;
    if (in_shard > UINT32_MAX - blocks) return InvalidArgument("simulation: the dataset has 2^32 blocks or more");
    shape.shards.push_back(
        {first, count, count * numbers.sample_bytes, static_cast<uint32_t>(blocks), static_cast<uint32_t>(in_shard)});
    first += count;
    blocks += in_shard;
  }
  shape.read_blocks = [in_block, bytes = numbers.sample_bytes](std::span<const PlanShard> shards) {
    std::vector<PlanBlock> made;
    for (const PlanShard& shard : shards) {
      for (uint64_t done = 0; done < shard.sample_count;) {
        const uint64_t count = std::min(in_block, shard.sample_count - done);
        made.push_back({shard.first_sample + done, static_cast<uint32_t>(count), count * bytes});
        done += count;
      }
    }
    return made;
  };
  if (blocks <= options.plan.section_blocks) {  // as a loader would
    SHARDKIT_ASSIGN_OR_RETURN(shape.blocks, shape.read_blocks(shape.shards));
    size_t block = 0;
    for (uint32_t shard = 0; shard < shape.shards.size(); ++shard) {
      for (uint32_t i = 0; i < shape.shards[shard].block_count; ++i, ++block) {
        const PlanBlock& at = shape.blocks[block];
        places[0].Add({shard, i, at.first_sample, at.sample_count, at.bytes, false});
      }
    }
    shape.shards.clear();
    shape.read_blocks = nullptr;
  }
  std::vector<PlanDataset> shapes;
  shapes.push_back(std::move(shape));
  return Run(std::move(shapes), places, options);
}

}  // namespace shardkit
