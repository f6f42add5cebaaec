#include "loader/plan/batch_planner.h"

#include <algorithm>

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

void BatchPlanner::AddRow(const PlannedSample& row, const SampleReference& reference, uint64_t epoch, BatchTask& task,
                          std::vector<PlannedSample>* samples) {
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
    PlannedSample& sample = samples->emplace_back(row);
    sample.block = place.block;
  }
  ++task.token_rows;
}

std::unique_ptr<BatchTask> BatchPlanner::PlanStep(const EpochOrder& order, const Step& step, uint64_t epoch,
                                                  std::vector<PlannedSample>* samples) {
  auto task = std::make_unique<BatchTask>();
  samples->clear();
  for (const uint64_t position : order.RankPositions(step, rank_, world_size_)) {
    const PlannedSample sample = order.At(position % order.size());
    SampleReference reference;
    reference.in_block = sample.in_block;
    reference.identity.dataset = sample.dataset;
    reference.identity.ordinal = sample.ordinal;
    reference.identity.position = position;
    reference.identity.copy = sample.copy;
    reference.identity.padding = position >= order.size();
    if (rows_[sample.dataset] != nullptr) {
      AddRow(sample, reference, epoch, *task, samples);
      continue;
    }
    task->references.push_back(reference);
    samples->push_back(sample);
  }
  return task;
}

// The block of a sample, claimed for the sample's window.
std::shared_ptr<BlockEntry> BatchPlanner::BlockFor(const EpochOrder& order, const PlannedSample& sample, uint64_t epoch,
                                                   bool exact, BlockTable& blocks) {
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
         exact ? order.BlockUses(sample.dataset, sample.window, sample.block) : WindowClaim::kUnknown});
    auto& lane = lane_windows_[sample.dataset][sample.lane];
    lane.Enter(epoch, sample.window, places_.size() > 1, [&](auto& claimed) { Retire(claimed, blocks); });
    lane.now.push_back({entry, epoch, sample.window});
  }
  const auto claim = find();
  if (claim->uses != WindowClaim::kUnknown && --claim->uses == 0) entry->claims.erase(claim);
  return entry;
}

void BatchPlanner::Retire(std::vector<ClaimedBlock>& claimed, BlockTable& blocks) {
  for (const ClaimedBlock& block : claimed) blocks.Retire(*block.entry, block.epoch, block.window);
  claimed.clear();
}

void BatchPlanner::Claim(BatchTask& task, const EpochOrder& order, const std::vector<PlannedSample>& samples,
                         BlockTable& blocks) {
  // Whether the rank has all samples of its lanes, so that the uses of a block can be counted down.
  const bool own_lanes = plan_.lanes() % world_size_ == 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t position = task.references[i].identity.position;
    const bool exact = rows_[samples[i].dataset] == nullptr &&
                       (world_size_ == 1 || (own_lanes && !samples[i].shared)) && position < order.size();
    const std::shared_ptr<BlockEntry> entry = BlockFor(order, samples[i], task.epoch, exact, blocks);
    if (entry->planned_by != task.sequence) {
      entry->planned_by = task.sequence;
      entry->index_in_batch = static_cast<uint32_t>(task.blocks.size());
      task.blocks.push_back(entry);
      blocks.Need(*entry, task);
    }
    task.references[i].block = entry->index_in_batch;
    task.references[i].identity.shard = entry->place.shard;
  }
}

}  // namespace shardkit::loader
