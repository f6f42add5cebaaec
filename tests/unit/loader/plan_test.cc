#include "shardkit/plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "loader/plan/permutation.h"
#include "loader/plan_support.h"
#include "shardkit/dataset_writer.h"

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

// Cursors are useful only if the order never changes.
TEST(Plan, OrderIsFixedForEver) {
  const auto plan = MakePlan({EqualBlocks(10, 5, 100)}, {.seed = 7, .batch_size = 4, .shuffle_buffer_bytes = 800});
  EXPECT_EQ(plan->lanes(), 2u);
  const std::vector<uint64_t> order = *Ordinals(*plan, 3, 12);
  EXPECT_EQ(order, (std::vector<uint64_t>{49, 16, 14, 33, 13, 4, 46, 31, 12, 21, 45, 19}));
  const auto mixed =
      MakePlan({EqualBlocks(10, 5, 100), EqualBlocks(3, 9, 50)}, {.seed = 7, .shuffle_buffer_bytes = 800});
  EXPECT_EQ(*Ordinals(*mixed, 0, 12), (std::vector<uint64_t>{30, 73, 9, 28, 15, 13, 26, 43, 61, 57, 21, 7}));
}

TEST(Plan, SectionsAreReadWhenTheyAreCovered) {
  std::mt19937_64 random(1);
  PlanDataset dataset = InShards(random, EqualBlocks(640, 5, 100), 8);
  size_t blocks_read = 0;
  absl::Status failure;
  const auto read = dataset.read_blocks;
  dataset.read_blocks = [&](std::span<const PlanShard> shards) -> absl::StatusOr<std::vector<PlanBlock>> {
    if (!failure.ok()) return failure;
    auto blocks = read(shards);
    blocks_read += blocks->size();
    return blocks;
  };
  const auto plan = MakePlan({dataset}, {.lanes = 1, .section_blocks = 1});
  EXPECT_EQ(plan->samples_per_epoch(), 3200u);
  const auto order = plan->Epoch(0);
  EXPECT_EQ(blocks_read, 0u);
  const auto first = *order->Covering({0, 10});
  EXPECT_GE(blocks_read, 64u);
  EXPECT_LT(blocks_read, 64u + 8);
  EXPECT_EQ(*first->Covering({10, 20}), first);
  const uint64_t end = blocks_read * 5;
  const auto both = *first->Covering({end - 1, end + 1});  // and the section after it
  EXPECT_GE(blocks_read, 128u);
  const size_t before = blocks_read;
  EXPECT_EQ(*both->Covering({end + 1, end + 2}), both);
  const auto last = *both->Covering({3199, 3210});  // with padding, which is the epoch's beginning
  EXPECT_EQ(*last->Covering({0, 1}), last);
  EXPECT_LE(blocks_read, before + 64 + 8);
  EXPECT_EQ(last->At(3).ordinal, first->At(3).ordinal);
  failure = absl::UnavailableError("the cable is out");
  EXPECT_EQ((*plan->Epoch(0)).Covering({0, 1}).status(), failure);
  EXPECT_EQ(ReadAmplification(*plan, 0, 2).status(), failure);
  EXPECT_EQ(Ordinals(*plan, 0, 10).status(), failure);
  EXPECT_TRUE(first->Covering({10, 20}).ok());
}

TEST(Plan, BlocksThatAreNotThoseOfTheirShards) {
  std::mt19937_64 random(2);
  const PlanDataset dataset = InShards(random, EqualBlocks(100, 5, 100), 8);
  const auto covering = [&](PlanBlockReader read) {
    PlanDataset other = dataset;
    other.read_blocks = std::move(read);
    return MakePlan({other}, {.section_blocks = 1})->Epoch(0)->Covering({0, 1}).status();
  };
  using Blocks = absl::StatusOr<std::vector<PlanBlock>>;
  EXPECT_EQ(covering(dataset.read_blocks), absl::OkStatus());
  for (const auto& spoil : std::vector<std::function<void(std::vector<PlanBlock>&)>>{
           [](auto& blocks) { blocks.clear(); },
           [](auto& blocks) { blocks.pop_back(); },
           [](auto& blocks) { blocks.push_back(blocks.back()); },
           [](auto& blocks) { ++blocks[3].sample_count; },
           [](auto& blocks) { ++blocks[3].first_sample; },
           [](auto& blocks) { blocks[3].sample_count = UINT32_MAX; },
       }) {
    const absl::Status status = covering([&](std::span<const PlanShard> shards) -> Blocks {
      Blocks blocks = dataset.read_blocks(shards);
      spoil(*blocks);
      return blocks;
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  }
}

TEST(Plan, ShardsThatContradictThemselves) {
  std::mt19937_64 random(3);
  const PlanDataset right = InShards(random, EqualBlocks(100, 5, 100), 8);
  const auto create = [](std::vector<PlanDataset> datasets, const PlanOptions& options = {}) {
    return Plan::Create(std::move(datasets), options).status().code();
  };
  EXPECT_EQ(create({right}), absl::StatusCode::kOk);
  EXPECT_EQ(create({right}, {.section_blocks = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({right, right}), absl::StatusCode::kInvalidArgument);
  for (const auto& spoil : std::vector<std::function<void(PlanDataset&)>>{
           [](PlanDataset& dataset) {
             dataset.blocks.push_back({0, 5, 100});
           },
           [](PlanDataset& dataset) { dataset.read_blocks = nullptr; },
           [](PlanDataset& dataset) { ++dataset.shards[5].first_sample; },
           [](PlanDataset& dataset) { ++dataset.shards[5].first_block; },
           [](PlanDataset& dataset) { ++dataset.shards[5].sample_count; },
           [](PlanDataset& dataset) { dataset.shards.back().block_count = UINT32_MAX; },
           [](PlanDataset& dataset) { dataset.shards.back().sample_count = UINT64_MAX; },
           [](PlanDataset& dataset) {
             dataset.shards.push_back({500, 3, 100, 100, 0});
           },
       }) {
    PlanDataset wrong = right;
    spoil(wrong);
    EXPECT_EQ(create({wrong}), absl::StatusCode::kInvalidArgument);
  }
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
  const std::vector<uint64_t> order = *Ordinals(*plan, 0, 50);
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(order[i], i);
}

TEST(Plan, WindowStaysNear) {
  const auto plan = MakePlan({EqualBlocks(100, 10, 100)},
                             {.order = SampleOrder::kWindow, .batch_size = 4, .shuffle_buffer_bytes = 500});
  const std::vector<uint64_t> order = *Ordinals(*plan, 0, 1000);
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

TEST(Plan, ProportionsChangeWithEpochs) {
  std::vector<PlanDataset> datasets{EqualBlocks(100, 100, 100000), EqualBlocks(100, 100, 100000),
                                    EqualBlocks(50, 10, 10000)};
  datasets[0].proportion = 1;
  datasets[0].changes = {{3, 0.25}};
  datasets[1].changes = {{2, 1}, {3, 0.75}, {7, 0}};
  datasets[2].changes = {{7, 0.25}};
  const PlanOptions options{.seed = 1, .batch_size = 100, .epoch_samples = 4000};
  const auto plan = MakePlan(datasets, options);
  const std::vector<std::vector<uint64_t>> expected = {{4000, 0, 0},    {4000, 0, 0},    {2000, 2000, 0},
                                                       {1000, 3000, 0}, {1000, 3000, 0}, {1000, 3000, 0},
                                                       {1000, 3000, 0}, {2000, 0, 2000}, {2000, 0, 2000}};
  for (uint64_t epoch = 0; epoch < expected.size(); ++epoch) {
    EXPECT_EQ(plan->counts(epoch), expected[epoch]) << epoch;
    const auto order = plan->Epoch(epoch);
    ASSERT_EQ(order->size(), 4000u);
    std::vector<uint64_t> counts(3);
    for (uint64_t g = 0; g < 2000; ++g) ++counts[order->At(g).dataset];
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(counts[i], expected[epoch][i] / 2.0, 100) << epoch;
  }
  EXPECT_EQ(plan->samples_per_epoch(), 4000u);
  // Of 20,500 samples: within the first 10,000, and half of them there and half in the 10,000 behind.
  EXPECT_DOUBLE_EQ(PerfectNeighbourDistance(*plan, 0), 10000.0 / 20500);
  EXPECT_DOUBLE_EQ(PerfectNeighbourDistance(*plan, 2), (0.5 * 10000 / 3 + 0.5 * 10000) / (20500.0 / 3));
  // A state knows the schedule.
  datasets[0].changes[0].epoch = 4;
  EXPECT_TRUE(absl::IsInvalidArgument(MakePlan(datasets, options)->CheckCursor(plan->At(1, 100))));
  const auto refused = [&](std::vector<ProportionChange> changes) {
    datasets[0].changes = std::move(changes);
    return absl::IsInvalidArgument(Plan::Create(datasets, options).status());
  };
  EXPECT_FALSE(refused({{1, 0.5}, {2, 0}}));
  EXPECT_TRUE(refused({{0, 0.5}}));
  EXPECT_TRUE(refused({{2, 0.5}, {2, 1}}));
  EXPECT_TRUE(refused({{2, -1}}));
  EXPECT_TRUE(refused({{1, 0}}));  // then epoch 1 has nothing
  datasets[1].changes.clear();
  EXPECT_TRUE(refused({{2, 0.5}}));  // the second has no proportion
}

TEST(Plan, ChooseTakesOtherSamplesInOtherEpochs) {
  std::vector<PlanDataset> datasets{EqualBlocks(100, 10, 1000)};
  datasets[0].choose = 100;
  const auto plan = MakePlan(datasets, {.batch_size = 10});
  std::set<uint64_t> seen;
  for (uint64_t epoch = 0; epoch < 100; ++epoch) {
    const auto order = *Ordinals(*plan, epoch, 1000);
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
  const Cursor mixed{3, 4096, 1, {7, 0, 12}};
  EXPECT_EQ(FormatCursor(mixed), R"({"epoch":3,"position":4096,"plan":"0000000000000001","generations":[7,0,12]})");
  EXPECT_EQ(*ParseCursor(FormatCursor(mixed)), mixed);
  EXPECT_LT(FormatCursor({100000, uint64_t{1} << 40, UINT64_MAX, std::vector<uint64_t>(20, 1000)}).size(), 200u);
  for (const char* bad :
       {"", "[]", "{}", R"({"epoch":-1,"position":0,"plan":"0000000000000000"})",
        R"({"epoch":0,"position":1.5,"plan":"0000000000000000"})", R"({"epoch":0,"position":0})",
        R"({"epoch":0,"position":0,"plan":"000000000000000g"})", R"({"epoch":0,"position":0,"plan":"00"})",
        R"({"epoch":0,"position":0,"plan":"0000000000000000","generations":3})",
        R"({"epoch":0,"position":0,"plan":"0000000000000000","generations":[-3]})"}) {
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

TEST(ShuffleScore, BlocksOfOneValueAreClumps) {
  const auto files = NewMemoryFileSystem();
  const auto column = [](const char* name) { return Column{.name = name, .type = Type::kI64, .codec = Codec::kZstd}; };
  const auto schema =
      Schema::Create({column("sorted"), column("mixed"), column("constant"), column("number"), column("rare")});
  ASSERT_TRUE(schema.ok());
  DatasetWriterOptions options;
  options.shard_samples = 100;
  options.shard.max_block_samples = 10;
  auto writer = DatasetWriter::Create(*files, "/in", *schema, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t row[] = {i / 40, i * 7 % 25, 3, i, i / 100 == 7 ? 1 : 0};
    std::vector<std::optional<Value>> values;
    for (const int64_t& number : row) {
      values.emplace_back(Value({reinterpret_cast<const char*>(&number), sizeof(number)}));
    }
    ASSERT_TRUE((*writer)->Append(values).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto dataset = DatasetReader::Open(*files, "/in");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(ClumpedColumns(**dataset).value(), (std::vector<std::string>{"sorted"}));
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
    const double score = NeighbourDistance(*Ordinals(*plan, 0, UINT64_MAX), blocks * 100);
    const std::vector<uint64_t> shards(10, blocks * 10);
    const double reservoir = NeighbourDistance(ReservoirOrder(shards, blocks * 5, 3, UINT64_MAX), blocks * 100);
    EXPECT_GE(score, 0.99) << blocks;
    EXPECT_GT(score, reservoir) << blocks;
  }
}

}  // namespace
}  // namespace shardkit
