// Epochs that do not take each sample once: chosen samples, and samples drawn by weight.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "loader/geometry_support.h"
#include "loader/loader_support.h"
#include "loader/plan/permutation.h"
#include "loader/plan/sample_draw.h"

namespace shardkit::test {
namespace {

std::vector<PlanBlock> Blocks(const std::vector<uint32_t>& counts) {
  std::vector<PlanBlock> blocks;
  uint64_t first = 0;
  for (const uint32_t count : counts) {
    blocks.push_back({first, count, 100 + count});
    first += count;
  }
  return blocks;
}

std::vector<uint32_t> RandomCounts(uint64_t seed) {
  std::vector<uint32_t> counts;
  for (uint64_t i = 0; i < 3 + seed % 20; ++i) {
    counts.push_back(static_cast<uint32_t>(loader::RandomBelow(loader::Derive(seed, i), 12)));
  }
  counts.push_back(5);
  return counts;
}

template <typename T>
std::shared_ptr<const std::vector<T>> Shared(std::vector<T> values) {
  return std::make_shared<const std::vector<T>>(std::move(values));
}

// All of an epoch's samples, in order.
std::vector<PlannedSample> All(const Plan& plan, uint64_t epoch) {
  const auto order = plan.Epoch(epoch);
  std::vector<PlannedSample> samples;
  for (uint64_t i = 0; i < order->size(); ++i) samples.push_back(order->At(i));
  return samples;
}

TEST(ChosenSamples, EachOnceAndNoOther) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    PlanDataset dataset{.blocks = Blocks(RandomCounts(seed))};
    const uint64_t all = dataset.samples();
    std::vector<uint64_t> chosen;
    for (uint64_t i = 0; i < all; ++i) {
      if (loader::RandomBelow(loader::Derive(seed, 1000 + i), 4) < seed % 5 || i + 1 == all) chosen.push_back(i);
    }
    dataset.selected = Shared(chosen);
    const std::vector<PlanBlock> blocks = dataset.blocks;
    for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled, SampleOrder::kWindow}) {
      PlanOptions options{.seed = seed, .order = order, .batch_size = 3};
      options.shuffle_buffer_bytes = 600;
      const auto plan = Plan::Create({dataset}, options);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ((*plan)->samples_per_epoch(), chosen.size());
      for (const uint64_t epoch : {0, 1}) {
        std::vector<uint64_t> seen;
        for (const PlannedSample& sample : All(**plan, epoch)) {
          seen.push_back(sample.ordinal);
          EXPECT_EQ(sample.ordinal, blocks[sample.block].first_sample + sample.in_block);
          EXPECT_LT(sample.in_block, blocks[sample.block].sample_count);
          EXPECT_EQ(sample.copy, 0u);
          // The block is that of the dataset, which is to be read.
          EXPECT_EQ((*plan)->Epoch(epoch)->BlockOf(sample).bytes, blocks[sample.block].bytes);
        }
        if (order == SampleOrder::kSequential) {
          EXPECT_EQ(seen, chosen);
        }
        std::ranges::sort(seen);
        ASSERT_EQ(seen, chosen);
      }
    }
  }
}

// What is counted down while a rank reads a block: all that is needed of it in a window.
TEST(ChosenSamples, UsesOfBlocks) {
  PlanDataset dataset{.blocks = Blocks({4, 9, 0, 7, 5, 8, 3})};
  dataset.selected = Shared<uint64_t>({1, 2, 5, 13, 14, 19, 20, 21, 30, 35});
  for (const bool weighted : {false, true}) {
    if (weighted) dataset.weights = Shared<double>({1, 2, 3, 4, 5, 1, 1, 1, 0, 9});
    PlanOptions options{.seed = 4};
    options.shuffle_buffer_bytes = 250;
    options.lanes = 2;
    const auto plan = Plan::Create({dataset}, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto order = (*plan)->Epoch(0);
    std::map<std::pair<uint64_t, uint32_t>, uint32_t> uses;
    for (const PlannedSample& sample : All(**plan, 0)) ++uses[{sample.window, sample.block}];
    for (const auto& [place, count] : uses) EXPECT_EQ(order->BlockUses(0, place.first, place.second), count);
  }
}

TEST(ChosenSamples, RepeatedAndChosenFromAmongThem) {
  PlanDataset dataset{.blocks = Blocks({5, 5, 5})};
  dataset.selected = Shared<uint64_t>({0, 7, 8, 14});
  dataset.repeat = 2.5;
  const auto plan = Plan::Create({dataset}, {.seed = 1});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::map<uint64_t, std::set<uint32_t>> copies;
  for (const PlannedSample& sample : All(**plan, 0)) {
    EXPECT_TRUE(copies[sample.ordinal].insert(sample.copy).second) << "copies are told apart";
  }
  EXPECT_EQ(copies.size(), 4u);
  for (const auto& [ordinal, numbers] : copies) {
    EXPECT_GE(numbers.size(), 2u) << ordinal;
    EXPECT_LE(numbers.size(), 3u) << ordinal;
  }
}

// Every epoch takes each sample as often as its share says, rounded up or down; over many epochs the mean is the share.
TEST(DrawnSamples, SharesAreExactOnAverage) {
  std::vector<double> weights = {0, 1, 1, 2, 0.25, 10, 3.5, 0, 1e-3, 1, 1, 1, 0.5, 7, 1};
  PlanDataset dataset{.blocks = Blocks({4, 1, 0, 6, 4})};
  dataset.weights = Shared(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (const uint64_t count : {1, 5, 15, 200}) {
    dataset.choose = count;
    const auto plan = Plan::Create({dataset}, {.seed = 11});
    ASSERT_TRUE(plan.ok()) << plan.status();
    constexpr uint64_t kEpochs = 3000;
    std::vector<double> totals(weights.size());
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      std::vector<uint64_t> taken(weights.size());
      std::set<std::pair<uint64_t, uint32_t>> told_apart;
      for (const PlannedSample& sample : All(**plan, epoch)) {
        ++taken[sample.ordinal];
        EXPECT_TRUE(told_apart.emplace(sample.ordinal, sample.copy).second);
        EXPECT_LT(sample.copy, 200u);
      }
      ASSERT_EQ(told_apart.size(), count);
      for (size_t i = 0; i < weights.size(); ++i) {
        const double share = weights[i] / sum * static_cast<double>(count);
        EXPECT_GE(static_cast<double>(taken[i]), std::floor(share - 1e-6));
        EXPECT_LE(static_cast<double>(taken[i]), std::ceil(share + 1e-6));
        totals[i] += static_cast<double>(taken[i]);
      }
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      const double share = weights[i] / sum * static_cast<double>(count);
      // Five standard deviations of a share's fraction.
      const double fraction = share - std::floor(share);
      const double spread = 5 * std::sqrt(fraction * (1 - fraction) / kEpochs) + 1e-3;
      EXPECT_NEAR(totals[i] / kEpochs, share, spread) << "sample " << i << " of " << count;
    }
  }
}

TEST(DrawnSamples, WithoutReplacement) {
  const std::vector<double> weights = {100, 1, 1, 1, 0, 1, 50, 1, 1, 1};
  PlanDataset dataset{.blocks = Blocks({3, 3, 4})};
  dataset.weights = Shared(weights);
  dataset.replacement = false;
  for (const uint64_t count : {1, 4, 8, 9}) {
    dataset.choose = count;
    const auto plan = Plan::Create({dataset}, {.seed = 5});
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<uint64_t> totals(weights.size());
    for (uint64_t epoch = 0; epoch < 400; ++epoch) {
      std::set<uint64_t> seen;
      for (const PlannedSample& sample : All(**plan, epoch)) {
        EXPECT_TRUE(seen.insert(sample.ordinal).second) << "drawn twice";
        ++totals[sample.ordinal];
      }
      ASSERT_EQ(seen.size(), count);
    }
    EXPECT_EQ(totals[4], 0u);
    if (count >= 4) {
      EXPECT_EQ(totals[0], 400u);  // their shares are one and more
      EXPECT_EQ(totals[6], 400u);
      // What is left is divided among the seven others.
      EXPECT_NEAR(static_cast<double>(totals[1]), 400 * static_cast<double>(count - 2) / 7, 70);
    }
  }
  dataset.choose = 10;
  const absl::Status status = Plan::Create({dataset}, {}).status();
  EXPECT_NE(status.message().find("10 samples cannot be drawn without replacement from 9"), absl::string_view::npos)
      << status;
}

// Weights of any spread: those of the many small ones hold beside the few large ones, and nearly all samples can be
// drawn.
TEST(DrawnSamples, WithoutReplacementOfAnySpread) {
  PlanDataset dataset{.blocks = Blocks({8, 8})};
  std::vector<double> weights(16, 0);
  weights[0] = 1e20;
  weights[5] = 1, weights[9] = 2, weights[15] = 3;
  dataset.weights = Shared(weights);
  dataset.replacement = false;
  dataset.choose = 2;
  const auto plan = Plan::Create({dataset}, {.seed = 5});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::map<uint64_t, int> totals;
  constexpr int kEpochs = 1200;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (const PlannedSample& sample : All(**plan, epoch)) ++totals[sample.ordinal];
  }
  EXPECT_EQ(totals[0], kEpochs);
  EXPECT_NEAR(totals[5], kEpochs / 6.0, 80);
  EXPECT_NEAR(totals[9], kEpochs / 3.0, 80);
  EXPECT_NEAR(totals[15], kEpochs / 2.0, 80);

  // All of many samples, whose shares are all one in the end, and nearly all.
  std::vector<uint32_t> counts(500, 400);
  PlanDataset large{.blocks = Blocks(counts)};
  std::vector<double> spread;
  for (uint64_t i = 0; i < 200'000; ++i)
    spread.push_back(std::pow(2.0, static_cast<double>(loader::Mix(i) % 400) / 10));
  large.weights = Shared(spread);
  large.replacement = false;
  for (const uint64_t count : {200'000, 199'990, 150'000}) {
    large.choose = count;
    const auto nearly = Plan::Create({large}, {.seed = 1});
    ASSERT_TRUE(nearly.ok()) << nearly.status();
    std::vector<bool> seen(200'000);
    for (const PlannedSample& sample : All(**nearly, 0)) {
      ASSERT_FALSE(seen[sample.ordinal]);
      seen[sample.ordinal] = true;
    }
    EXPECT_EQ(std::ranges::count(seen, true), static_cast<ptrdiff_t>(count));
  }
}

// Neighbours in the dataset are drawn as independently of each other as in a random order: no pair is always together.
TEST(DrawnSamples, PairsVary) {
  PlanDataset dataset{.blocks = Blocks({8})};
  dataset.weights = Shared(std::vector<double>(8, 1));
  dataset.choose = 4;
  const auto plan = Plan::Create({dataset}, {.seed = 2});
  ASSERT_TRUE(plan.ok());
  std::map<std::pair<uint64_t, uint64_t>, int> together;
  constexpr int kEpochs = 2800;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<uint64_t> seen;
    for (const PlannedSample& sample : All(**plan, epoch)) seen.push_back(sample.ordinal);
    std::ranges::sort(seen);
    for (size_t a = 0; a < seen.size(); ++a) {
      for (size_t b = a + 1; b < seen.size(); ++b) ++together[{seen[a], seen[b]}];
    }
  }
  EXPECT_EQ(together.size(), 28u);
  // A pair of 4 of 8 has the probability 3/14.
  for (const auto& [pair, times] : together)
    EXPECT_NEAR(times, kEpochs * 3.0 / 14, 120) << pair.first << " " << pair.second;
}

TEST(DrawnSamples, WhatIsRefused) {
  PlanDataset dataset{.blocks = Blocks({3, 3})};
  const auto message = [&] {
    const absl::Status status = Plan::Create({dataset}, {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const double infinite = std::numeric_limits<double>::infinity();
  for (const auto& [weights, says] : std::vector<std::pair<std::vector<double>, std::string>>{
           {{1, 1}, "2 weights for 6 samples"},
           {{1, 1, -1, 1, 1, 1}, "the weight of sample 2 is -1"},
           {{1, 1, 1, 1, 1, std::nan("")}, "the weight of sample 5"},
           {{1, infinite, 1, 1, 1, 1}, "the weight of sample 1 is inf"},
           {{0, 0, 0, 0, 0, 0}, "the sum of all weights is 0"},
           {{1e-320, 0, 0, 0, 0, 0}, "the sum of all weights is "},
           {{1e308, 1e308, 1e308, 0, 0, 0}, "the sum of all weights is inf"}}) {
    dataset.weights = Shared(weights);
    EXPECT_NE(message().find(says), std::string::npos) << message();
  }
  dataset.weights = nullptr;
  for (const auto& [selected, says] : std::vector<std::pair<std::vector<uint64_t>, std::string>>{
           {{0, 6}, "sample 6 was chosen, and the dataset has 6"},
           {{0, 2, 2}, "do not ascend: 2"},
           {{4, 1}, "do not ascend: 1"},
           {{}, "no samples"}}) {
    dataset.selected = Shared(selected);
    EXPECT_NE(message().find(says), std::string::npos) << message();
  }
  dataset.choose = 3;
  EXPECT_NE(message().find("is empty: nothing can be taken"), std::string::npos) << message();
}

// The order depends on what is chosen, and so does the cursor.
TEST(DrawnSamples, CursorsBelongToTheirChoice) {
  std::set<uint64_t> fingerprints;
  const auto add = [&](const PlanDataset& dataset) {
    const auto plan = Plan::Create({dataset}, {});
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(fingerprints.insert((*plan)->fingerprint()).second);
  };
  PlanDataset dataset{.blocks = Blocks({3, 3})};
  add(dataset);
  dataset.selected = Shared<uint64_t>({0, 1, 2, 3, 4, 5});
  add(dataset);
  dataset.selected = Shared<uint64_t>({0, 1, 2, 3, 5});
  add(dataset);
  dataset.selected = Shared<uint64_t>({0, 1, 2, 4, 5});
  add(dataset);
  dataset.selected = nullptr;
  dataset.weights = Shared<double>({1, 1, 1, 1, 1, 1});
  add(dataset);
  dataset.weights = Shared<double>({1, 1, 1, 1, 1, 2});
  add(dataset);
  dataset.replacement = false;
  add(dataset);
}

// ---- Through a loader ----

class ChosenInLoader : public testing::Test {
 protected:
  static constexpr int kSamples = 240;

  void SetUp() override {
    const std::vector<Column> columns = {{.name = "key", .type = Type::kUtf8, .is_key = true},
                                         {.name = "label", .type = Type::kI64, .nullable = true},
                                         {.name = "name", .type = Type::kUtf8},
                                         {.name = "score", .type = Type::kF32}};
    std::vector<Values> rows;
    for (int i = 0; i < kSamples; ++i) {
      // Label 0 is common, 1 rare, 2 rarer; every 40th sample has none.
      const int64_t label = i % 48 == 5 ? 2 : i % 12 == 1 ? 1 : 0;
      rows.push_back({"key" + std::to_string(i), i % 40 == 39 ? std::nullopt : std::optional(Bytes(label)),
                      label == 2 ? "rare" : "common", Bytes(static_cast<float>(i))});
      labels_.push_back(i % 40 == 39 ? -1 : label);
    }
    WriteRows(*files_, "/data", columns, rows, SmallShards(60, 8));
  }

  static LoaderOptions Options() {
    LoaderOptions options;
    options.plan = {.seed = 7, .batch_size = 12};
    options.plan.shuffle_buffer_bytes = 4096;
    options.memory_bytes = 4 << 20;
    options.decode_threads = options.read_threads = 2;
    options.columns = {{.name = "score"}};
    return options;
  }

  std::vector<BatchSample> Take(const LoaderDataset& dataset, const LoaderOptions& options, size_t batches = SIZE_MAX,
                                Cursor* cursor = nullptr) {
    auto loader = Loader::Open(*files_, {dataset}, options);
    EXPECT_TRUE(loader.ok()) << loader.status();
    std::vector<BatchSample> samples;
    if (!loader.ok()) return samples;
    for (size_t b = 0; b < batches; ++b) {
      const auto batch = (*loader)->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || *batch == nullptr) break;
      for (size_t i = 0; i < (*batch)->size(); ++i) {
        samples.push_back((*batch)->samples()[i]);
        // The value is that of the sample.
        EXPECT_EQ((*batch)->column(0).as<float>()[i], static_cast<float>(samples.back().ordinal));
        EXPECT_EQ((*batch)->key(i), "key" + std::to_string(samples.back().ordinal));
      }
    }
    if (cursor != nullptr) *cursor = (*loader)->cursor();
    report_ = (*loader)->Report();
    return samples;
  }

  const std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::vector<int64_t> labels_;
  LoaderReport report_;
};

TEST_F(ChosenInLoader, ByACondition) {
  LoaderDataset dataset{.path = "/data"};
  dataset.selection.where = "label == 2 or score < 10";
  std::set<uint64_t> expected, seen;
  for (int i = 0; i < kSamples; ++i) {
    if (labels_[i] == 2 || i < 10) expected.insert(static_cast<uint64_t>(i));
  }
  for (const BatchSample& sample : Take(dataset, Options())) EXPECT_TRUE(seen.insert(sample.ordinal).second);
  EXPECT_EQ(seen, expected);
  dataset.selection.where = "score >= 200";
  Take(dataset, Options());
  EXPECT_EQ(report_.blocks_read, 6u) << "blocks without a chosen sample are not read";
  dataset.selection.where = "score > 1000";
  EXPECT_NE(Loader::Open(*files_, {dataset}, Options()).status().message().find("no sample is chosen"),
            absl::string_view::npos);
  dataset.selection.where = "scores > 1";
  EXPECT_TRUE(absl::IsInvalidArgument(Loader::Open(*files_, {dataset}, Options()).status()));
  dataset.selection = {};
  dataset.selection.keys = {{"key3", "key200", "nothing"}};
  EXPECT_NE(Loader::Open(*files_, {dataset}, Options()).status().message().find("1 of the keys"),
            absl::string_view::npos);
  dataset.selection.keys = {{"key3", "key200"}};
  LoaderOptions options = Options();
  options.plan.batch_size = 1;
  EXPECT_EQ(Take(dataset, options).size(), 2u);
}

TEST_F(ChosenInLoader, Balanced) {
  for (const std::string column : {"label", "name"}) {
    LoaderDataset dataset{.path = "/data"};
    dataset.balance = column;
    LoaderOptions options = Options();
    options.epochs = 20;
    std::map<int64_t, int> drawn;
    std::set<std::pair<uint64_t, uint32_t>> copies;
    int total = 0;
    for (const BatchSample& sample : Take(dataset, options)) {
      ++drawn[labels_[sample.ordinal]];
      ++total;
    }
    EXPECT_EQ(total, 20 * kSamples);
    ASSERT_EQ(report_.balance_notes.size(), 1u);
    if (column == "label") {
      EXPECT_EQ(drawn.count(-1), 0u);
      for (const int64_t label : {0, 1, 2}) EXPECT_NEAR(drawn[label], total / 3.0, 30) << label;
      EXPECT_EQ(report_.balance_notes[0],
                "/data: 3 values of column \"label\", of 5 to 209 samples each; 6 samples without one are left out");
    } else {
      EXPECT_NEAR(drawn[2], total / 2.0, 30);
    }
  }
  LoaderDataset dataset{.path = "/data"};
  dataset.balance = "score";
  EXPECT_NE(Loader::Open(*files_, {dataset}, Options()).status().message().find("cannot be balanced"),
            absl::string_view::npos);
  dataset.balance = "label";
  dataset.selection.where = "label is null";
  EXPECT_NE(Loader::Open(*files_, {dataset}, Options()).status().message().find("to balance"), absl::string_view::npos);
  dataset.selection.where = "label > 0";
  std::map<int64_t, int> drawn;
  LoaderOptions options = Options();
  options.epochs = 20;
  for (const BatchSample& sample : Take(dataset, options)) ++drawn[labels_[sample.ordinal]];
  EXPECT_EQ(drawn.size(), 2u);
  EXPECT_NEAR(drawn[1], drawn[2], 20);
}

// Whatever the ranks, threads and restarts: the same samples, with the same copies.
TEST_F(ChosenInLoader, RanksThreadsAndResuming) {
  LoaderDataset dataset{.path = "/data"};
  dataset.balance = "label";
  dataset.selection.where = "score < 220";
  dataset.choose = 150;
  LoaderOptions options = Options();
  options.epochs = 3;
  const auto places = [](const std::vector<BatchSample>& samples) {
    std::set<std::tuple<uint64_t, uint64_t, uint32_t>> made;  // the epoch is implied: positions are below 150
    for (const BatchSample& sample : samples) made.emplace(sample.position, sample.ordinal, sample.copy);
    return made;
  };
  const std::vector<BatchSample> whole = Take(dataset, options);
  EXPECT_EQ(whole.size(), 450u);
  options.decode_threads = options.read_threads = 5;
  EXPECT_EQ(places(Take(dataset, options)), places(whole));
  for (const uint64_t world_size : {2, 3, 4}) {
    std::vector<BatchSample> together;
    for (uint64_t rank = 0; rank < world_size; ++rank) {
      options.world_size = world_size;
      options.rank = rank;
      const std::vector<BatchSample> part = Take(dataset, options);
      together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together.size(), whole.size());
    EXPECT_EQ(places(together), places(whole));
  }
  options.world_size = 1;
  options.rank = 0;
  for (const size_t stop : {1, 5, 14, 20}) {
    Cursor cursor;
    std::vector<BatchSample> both = Take(dataset, options, stop, &cursor);
    LoaderOptions rest = options;
    rest.cursor = cursor;
    const std::vector<BatchSample> after = Take(dataset, rest);
    both.insert(both.end(), after.begin(), after.end());
    EXPECT_EQ(both.size(), whole.size());
    EXPECT_EQ(places(both), places(whole));
    // Another choice is another plan.
    LoaderDataset other = dataset;
    other.selection.where = "score < 219";
    EXPECT_TRUE(absl::IsInvalidArgument(Loader::Open(*files_, {other}, rest).status()));
  }
}

TEST_F(ChosenInLoader, WeightsAndMixtures) {
  std::vector<double> weights(kSamples, 0);
  weights[3] = 1;
  weights[100] = 3;
  weights[239] = 5;
  LoaderDataset dataset{.path = "/data"};
  dataset.weights = Shared(weights);
  LoaderOptions options = Options();
  std::map<uint64_t, int> drawn;
  for (const BatchSample& sample : Take(dataset, options)) ++drawn[sample.ordinal];
  EXPECT_EQ(drawn.size(), 3u);
  EXPECT_NEAR(drawn[3], kSamples / 9.0, 1);
  EXPECT_NEAR(drawn[239], kSamples * 5 / 9.0, 1);
  dataset.selection.where = "score != 239";
  drawn.clear();
  for (const BatchSample& sample : Take(dataset, options)) ++drawn[sample.ordinal];
  EXPECT_EQ(drawn.size(), 2u);
  // Beside another dataset.
  LoaderDataset other{.path = "/data"};
  other.selection.ranges = {{10, 20}};
  auto loader = Loader::Open(*files_, {dataset, other}, options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  std::map<uint64_t, int> of_other;
  while (true) {
    const auto batch = (*loader)->Next();
    ASSERT_TRUE(batch.ok());
    if (*batch == nullptr) break;
    for (const BatchSample& sample : (*batch)->samples()) {
      if (sample.dataset == 1) ++of_other[sample.ordinal];
    }
  }
  EXPECT_EQ(of_other.size(), 10u);
  for (const auto& [ordinal, times] : of_other) EXPECT_EQ(times, 1) << ordinal;
  dataset.balance = "label";
  EXPECT_NE(Loader::Open(*files_, {dataset}, options).status().message().find("give one of the two"),
            absl::string_view::npos);
  dataset.balance.clear();
  dataset.weights = Shared<double>({1, 2});
  EXPECT_NE(Loader::Open(*files_, {dataset}, options).status().message().find("2 weights for 240"),
            absl::string_view::npos);
  dataset.weights = nullptr;
  dataset.replacement = false;
  EXPECT_NE(Loader::Open(*files_, {dataset}, options).status().message().find("replacement is about"),
            absl::string_view::npos);
}

// Copies of a sample in an epoch are cropped in their own way; its first one as without copies.
TEST(ChosenInLoaderCrops, CopiesDiffer) {
  const auto files = NewMemoryFileSystem();
  (void)WriteImagesAndMasks(*files);
  LoaderOptions options;
  options.plan = {.seed = 3, .batch_size = 1};
  options.memory_bytes = 8 << 20;
  options.plan.shuffle_buffer_bytes = 1 << 20;
  options.columns = {{.name = "image", .decode = ColumnDecode::kImage}};
  options.geometry = Geometries()[3];
  for (const bool by_weight : {false, true}) {
    LoaderDataset dataset{.path = "/data"};
    dataset.selection.ranges = {{1, 2}};
    if (by_weight) dataset.weights = std::make_shared<const std::vector<double>>(48, 1.0);
    dataset.repeat = 6;
    auto loader = Loader::Open(*files, {dataset}, options);
    ASSERT_TRUE(loader.ok()) << loader.status();
    std::set<std::string> pictures;
    std::set<uint32_t> copies;
    while (true) {
      const auto batch = (*loader)->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (*batch == nullptr) break;
      const auto values = (*batch)->column(0).values;
      pictures.emplace(values.begin(), values.end());
      copies.insert((*batch)->samples()[0].copy);
    }
    EXPECT_EQ(copies, (std::set<uint32_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_GE(pictures.size(), 5u);
  }
}

}  // namespace
}  // namespace shardkit::test
