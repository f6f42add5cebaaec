// The promises of plan.h, over thousands of random configurations.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "loader/plan_support.h"
#include "shardkit/plan.h"
#include "support/effort.h"

namespace shardkit {
namespace {

using Identity = std::pair<uint32_t, uint64_t>;  // dataset, ordinal

struct Configuration {
  std::vector<PlanDataset> datasets;
  PlanOptions options;
};

// A dataset that a plan visits in several sections.
void MakeSections(std::mt19937_64& random, Configuration& made) {
  PlanDataset dataset = RandomDataset(random, 1000 + random() % 3000, 1 + random() % 8);
  std::swap(dataset.proportion, made.datasets[0].proportion);
  std::swap(dataset.changes, made.datasets[0].changes);
  std::swap(dataset.repeat, made.datasets[0].repeat);
  std::swap(dataset.choose, made.datasets[0].choose);
  if (dataset.choose > 0) dataset.choose = 1 + random() % (2 * dataset.samples());
  made.datasets[0] = InShards(random, std::move(dataset), 1 + random() % 40);
  if (made.options.order == SampleOrder::kShuffled) made.options.lanes = 1 + static_cast<uint32_t>(random() % 4);
  made.options.section_blocks = 1 + static_cast<uint32_t>(random() % 200);
}

Configuration Random(std::mt19937_64& random) {
  Configuration made;
  const size_t count = random() % 4 == 0 ? 2 + random() % 3 : 1;
  const int wish = static_cast<int>(random() % 4);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t samples = 1 + random() % (random() % 20 == 0 ? 10000 : 400);
    made.datasets.push_back(RandomDataset(random, samples, 1 + random() % 50));
    PlanDataset& dataset = made.datasets.back();
    if (count > 1 && wish == 1) {
      dataset.proportion = 1 + static_cast<double>(random() % 5);
      // In every epoch there is something of the first dataset.
      for (uint64_t epoch = 1; epoch < 3; ++epoch) {
        if (random() % 3 == 0) dataset.changes.push_back({epoch, static_cast<double>(random() % 4 + (i == 0 ? 1 : 0))});
      }
    }
    if (wish == 2 && random() % 2) dataset.repeat = 1 + static_cast<double>(random() % 30) / 10;
    if (wish == 3 && random() % 2) dataset.choose = 1 + random() % (2 * samples);
  }
  PlanOptions& options = made.options;
  options.seed = random();
  options.order = static_cast<SampleOrder>(random() % 3);
  options.batch_size = 1 + random() % (random() % 2 ? 8 : 300);
  options.remainder = static_cast<Remainder>(random() % 3);
  options.shuffle_buffer_bytes = random() % 200000;
  if (options.order == SampleOrder::kShuffled && random() % 2) options.lanes = 1 + static_cast<uint32_t>(random() % 70);
  options.locality = options.order == SampleOrder::kShuffled && random() % 3 == 0;
  if (count == 1 && random() % 3 == 0) MakeSections(random, made);
  return made;
}

// The samples that one rank gets of an epoch from `position` on, step by step.
std::vector<std::vector<Identity>> Deliver(const Plan& plan, uint64_t epoch, uint64_t position, uint64_t rank,
                                           uint64_t world_size) {
  auto order = plan.Epoch(epoch);
  std::vector<std::vector<Identity>> steps(plan.StepsFrom(position));
  for (uint64_t t = 0; t < steps.size(); ++t) {
    const Step step = plan.StepAt(position, t);
    order = *order->Covering(step);
    const std::vector<uint64_t> positions = order->RankPositions(step, rank, world_size);
    EXPECT_EQ(positions.size(), Plan::RankSlots(step, rank, world_size));
    for (const uint64_t planned : positions) {
      const PlannedSample sample = order->At(planned % order->size());
      steps[t].emplace_back(sample.dataset, sample.ordinal);
    }
  }
  return steps;
}

std::vector<std::vector<Identity>> DeliverAll(const Plan& plan, uint64_t epoch, uint64_t position,
                                              uint64_t world_size) {
  std::vector<std::vector<Identity>> all(plan.StepsFrom(position));
  for (uint64_t rank = 0; rank < world_size; ++rank) {
    const auto steps = Deliver(plan, epoch, position, rank, world_size);
    EXPECT_EQ(steps.size(), all.size());
    for (size_t t = 0; t < steps.size(); ++t) all[t].insert(all[t].end(), steps[t].begin(), steps[t].end());
  }
  for (auto& step : all) std::ranges::sort(step);
  return all;
}

// An empty batch has no mean, and a gradient that is NaN spreads to all ranks.
TEST(PlanProperty, EachRankHasASampleOfEachStepOrIsRefused) {
  int refused = 0, taken = 0;
  for (const Remainder remainder : {Remainder::kKeep, Remainder::kDrop, Remainder::kPad}) {
    for (uint32_t samples = 1; samples <= 40; ++samples) {
      for (const uint64_t batch : {1, 2, 3, 4, 6, 8, 16, 39}) {
        const auto plan = Plan::Create({EqualBlocks(1, samples, 100)}, {.batch_size = batch, .remainder = remainder});
        ASSERT_TRUE(plan.ok()) << plan.status();
        for (uint64_t world_size = 1; world_size <= 8; ++world_size) {
          for (uint64_t position = 0; position < samples; position += 5) {
            SCOPED_TRACE(testing::Message()
                         << samples << " in batches of " << batch << " on " << world_size << " ranks from " << position
                         << ", remainder " << static_cast<int>(remainder));
            bool empty = false;
            for (const uint64_t begin : {position, uint64_t{0}}) {
              for (uint64_t rank = 0; rank < world_size; ++rank) {
                const auto steps = Deliver(**plan, 0, begin, rank, world_size);
                for (const auto& step : steps) empty |= step.empty();
              }
            }
            // A batch of fewer samples than ranks is refused although no step may be left to show it.
            const bool never = batch < world_size;
            const absl::Status status = (*plan)->CheckRanks(position, world_size);
            ASSERT_EQ(status.ok(), !empty && !never) << status;
            status.ok() ? ++taken : ++refused;
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 10000);
}

TEST(PlanProperty, EachSampleOnceOrAsSaid) {
  std::mt19937_64 random(1);
  for (int round = 0; round < test::Thinned(3000); ++round) {
    SCOPED_TRACE(round);
    const Configuration made = Random(random);
    const auto plan = Plan::Create(made.datasets, made.options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const uint64_t world_size = 1 + random() % 9;
    const uint64_t epoch = random() % 5;
    const auto steps = DeliverAll(**plan, epoch, 0, world_size);
    std::vector<std::map<uint64_t, uint64_t>> seen(made.datasets.size());
    uint64_t delivered = 0;
    for (const auto& step : steps) {
      for (const auto& [dataset, ordinal] : step) ++seen[dataset][ordinal], ++delivered;
    }
    const uint64_t all = (*plan)->samples_per_epoch();
    const uint64_t batch = made.options.batch_size;
    const Remainder remainder = made.options.remainder;
    if (remainder == Remainder::kKeep) {
      ASSERT_EQ(delivered, all);
    }
    if (remainder == Remainder::kDrop) {
      ASSERT_EQ(delivered, all / batch * batch);
    }
    if (remainder == Remainder::kPad) {
      ASSERT_EQ(delivered, (all + batch - 1) / batch * batch);
    }
    if (remainder == Remainder::kPad) {
      for (uint64_t i = all; i < delivered; ++i) {
        const PlannedSample sample = (*(*plan)->Epoch(epoch)->Covering({i % all, i % all + 1}))->At(i % all);
        --seen[sample.dataset][sample.ordinal];
      }
    }
    for (size_t d = 0; d < made.datasets.size(); ++d) {
      const PlanDataset& dataset = made.datasets[d];
      const uint64_t samples = dataset.samples();
      const uint64_t count = (*plan)->counts(epoch)[d];
      uint64_t total = 0;
      for (const auto& [ordinal, times] : seen[d]) {
        ASSERT_LT(ordinal, samples);
        ASSERT_LE(times, (count + samples - 1) / samples);
        if (remainder != Remainder::kDrop && times != 0) {
          ASSERT_GE(times, count / samples);
        }
        total += times;
      }
      if (remainder != Remainder::kDrop) {
        ASSERT_EQ(total, count);
      }
    }
  }
}

TEST(PlanProperty, StepsDoNotDependOnWorldSize) {
  std::mt19937_64 random(2);
  for (int round = 0; round < test::Thinned(1000); ++round) {
    SCOPED_TRACE(round);
    const Configuration made = Random(random);
    const auto plan = Plan::Create(made.datasets, made.options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const uint64_t epoch = random() % 3;
    ASSERT_EQ(DeliverAll(**plan, epoch, 0, 1), DeliverAll(**plan, epoch, 0, 2 + random() % 20));
  }
}

TEST(PlanProperty, ResumesAtAnyStepAtAnyWorldSize) {
  std::mt19937_64 random(3);
  for (int round = 0; round < test::Thinned(1000); ++round) {
    SCOPED_TRACE(round);
    Configuration made = Random(random);
    const auto plan = Plan::Create(made.datasets, made.options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto whole = DeliverAll(**plan, 1, 0, 1);
    if (whole.empty()) continue;
    const uint64_t step = random() % whole.size();
    const auto cursor = ParseCursor(FormatCursor({1, (*plan)->StepAt(0, step).begin, (*plan)->fingerprint()}));
    ASSERT_TRUE(cursor.ok()) << cursor.status();
    ASSERT_TRUE((*plan)->CheckCursor(*cursor).ok());
    const auto rest = DeliverAll(**plan, cursor->epoch, cursor->position, 1 + random() % 9);
    ASSERT_TRUE(std::ranges::equal(std::span(whole).subspan(step), rest));

    // With another batch size, the remaining samples are the same, in the same order.
    if (made.options.remainder != Remainder::kKeep) continue;
    made.options.batch_size = 1 + random() % 50;
    const auto other = Plan::Create(made.datasets, made.options);
    ASSERT_TRUE(other.ok());
    ASSERT_EQ((*other)->fingerprint(), (*plan)->fingerprint());
    std::vector<Identity> expected, found;
    for (const auto& s : Deliver(**plan, 1, cursor->position, 0, 1))
      expected.insert(expected.end(), s.begin(), s.end());
    for (const auto& s : Deliver(**other, 1, cursor->position, 0, 1)) found.insert(found.end(), s.begin(), s.end());
    ASSERT_EQ(expected, found);
  }
}

TEST(PlanProperty, WindowsHoldTheirShareOfTheBuffer) {
  std::mt19937_64 random(4);
  for (int round = 0; round < test::Thinned(1000); ++round) {
    SCOPED_TRACE(round);
    const Configuration made = Random(random);
    const auto plan = Plan::Create(made.datasets, made.options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    if (made.options.order == SampleOrder::kSequential) continue;
    const auto order = *(*plan)->Epoch(0)->Covering({0, (*plan)->samples_per_epoch()});
    std::vector<std::vector<PlanBlock>> all;
    for (const PlanDataset& dataset : made.datasets) all.push_back(AllBlocks(dataset));
    std::map<std::pair<uint32_t, uint64_t>, std::map<uint32_t, uint32_t>> windows;  // to block to uses
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> latest;                       // window of dataset and lane
    for (uint64_t g = 0; g < order->size(); ++g) {
      const PlannedSample sample = order->At(g);
      const PlanBlock& block = all[sample.dataset][sample.block];
      ASSERT_EQ(order->BlockOf(sample).bytes, block.bytes);
      ASSERT_EQ(sample.ordinal, block.first_sample + sample.in_block);
      ASSERT_LT(sample.in_block, block.sample_count);
      ++windows[{sample.dataset, sample.window}][sample.block];
      if (made.datasets.size() > 1) continue;
      ASSERT_LT(sample.lane, (*plan)->lanes());
      uint64_t& before = latest.try_emplace({sample.dataset, sample.lane}, sample.window).first->second;
      ASSERT_LE(before, sample.window);
      before = sample.window;
    }
    for (const auto& [window, blocks] : windows) {
      uint64_t bytes = 0;
      for (const auto& [block, uses] : blocks) {
        ASSERT_EQ(order->BlockUses(window.first, window.second, block), uses);
        bytes += all[window.first][block].bytes;
      }
      if (blocks.size() > 1) {
        ASSERT_LE(bytes, made.options.shuffle_buffer_bytes / (*plan)->lanes());
      }
    }
  }
}

// The proofs of docs/order.md.
TEST(PlanProperty, RanksReadWhatIsTheirs) {
  std::mt19937_64 random(5);
  for (int round = 0; round < test::Thinned(1000); ++round) {
    SCOPED_TRACE(round);
    Configuration made = Random(random);
    made.datasets.resize(1);
    made.datasets[0].proportion = 0;
    made.datasets[0].changes.clear();
    made.options.order = SampleOrder::kShuffled;
    made.options.remainder = random() % 2 ? Remainder::kKeep : Remainder::kDrop;
    const uint64_t world_size = 1 + random() % 6;
    made.options.lanes = static_cast<uint32_t>(world_size * (1 + random() % 5));
    const uint64_t lanes = made.options.lanes;
    const auto plan = Plan::Create(made.datasets, made.options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    auto order = (*plan)->Epoch(0);
    std::map<std::pair<uint64_t, uint32_t>, std::set<uint64_t>> readers;  // of the block of a window
    // Of a lane in a section: blocks that come last.
    std::map<std::pair<uint64_t, uint64_t>, std::set<std::pair<uint64_t, uint32_t>>> rest;
    std::set<std::pair<uint64_t, uint32_t>> exclusive;
    for (uint64_t t = 0; t < (*plan)->StepsFrom(0); ++t) {
      const Step step = (*plan)->StepAt(0, t);
      order = *order->Covering(step);
      for (uint64_t rank = 0; rank < world_size; ++rank) {
        for (const uint64_t g : order->RankPositions(step, rank, world_size)) {
          const PlannedSample sample = order->At(g);
          readers[{sample.window, sample.block}].insert(rank);
          if (!sample.shared) exclusive.insert({sample.window, sample.block});
          if (sample.lane != g % lanes) rest[{sample.lane, sample.window >> 32}].insert({sample.window, sample.block});
        }
      }
    }
    for (const auto& read : exclusive) ASSERT_EQ(readers[read].size(), 1u);
    uint64_t blocks_used = 0;
    for (const PlanBlock& block : AllBlocks(made.datasets[0])) blocks_used += block.sample_count > 0;
    if ((*plan)->counts()[0] < made.datasets[0].samples() || blocks_used < lanes) continue;
    for (const auto& [lane, blocks] : rest) ASSERT_LE(blocks.size(), 1u) << lane.first;
    // With one rank, each block is read once, however often it stands in the epoch.
    if (world_size == 1 && (*plan)->counts()[0] == made.datasets[0].samples()) {
      ASSERT_LE(readers.size(), blocks_used);
    }
  }
}

// With locality a rank reads the same blocks in all epochs, but for those with surplus, in other orders, and steps
// still do not depend on the ranks.
TEST(PlanProperty, LocalityKeepsTheBlocksOfRanks) {
  std::mt19937_64 random(6);
  for (int round = 0; round < test::Thinned(200); ++round) {
    SCOPED_TRACE(round);
    const uint64_t world_size = 1 + random() % 6;
    PlanOptions options{.seed = random(), .batch_size = 1 + random() % 100, .shuffle_buffer_bytes = random() % 200000};
    options.lanes = static_cast<uint32_t>(world_size * (1 + random() % 5));
    options.locality = true;
    PlanDataset dataset = RandomDataset(random, 2000, 1 + random() % 20);
    if (random() % 2) {
      options.lanes = static_cast<uint32_t>(world_size);
      options.section_blocks = 1;
      dataset = InShards(random, std::move(dataset), 1 + random() % 20);
    }
    const auto plan = Plan::Create({dataset}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    uint64_t blocks_used = 0;
    for (const PlanBlock& block : AllBlocks((*plan)->datasets()[0])) blocks_used += block.sample_count > 0;
    if (blocks_used < 2 * options.lanes) continue;
    std::vector<std::set<uint32_t>> first(world_size);
    std::set<std::vector<uint64_t>> orders;
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      auto order = (*plan)->Epoch(epoch);
      std::vector<std::set<uint32_t>> blocks(world_size);
      std::vector<uint64_t> ordinals;
      for (uint64_t t = 0; t < (*plan)->StepsFrom(0); ++t) {
        order = *order->Covering((*plan)->StepAt(0, t));
        for (uint64_t rank = 0; rank < world_size; ++rank) {
          for (const uint64_t g : order->RankPositions((*plan)->StepAt(0, t), rank, world_size)) {
            const PlannedSample sample = order->At(g);
            blocks[sample.lane % world_size].insert(sample.block);
            if (!sample.shared) {
              ASSERT_EQ(rank, sample.lane % world_size);
            }
            ordinals.push_back(sample.ordinal);
          }
        }
      }
      ASSERT_TRUE(orders.insert(ordinals).second) << "epoch " << epoch << " is as one before";
      if (epoch == 0) first = blocks;
      ASSERT_EQ(blocks, first) << epoch;
    }
  }
}

TEST(PlanProperty, EpochsAndSeedsDiffer) {
  const std::vector<PlanDataset> datasets{EqualBlocks(50, 20, 4096)};
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto plan = Plan::Create(datasets, {.seed = seed, .batch_size = 10});
    ASSERT_TRUE(plan.ok());
    for (uint64_t epoch = 0; epoch < 10; ++epoch) {
      const auto order = (*plan)->Epoch(epoch);
      std::vector<uint64_t> ordinals;
      for (uint64_t g = 0; g < order->size(); ++g) ordinals.push_back(order->At(g).ordinal);
      orders.insert(ordinals);
    }
  }
  EXPECT_EQ(orders.size(), 100u);
}

}  // namespace
}  // namespace shardkit
