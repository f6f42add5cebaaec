#include "shardkit/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "loader/permutation.h"
#include "loader/plan_support.h"
#include "shardkit/shuffle_score.h"

namespace shardkit {
namespace {

std::shared_ptr<const Plan> MakePlan(std::vector<PlanDataset> datasets, const PlanOptions& options) {
  auto plan = Plan::Create(std::move(datasets), options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(Permutation, IsABijection) {
  for (uint64_t size = 1; size < 300; ++size) {
    const loader::Permutation permute(size, size * 77);
    std::set<uint64_t> images;
    for (uint64_t i = 0; i < size; ++i) images.insert(permute(i));
    ASSERT_EQ(images.size(), size);
    ASSERT_EQ(*images.rbegin(), size - 1);
  }
}

// Over many keys, a point goes to each position about equally often: chi-square with 99 degrees of freedom, for which
// 200 is very unlikely.
TEST(Permutation, IsEven) {
  for (const uint64_t point : {0u, 1u, 42u, 99u}) {
    std::vector<int> images(100);
    for (uint64_t key = 0; key < 100000; ++key) ++images[loader::Permutation(100, loader::Mix(key))(point)];
    double sum = 0;
    for (const int count : images) sum += (count - 1000.0) * (count - 1000.0) / 1000.0;
    EXPECT_LT(sum, 200) << point;
  }
}

// Cursors are useful only if the order never changes.
TEST(Plan, OrderIsFixedForEver) {
  const auto plan = MakePlan({EqualBlocks(10, 5, 100)}, {.seed = 7, .batch_size = 4, .shuffle_buffer_bytes = 800});
  EXPECT_EQ(plan->lanes(), 2u);
  const std::vector<uint64_t> order = Ordinals(*plan, 3, 12);
  EXPECT_EQ(order, (std::vector<uint64_t>{45, 30, 47, 16, 48, 3, 14, 18, 46, 1, 13, 33}));
  const auto mixed =
      MakePlan({EqualBlocks(10, 5, 100), EqualBlocks(3, 9, 50)}, {.seed = 7, .shuffle_buffer_bytes = 800});
  EXPECT_EQ(Ordinals(*mixed, 0, 12), (std::vector<uint64_t>{50, 21, 62, 32, 41, 45, 51, 23, 65, 34, 69, 60}));
}

TEST(Plan, LanesSuitTheExpectedWorldSize) {
  const auto lanes = [](uint64_t expected, uint64_t blocks, uint64_t buffered) {
    return MakePlan({EqualBlocks(blocks, 5, 100)},
                    {.shuffle_buffer_bytes = buffered * 100, .expected_world_size = expected})
        ->lanes();
  };
  EXPECT_EQ(lanes(1, 1000, 500), 120u);
  EXPECT_EQ(lanes(7, 1000, 500), 84u);
  EXPECT_EQ(lanes(96, 1000, 500), 96u);
  EXPECT_EQ(lanes(96, 1000, 50), 96u);     // more than the buffer has blocks
  EXPECT_EQ(lanes(251, 1000, 500), 120u);  // more than a quarter of the blocks
  EXPECT_EQ(lanes(1024, 10000, 500), 1024u);
  for (const uint64_t bad : {uint64_t{0}, uint64_t{65537}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(Plan::Create({EqualBlocks(10, 5, 100)}, {.expected_world_size = bad}).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      Plan::Create({EqualBlocks(10, 5, 100)}, {.lanes = 10, .expected_world_size = 4}).status()));
}

TEST(Plan, SequentialIsTheStoredOrder) {
  const auto plan = MakePlan({EqualBlocks(10, 5, 100)}, {.order = SampleOrder::kSequential, .batch_size = 4});
  const std::vector<uint64_t> order = Ordinals(*plan, 0, 50);
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(order[i], i);
}

TEST(Plan, WindowStaysNear) {
  const auto plan = MakePlan({EqualBlocks(100, 10, 100)},
                             {.order = SampleOrder::kWindow, .batch_size = 4, .shuffle_buffer_bytes = 500});
  const std::vector<uint64_t> order = Ordinals(*plan, 0, 1000);
  bool moved = false;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(std::max(order[i], i) - std::min(order[i], i), 50u);
    moved |= order[i] != i;
  }
  EXPECT_TRUE(moved);
}

TEST(Plan, ABillionSamplesAreEnteredAnywhere) {
  const auto plan = MakePlan({EqualBlocks(1000000, 1000, 4 << 20)}, {.seed = 1, .batch_size = 1024});
  const auto order = plan->Epoch(5);
  ASSERT_EQ(order->size(), 1000000000u);
  std::set<uint64_t> seen;
  for (uint64_t g = 900000000; g < 900010000; ++g) seen.insert(order->At(g).ordinal);
  EXPECT_EQ(seen.size(), 10000u);
}

TEST(Plan, MixesInProportion) {
  std::vector<PlanDataset> datasets{EqualBlocks(100, 100, 100000), EqualBlocks(100, 100, 100000),
                                    EqualBlocks(50, 10, 10000)};
  datasets[0].proportion = 0.7;
  datasets[1].proportion = 0.2;
  datasets[2].proportion = 0.1;
  const auto plan = MakePlan(datasets, {.seed = 1, .batch_size = 100, .epoch_samples = 20000});
  EXPECT_EQ(plan->counts(), (std::vector<uint64_t>{14000, 4000, 2000}));
  const auto order = plan->Epoch(0);
  for (uint64_t begin = 0; begin < 20000; begin += 1000) {
    std::vector<int> counts(3);
    for (uint64_t g = begin; g < begin + 1000; ++g) ++counts[order->At(g).dataset];
    EXPECT_NEAR(counts[0], 700, 80);
    EXPECT_NEAR(counts[1], 200, 60);
    EXPECT_NEAR(counts[2], 100, 50);
  }
}

TEST(Plan, ChooseTakesOtherSamplesInOtherEpochs) {
  std::vector<PlanDataset> datasets{EqualBlocks(100, 10, 1000)};
  datasets[0].choose = 100;
  const auto plan = MakePlan(datasets, {.batch_size = 10});
  std::set<uint64_t> seen;
  for (uint64_t epoch = 0; epoch < 100; ++epoch) {
    const auto order = Ordinals(*plan, epoch, 1000);
    ASSERT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), 100u);
    seen.insert(order.begin(), order.end());
  }
  EXPECT_GT(seen.size(), 900u);
}

TEST(Plan, RefusesNonsense) {
  const auto message = [](std::vector<PlanDataset> datasets, const PlanOptions& options) {
    const auto plan = Plan::Create(std::move(datasets), options);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_NE(message({}, {}).find("no dataset"), std::string::npos);
  EXPECT_NE(message({PlanDataset{}}, {}).find("no samples"), std::string::npos);
  EXPECT_NE(message({EqualBlocks(1, 1, 1)}, {.batch_size = 0}).find("batch of 0"), std::string::npos);
  EXPECT_NE(message({EqualBlocks(1, 1, 1)}, {.order = SampleOrder::kWindow, .lanes = 2}).find("lane"),
            std::string::npos);
  EXPECT_NE(message({EqualBlocks(1, 1, 1)}, {.order = SampleOrder::kWindow, .locality = true}).find("locality"),
            std::string::npos);
  EXPECT_NE(message({EqualBlocks(1, 1, 1)}, {.lanes = 70000}).find("70000"), std::string::npos);
  EXPECT_NE(message({EqualBlocks(1, 1, 1)}, {.epoch_samples = 5}).find("epoch_samples"), std::string::npos);
  PlanDataset both = EqualBlocks(1, 1, 1);
  both.repeat = 2;
  both.choose = 3;
  EXPECT_NE(message({both}, {}).find("more than one"), std::string::npos);
  PlanDataset negative = EqualBlocks(1, 1, 1);
  negative.repeat = -1;
  EXPECT_NE(message({negative}, {}).find("-1"), std::string::npos);
  PlanDataset share = EqualBlocks(1, 1, 1);
  share.proportion = 0.5;
  EXPECT_NE(message({share, EqualBlocks(1, 1, 1)}, {}).find("dataset 1 has no proportion"), std::string::npos);
  PlanDataset gap = EqualBlocks(2, 1, 1);
  gap.blocks[1].first_sample = 5;
  EXPECT_NE(message({gap}, {}).find("begins at sample 5"), std::string::npos);
  PlanDataset vast = EqualBlocks(1, 1, 1);
  vast.repeat = 1e30;
  EXPECT_NE(message({vast}, {}).find("2^48"), std::string::npos);
}

TEST(Cursor, RoundTripsAndRefuses) {
  const Cursor cursor{UINT64_MAX, UINT64_MAX - 1, 0xfedcba9876543210};
  const std::string text = FormatCursor(cursor);
  EXPECT_LT(text.size(), 200u);
  EXPECT_EQ(*ParseCursor(text), cursor);
  for (const char* bad :
       {"", "[]", "{}", R"({"epoch":-1,"position":0,"plan":"0000000000000000"})",
        R"({"epoch":0,"position":1.5,"plan":"0000000000000000"})", R"({"epoch":0,"position":0})",
        R"({"epoch":0,"position":0,"plan":"000000000000000g"})", R"({"epoch":0,"position":0,"plan":"00"})"}) {
    EXPECT_EQ(ParseCursor(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  const auto plan = MakePlan({EqualBlocks(10, 5, 100)}, {});
  EXPECT_TRUE(plan->CheckCursor(plan->Begin(3)).ok());
  EXPECT_FALSE(plan->CheckCursor({0, 51, plan->fingerprint()}).ok());
  EXPECT_FALSE(plan->CheckCursor({0, 0, plan->fingerprint() + 1}).ok());
  EXPECT_NE(MakePlan({EqualBlocks(10, 5, 100)}, {.seed = 1})->fingerprint(), plan->fingerprint());
}

TEST(ShuffleScore, ToldOfKnownOrders) {
  std::vector<uint64_t> order(1000);
  for (uint64_t i = 0; i < 1000; ++i) order[i] = i;
  EXPECT_NEAR(NeighbourDistance(order, 1000), 3.0 / 1001, 1e-9);
  const auto shuffled = loader::ShuffledIndexes(1000, 5);
  EXPECT_NEAR(NeighbourDistance(std::vector<uint64_t>(shuffled.begin(), shuffled.end()), 1000), 1, 0.06);
  std::vector<uint64_t> labels(1000), mixed(1000);
  for (uint64_t i = 0; i < 1000; ++i) labels[i] = i / 100, mixed[i] = shuffled[i] / 100;
  EXPECT_NEAR(LabelClumping(labels), 10, 0.2);
  EXPECT_NEAR(LabelClumping(mixed), 1, 0.25);
}

TEST(ShuffleScore, ReservoirHoldsWhatItIsTold) {
  const std::vector<uint64_t> shards{100, 50, 150};
  const auto order = ReservoirOrder(shards, 10, 1, 1000);
  EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), 300u);
  EXPECT_EQ(order.size(), 300u);
  EXPECT_LT(NeighbourDistance(order, 300), 0.3);
  EXPECT_NEAR(NeighbourDistance(ReservoirOrder(shards, 300, 1, 1000), 300), 1, 0.12);
}

// The target: 0.99 of a perfect shuffle with a buffer of 5 % of the data, and better than a reservoir of the same
// bytes.
TEST(ShuffleScore, FivePercentBufferMixesLikeAPerfectShuffle) {
  for (const uint64_t blocks : {41u, 50u, 100u, 1000u, 5000u}) {
    const auto plan = MakePlan({EqualBlocks(blocks, 100, 1000)},
                               {.seed = blocks, .batch_size = 256, .shuffle_buffer_bytes = blocks * 1000 / 20});
    const double score = NeighbourDistance(Ordinals(*plan, 0, UINT64_MAX), blocks * 100);
    const std::vector<uint64_t> shards(10, blocks * 10);
    const double reservoir = NeighbourDistance(ReservoirOrder(shards, blocks * 5, 3, UINT64_MAX), blocks * 100);
    EXPECT_GE(score, 0.99) << blocks;
    EXPECT_GT(score, reservoir) << blocks;
  }
}

}  // namespace
}  // namespace shardkit
