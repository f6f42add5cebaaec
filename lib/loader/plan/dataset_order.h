// One dataset's part of an epoch: its blocks in order, cut into lanes and windows.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "loader/plan/sample_draw.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

struct DatasetOrderOptions {
  uint64_t key = 0;         // of this dataset and epoch
  bool keep_lanes = false;  // lanes have the same blocks in all epochs, when there are enough
  uint64_t lane_key = 0;    // of the dataset; decides which
  uint64_t count = 0;       // samples of the epoch
  uint32_t lanes = 1;
  bool mixed = false;         // with other datasets: lanes of equal lengths, so that proportions hold to the end
  uint64_t window_bytes = 0;  // of one lane
  uint64_t first_bytes = 0;   // of a lane's first window; each later window may be twice as large as the one before
  SampleOrder order = SampleOrder::kShuffled;
};

// Each lane has whole blocks, one after another, and at least rows() samples. What it has beyond them, its surplus,
// lies in its last block. In mixtures, and with fewer blocks than lanes, lanes
// are cut within blocks. Places [0, count) number the
// samples lane after lane. Immutable, thread-safe.
class DatasetOrder {
 public:
  // `stored`, the dataset's blocks, must outlive this. They, or what is drawn of them, if something is, have at least
  // one sample when options.count > 0.
  DatasetOrder(const std::vector<PlanBlock>& stored, const DatasetOrderOptions& options,
               std::shared_ptr<const SampleDraw::Drawn> drawn = nullptr);

  uint64_t count() const { return options_.count; }
  uint64_t rows() const { return rows_; }
  const std::vector<PlanBlock>& stored() const { return stored_; }

  // The samples of a lane beyond rows().
  uint64_t surplus(uint64_t lane) const { return lanes_[lane + 1] - lanes_[lane] - rows_; }

  // The sample in a row of a lane, `row` < rows() + surplus(lane), after it was permuted within its window. The surplus
  // is permuted by itself. Sets all but the dataset.
  PlannedSample At(uint64_t lane, uint64_t row) const;

  // How many places of `window` lie in `block`.
  uint32_t BlockUses(uint64_t window, uint32_t block) const;

 private:
  // A block, or the part of one that an epoch uses.
  struct Segment {
    uint64_t place = 0;  // of its first sample
    uint32_t block = 0;
    uint32_t pass = 0;  // through the dataset
  };

  uint64_t AddPass(const std::vector<uint32_t>& order, uint64_t place, uint32_t pass);
  void DealToLanes();
  void ShuffleWithinLanes();
  double LaneDistance() const;
  void CutIntoWindows();
  size_t SegmentAt(uint64_t place) const;
  uint64_t SegmentEnd(size_t segment) const {
    return segment + 1 < segments_.size() ? segments_[segment + 1].place : options_.count;
  }

  void Locate(uint64_t in_block, PlannedSample* sample) const;

  const std::vector<PlanBlock>& stored_;
  const std::shared_ptr<const SampleDraw::Drawn> drawn_;  // null where all samples are taken
  const std::vector<PlanBlock>& blocks_;                  // those of `drawn_`, or `stored_`
  const DatasetOrderOptions options_;
  uint64_t rows_ = 0;
  std::vector<Segment> segments_;
  std::vector<uint64_t> lanes_;    // the first place of each lane, then the count
  std::vector<uint64_t> windows_;  // the first place of each window, ascending, then the count
};

}  // namespace shardkit::loader
