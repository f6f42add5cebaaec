#include "shardkit/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "loader/plan/epoch_order.h"
#include "loader/plan/permutation.h"
#include "loader/plan/sample_draw.h"
#include "loader/plan/section_order.h"

namespace shardkit {
namespace loader {
namespace {

// How many samples of each dataset an epoch has, and how many lanes.

constexpr uint64_t kMaxEpochSamples = uint64_t{1} << 48;

// Of each dataset, in the epochs from `first_epoch` on, until a proportion changes.
struct EpochCounts {
  uint64_t first_epoch = 0;
  std::vector<uint64_t> counts;
};

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

// At least one, for epoch 0; all have the same sum. InvalidArgument, with the dataset's position, for options that
// contradict each other or make no sense.
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

}  // namespace
}  // namespace loader

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

namespace {

// The text form of a cursor.

constexpr size_t kLongestCursor = 65536;  // bytes; even with white space and thousands of datasets a cursor is shorter
constexpr size_t kHashDigits = 16;

}  // namespace

std::string FormatCursor(const Cursor& cursor) {
  char text[128];
  const int length =
      std::snprintf(text, sizeof(text), R"({"epoch":%llu,"position":%llu,"plan":"%016llx")",
                    static_cast<unsigned long long>(cursor.epoch), static_cast<unsigned long long>(cursor.position),
                    static_cast<unsigned long long>(cursor.plan));
  std::string json(text, static_cast<size_t>(length));
  if (std::ranges::any_of(cursor.generations, [](uint64_t generation) { return generation != 0; })) {
    const char* before = R"(,"generations":[)";
    for (const uint64_t generation : cursor.generations) {
      json += StrCat(std::exchange(before, ","), generation);
    }
    json += "]";
  }
  return json + "}";
}

absl::StatusOr<Cursor> ParseCursor(std::string_view json) {
  if (json.size() > kLongestCursor) return InvalidArgument("cursor: ", json.size(), " bytes are too many for one");
  Cursor cursor;
  const auto read_plan = [&](JsonReader& plan) -> absl::Status {
    std::string digits;
    SHARDKIT_RETURN_IF_ERROR(plan.Read(&digits));
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, cursor.plan, 16);
    if (digits.size() == kHashDigits && parsed.ec == std::errc() && parsed.ptr == end) return absl::OkStatus();
    return DataLoss("is not ", kHashDigits, " hexadecimal digits");
  };
  const absl::Status status = ReadJson(json, /*all=*/true, [&](JsonReader& object) {
    return object.Object(
        {{"epoch", &cursor.epoch},
         {"position", &cursor.position},
         {"plan", read_plan},
         {"generations", [&](JsonReader& list) { return list.Read(&cursor.generations); }, JsonField::kOptional}});
  });
  if (!status.ok()) return InvalidArgument("cursor: ", ToStd(status.message()));
  return cursor;
}

}  // namespace shardkit
