#include "loader/plan/dataset_order.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "loader/plan/permutation.h"

namespace shardkit::loader {
namespace {

// With few blocks, orders differ much in how far apart consecutive samples are. Of at most this many orders the first
// good one is taken.
constexpr uint64_t kOrdersTried = 32;
constexpr size_t kFewBlocks = 4096;
constexpr double kGoodDistance = 0.99;  // share of the distance in a perfect shuffle
constexpr double kMostDistance = 1.1;   // beyond it, lanes stay at opposite ends of the dataset

}  // namespace

DatasetOrder::DatasetOrder(const std::vector<PlanBlock>& stored, const DatasetOrderOptions& options,
                           std::shared_ptr<const SampleDraw::Drawn> drawn)
    : stored_(stored),
      drawn_(std::move(drawn)),
      blocks_(drawn_ != nullptr ? drawn_->blocks : stored_),
      options_(options) {
  const auto filled = std::ranges::count_if(blocks_, [](const PlanBlock& block) { return block.sample_count > 0; });
  const bool keep_lanes = options_.keep_lanes && options_.lanes > 1 && static_cast<uint64_t>(filled) >= options_.lanes;
  const uint64_t deal_key = keep_lanes ? options_.lane_key : options_.key;
  for (uint64_t attempt = 0; attempt < kOrdersTried; ++attempt) {
    segments_.clear();
    uint64_t place = 0;
    for (uint64_t pass = 0; place < options_.count; ++pass) {
      std::vector<uint32_t> order;
      if (options_.order == SampleOrder::kShuffled) {
        order = ShuffledIndexes(static_cast<uint32_t>(blocks_.size()), Derive(deal_key, pass * kOrdersTried + attempt));
      }
      place = AddPass(order, place, static_cast<uint32_t>(pass));
    }
    DealToLanes();
    if (options_.order != SampleOrder::kShuffled || options_.lanes == 1 || segments_.size() > kFewBlocks) break;
    if (const double distance = LaneDistance(); distance >= kGoodDistance && distance <= kMostDistance) break;
  }
  if (keep_lanes) ShuffleWithinLanes();
  CutIntoWindows();
}

// Appends each block once, from `place` on, until options_.count is reached. Returns the place after them.
uint64_t DatasetOrder::AddPass(const std::vector<uint32_t>& order, uint64_t place, uint32_t pass) {
  for (uint32_t i = 0; i < blocks_.size() && place < options_.count; ++i) {
    const uint32_t block = order.empty() ? i : order[i];
    if (blocks_[block].sample_count == 0) continue;
    segments_.push_back({place, block, pass});
    place += blocks_[block].sample_count;
  }
  return place;
}

// Gives each block to the lane that has the fewest samples so far. Therefore a lane was not longer than any other is in
// the end when it got its last block, and only that block reaches beyond the shortest lane.
void DatasetOrder::DealToLanes() {
  const uint32_t lanes = options_.lanes;
  lanes_.assign(lanes + size_t{1}, options_.count);
  if (lanes == 1 || options_.mixed || segments_.size() < lanes) {
    rows_ = options_.count / lanes;
    for (uint32_t lane = 0; lane < lanes; ++lane) lanes_[lane] = lane * rows_;
    return;
  }
  using Length = std::pair<uint64_t, uint32_t>;  // samples, lane
  std::priority_queue<Length, std::vector<Length>, std::greater<>> shortest;
  for (uint32_t lane = 0; lane < lanes; ++lane) shortest.emplace(0, lane);
  std::vector<uint32_t> lane_of(segments_.size());
  std::vector<size_t> next(lanes + size_t{1});  // of a lane: its next index in `dealt`
  for (size_t i = 0; i < segments_.size(); ++i) {
    const auto [samples, lane] = shortest.top();
    shortest.pop();
    lane_of[i] = lane;
    ++next[lane + 1];
    shortest.emplace(samples + SegmentEnd(i) - segments_[i].place, lane);
  }
  rows_ = shortest.top().first;
  for (uint32_t lane = 0; lane < lanes; ++lane) next[lane + 1] += next[lane];
  const std::vector<size_t> begins(next.begin(), next.end() - 1);
  std::vector<Segment> dealt(segments_.size());
  for (size_t i = 0; i < segments_.size(); ++i) {
    dealt[next[lane_of[i]]++] = {SegmentEnd(i) - segments_[i].place, segments_[i].block, segments_[i].pass};
  }
  uint64_t place = 0;
  for (Segment& segment : dealt) place += std::exchange(segment.place, place);
  for (uint32_t lane = 0; lane < lanes; ++lane) lanes_[lane] = dealt[begins[lane]].place;
  segments_ = std::move(dealt);
}

// Each lane's blocks in an order of this epoch. What a lane has beyond the shortest one still lies in its last block.
void DatasetOrder::ShuffleWithinLanes() {
  size_t begin = 0;
  for (uint32_t lane = 0; lane < options_.lanes; ++lane) {
    size_t end = begin;
    while (end < segments_.size() && segments_[end].place < lanes_[lane + 1]) ++end;
    const auto count = static_cast<uint32_t>(end - begin);
    const uint64_t key = Derive(options_.key, (uint64_t{1} << 63) + lane);
    std::vector<uint32_t> blocks(count);
    const std::vector<uint32_t> order = ShuffledIndexes(count, key);
    for (uint32_t i = 0; i < count; ++i) blocks[i] = segments_[begin + order[i]].block;
    // The block that the lane got last holds its surplus, so there is one that does.
    for (uint32_t i = count; i-- > 0;) {
      if (blocks_[blocks[i]].sample_count < surplus(lane)) continue;
      std::swap(blocks[i], blocks.back());
      break;
    }
    uint64_t place = lanes_[lane];
    for (uint32_t i = 0; i < count; ++i) {
      segments_[begin + i] = {place, blocks[i], 0};  // lanes are kept where there is one pass
      place += blocks_[blocks[i]].sample_count;
    }
    begin = end;
  }
}

// How far apart consecutive samples are in the dataset on average, divided by that in a perfect shuffle. Estimated from
// the middles of blocks, at a few rows of each.
double DatasetOrder::LaneDistance() const {
  const uint64_t rows = std::min<uint64_t>(rows_, 8 * segments_.size() / options_.lanes + 1);
  if (rows == 0 || blocks_.empty()) return 1;
  const auto middle = [&](uint64_t lane, uint64_t row) {
    const Segment& segment = segments_[SegmentAt(lanes_[lane] + row)];
    return static_cast<double>(blocks_[segment.block].first_sample) + blocks_[segment.block].sample_count / 2.0;
  };
  double sum = 0;
  for (uint64_t i = 0; i < rows; ++i) {
    const uint64_t row = i * rows_ / rows;
    double before = middle(options_.lanes - 1, row);
    for (uint64_t lane = 0; lane < options_.lanes; ++lane) {
      const double next = middle(lane, row);
      sum += next > before ? next - before : before - next;
      before = next;
    }
  }
  const double samples = static_cast<double>(blocks_.back().first_sample + blocks_.back().sample_count);
  return sum / static_cast<double>(rows * options_.lanes) / (samples / 3);
}

void DatasetOrder::CutIntoWindows() {
  if (options_.count == 0) return;
  uint64_t all_bytes = 0;
  for (const Segment& segment : segments_) all_bytes += blocks_[segment.block].bytes;
  const uint64_t first_bytes = std::min(options_.first_bytes, options_.window_bytes);
  const bool fits = all_bytes / options_.lanes < first_bytes;
  size_t segment = 0;
  for (uint64_t lane = 0; lane < options_.lanes; ++lane) {
    const uint64_t begin = lanes_[lane];
    const uint64_t end = lanes_[lane + 1];
    if (begin == end) continue;
    // Unless everything fits, the first window of each lane is shorter, by a different amount for each lane. So the
    // lanes do not all come to a new window, and need its blocks, at the same time.
    uint64_t limit = fits ? options_.window_bytes : first_bytes / options_.lanes * (lane + 1);
    uint64_t next_limit = first_bytes;
    uint64_t bytes = 0;
    windows_.push_back(begin);
    for (uint64_t place = begin; place < end;) {
      while (SegmentEnd(segment) <= place) ++segment;
      const uint64_t more = blocks_[segments_[segment].block].bytes;
      if (place > windows_.back() && (bytes >= limit || more > limit - bytes)) {
        windows_.push_back(place);
        next_limit = std::min(options_.window_bytes, 2 * next_limit);
        limit = next_limit;
        bytes = 0;
      }
      bytes += more;
      place = std::min(SegmentEnd(segment), end);
    }
  }
  windows_.push_back(options_.count);
}

size_t DatasetOrder::SegmentAt(uint64_t place) const {
  const auto after = std::ranges::upper_bound(segments_, place, {}, &Segment::place);
  return static_cast<size_t>(after - segments_.begin()) - 1;
}

PlannedSample DatasetOrder::At(uint64_t lane, uint64_t row) const {
  PlannedSample sample;
  sample.lane = static_cast<uint32_t>(lane);
  uint64_t place = lanes_[lane] + row;
  const auto after = std::ranges::upper_bound(windows_, place);
  sample.window = static_cast<uint64_t>(after - windows_.begin()) - 1;
  uint64_t begin = windows_[sample.window];
  uint64_t end = windows_[sample.window + 1];
  const uint64_t rows_end = lanes_[lane] + rows_;
  sample.shared = end > rows_end;
  if (options_.order != SampleOrder::kSequential) {
    uint64_t purpose = ~sample.window;
    if (place >= rows_end) {
      begin = std::max(begin, rows_end);
      purpose ^= uint64_t{1} << 62;
    } else {
      end = std::min(end, rows_end);
    }
    place = begin + Permutation(end - begin, Derive(options_.key, purpose))(place - begin);
  }
  const size_t at = SegmentAt(place);
  const Segment& segment = segments_[at];
  sample.block = segment.block;
  const uint64_t stored = blocks_[segment.block].sample_count;
  uint64_t in_block = place - segment.place;
  // Of a block of which the epoch has a part, any samples, not the first ones.
  if (options_.order == SampleOrder::kShuffled && SegmentEnd(at) - segment.place < stored) {
    in_block = Permutation(stored, Derive(options_.key, (uint64_t{7} << 61) + segment.block))(in_block);
  }
  sample.copy = segment.pass;
  Locate(in_block, &sample);
  return sample;
}

// Sets which sample it is, of the block's samples that an epoch takes.
void DatasetOrder::Locate(uint64_t in_block, PlannedSample* sample) const {
  if (drawn_ != nullptr) {
    const auto begin = drawn_->in_block.begin() + static_cast<ptrdiff_t>(blocks_[sample->block].first_sample);
    const auto drawn = begin + static_cast<ptrdiff_t>(in_block);
    in_block = *drawn;
    sample->copy += static_cast<uint32_t>(drawn - std::lower_bound(begin, drawn, *drawn));
  }
  sample->in_block = static_cast<uint32_t>(in_block);
  sample->ordinal = stored_[sample->block].first_sample + in_block;
}

uint32_t DatasetOrder::BlockUses(uint64_t window, uint32_t block) const {
  const uint64_t begin = windows_[window];
  const uint64_t end = windows_[window + 1];
  uint64_t uses = 0;
  for (size_t i = SegmentAt(begin); i < segments_.size() && segments_[i].place < end; ++i) {
    if (segments_[i].block == block) uses += std::min(SegmentEnd(i), end) - std::max(segments_[i].place, begin);
  }
  return static_cast<uint32_t>(uses);
}

}  // namespace shardkit::loader
