// The whole order of an epoch: lanes take turns, and each lane mixes the datasets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "loader/plan/dataset_order.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

class MixedOrder : public EpochOrder, public std::enable_shared_from_this<MixedOrder> {
 public:
  // One entry per dataset, all with `lanes` lanes. `owner` is kept: the orders borrow its blocks. Position 0 belongs to
  // lane `first` % lanes: where the order is a section, the positions before it.
  MixedOrder(std::shared_ptr<const void> owner, std::vector<DatasetOrder> orders, uint32_t lanes, uint64_t key,
             uint64_t first = 0);

  uint64_t size() const override { return size_; }
  absl::StatusOr<std::shared_ptr<const EpochOrder>> Covering(const Step&) const override { return shared_from_this(); }
  PlannedSample At(uint64_t position) const override;
  uint32_t BlockUses(uint32_t dataset, uint64_t window, uint32_t block) const override {
    return orders_[dataset].BlockUses(window, block);
  }
  PlanBlock BlockOf(const PlannedSample& sample) const override {
    return orders_[sample.dataset].stored()[sample.block];
  }

  LanePlace LaneOf(uint64_t position) const override;
  bool WithinRows(const Step& step) const override { return step.end <= rows_ * lanes_; }

 private:
  struct Turn {
    uint32_t dataset;
    uint64_t row;  // of the dataset, in the lane
  };
  Turn TurnOf(uint64_t lane, uint64_t row) const;

  // What a lane of a dataset has beyond the rows.
  struct Surplus {
    uint32_t dataset;
    uint32_t lane;
    uint64_t count;
  };
  // The surplus that a position after the rows, counted from there, takes from, and which of its samples.
  std::pair<const Surplus&, uint64_t> SurplusAt(uint64_t position) const;

  const std::shared_ptr<const void> owner_;
  const std::vector<DatasetOrder> orders_;
  const uint64_t key_;
  const uint64_t first_;
  std::vector<Surplus> surpluses_;  // those that are not empty
  uint64_t rows_ = 0;               // of all datasets, in each lane
  uint64_t size_ = 0;
};

}  // namespace shardkit::loader
