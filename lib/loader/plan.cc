#include "shardkit/plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "loader/epoch_order.h"
#include "loader/permutation.h"
#include "loader/plan_counts.h"
#include "loader/sample_draw.h"
#include "loader/section_order.h"

namespace shardkit {
namespace {

constexpr uint32_t kMaxLanes = 65536;

// Counts the changes of the rules by which positions become samples. A cursor of other rules is refused.
constexpr uint64_t kOrderVersion = 1;

// How much of the shuffle buffer, over all lanes, is read before the first batch of a run.
constexpr uint64_t kFirstWindowBytes = uint64_t{32} << 20;

class Fingerprint {
 public:
  void Add(uint64_t number) {
    char bytes[sizeof(number)];
    StoreLittle(bytes, number);
    hash_.Update({bytes, sizeof(bytes)});
  }
  uint64_t Digest() const { return hash_.Digest(); }

 private:
  StreamingHash hash_;
};

}  // namespace

uint64_t PlanDataset::samples() const {
  if (selected != nullptr) return selected->size();
  if (!shards.empty()) return shards.back().first_sample + shards.back().sample_count;
  return blocks.empty() ? 0 : blocks.back().first_sample + blocks.back().sample_count;
}

uint64_t PlanDataset::bytes() const {
  uint64_t bytes = 0;
  for (const PlanBlock& block : blocks) bytes += block.bytes;
  for (const PlanShard& shard : shards) bytes += shard.bytes;
  return bytes;
}

uint64_t PlanDataset::block_count() const {
  return shards.empty() ? blocks.size() : uint64_t{shards.back().first_block} + shards.back().block_count;
}

absl::StatusOr<std::shared_ptr<const Plan>> Plan::Create(std::vector<PlanDataset> datasets,
                                                         const PlanOptions& options) {
  if (options.batch_size == 0 || options.batch_size > loader::kMaxEpochSamples) {
    return InvalidArgument("plan: a batch of ", options.batch_size, " samples; give 1 to 2^48");
  }
  if (options.lanes > kMaxLanes) return InvalidArgument("plan: ", options.lanes, " lanes; the limit is ", kMaxLanes);
  if (options.expected_world_size == 0 || options.expected_world_size > kMaxLanes) {
    return InvalidArgument("plan: an expected world size of ", options.expected_world_size, "; give 1 to ", kMaxLanes);
  }
  if (options.lanes % options.expected_world_size != 0) {
    return InvalidArgument("plan: ", options.lanes, " lanes are not a multiple of the expected world size, ",
                           options.expected_world_size, "; give one of the two");
  }
  if (options.order != SampleOrder::kShuffled && options.lanes > 1) {
    return InvalidArgument("plan: only the shuffled order has more than one lane, not ", options.lanes);
  }
  if (options.order != SampleOrder::kShuffled && options.locality) {
    return InvalidArgument("plan: only the shuffled order has lanes that keep their blocks (locality)");
  }
  if (options.section_blocks == 0) return InvalidArgument("plan: sections of 0 blocks; give at least 1");
  auto plan = std::shared_ptr<Plan>(new Plan);
  SHARDKIT_ASSIGN_OR_RETURN(std::vector<loader::EpochCounts> counts, loader::CountSamples(datasets, options));
  // The lanes are those of all epochs, and fit the one that has the least of a dataset.
  std::vector<uint64_t> least = counts[0].counts;
  for (const loader::EpochCounts& phase : counts) {
    for (size_t i = 0; i < least.size(); ++i) {
      if (phase.counts[i] != 0 && (least[i] == 0 || phase.counts[i] < least[i])) least[i] = phase.counts[i];
    }
    plan->phases_.push_back({phase.first_epoch, phase.counts, {}});
  }
  plan->lanes_ = loader::ChooseLanes(datasets, least, options);
  plan->options_ = options;
  plan->datasets_ = std::move(datasets);
  Fingerprint fingerprint;
  for (const uint64_t number :
       {kOrderVersion, options.seed, static_cast<uint64_t>(options.order), options.shuffle_buffer_bytes,
        uint64_t{plan->lanes_}, static_cast<uint64_t>(plan->datasets_.size())}) {
    fingerprint.Add(number);
  }
  if (options.locality) fingerprint.Add(1);
  for (size_t i = 0; i < plan->datasets_.size(); ++i) {
    plan->samples_ += counts[0].counts[i];
    fingerprint.Add(counts[0].counts[i]);
    fingerprint.Add(plan->datasets_[i].block_count());
    for (const PlanBlock& block : plan->datasets_[i].blocks) {
      fingerprint.Add(block.sample_count);
      fingerprint.Add(block.bytes);
    }
    for (Phase& phase : plan->phases_) {
      auto draw = loader::SampleDraw::Create(plan->datasets_[i], phase.counts[i]);
      if (!draw.ok()) return Annotate(draw.status(), StrCat("plan: dataset ", i));
      if (*draw != nullptr) fingerprint.Add((*draw)->hash());
      phase.draws.push_back(*std::move(draw));
      if (phase.first_epoch == 0) continue;
      fingerprint.Add(phase.first_epoch);
      fingerprint.Add(phase.counts[i]);
    }
    if (plan->datasets_[i].content != 0) fingerprint.Add(plan->datasets_[i].content);
    if (!plan->datasets_[i].shards.empty()) fingerprint.Add(loader::SectionBlocks(options, plan->lanes_));
    for (const PlanShard& shard : plan->datasets_[i].shards) {
      fingerprint.Add(shard.sample_count);
      fingerprint.Add(shard.block_count);
      fingerprint.Add(shard.bytes);
    }
  }
  plan->fingerprint_ = fingerprint.Digest();
  return plan;
}

const Plan::Phase& Plan::PhaseOf(uint64_t epoch) const {
  return *std::prev(std::ranges::upper_bound(phases_, epoch, {}, &Phase::first_epoch));
}

std::shared_ptr<const EpochOrder> Plan::Epoch(uint64_t epoch) const {
  const auto& [first_epoch, counts, draws] = PhaseOf(epoch);
  const uint64_t key = loader::Derive(loader::Mix(options_.seed), epoch);
  double all_bytes = 0;  // that an epoch reads
  std::vector<double> bytes;
  for (size_t i = 0; i < datasets_.size(); ++i) {
    const PlanDataset& dataset = datasets_[i];
    const double samples = static_cast<double>(dataset.samples());
    bytes.push_back(samples == 0 ? 0 : static_cast<double>(dataset.bytes()) * static_cast<double>(counts[i]) / samples);
    all_bytes += bytes.back();
  }
  std::vector<loader::DatasetOrder> orders;
  for (size_t i = 0; i < datasets_.size(); ++i) {
    loader::DatasetOrderOptions options;
    options.key = loader::Derive(key, i);
    options.keep_lanes = options_.locality && datasets_.size() == 1 && counts[i] == datasets_[i].samples() &&
                         (draws[i] == nullptr || !draws[i]->weighted());
    options.lane_key = loader::Derive(loader::Mix(options_.seed), ~i);
    options.count = counts[i];
    options.lanes = lanes_;
    options.mixed = datasets_.size() > 1;
    const double share = all_bytes > 0 ? bytes[i] / all_bytes : 1;
    options.window_bytes = static_cast<uint64_t>(static_cast<double>(options_.shuffle_buffer_bytes) / lanes_ * share);
    // Later epochs are read before they begin.
    options.first_bytes = epoch == 0 ? kFirstWindowBytes / lanes_ : options.window_bytes;
    options.order = options_.order;
    if (!datasets_[i].shards.empty()) {  // the only dataset
      return std::make_shared<loader::SectionOrder>(shared_from_this(), datasets_[i], options,
                                                    loader::SectionBlocks(options_, lanes_));
    }
    orders.emplace_back(datasets_[i].blocks, options,
                        draws[i] != nullptr ? draws[i]->Draw(loader::Derive(options.key, uint64_t{3} << 61)) : nullptr);
  }
  return std::make_shared<loader::MixedOrder>(shared_from_this(), std::move(orders), lanes_,
                                              loader::Derive(key, UINT64_MAX));
}

uint64_t Plan::StepsFrom(uint64_t position) const {
  const uint64_t left = position < samples_ ? samples_ - position : 0;
  const uint64_t whole = left / options_.batch_size;
  return options_.remainder == Remainder::kDrop || left % options_.batch_size == 0 ? whole : whole + 1;
}

Step Plan::StepAt(uint64_t position, uint64_t step) const {
  const uint64_t begin = position + step * options_.batch_size;
  const uint64_t end = begin + options_.batch_size;
  return {begin, options_.remainder == Remainder::kPad ? end : std::min(end, std::max(begin, samples_))};
}

absl::Status Plan::CheckRanks(uint64_t position, uint64_t world_size) const {
  if (options_.batch_size < world_size) {
    return InvalidArgument("plan: a batch of ", options_.batch_size, " over ", world_size,
                           " ranks leaves some without a sample in each step; raise batch_size");
  }
  for (const uint64_t begin : {position, uint64_t{0}}) {
    const uint64_t steps = StepsFrom(begin);
    if (steps == 0) continue;
    const Step last = StepAt(begin, steps - 1);
    if (const uint64_t left = last.end - last.begin; left < world_size) {
      return InvalidArgument("plan: the last step of an epoch has ", left, " samples for ", world_size,
                             " ranks, and a rank without samples has no mean; drop or pad the remainder, or choose ",
                             "a batch_size other than ", options_.batch_size);
    }
  }
  return absl::OkStatus();
}

Cursor Plan::At(uint64_t epoch, uint64_t position) const {
  Cursor cursor{epoch, position, fingerprint_, {}};
  for (const PlanDataset& dataset : datasets_) cursor.generations.push_back(dataset.generation);
  return cursor;
}

absl::Status Plan::CheckCursor(const Cursor& cursor) const {
  if (cursor.plan != fingerprint_) {
    for (size_t i = 0; i < datasets_.size() && cursor.generations.size() == datasets_.size(); ++i) {
      const uint64_t there = cursor.generations[i], here = datasets_[i].generation;
      if (there == here || there == 0 || here == 0) continue;
      return InvalidArgument(
          "the cursor is of generation ", there, " of ",
          datasets_.size() == 1 ? std::string("the dataset") : StrCat("dataset ", i), ", and this is generation ", here,
          ", whose epochs have other samples: to go on where the cursor stands, open generation ", there,
          " (LoaderDataset::generation, --at of shardctl); or begin an epoch without the cursor");
    }
    return InvalidArgument(
        "the cursor belongs to another plan: datasets, their proportions, the samples chosen and their weights, ",
        "rows of tokens, seed, order, shuffle buffer, lanes and locality must be those of the run that wrote it");
  }
  if (cursor.position > samples_) {
    return InvalidArgument("the cursor's position ", cursor.position, " is past the epoch's ", samples_, " samples");
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ReadAmplification(const Plan& plan, uint64_t epoch, uint64_t world_size, uint64_t limit) {
  auto order = plan.Epoch(epoch);
  absl::flat_hash_set<std::tuple<uint64_t, uint32_t, uint64_t, uint32_t>> seen;  // rank, dataset, window, block
  double read = 0;
  double delivered = 0;
  const uint64_t steps = plan.StepsFrom(0);
  for (uint64_t i = 0; i < steps && plan.StepAt(0, i).begin < limit; ++i) {
    Step step = plan.StepAt(0, i);
    step.end = std::min(step.end, order->size());
    SHARDKIT_ASSIGN_OR_RETURN(order, order->Covering(step));
    const std::vector<uint64_t> ranks = order->SlotRanks(step, world_size);
    for (uint64_t slot = 0; slot < ranks.size(); ++slot) {
      const PlannedSample sample = order->At(step.begin + slot);
      const PlanBlock block = order->BlockOf(sample);
      delivered += static_cast<double>(block.bytes) / block.sample_count;
      if (seen.emplace(ranks[slot], sample.dataset, sample.window, sample.block).second) {
        read += static_cast<double>(block.bytes);
      }
    }
  }
  return delivered > 0 ? read / delivered : 1;
}

}  // namespace shardkit
