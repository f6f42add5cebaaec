// The order of an epoch of a dataset whose blocks are not all held: section by section (PlanDataset::shards).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "loader/plan/dataset_order.h"
#include "loader/plan/epoch_order.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

// The blocks of a section: whole shards, with at least 64 blocks for each lane.
uint64_t SectionBlocks(const PlanOptions& options, uint32_t lanes);

class SectionOrder : public EpochOrder, public std::enable_shared_from_this<SectionOrder> {
 public:
  // `dataset`, which has shards, is borrowed from `owner`. `options` are those of the whole epoch.
  SectionOrder(std::shared_ptr<const void> owner, const PlanDataset& dataset, const DatasetOrderOptions& options,
               uint64_t section_blocks);

  uint64_t size() const override { return epoch_->options.count; }
  absl::StatusOr<std::shared_ptr<const EpochOrder>> Covering(const Step& step) const override;
  PlannedSample At(uint64_t position) const override;
  uint32_t BlockUses(uint32_t dataset, uint64_t window, uint32_t block) const override;
  PlanBlock BlockOf(const PlannedSample& sample) const override;

 protected:
  LanePlace LaneOf(uint64_t position) const override;
  bool WithinRows(const Step& step) const override;

 private:
  // A run of the shards in the order of one pass through the dataset.
  struct Section {
    uint64_t begin = 0;  // its first position
    uint64_t pass = 0;
    uint64_t first = 0, end = 0;  // in the order of the shards
  };
  // What all orders of the epoch share.
  struct Epoch {
    std::shared_ptr<const void> owner;
    const PlanDataset& dataset;
    DatasetOrderOptions options;
    uint64_t section_blocks = 0;
    std::vector<Section> sections;
  };
  struct Covered;

  explicit SectionOrder(std::shared_ptr<const Epoch> epoch)
      : EpochOrder(epoch->options.lanes), epoch_(std::move(epoch)) {}

  static std::function<uint32_t(uint64_t)> ShardOrder(const Epoch& epoch, uint64_t pass);
  static void AddPass(Epoch& epoch, uint64_t pass, uint64_t position);
  size_t SectionAt(uint64_t position) const;
  uint64_t EndOf(size_t section) const;
  absl::StatusOr<std::shared_ptr<const Covered>> Load(size_t section) const;
  const Covered& Find(size_t section) const;

  const std::shared_ptr<const Epoch> epoch_;
  std::vector<std::shared_ptr<const Covered>> covered_;
};

}  // namespace shardkit::loader
