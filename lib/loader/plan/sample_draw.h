// Which samples of a dataset an epoch takes, where it does not take each once: chosen ones, or some drawn by weight.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/plan.h"

namespace shardkit::loader {

// Immutable, thread-safe.
class SampleDraw {
 public:
  // What an epoch takes, in the order of the dataset.
  struct Drawn {
    std::vector<PlanBlock> blocks;   // of the dataset; first_sample and sample_count count only what is taken
    std::vector<uint32_t> in_block;  // of each sample taken: its number in its block
  };

  // Of PlanDataset::selected and weights; null when it has neither. `count` is what an epoch takes. InvalidArgument for
  // ordinals that do not ascend or are past the end, for weights that are none, and for a draw of more samples than
  // there are without replacement.
  static absl::StatusOr<std::shared_ptr<const SampleDraw>> Create(const PlanDataset& dataset, uint64_t count);

  // `key` is that of the epoch. Takes time and memory for each sample where there are weights; else none.
  std::shared_ptr<const Drawn> Draw(uint64_t key) const;

  // Of everything that the draws depend on.
  uint64_t hash() const { return hash_; }
  bool weighted() const { return !shares_.empty(); }

 private:
  absl::Status SetShares(const PlanDataset& dataset, uint64_t count);

  std::shared_ptr<const Drawn> all_;  // every selected sample, once
  // How many copies of each of them an epoch has on average, with kShareBits binary digits after the point. Their sum
  // is what an epoch takes.
  std::vector<uint64_t> shares_;
  uint64_t hash_ = 0;
};

}  // namespace shardkit::loader
