#include "loader/plan_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::loader {
namespace {

// Numbers with many divisors, as each rank of a world size that divides the lanes reads only what is its own.
constexpr uint64_t kLanesChosen[] = {120, 60, 30, 24, 12, 6, 4, 3, 2, 1};
constexpr uint64_t kFewLanes = 4;

bool HasProportion(const PlanDataset& dataset) { return dataset.proportion != 0 || !dataset.changes.empty(); }

double ProportionIn(const PlanDataset& dataset, uint64_t epoch) {
  double proportion = dataset.proportion;
  for (const ProportionChange& change : dataset.changes) {
    if (change.epoch <= epoch) proportion = change.proportion;
  }
  return proportion;
}

// Adds the samples of the shards to *next.
absl::Status CheckShards(const PlanDataset& dataset, uint64_t* next) {
  uint64_t block = 0;
  for (size_t i = 0; i < dataset.shards.size(); ++i) {
    const PlanShard& shard = dataset.shards[i];
    if (shard.first_sample != *next || shard.first_block != block) {
      return InvalidArgument("plan: shard ", i, " begins at sample ", shard.first_sample, " and block ",
                             shard.first_block, " instead of ", *next, " and ", block);
    }
    if (shard.block_count > shard.sample_count || (shard.block_count == 0) != (shard.sample_count == 0)) {
      return InvalidArgument("plan: shard ", i, " has ", shard.sample_count, " samples in ", shard.block_count,
                             " blocks; each block has samples");
    }
    block += shard.block_count;
    if (block >= UINT32_MAX) return InvalidArgument("plan: 2^32 blocks or more");
    if (shard.sample_count >= kMaxEpochSamples - *next) return InvalidArgument("plan: 2^48 samples or more");
    *next += shard.sample_count;
  }
  return absl::OkStatus();
}

absl::Status CheckDataset(const PlanDataset& dataset, size_t i, bool alone, bool proportions) {
  uint64_t next = 0;
  for (const PlanBlock& block : dataset.blocks) {
    if (block.first_sample != next) {
      return InvalidArgument("plan: dataset ", i, ": a block begins at sample ", block.first_sample, " instead of ",
                             next);
    }
    next += block.sample_count;
    if (next >= kMaxEpochSamples) return InvalidArgument("plan: dataset ", i, " has 2^48 samples or more");
  }
  if (!dataset.shards.empty()) {
    if (alone && dataset.blocks.empty() && dataset.read_blocks != nullptr) {
      SHARDKIT_RETURN_IF_ERROR(CheckShards(dataset, &next));
    } else {
      return InvalidArgument("plan: dataset ", i,
                             ": shards take the place of blocks, with a function that reads these, ",
                             "where a dataset is not mixed with others");
    }
  }
  if (dataset.blocks.size() > UINT32_MAX) return InvalidArgument("plan: dataset ", i, " has 2^32 blocks or more");
  const int wishes = HasProportion(dataset) + (dataset.repeat != 0) + (dataset.choose != 0);
  if (wishes > 1) {
    return InvalidArgument("plan: dataset ", i, " has more than one of proportion, repeat and choose; give one");
  }
  if (!std::isfinite(dataset.proportion) || dataset.proportion < 0) {
    return InvalidArgument("plan: dataset ", i, ": the proportion ", dataset.proportion, " is not above 0");
  }
  uint64_t last = 0;
  for (const ProportionChange& change : dataset.changes) {
    if (!std::isfinite(change.proportion) || change.proportion < 0 || change.epoch <= last) {
      return InvalidArgument("plan: dataset ", i, ": the proportion changes to ", change.proportion, " with epoch ",
                             change.epoch, "; give epochs that ascend from 1, and proportions of 0 or more");
    }
    last = change.epoch;
  }
  if (!std::isfinite(dataset.repeat) || dataset.repeat < 0) {
    return InvalidArgument("plan: dataset ", i, ": cannot repeat it ", dataset.repeat, " times");
  }
  if (proportions && !HasProportion(dataset)) {
    return InvalidArgument("plan: dataset ", i, " has no proportion, but others have; give all of them one");
  }
  if (dataset.samples() == 0 && wishes > 0)
    return InvalidArgument("plan: dataset ", i, " is empty: nothing can be taken from it");
  return absl::OkStatus();
}

// Divides `all` by the proportions of an epoch, with the largest remainder method, so that the shares sum to `all`.
std::vector<uint64_t> Share(std::span<const PlanDataset> datasets, uint64_t epoch, uint64_t all) {
  double sum = 0;
  for (const PlanDataset& dataset : datasets) sum += ProportionIn(dataset, epoch);
  std::vector<uint64_t> counts;
  std::vector<double> rests;
  for (const PlanDataset& dataset : datasets) {
    const double exact = ProportionIn(dataset, epoch) / sum * static_cast<double>(all);
    counts.push_back(std::min(static_cast<uint64_t>(exact), all));
    rests.push_back(exact - std::floor(exact));
  }
  std::vector<size_t> order(datasets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return rests[a] > rests[b]; });
  uint64_t given = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  for (size_t i = 0; given < all; i = (i + 1) % order.size(), ++given) ++counts[order[i]];
  for (size_t i = order.size(); given > all; --given) {  // only when the sum of doubles was off by more than one
    do i = (i == 0 ? order.size() : i) - 1;
    while (counts[order[i]] == 0);
    --counts[order[i]];
  }
  return counts;
}

}  // namespace

absl::StatusOr<std::vector<EpochCounts>> CountSamples(std::span<const PlanDataset> datasets,
                                                      const PlanOptions& options) {
  if (datasets.empty()) return InvalidArgument("plan: no dataset");
  if (datasets.size() > UINT32_MAX) return InvalidArgument("plan: ", datasets.size(), " datasets are too many");
  const bool proportions = std::ranges::any_of(datasets, HasProportion);
  if (!proportions && options.epoch_samples != 0) {
    return InvalidArgument("plan: epoch_samples is for datasets with proportions; use choose without them");
  }
  std::vector<uint64_t> counts;
  uint64_t all = 0;
  for (size_t i = 0; i < datasets.size(); ++i) {
    SHARDKIT_RETURN_IF_ERROR(CheckDataset(datasets[i], i, datasets.size() == 1, proportions));
    const uint64_t samples = datasets[i].samples();
    uint64_t count = samples;
    if (datasets[i].repeat != 0) {
      const double repeated = datasets[i].repeat * static_cast<double>(samples);
      count = repeated < static_cast<double>(kMaxEpochSamples) ? static_cast<uint64_t>(repeated) : kMaxEpochSamples;
    }
    if (datasets[i].choose != 0) count = std::min(datasets[i].choose, kMaxEpochSamples);
    counts.push_back(count);
    all = std::min(all + count, kMaxEpochSamples);
  }
  if (proportions && options.epoch_samples != 0) all = std::min(options.epoch_samples, kMaxEpochSamples);
  if (all == 0) return InvalidArgument("plan: an epoch of these datasets has no samples");
  if (all >= kMaxEpochSamples) return InvalidArgument("plan: an epoch has 2^48 samples or more");
  std::set<uint64_t> firsts = {0};
  for (const PlanDataset& dataset : datasets) {
    for (const ProportionChange& change : dataset.changes) firsts.insert(change.epoch);
  }
  std::vector<EpochCounts> made;
  for (const uint64_t epoch : firsts) {
    const auto given = [&](const PlanDataset& dataset) { return ProportionIn(dataset, epoch) > 0; };
    if (proportions && std::ranges::none_of(datasets, given)) {
      return InvalidArgument("plan: all proportions of epoch ", epoch, " are 0; give one dataset more");
    }
    made.push_back({epoch, proportions ? Share(datasets, epoch, all) : counts});
  }
  return made;
}

uint32_t ChooseLanes(std::span<const PlanDataset> datasets, std::span<const uint64_t> counts,
                     const PlanOptions& options) {
  if (options.order != SampleOrder::kShuffled) return 1;
  if (options.lanes != 0) return options.lanes;
  uint64_t most = UINT64_MAX;
  uint64_t blocks = 0;
  uint64_t largest_mean = 1;  // bytes of a block
  for (size_t i = 0; i < datasets.size(); ++i) {
    if (counts[i] == 0) continue;
    most = std::min(most, counts[i]);
    blocks += datasets[i].block_count();
    largest_mean = std::max(largest_mean, datasets[i].bytes() / datasets[i].block_count());
  }
  // At least two blocks in each lane's window, so that there is something to shuffle, unless few lanes would be left
  // for consecutive samples to come from. At least four blocks in each lane, so that what lanes have beyond the
  // shortest one stays below a quarter.
  const uint64_t buffered = options.shuffle_buffer_bytes / largest_mean / datasets.size();
  const uint64_t fitting = buffered < 2 * kFewLanes ? std::min(buffered, kFewLanes) : buffered / 2;
  const uint64_t enough = std::min(most, blocks / 4);
  const uint64_t limit = std::max<uint64_t>(1, std::min({enough, fitting, kLanesChosen[0]}));
  const uint64_t expected = options.expected_world_size <= enough ? options.expected_world_size : 1;
  uint64_t chosen = expected;
  for (const uint64_t lanes : kLanesChosen) {
    if (const uint64_t multiple = std::lcm(lanes, expected); multiple <= limit) chosen = std::max(chosen, multiple);
  }
  return static_cast<uint32_t>(chosen);
}

}  // namespace shardkit::loader
