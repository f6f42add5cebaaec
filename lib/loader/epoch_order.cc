#include "loader/epoch_order.h"

#include <algorithm>
#include <utility>

#include "loader/permutation.h"

namespace shardkit::loader {
namespace {

// The turns of the datasets are shuffled within this many rows. Otherwise they would be periodic: with two datasets of
// one size, a lane would take from each in turn.
constexpr uint64_t kMixedRows = 256;

constexpr uint64_t kTailPurpose = UINT64_MAX;

uint64_t Scale(uint64_t value, uint64_t numerator, uint64_t denominator) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * numerator / denominator);
}

}  // namespace

MixedOrder::MixedOrder(std::shared_ptr<const void> owner, std::vector<DatasetOrder> orders, uint32_t lanes,
                       uint64_t key)
    : owner_(std::move(owner)), orders_(std::move(orders)), lanes_(lanes), key_(key) {
  for (const DatasetOrder& order : orders_) {
    rows_ += order.rows();
    size_ += order.count();
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

PlannedSample MixedOrder::At(uint64_t position) const {
  const uint64_t tail_begin = rows_ * lanes_;
  PlannedSample sample;
  uint32_t dataset = 0;
  uint32_t lane = lanes_;
  if (position < tail_begin) {
    lane = static_cast<uint32_t>(position % lanes_);
    const Turn turn = TurnOf(lane, position / lanes_);
    dataset = turn.dataset;
    sample = orders_[dataset].At(lane * orders_[dataset].rows() + turn.row);
  } else {
    uint64_t rest = position - tail_begin;
    if (orders_.size() > 1) rest = Permutation(size_ - tail_begin, Derive(key_, kTailPurpose))(rest);
    for (;; ++dataset) {
      const uint64_t left_over = orders_[dataset].count() - orders_[dataset].rows() * lanes_;
      if (rest < left_over) break;
      rest -= left_over;
    }
    sample = orders_[dataset].At(orders_[dataset].rows() * lanes_ + rest);
  }
  sample.dataset = dataset;
  sample.lane = lane;
  return sample;
}

}  // namespace shardkit::loader
