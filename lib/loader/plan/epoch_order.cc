#include "loader/plan/epoch_order.h"

#include <algorithm>
#include <utility>

#include "loader/plan/permutation.h"

namespace shardkit::loader {
namespace {

// The turns of the datasets are shuffled within this many rows. Otherwise they would be periodic: with two datasets of
// one size, a lane would take from each in turn.
constexpr uint64_t kMixedRows = 256;

uint64_t Scale(uint64_t value, uint64_t numerator, uint64_t denominator) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * numerator / denominator);
}

}  // namespace

MixedOrder::MixedOrder(std::shared_ptr<const void> owner, std::vector<DatasetOrder> orders, uint32_t lanes,
                       uint64_t key, uint64_t first)
    : EpochOrder(lanes), owner_(std::move(owner)), orders_(std::move(orders)), key_(key), first_(first % lanes) {
  for (const DatasetOrder& order : orders_) {
    rows_ += order.rows();
    size_ += order.count();
  }
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    for (uint32_t dataset = 0; dataset < orders_.size(); ++dataset) {
      if (const uint64_t count = orders_[dataset].surplus(lane); count > 0)
        surpluses_.push_back({dataset, lane, count});
    }
  }
}

MixedOrder::Turn MixedOrder::TurnOf(uint64_t lane, uint64_t row) const {
  if (orders_.size() == 1) return {0, row};
  const uint64_t first = row / kMixedRows * kMixedRows;
  const uint64_t key = Derive(Derive(key_, lane), first / kMixedRows);
  row = first + Permutation(std::min(kMixedRows, rows_ - first), key)(row - first);
  // Of the `total` rows, `count` belong to this dataset, spread evenly. The other rows are left to later datasets.
  uint64_t total = rows_;
  for (uint32_t dataset = 0;; ++dataset) {
    const uint64_t count = orders_[dataset].rows();
    const uint64_t before = Scale(row, count, total);
    if (Scale(row + 1, count, total) > before) return {dataset, before};
    row -= before;
    total -= count;
  }
}

// Each surplus is spread evenly over the positions, so that neighbours come from different blocks, and ranks that share
// steps in the order of lanes come to the same blocks in each step.
std::pair<const MixedOrder::Surplus&, uint64_t> MixedOrder::SurplusAt(uint64_t position) const {
  uint64_t total = size_ - rows_ * lanes_;
  for (const Surplus* surplus = surpluses_.data();; ++surplus) {
    const uint64_t before = Scale(position, surplus->count, total);
    if (Scale(position + 1, surplus->count, total) > before) return {*surplus, before};
    position -= before;
    total -= surplus->count;
  }
}

EpochOrder::LanePlace MixedOrder::LaneOf(uint64_t position) const {
  const uint64_t rows_end = rows_ * lanes_;
  if (position < rows_end) return {false, static_cast<uint32_t>((first_ + position) % lanes_)};
  return {true, SurplusAt(position - rows_end).first.lane};
}

PlannedSample MixedOrder::At(uint64_t position) const {
  const uint64_t rows_end = rows_ * lanes_;
  Turn turn{};
  uint64_t lane = (first_ + position) % lanes_;
  if (position < rows_end) {
    turn = TurnOf(lane, position / lanes_);
  } else {
    const auto [surplus, index] = SurplusAt(position - rows_end);
    turn = {surplus.dataset, orders_[surplus.dataset].rows() + index};
    lane = surplus.lane;
  }
  PlannedSample sample = orders_[turn.dataset].At(lane, turn.row);
  sample.dataset = turn.dataset;
  return sample;
}

}  // namespace shardkit::loader

namespace shardkit {

std::vector<uint64_t> EpochOrder::RankPositions(const Step& step, uint64_t rank, uint64_t world_size) const {
  std::vector<uint64_t> positions;
  if (lanes_ % world_size == 0 && WithinRows(step)) {
    positions.resize(Plan::RankSlots(step, rank, world_size));
    uint64_t next = step.begin + (rank + world_size - step.begin % world_size) % world_size;
    for (uint64_t& position : positions) position = std::exchange(next, next + world_size);
    return positions;
  }
  const std::vector<uint64_t> ranks = SlotRanks(step, world_size);
  for (uint64_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank) positions.push_back(step.begin + i);
  }
  return positions;
}

std::vector<uint64_t> EpochOrder::SlotRanks(const Step& step, uint64_t world_size) const {
  std::vector<uint64_t> ranks(step.end - step.begin);
  // So many ranks have at most one slot each, and need no memory for each rank.
  if (world_size >= ranks.size()) {
    for (uint64_t i = 0; i < ranks.size(); ++i) ranks[i] = (step.begin + i) % world_size;
    return ranks;
  }
  struct Slot {
    bool after_rows;
    uint32_t lane;
    uint64_t position;
    auto operator<=>(const Slot&) const = default;
  };
  std::vector<Slot> slots;
  for (uint64_t position = step.begin; position < step.end; ++position) {
    const LanePlace place = LaneOf(position % size());
    slots.push_back({place.after_rows || position >= size(), place.lane, position});
  }
  std::ranges::sort(slots);
  std::vector<uint64_t> room(world_size);
  for (uint64_t i = 0; i < world_size; ++i) room[i] = Plan::RankSlots(step, i, world_size);
  // A rank first takes the slots of its own lanes; what it has no room for goes to those that have.
  const bool own_lanes = lanes_ % world_size == 0;
  std::vector<uint64_t> left;
  for (const Slot& slot : slots) {
    const uint64_t home = own_lanes ? slot.lane % world_size : loader::Scale(slot.lane, world_size, lanes_);
    if (room[home] == 0) {
      left.push_back(slot.position);
    } else {
      --room[home];
      ranks[slot.position - step.begin] = home;
    }
  }
  uint64_t rank = 0;
  for (const uint64_t position : left) {
    while (room[rank] == 0) ++rank;
    --room[rank];
    ranks[position - step.begin] = rank;
  }
  return ranks;
}

}  // namespace shardkit
