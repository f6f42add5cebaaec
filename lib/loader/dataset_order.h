// One dataset's part of an epoch: its blocks in order, cut into lanes and windows.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "shardkit/plan.h"

namespace shardkit::loader {

struct DatasetOrderOptions {
  uint64_t key = 0;    // of this dataset and epoch
  uint64_t count = 0;  // samples of the epoch
  uint32_t lanes = 1;
  uint64_t window_bytes = 0;  // of one lane
  uint64_t first_bytes = 0;   // of a lane's first window; each later window may be twice as large as the one before
  SampleOrder order = SampleOrder::kShuffled;
};

// Places [0, count) number the samples block after block. Lane l has the places [l * rows(), (l + 1) * rows()). The
// places left over belong to no lane. Immutable, thread-safe.
class DatasetOrder {
 public:
  // `blocks` must outlive this and hold at least one sample when options.count > 0.
  DatasetOrder(const std::vector<PlanBlock>& blocks, const DatasetOrderOptions& options);

  uint64_t count() const { return options_.count; }
  uint64_t rows() const { return rows_; }
  uint64_t window_count() const { return windows_.empty() ? 0 : windows_.size() - 1; }

  // The sample delivered at a place, after the place was permuted within its window. Sets all but dataset and lane.
  PlannedSample At(uint64_t place) const;

  // How many places of `window` lie in `block`.
  uint32_t BlockUses(uint64_t window, uint32_t block) const;

 private:
  // A block, or the part of one that an epoch uses.
  struct Segment {
    uint64_t place = 0;  // of its first sample
    uint32_t block = 0;
  };

  uint64_t AddPass(const std::vector<uint32_t>& order, uint64_t place);
  double LaneDistance() const;
  void CutIntoWindows();
  size_t SegmentAt(uint64_t place) const;
  uint64_t SegmentEnd(size_t segment) const {
    return segment + 1 < segments_.size() ? segments_[segment + 1].place : options_.count;
  }

  const std::vector<PlanBlock>& blocks_;
  const DatasetOrderOptions options_;
  uint64_t rows_ = 0;
  std::vector<Segment> segments_;
  std::vector<uint64_t> windows_;  // the first place of each window, ascending, then the count
};

}  // namespace shardkit::loader
