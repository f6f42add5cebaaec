#include "loader/plan/section_order.h"

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "base/status_macros.h"
#include "loader/plan/permutation.h"

namespace shardkit::loader {
namespace {

// Lanes end where blocks end, and what they have beyond the shortest one is less than a block: with so many blocks it
// is a small part of a section.
constexpr uint64_t kLeastBlocksOfLane = 64;

// Windows are numbered through all sections.
constexpr int kWindowBits = 32;

}  // namespace

uint64_t SectionBlocks(const PlanOptions& options, uint32_t lanes) {
  return std::max<uint64_t>(options.section_blocks, kLeastBlocksOfLane * lanes);
}

struct SectionOrder::Covered {
  struct Shard {
    uint32_t first = 0;             // of `blocks`
    uint32_t first_in_dataset = 0;  // the same block there
  };
  struct Blocks {
    std::vector<PlanBlock> blocks;
    std::vector<Shard> shards;  // those with blocks
  };

  uint32_t InDataset(uint32_t block) const {
    const Shard& shard = *std::prev(std::ranges::upper_bound(blocks->shards, block, {}, &Shard::first));
    return shard.first_in_dataset + (block - shard.first);
  }
  uint32_t InSection(uint32_t block) const {
    const Shard& shard = *std::prev(std::ranges::upper_bound(blocks->shards, block, {}, &Shard::first_in_dataset));
    return shard.first + (block - shard.first_in_dataset);
  }

  size_t section = 0;
  std::shared_ptr<const Blocks> blocks;
  std::shared_ptr<const MixedOrder> order;  // of the positions and blocks within the section
};

// The shards as a pass through the dataset visits them. With lanes that keep their blocks sections are the same in all
// epochs.
std::function<uint32_t(uint64_t)> SectionOrder::ShardOrder(const Epoch& epoch, uint64_t pass) {
  if (epoch.options.order != SampleOrder::kShuffled) return [](uint64_t i) { return static_cast<uint32_t>(i); };
  const uint64_t key = epoch.options.keep_lanes ? epoch.options.lane_key : epoch.options.key;
  return [permutation = Permutation(epoch.dataset.shards.size(), Derive(key, (uint64_t{3} << 62) + pass))](uint64_t i) {
    return static_cast<uint32_t>(permutation(i));
  };
}

SectionOrder::SectionOrder(std::shared_ptr<const void> owner, const PlanDataset& dataset,
                           const DatasetOrderOptions& options, uint64_t section_blocks)
    : EpochOrder(options.lanes), epoch_([&] {
        auto epoch = std::make_shared<Epoch>(Epoch{std::move(owner), dataset, options, section_blocks, {}});
        const uint64_t samples = dataset.samples();
        for (uint64_t pass = 0; samples > 0 && pass * samples < options.count; ++pass) {
          AddPass(*epoch, pass, pass * samples);
        }
        return epoch;
      }()) {}

// Cuts the shards into sections of about as many blocks each.
void SectionOrder::AddPass(Epoch& epoch, uint64_t pass, uint64_t position) {
  const std::vector<PlanShard>& shards = epoch.dataset.shards;
  const uint64_t all = epoch.dataset.block_count();
  const uint64_t count = (all + epoch.section_blocks - 1) / epoch.section_blocks;
  const auto shard_at = ShardOrder(epoch, pass);
  std::vector<Section> sections;
  std::vector<uint64_t> samples;
  uint64_t blocks = 0, begin = 0, taken = 0;
  for (uint64_t i = 0; i < shards.size(); ++i) {
    const PlanShard& shard = shards[shard_at(i)];
    blocks += shard.block_count;
    taken += shard.sample_count;
    const bool full = blocks >= all * (sections.size() + 1) / count;
    if (taken == 0 || (!full && i + 1 < shards.size())) continue;
    sections.push_back({0, pass, begin, i + 1});
    samples.push_back(std::exchange(taken, 0));
    begin = i + 1;
  }
  std::vector<uint32_t> visits;
  if (epoch.options.keep_lanes) {
    visits = ShuffledIndexes(static_cast<uint32_t>(sections.size()), Derive(epoch.options.key, uint64_t{5} << 61));
  }
  for (size_t i = 0; i < sections.size() && position < epoch.options.count; ++i) {
    const size_t visited = visits.empty() ? i : visits[i];
    sections[visited].begin = position;
    epoch.sections.push_back(sections[visited]);
    position += samples[visited];
  }
}

size_t SectionOrder::SectionAt(uint64_t position) const {
  const auto after = std::ranges::upper_bound(epoch_->sections, position, {}, &Section::begin);
  return static_cast<size_t>(after - epoch_->sections.begin()) - 1;
}

uint64_t SectionOrder::EndOf(size_t section) const {
  return section + 1 < epoch_->sections.size() ? epoch_->sections[section + 1].begin : epoch_->options.count;
}

absl::StatusOr<std::shared_ptr<const EpochOrder>> SectionOrder::Covering(const Step& step) const {
  std::set<size_t> wanted;
  const auto want = [&](uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    for (size_t section = SectionAt(begin), last = SectionAt(end - 1); section <= last; ++section) {
      wanted.insert(section);
    }
  };
  want(std::min(step.begin, size()), std::min(step.end, size()));
  // Padding repeats the first positions.
  if (step.end > size()) want(0, std::min(step.end - std::max(step.begin, size()), size()));
  if (step.end > size() && step.begin >= size()) want(step.begin % size(), size());
  std::vector<std::shared_ptr<const Covered>> covered;
  for (const auto& section : covered_) {
    if (wanted.erase(section->section) > 0) covered.push_back(section);
  }
  if (wanted.empty()) return shared_from_this();
  for (const size_t section : wanted) {
    SHARDKIT_ASSIGN_OR_RETURN(covered.emplace_back(), Load(section));
  }
  if (covered.size() == 1 && !covered_.empty()) covered.insert(covered.begin(), covered_.back());
  std::shared_ptr<SectionOrder> order(new SectionOrder(epoch_));
  order->covered_ = std::move(covered);
  return order;
}

absl::StatusOr<std::shared_ptr<const SectionOrder::Covered>> SectionOrder::Load(size_t section) const {
  const Section& place = epoch_->sections[section];
  const std::vector<PlanShard>& all = epoch_->dataset.shards;
  std::vector<PlanShard> shards;
  const auto shard_at = ShardOrder(*epoch_, place.pass);
  for (uint64_t i = place.first; i < place.end; ++i) {
    if (const PlanShard& shard = all[shard_at(i)]; shard.sample_count > 0) shards.push_back(shard);
  }
  std::ranges::sort(shards, {}, &PlanShard::first_sample);
  auto held = std::make_shared<Covered::Blocks>();
  SHARDKIT_ASSIGN_OR_RETURN(held->blocks, epoch_->dataset.read_blocks(shards));
  size_t block = 0;
  for (const PlanShard& shard : shards) {
    held->shards.push_back({static_cast<uint32_t>(block), shard.first_block});
    uint64_t next = shard.first_sample;
    for (uint32_t i = 0; i < shard.block_count && block < held->blocks.size(); ++i, ++block) {
      if (held->blocks[block].first_sample != next) break;
      next += held->blocks[block].sample_count;
    }
    if (next != shard.first_sample + shard.sample_count) {
      return DataLoss("plan: the shard that begins with sample ", shard.first_sample,
                      " has not the blocks or samples that the dataset lists for it; run shardctl index");
    }
  }
  if (block != held->blocks.size()) {
    return DataLoss("plan: shards have ", held->blocks.size(), " blocks, and the dataset lists ", block,
                    " for them; run shardctl index");
  }
  DatasetOrderOptions options = epoch_->options;
  options.count = EndOf(section) - place.begin;
  // Named by its shards, so that it stays the same section wherever an epoch visits it.
  options.key = Derive(Derive(options.key, place.pass), place.first);
  options.lane_key = Derive(options.lane_key, place.first);
  if (place.begin > 0) options.first_bytes = options.window_bytes;  // it is read before it begins
  std::vector<DatasetOrder> orders;
  orders.emplace_back(held->blocks, options);
  auto covered = std::make_shared<Covered>();
  covered->section = section;
  covered->blocks = held;
  covered->order = std::make_shared<MixedOrder>(held, std::move(orders), lanes_, options.key, place.begin);
  return covered;
}

const SectionOrder::Covered& SectionOrder::Find(size_t section) const {
  return **std::ranges::find_if(covered_, [section](const auto& covered) { return covered->section == section; });
}

PlannedSample SectionOrder::At(uint64_t position) const {
  const size_t section = SectionAt(position);
  const Covered& covered = Find(section);
  PlannedSample sample = covered.order->At(position - epoch_->sections[section].begin);
  sample.block = covered.InDataset(sample.block);
  sample.copy = static_cast<uint32_t>(epoch_->sections[section].pass);
  sample.window |= static_cast<uint64_t>(section) << kWindowBits;
  return sample;
}

uint32_t SectionOrder::BlockUses(uint32_t dataset, uint64_t window, uint32_t block) const {
  const Covered& covered = Find(window >> kWindowBits);
  return covered.order->BlockUses(dataset, window & ((uint64_t{1} << kWindowBits) - 1), covered.InSection(block));
}

PlanBlock SectionOrder::BlockOf(const PlannedSample& sample) const {
  const Covered& covered = Find(sample.window >> kWindowBits);
  return covered.blocks->blocks[covered.InSection(sample.block)];
}

EpochOrder::LanePlace SectionOrder::LaneOf(uint64_t position) const {
  const size_t section = SectionAt(position);
  return Find(section).order->LaneOf(position - epoch_->sections[section].begin);
}

bool SectionOrder::WithinRows(const Step& step) const {
  if (step.end > size()) return false;
  const size_t section = SectionAt(step.begin);
  const uint64_t begin = epoch_->sections[section].begin;
  if (step.begin == step.end) return true;
  return step.end <= EndOf(section) && Find(section).order->WithinRows({step.begin - begin, step.end - begin});
}

}  // namespace shardkit::loader
