// Turns steps of the plan into batches, and claims the blocks that they need.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "loader/columns/token_rows.h"
#include "loader/engine/batch_task.h"
#include "loader/engine/block_table.h"
#include "loader/open_datasets.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

// For one thread. Borrows the plan, and the places of the blocks of each of its datasets. `rows` has the rows of each,
// or null where its samples are the dataset's; it is empty when all are.
class BatchPlanner {
 public:
  BatchPlanner(uint64_t rank, uint64_t world_size, std::span<const BlockPlaces> places,
               const std::vector<std::shared_ptr<const TokenRows>>& rows, const Plan& plan)
      : rank_(rank),
        world_size_(world_size),
        places_(places),
        rows_(rows.empty() ? std::vector<std::shared_ptr<const TokenRows>>(places.size()) : rows),
        plan_(plan),
        lane_windows_(places.size(), std::vector<LaneWindow<std::vector<ClaimedBlock>>>(plan.lanes() + 1)) {}

  // The rank's samples of a step. The batch is claimed and pointed to its blocks before the next one is planned.
  std::unique_ptr<BatchTask> PlanStep(const EpochOrder& order, const Step& step, uint64_t epoch);

  // Claims the blocks of the batch, which has its sequence by now. Call with the lock of `blocks`, for which others
  // wait: what takes time for each sample is done without it, before and afterwards.
  void Claim(BatchTask& task, const EpochOrder& order, BlockTable& blocks);

  // Tells each sample of the batch which of its blocks it lies in.
  void PointToBlocks(BatchTask& task) const;

 private:
  // The samples that a batch takes of a block for one window.
  struct BlockUses {
    PlannedSample first;
    bool exact = false;  // the rank has all samples of the window, so that its uses of the block can be counted down
    uint64_t count = 0;
    uint32_t block = 0;  // in the batch
  };
  struct ClaimedBlock {
    std::shared_ptr<BlockEntry> entry;
    uint64_t epoch;
    uint64_t window;
  };
  // The rows of a group of blocks in an epoch, and where each begins.
  struct PackedGroup {
    std::vector<RowPiece> pieces;
    std::vector<uint32_t> first;
  };
  // What a lane has for its window, and for the window before. In a mixture of datasets the last samples of a window
  // come among the first samples of the next.
  template <typename Things>
  struct LaneWindow {
    uint64_t epoch = 0;
    uint64_t window = UINT64_MAX;
    Things now, before;

    // Before something of a sample is added. Gives `retire` what is needed no longer; it empties that.
    template <typename Retire>
    void Enter(uint64_t of_epoch, uint64_t of_window, bool mixed, const Retire& retire) {
      if (epoch == of_epoch && window != UINT64_MAX && of_window <= window) return;
      retire(before);
      before = std::exchange(now, {});
      if (epoch != of_epoch || !mixed) retire(before);
      epoch = of_epoch;
      window = of_window;
    }
  };
  const PackedGroup& GroupOf(const PlannedSample& row, uint64_t epoch);
  void AddRow(const PlannedSample& row, const SampleReference& reference, uint64_t epoch, BatchTask& task);
  uint32_t AddUse(const PlannedSample& sample, bool exact);
  size_t SlotOf(const PlannedSample& sample, bool exact) const;

  std::shared_ptr<BlockEntry> BlockFor(const EpochOrder& order, const BlockUses& uses, uint64_t epoch,
                                       BlockTable& blocks);
  static void Retire(std::vector<ClaimedBlock>& claimed, BlockTable& blocks);

  const uint64_t rank_, world_size_;
  const std::span<const BlockPlaces> places_;
  const std::vector<std::shared_ptr<const TokenRows>> rows_;  // of each dataset
  const Plan& plan_;
  std::vector<std::vector<LaneWindow<std::vector<ClaimedBlock>>>> lane_windows_;  // by dataset and lane
  // Likewise, of those that have rows; the groups by their numbers.
  std::map<std::pair<uint32_t, uint32_t>, LaneWindow<std::map<uint32_t, PackedGroup>>> lane_groups_;

  // Of the batch planned last. Until it points to its blocks, its samples have numbers of uses in place of blocks.
  std::vector<BlockUses> uses_;
  std::vector<uint32_t> slots_;  // a hash table of `uses_`: their numbers, from 1; 0 is free
};

}  // namespace shardkit::loader
