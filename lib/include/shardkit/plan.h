// The order in which an epoch visits samples. Pure: no I/O, no clock, no threads, and the same result on every machine.
//
// An epoch is one sequence of positions, divided into steps of batch_size positions. Rank r of W takes as many
// positions of each step as the step has positions g with g % W == r (EpochOrder::RankPositions). Position g maps to a
// sample by arithmetic alone, so a run can start anywhere in an epoch. The sequence and the steps do not depend on the
// number of ranks. The mapping:
//
//   - The blocks of a dataset are in random order (shuffled) or in stored order. Repeats of a dataset follow one
//     another.
//   - In that order the blocks are distributed to Plan::lanes() lanes (canonical streams), each to the lane with the
//     fewest samples so far. Position g belongs to lane g % lanes, so that neighbours come from different places. If
//     the world size divides the lanes, ranks do not share lanes. Blocks are cut only in mixtures and with fewer blocks
//     than lanes.
//   - Each lane is divided, at the edges of blocks, into windows of the lane's share of the shuffle buffer. Within a
//     window the samples are in random order. A reader holds one window of each lane in memory. Epoch 0 begins with
//     smaller windows, so that the first batch does not wait for the whole buffer.
//   - The surplus of longer lanes over the shortest one, less than a block each, comes last, evenly mixed.
//   - With PlanOptions::locality, each epoch shuffles the blocks within their lanes, and blocks keep their lane.
//   - With several datasets, each lane mixes them evenly, in proportion to their sizes.
//   - A dataset of very many blocks is visited in sections: runs of its shards in random order (shuffled) or in stored
//     order. Each section has an order like the above, and sections follow one another, so that no plan holds more than
//     the blocks of a few sections.
//
// docs/order.md proves how much ranks read and how much memory that takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {

namespace loader {
class SampleDraw;
}

enum class SampleOrder {
  kSequential,  // as stored
  kShuffled,    // blocks permuted, samples shuffled within windows
  kWindow,      // blocks as stored, one lane, samples shuffled within windows
};

// What happens to the samples that do not fill the last step of an epoch.
enum class Remainder {
  kKeep,  // the last step is smaller; ranks may have one sample more than others (Plan::CheckRanks)
  kDrop,  // they are not used in this epoch; when shuffled, others in each epoch
  kPad,   // the first samples of the epoch's order fill the last step, repeated if needed
};

// A block, for planning.
struct PlanBlock {
  uint64_t first_sample = 0;  // ordinal in the dataset
  uint32_t sample_count = 0;
  uint64_t bytes = 0;  // in memory; the length in the file is a good estimate
};

// A shard, for planning.
struct PlanShard {
  uint64_t first_sample = 0;  // ordinal in the dataset
  uint64_t sample_count = 0;
  uint64_t bytes = 0;        // of its blocks, or of its file
  uint32_t first_block = 0;  // in the dataset
  uint32_t block_count = 0;
};

// Reads the blocks of these shards, in ascending order, one shard after another. Thread-safe.
using PlanBlockReader = std::function<absl::StatusOr<std::vector<PlanBlock>>(std::span<const PlanShard> shards)>;

// A change of a dataset's proportion from an epoch on.
struct ProportionChange {
  uint64_t epoch = 1;     // at least 1
  double proportion = 0;  // 0: these epochs have no samples of the dataset
};

// One of the datasets that are mixed.
struct PlanDataset {
  // In the order of the dataset: first_sample begins at 0, and each block begins at the end of the previous one.
  std::vector<PlanBlock> blocks;

  // In place of `blocks`, for a dataset that is not mixed with others: all shards, ordered like blocks, and a function
  // that reads their blocks, section by section. EpochOrder::Covering calls it, on its caller's thread.
  std::vector<PlanShard> shards;
  PlanBlockReader read_blocks;

  // At most one of these three. If none is set: every sample once. If one dataset has a proportion, all must have one.
  double proportion = 0;  // share of the epoch; shares are scaled to a sum of 1. With changes, 0 is no sample
  double repeat = 0;      // samples per epoch as a multiple of the dataset's; rounded down
  uint64_t choose = 0;    // samples per epoch

  // Changes of the proportion, in the order of their epochs. All epochs have the same number of samples, in any
  // mixture.
  std::vector<ProportionChange> changes;

  // The samples that epochs take: ascending ordinals. Null: all. Blocks without such a sample are not read. Only with
  // `blocks`.
  std::shared_ptr<const std::vector<uint64_t>> selected;

  // How often epochs take each of these samples, relative to the others: numbers from 0. Null: all equally often. In
  // each epoch a sample is drawn as often as its share of the epoch, rounded up or down at random, so that the mean
  // over epochs is exact; a share of less than 2^-31 may be none. Only with `blocks`, for fewer than 2^32 samples of an
  // epoch. Plan::Epoch then takes time proportional to the dataset's samples.
  std::shared_ptr<const std::vector<double>> weights;

  // With weights: a sample may be drawn more than once in an epoch. False: at most once; the rest of larger shares goes
  // to the other samples.
  bool replacement = true;

  // A hash for cursors, if the plan's samples are made of the dataset's samples, like rows of tokens from documents.
  // `blocks` then count the plan's samples. 0: the plan's samples are the dataset's.
  uint64_t content = 0;

  // The dataset's generation, for cursors: the order does not depend on it. 0 for single shards and other containers,
  // which have no generations.
  uint64_t generation = 0;

  uint64_t samples() const;  // available to epochs
  uint64_t bytes() const;    // of all blocks
  uint64_t block_count() const;
};

struct PlanOptions {
  uint64_t seed = 0;
  SampleOrder order = SampleOrder::kShuffled;
  uint64_t batch_size = 1;  // samples of a step over all ranks; at least 1
  Remainder remainder = Remainder::kKeep;
  uint64_t shuffle_buffer_bytes = uint64_t{256} << 20;  // over all lanes and thus all ranks
  uint32_t lanes = 0;  // 1 to 65536; 0 chooses from 120, 60, 30, 24, 12, 6, 4, 3, 2 and 1

  // With lanes = 0: a world size that divides the lanes, so that its ranks read only their own blocks. For several
  // expected world sizes, their least common multiple. The lanes may then outnumber the buffer's blocks; ignored if it
  // exceeds a quarter of the blocks. 1 to 65536.
  uint64_t expected_world_size = 1;

  // Lanes keep their blocks in all epochs, in another order each time. If the world size divides the lanes, a rank then
  // reads the same blocks in all epochs, which its node may have cached. Only in the shuffled order. Ignored in
  // mixtures, where an epoch does not have each sample once, and with fewer blocks than lanes.
  bool locality = false;

  uint64_t epoch_samples = 0;  // with proportions: samples of an epoch; 0 is the sum over all datasets

  // The approximate blocks per section of a dataset; whole shards, and at least 64 blocks for each lane. Samples are
  // mixed within sections only. A plan takes 40 bytes for each block of two sections. At least 1.
  uint32_t section_blocks = 1 << 16;
};

// A sample and its place.
struct PlannedSample {
  uint32_t dataset = 0;
  uint32_t block = 0;     // within the dataset
  uint32_t in_block = 0;  // sample within the block
  uint32_t lane = 0;
  bool shared = false;   // other ranks may have samples of the window, even if this rank has the lane
  uint64_t ordinal = 0;  // in the dataset
  uint32_t copy = 0;     // differs between positions of an epoch with the same sample; 0 for one of them

  // Unique to the window within the dataset. In an epoch of one dataset, the windows of a lane ascend, and all
  // positions of a window come before the positions of the lane's next window. In a mixture, the last positions of a
  // window may come after the first of the next.
  uint64_t window = 0;
};

// The progress of a run. It is small and does not depend on the world size. It is valid only for the same datasets,
// seed and order, which `plan`, a hash of them, checks. The batch size may change between runs. A generation of a
// dataset with the same blocks as another is the same dataset.
struct Cursor {
  uint64_t epoch = 0;
  uint64_t position = 0;  // first position not yet delivered
  uint64_t plan = 0;
  std::vector<uint64_t> generations;  // PlanDataset::generation of each dataset; empty if unknown

  bool operator==(const Cursor&) const = default;
};

// {"epoch":1,"position":4096,"plan":"0123456789abcdef","generations":[3]}: under 200 bytes, for up to 20 datasets.
// Without "generations" if no dataset has any.
std::string FormatCursor(const Cursor& cursor);
// InvalidArgument, with the reason.
absl::StatusOr<Cursor> ParseCursor(std::string_view json);

// Positions [begin, end) of the epoch's sequence. Positions from EpochOrder::size() on are padding: they repeat the
// sample of position % size().
struct Step {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The sequence of one epoch. Immutable, thread-safe. An epoch in sections (PlanDataset::shards) knows only the sections
// that it covers; callers may ask only for positions, windows and blocks of these.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;

  // Positions, without padding.
  virtual uint64_t size() const = 0;

  // An order of the same epoch that covers the positions of `step`, padding included. Returns this order if it covers
  // them, which it always does without sections. The result shares the sections of this order, and reads the blocks of
  // missing ones. It also keeps the section covered last, so that callers a few steps apart can share it. Errors are
  // those of PlanDataset::read_blocks; DataLoss if the blocks do not match the shards.
  virtual absl::StatusOr<std::shared_ptr<const EpochOrder>> Covering(const Step& step) const = 0;

  // `position` < size(). Time: logarithmic in the number of blocks; for the surplus of longer lanes, linear in the
  // lanes.
  virtual PlannedSample At(uint64_t position) const = 0;

  // The positions of a step that belong to the rank, ascending, Plan::RankSlots of them; padding included. The ranks
  // together have each position once. `rank` < `world_size`. Time: linear in the positions of the step.
  std::vector<uint64_t> RankPositions(const Step& step, uint64_t rank, uint64_t world_size) const;

  // The rank of each position of a step. Time: as RankPositions.
  std::vector<uint64_t> SlotRanks(const Step& step, uint64_t world_size) const;

  // The number of samples of `block` in `window` of `dataset`: how often all ranks together need the block there.
  virtual uint32_t BlockUses(uint32_t dataset, uint64_t window, uint32_t block) const = 0;

  // The block of a sample from this order.
  virtual PlanBlock BlockOf(const PlannedSample& sample) const = 0;

 protected:
  explicit EpochOrder(uint32_t lanes) : lanes_(lanes) {}

  struct LanePlace {
    bool after_rows = false;  // a surplus
    uint32_t lane = 0;
  };
  // `position` < size().
  virtual LanePlace LaneOf(uint64_t position) const = 0;
  // Whether no position of the step is of a surplus or padding. Then position g belongs to lane g % lanes.
  virtual bool WithinRows(const Step& step) const = 0;

  const uint32_t lanes_;
};

// Immutable, thread-safe. Memory is proportional to the number of blocks; with PlanDataset::shards, of shards.
class Plan : public std::enable_shared_from_this<Plan> {
 public:
  // InvalidArgument, naming the option or the dataset, if a rule above is broken, and for an epoch without samples or
  // with 2^48 samples or more.
  static absl::StatusOr<std::shared_ptr<const Plan>> Create(std::vector<PlanDataset> datasets,
                                                            const PlanOptions& options);

  const PlanOptions& options() const { return options_; }
  const std::vector<PlanDataset>& datasets() const { return datasets_; }

  // Canonical streams. If the options say 0, they are chosen independently of world size and batch size.
  uint32_t lanes() const { return lanes_; }

  // Samples that an epoch takes from each dataset. Their sum is the same in all epochs.
  const std::vector<uint64_t>& counts(uint64_t epoch = 0) const { return PhaseOf(epoch).counts; }
  uint64_t samples_per_epoch() const { return samples_; }

  // A hash of everything that the order depends on: datasets, chosen samples and their weights, seed, order, buffer,
  // lanes, and the version of this header's rules. Independent of batch size and remainder.
  uint64_t fingerprint() const { return fingerprint_; }

  // Takes time and memory proportional to the blocks of the epoch. In sections, takes time proportional to the shards;
  // the order covers nothing yet (EpochOrder::Covering).
  std::shared_ptr<const EpochOrder> Epoch(uint64_t epoch) const;

  // Steps left in an epoch after `position` delivered positions; the same on every rank.
  uint64_t StepsFrom(uint64_t position) const;

  // Step `step` of the remaining steps; `step` < StepsFrom(position).
  Step StepAt(uint64_t position, uint64_t step) const;

  // The number of positions of a step that belong to the rank: the number of its positions g with g % world_size ==
  // rank. `rank` < `world_size`.
  static uint64_t RankSlots(const Step& step, uint64_t rank, uint64_t world_size) {
    const auto below = [&](uint64_t end) { return end / world_size + (end % world_size > rank ? 1 : 0); };
    return below(step.end) - below(step.begin);
  }

  // InvalidArgument if a step of the epoch from `position` on, or of a later epoch, has fewer samples than there are
  // ranks: a rank without samples has no mean. The message names ways out. `world_size` is at least 1.
  absl::Status CheckRanks(uint64_t position, uint64_t world_size) const;

  // The cursor before a position, and the cursor before the first step of an epoch.
  Cursor At(uint64_t epoch, uint64_t position) const;
  Cursor Begin(uint64_t epoch = 0) const { return At(epoch, 0); }

  // InvalidArgument if the cursor belongs to another plan or lies past the epoch. If the datasets are in other
  // generations than the cursor's, the message says which ones the cursor needs.
  absl::Status CheckCursor(const Cursor& cursor) const;

 private:
  // Epochs of the same proportions.
  struct Phase {
    uint64_t first_epoch = 0;
    std::vector<uint64_t> counts;                                  // of each dataset
    std::vector<std::shared_ptr<const loader::SampleDraw>> draws;  // of each; null if each sample is taken once
  };

  Plan() = default;
  const Phase& PhaseOf(uint64_t epoch) const;

  PlanOptions options_;
  std::vector<PlanDataset> datasets_;
  std::vector<Phase> phases_;  // ascending; the first begins with epoch 0
  uint64_t samples_ = 0;
  uint32_t lanes_ = 1;
  uint64_t fingerprint_ = 0;
};

// The bytes of blocks that all ranks together read in an epoch, divided by the bytes of blocks that they deliver.
// Without padding. Counts the steps that begin before position `limit`; blocks read there but needed later make the
// result larger. Time and memory: proportional to the counted samples. Errors are those of EpochOrder::Covering.
absl::StatusOr<double> ReadAmplification(const Plan& plan, uint64_t epoch, uint64_t world_size,
                                         uint64_t limit = UINT64_MAX);

// Measures of how well an order mixes samples. They use the plan alone and read no data.

// Mean distance, in the source order, between neighbours in `order`, divided by the expected distance in a perfect
// shuffle of `sample_count` samples, which is (sample_count + 1) / 3. About 1 is perfect; 3 / (sample_count + 1) is no
// shuffle at all. Orders of fewer than two samples score 1.
double NeighbourDistance(std::span<const uint64_t> order, uint64_t sample_count);

// The NeighbourDistance of a perfect shuffle of the plan's epoch. It is 1 if all samples are taken equally often.
// Otherwise it depends on the shares of the datasets: most samples may come from a small part of the source order.
double PerfectNeighbourDistance(const Plan& plan, uint64_t epoch);

// The frequency of equal labels of neighbours in the order, divided by the mean frequency in a perfect shuffle. About 1
// is perfect; above 1, equal labels are close together. `labels` in delivery order. 1 if no two labels are equal.
double LabelClumping(std::span<const uint64_t> labels);

// Integer columns, usually labels, whose equal values are stored together: most blocks have a single value, and not all
// the same one. A loader mixes the blocks of a shuffle buffer, and so few values at a time. Reads the block ranges of
// at most 8 shards; ignores shards without ranges.
absl::StatusOr<std::vector<std::string>> ClumpedColumns(const DatasetReader& dataset);

// The first `limit` samples of an epoch as ordinals through all datasets: the second dataset's ordinals begin where the
// first one's end. Errors are those of EpochOrder::Covering.
absl::StatusOr<std::vector<uint64_t>> Ordinals(const Plan& plan, uint64_t epoch, uint64_t limit);

// The order of a buffer like WebDataset's `shuffle`, for comparison. Shards are in random order; their samples go into
// a buffer of `buffer_samples`. Once the buffer is full, a random sample leaves for each one that enters. Returns the
// first `limit` ordinals. `shard_sizes` in samples.
std::vector<uint64_t> ReservoirOrder(std::span<const uint64_t> shard_sizes, uint64_t buffer_samples, uint64_t seed,
                                     uint64_t limit);

}  // namespace shardkit
