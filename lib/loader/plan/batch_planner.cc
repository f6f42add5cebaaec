#include "loader/plan/batch_planner.h"

#include <algorithm>

#include "loader/plan/permutation.h"

namespace shardkit::loader {

const BatchPlanner::PackedGroup& BatchPlanner::GroupOf(const PlannedSample& row, uint64_t epoch) {
  auto& lane = lane_groups_[{row.dataset, row.lane}];
  lane.Enter(epoch, row.window, places_.size() > 1, [](auto& groups) { groups.clear(); });
  for (const auto* groups : {&lane.now, &lane.before}) {
    if (const auto known = groups->find(row.block); known != groups->end()) return known->second;
  }
  PackedGroup& group = lane.now[row.block];
  group.pieces = rows_[row.dataset]->Pack(row.block, epoch);
  for (uint32_t i = 0; i < group.pieces.size(); ++i) {
    if (group.pieces[i].row == group.first.size()) group.first.push_back(i);
  }
  group.first.push_back(static_cast<uint32_t>(group.pieces.size()));
  return group;
}

void BatchPlanner::AddRow(const PlannedSample& row, const SampleReference& reference, uint64_t epoch, BatchTask& task) {
  const TokenRows& rows = *rows_[row.dataset];
  const PackedGroup& group = GroupOf(row, epoch);
  for (size_t i = group.first[row.in_block]; i < group.first[row.in_block + 1]; ++i) {
    const RowPiece& piece = group.pieces[i];
    const TokenRows::Place place = rows.PlaceOf(row.block, piece.document);
    SampleReference& added = task.references.emplace_back(reference);
    added.in_block = place.in_block;
    added.identity.ordinal = place.ordinal;
    added.tokens = {static_cast<uint32_t>(task.token_rows), piece.begin, piece.length, piece.offset,
                    rows.LengthOf(row.block, piece.document)};
    PlannedSample sample = row;
    sample.block = place.block;
    added.block = AddUse(sample, /*exact=*/false);
  }
  ++task.token_rows;
}

// The number of the uses that the sample is counted with.
uint32_t BatchPlanner::AddUse(const PlannedSample& sample, bool exact) {
  if (2 * uses_.size() >= slots_.size()) {
    slots_.assign(std::max<size_t>(64, 2 * slots_.size()), 0);
    for (uint32_t i = 0; i < uses_.size(); ++i) slots_[SlotOf(uses_[i].first, uses_[i].exact)] = i + 1;
  }
  uint32_t& number = slots_[SlotOf(sample, exact)];
  if (number == 0) {
    uses_.push_back({.first = sample, .exact = exact});
    number = static_cast<uint32_t>(uses_.size());
  }
  ++uses_[number - 1].count;
  return number - 1;
}

// The slot of the sample's uses, or a free one. There always is one.
size_t BatchPlanner::SlotOf(const PlannedSample& sample, bool exact) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = Mix((uint64_t{sample.dataset} << 33 | uint64_t{sample.block} << 1 | exact) ^ Mix(sample.window)) & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const BlockUses& uses = uses_[slots_[slot] - 1];
    if (uses.first.block == sample.block && uses.first.dataset == sample.dataset &&
        uses.first.window == sample.window && uses.exact == exact) {
      break;
    }
  }
  return slot;
}

std::unique_ptr<BatchTask> BatchPlanner::PlanStep(const EpochOrder& order, const Step& step, uint64_t epoch) {
  auto task = std::make_unique<BatchTask>();
  task->epoch = epoch;
  uses_.clear();
  std::ranges::fill(slots_, 0);
  const bool own_lanes = plan_.lanes() % world_size_ == 0;
  const std::vector<uint64_t> positions = order.RankPositions(step, rank_, world_size_);
  task->references.reserve(positions.size());
  for (const uint64_t position : positions) {
    const bool padding = position >= order.size();
    const PlannedSample sample = order.At(padding ? position % order.size() : position);
    SampleReference reference;
    reference.in_block = sample.in_block;
    reference.identity.dataset = sample.dataset;
    reference.identity.ordinal = sample.ordinal;
    reference.identity.position = position;
    reference.identity.copy = sample.copy;
    reference.identity.padding = padding;
    if (rows_[sample.dataset] != nullptr) {
      AddRow(sample, reference, epoch, *task);
      continue;
    }
    reference.block = AddUse(sample, !padding && (world_size_ == 1 || (own_lanes && !sample.shared)));
    task->references.push_back(reference);
  }
  return task;
}

// The block of some samples, claimed for their window.
std::shared_ptr<BlockEntry> BatchPlanner::BlockFor(const EpochOrder& order, const BlockUses& uses, uint64_t epoch,
                                                   BlockTable& blocks) {
  const PlannedSample& sample = uses.first;
  const BlockKey key{sample.dataset, sample.block};
  auto entry = blocks.Get(key, [&] {
    const TokenRows* const rows = rows_[sample.dataset].get();
    return places_[sample.dataset].At(plan_.datasets()[sample.dataset], sample.block,
                                      rows != nullptr ? rows->block(sample.block) : order.BlockOf(sample));
  });
  const auto find = [&] {
    return std::ranges::find_if(
        entry->claims, [&](const WindowClaim& claim) { return claim.epoch == epoch && claim.window == sample.window; });
  };
  if (find() == entry->claims.end()) {
    // Before other windows are retired, which may release the block.
    entry->claims.push_back(
        {epoch, sample.window,
         uses.exact ? order.BlockUses(sample.dataset, sample.window, sample.block) : WindowClaim::kUnknown});
    auto& lane = lane_windows_[sample.dataset][sample.lane];
    lane.Enter(epoch, sample.window, places_.size() > 1, [&](auto& claimed) { Retire(claimed, blocks); });
    lane.now.push_back({entry, epoch, sample.window});
  }
  const auto claim = find();
  if (claim->uses != WindowClaim::kUnknown) claim->uses -= std::min(claim->uses, uses.count);
  if (claim->uses == 0) entry->claims.erase(claim);
  return entry;
}

void BatchPlanner::Retire(std::vector<ClaimedBlock>& claimed, BlockTable& blocks) {
  for (const ClaimedBlock& block : claimed) blocks.Retire(*block.entry, block.epoch, block.window);
  claimed.clear();
}

void BatchPlanner::Claim(BatchTask& task, const EpochOrder& order, BlockTable& blocks) {
  for (BlockUses& uses : uses_) {
    const std::shared_ptr<BlockEntry> entry = BlockFor(order, uses, task.epoch, blocks);
    if (entry->planned_by != task.sequence) {
      entry->planned_by = task.sequence;
      entry->index_in_batch = static_cast<uint32_t>(task.blocks.size());
      task.blocks.push_back(entry);
      blocks.Need(*entry, task);
    }
    uses.block = entry->index_in_batch;
  }
}

void BatchPlanner::PointToBlocks(BatchTask& task) const {
  for (SampleReference& reference : task.references) {
    reference.block = uses_[reference.block].block;
    reference.identity.shard = task.blocks[reference.block]->place.shard;
  }
}

}  // namespace shardkit::loader
