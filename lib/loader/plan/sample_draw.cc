#include "loader/plan/sample_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "base/endian.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "loader/plan/permutation.h"

namespace shardkit::loader {
namespace {

// The sum of all shares fits in 64 bits: fewer than 2^32 samples.
constexpr int kShareBits = 31;
constexpr uint64_t kOne = uint64_t{1} << kShareBits;

// The weights as shares of `count` in all, none above 1. The largest ones become 1, and what is left is divided among
// the others, until no other is above 1.
std::vector<double> CappedShares(const std::vector<double>& weights, uint64_t count) {
  std::vector<double> ordered = weights;
  std::ranges::sort(ordered, std::greater<>());
  std::vector<double> rest(ordered.size() + 1);  // sums of those from here on, small ones first
  for (size_t i = ordered.size(); i-- > 0;) rest[i] = rest[i + 1] + ordered[i];
  uint64_t whole = 0;  // how many become 1
  const auto factor = [&] { return rest[whole] > 0 ? static_cast<double>(count - whole) / rest[whole] : 0; };
  while (whole < count && whole < ordered.size() && ordered[whole] * factor() > 1) ++whole;
  const double least_whole = whole > 0 ? ordered[whole - 1] : INFINITY;
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(weight >= least_whole ? 1 : std::min(1.0, weight * factor()));
  return shares;
}

uint64_t HashOf(const PlanDataset& dataset, uint64_t count) {
  StreamingHash hash;
  const auto add = [&](uint64_t number) {
    char bytes[sizeof(number)];
    StoreLittle(bytes, number);
    hash.Update({bytes, sizeof(bytes)});
  };
  add(dataset.selected != nullptr ? 1 : 0);
  if (dataset.selected != nullptr) {
    add(dataset.selected->size());
    for (const uint64_t ordinal : *dataset.selected) add(ordinal);
  }
  if (dataset.weights == nullptr) return hash.Digest();
  add(dataset.replacement ? 1 : 0);
  add(count);
  for (const double weight : *dataset.weights) add(std::bit_cast<uint64_t>(weight));
  return hash.Digest();
}

// Counts what `samples`, pairs of a block and a number in it, in their order, have of each block.
class DrawnBlocks {
 public:
  DrawnBlocks(const std::vector<PlanBlock>& blocks, uint64_t samples) : drawn_(std::make_shared<SampleDraw::Drawn>()) {
    drawn_->blocks = blocks;
    drawn_->in_block.reserve(samples);
    for (PlanBlock& block : drawn_->blocks) block.sample_count = 0;
  }
  void Add(size_t block, uint32_t in_block, uint64_t copies) {
    drawn_->blocks[block].sample_count += static_cast<uint32_t>(copies);
    drawn_->in_block.insert(drawn_->in_block.end(), copies, in_block);
  }
  std::shared_ptr<const SampleDraw::Drawn> Finish() {
    uint64_t first = 0;
    for (PlanBlock& block : drawn_->blocks) {
      block.first_sample = first;
      first += block.sample_count;
      if (block.sample_count == 0) block.bytes = 0;  // it is not read
    }
    return std::move(drawn_);
  }

 private:
  std::shared_ptr<SampleDraw::Drawn> drawn_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleDraw>> SampleDraw::Create(const PlanDataset& dataset, uint64_t count) {
  if (dataset.selected == nullptr && dataset.weights == nullptr) return nullptr;
  if (!dataset.shards.empty()) {
    return InvalidArgument("samples are chosen where the plan has the dataset's blocks, not its shards");
  }
  auto draw = std::make_shared<SampleDraw>();
  DrawnBlocks all(dataset.blocks, dataset.samples());
  uint64_t next = 0, samples = 0;
  size_t at = 0;  // in `selected`
  for (size_t b = 0; b < dataset.blocks.size(); ++b) {
    const PlanBlock& block = dataset.blocks[b];
    const uint64_t end = samples = block.first_sample + block.sample_count;
    if (dataset.selected == nullptr) {
      for (uint32_t i = 0; i < block.sample_count; ++i) all.Add(b, i, 1);
      continue;
    }
    for (; at < dataset.selected->size() && (*dataset.selected)[at] < end; ++at) {
      const uint64_t ordinal = (*dataset.selected)[at];
      if (ordinal < next) return InvalidArgument("the ordinals of the samples chosen do not ascend: ", ordinal);
      next = ordinal + 1;
      all.Add(b, static_cast<uint32_t>(ordinal - block.first_sample), 1);
    }
  }
  if (dataset.selected != nullptr && at < dataset.selected->size()) {
    return InvalidArgument("sample ", (*dataset.selected)[at], " was chosen, and the dataset has ", samples);
  }
  draw->all_ = all.Finish();
  draw->hash_ = HashOf(dataset, count);
  if (dataset.weights != nullptr) SHARDKIT_RETURN_IF_ERROR(draw->SetShares(dataset, count));
  return draw;
}

absl::Status SampleDraw::SetShares(const PlanDataset& dataset, uint64_t count) {
  const std::vector<double>& weights = *dataset.weights;
  if (weights.size() != all_->in_block.size()) {
    return InvalidArgument(weights.size(), " weights for ", all_->in_block.size(), " samples; give one for each");
  }
  if (count >= uint64_t{1} << 32) return InvalidArgument("2^32 samples or more cannot be drawn by weight");
  double sum = 0;
  uint64_t positive = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      return InvalidArgument("the weight of sample ", i, " is ", weights[i], "; give 0 or more");
    }
    sum += weights[i];
    positive += weights[i] > 0 ? 1 : 0;
  }
  const double factor = static_cast<double>(count) / sum;
  if (!(sum > 0) || !std::isfinite(sum) || !std::isfinite(factor)) {
    return InvalidArgument("the sum of all weights is ", sum);
  }
  if (!dataset.replacement && count > positive) {
    return InvalidArgument(count, " samples cannot be drawn without replacement from ", positive,
                           " with a weight above 0; choose fewer for an epoch, or draw with replacement");
  }
  std::vector<double> exact = dataset.replacement ? std::vector<double>() : CappedShares(weights, count);
  const uint64_t most = dataset.replacement ? UINT64_MAX : kOne;
  uint64_t left = count << kShareBits;
  shares_.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = exact.empty() ? weights[i] * factor : exact[i];
    // Rounding may make the sum too large by a little; what is too much is taken from the last ones.
    shares_[i] = std::min({static_cast<uint64_t>(share * static_cast<double>(kOne)), most, left});
    left -= shares_[i];
  }
  // What rounding down has left over, less than one share in 2^31 of each sample.
  while (left > 0) {
    uint64_t with_room = 0;
    for (size_t i = 0; i < weights.size(); ++i) with_room += weights[i] > 0 && shares_[i] < most ? 1 : 0;
    const uint64_t each = std::max<uint64_t>(1, left / with_room);
    for (size_t i = 0; i < weights.size() && left > 0; ++i) {
      if (weights[i] == 0) continue;
      const uint64_t more = std::min({each, left, most - shares_[i]});
      shares_[i] += more;
      left -= more;
    }
  }
  return absl::OkStatus();
}

// Systematic sampling in a random order: the shares stand one after another on a line, and each whole number on it,
// from a random begin, takes the sample that it falls on. So each sample is taken as often as its share says, rounded
// up or down, on average exactly; and all are as many as the line is long. (Madow: On the Theory of Systematic
// Sampling, 1949.)
std::shared_ptr<const SampleDraw::Drawn> SampleDraw::Draw(uint64_t key) const {
  if (shares_.empty()) return all_;
  const Permutation order(shares_.size(), Derive(key, 0));
  std::vector<uint32_t> copies(shares_.size());
  uint64_t place = Derive(key, 1) & (kOne - 1);
  uint64_t taken = 0;
  for (uint64_t i = 0; i < shares_.size(); ++i) {
    const uint64_t sample = order(i);
    const uint64_t before = place >> kShareBits;
    place += shares_[sample];
    copies[sample] = static_cast<uint32_t>((place >> kShareBits) - before);
    taken += copies[sample];
  }
  DrawnBlocks drawn(all_->blocks, taken);
  uint64_t sample = 0;
  for (size_t b = 0; b < all_->blocks.size(); ++b) {
    for (uint32_t i = 0; i < all_->blocks[b].sample_count; ++i, ++sample) {
      drawn.Add(b, all_->in_block[sample], copies[sample]);
    }
  }
  return drawn.Finish();
}

}  // namespace shardkit::loader
