// Turns steps of the plan into batches, and claims the blocks that they need.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "loader/batch_task.h"
#include "loader/block_table.h"
#include "loader/open_datasets.h"
#include "loader/token_rows.h"
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
        lane_windows_(places.size(), std::vector<LaneWindow>(plan.lanes() + 1)),
        lane_groups_(places.size(), std::vector<LaneGroups>(rows.empty() ? 0 : plan.lanes() + 1)) {}

  // The rank's samples of a step. *samples says where the order has each of them, or the row that it is in.
  std::unique_ptr<BatchTask> PlanStep(const EpochOrder& order, const Step& step, uint64_t epoch,
                                      std::vector<PlannedSample>* samples);

  // Claims the blocks of `samples`, which PlanStep returned with the batch, in the order of the batches. The batch has
  // its epoch and its sequence. Call with the lock of `blocks`.
  void Claim(BatchTask& task, const EpochOrder& order, const std::vector<PlannedSample>& samples, BlockTable& blocks);

 private:
  struct ClaimedBlock {
    std::shared_ptr<BlockEntry> entry;
    uint64_t epoch;
    uint64_t window;
  };
  // The blocks claimed for a lane's window, and for the window before. In a mixture of datasets the last samples of a
  // window come among the first samples of the next.
  struct LaneWindow {
    uint64_t epoch = 0;
    uint64_t window = UINT64_MAX;
    std::vector<ClaimedBlock> blocks, blocks_before;
  };

  // The rows of a group of blocks in an epoch, and where each begins.
  struct PackedGroup {
    std::vector<RowPiece> pieces;
    std::vector<uint32_t> first;
  };
  // Those of a lane's window, and of the window before, as of blocks.
  struct LaneGroups {
    uint64_t epoch = 0;
    uint64_t window = UINT64_MAX;
    std::map<uint32_t, PackedGroup> now, before;
  };
  const PackedGroup& GroupOf(const PlannedSample& row, uint64_t epoch);
  void AddRow(const PlannedSample& row, const SampleReference& reference, uint64_t epoch, BatchTask& task,
              std::vector<PlannedSample>* samples);

  std::shared_ptr<BlockEntry> BlockFor(const EpochOrder& order, const PlannedSample& sample, uint64_t epoch, bool exact,
                                       BlockTable& blocks);
  static void Retire(std::vector<ClaimedBlock>& claimed, BlockTable& blocks);

  const uint64_t rank_, world_size_;
  const std::span<const BlockPlaces> places_;
  const std::vector<std::shared_ptr<const TokenRows>> rows_;  // of each dataset
  const Plan& plan_;
  std::vector<std::vector<LaneWindow>> lane_windows_;  // by dataset and lane
  std::vector<std::vector<LaneGroups>> lane_groups_;   // likewise
};

}  // namespace shardkit::loader
