// Whether every order comes equally often: chi-square over many keys, whose mean is the degrees of freedom.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "loader/plan/permutation.h"
#include "loader/plan_support.h"
#include "shardkit/image.h"
#include "shardkit/plan.h"

namespace shardkit::loader {
namespace {

using Order = std::vector<uint64_t>;

// Counts of events of known probability, one of which happens at each trial.
class Events {
 public:
  explicit Events(std::vector<double> probabilities)
      : probabilities_(std::move(probabilities)), counts_(probabilities_.size()) {}

  void Add(size_t event) {
    ++counts_[event];
    ++trials_;
  }
  double ChiSquare() const {
    double sum = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      const double expected = probabilities_[i] * trials_;
      if (expected == 0) {
        EXPECT_EQ(counts_[i], 0) << "event " << i;
      } else {
        sum += (counts_[i] - expected) * (counts_[i] - expected) / expected;
      }
    }
    return sum;
  }
  double Freedom() const {
    return static_cast<double>(std::ranges::count_if(probabilities_, [](double p) { return p > 0; })) - 1;
  }

 private:
  std::vector<double> probabilities_;
  std::vector<double> counts_;
  double trials_ = 0;
};

// Chi-square per degree of freedom is within a tenth of 1, or, where there are few degrees, within five deviations.
void ExpectEven(const std::vector<Events>& tables, const std::string& what) {
  double sum = 0, freedom = 0, widest = 0;
  for (const Events& events : tables) {
    sum += events.ChiSquare();
    freedom += events.Freedom();
    widest = std::max(widest, events.Freedom());
  }
  // Tables of one trial depend on each other: as if only the largest counted.
  const double allowed = std::max(0.1, 5 * std::sqrt(2 / widest));
  EXPECT_NEAR(sum / freedom, 1, allowed) << what;
}

std::vector<double> Equal(size_t count) { return std::vector<double>(count, 1.0 / static_cast<double>(count)); }

// Places, neighbours, gaps and, up to seven elements, whole orders, at up to 12 places. Pairs are counted in up to 32
// groups of elements.
void ExpectOrdersEven(uint64_t size, int keys, const std::function<Order(uint64_t key)>& order_of,
                      const std::string& name) {
  const uint64_t groups = std::min<uint64_t>(size, 32);
  const auto group = [&](uint64_t element) { return element * groups / size; };
  std::vector<double> sizes(groups);
  for (uint64_t i = 0; i < size; ++i) ++sizes[group(i)];
  std::vector<double> pairs;
  const double all = static_cast<double>(size) * static_cast<double>(size - 1);
  for (uint64_t a = 0; a < groups; ++a) {
    for (uint64_t b = 0; b < groups; ++b) pairs.push_back(sizes[a] * (sizes[b] - (a == b ? 1 : 0)) / all);
  }
  std::vector<uint64_t> at;
  for (uint64_t i = 0; i < std::min<uint64_t>(size, 12); ++i) at.push_back(i * size / std::min<uint64_t>(size, 12));
  std::vector<Events> places(at.size(), Events(Equal(size)));
  std::vector<Events> neighbours(at.size(), Events(pairs));
  std::vector<Events> gaps(at.size(), Events(Equal(size - 1)));
  uint64_t factorial = 1;
  for (uint64_t i = 2; i <= std::min<uint64_t>(size, 7); ++i) factorial *= i;
  std::vector<Events> whole(1, Events(Equal(factorial)));
  for (int key = 0; key < keys; ++key) {
    const Order order = order_of(Mix(static_cast<uint64_t>(key) + size * 1000003));
    for (size_t i = 0; i < at.size(); ++i) {
      const uint64_t element = order[at[i]], next = order[(at[i] + 1) % size];
      places[i].Add(element);
      neighbours[i].Add(group(element) * groups + group(next));
      if (size > 2) gaps[i].Add((next + size - element) % size - 1);
    }
    if (size > 7) continue;
    uint64_t number = 0;
    for (uint64_t i = 0; i < size; ++i) {
      number = number * (size - i) +
               static_cast<uint64_t>(std::count_if(order.begin() + static_cast<int64_t>(i), order.end(),
                                                   [&](uint64_t later) { return later < order[i]; }));
    }
    whole[0].Add(number);
  }
  const std::string of = name + " of " + std::to_string(size);
  ExpectEven(places, of + ": places");
  if (size > 2) {
    ExpectEven(neighbours, of + ": neighbours");
    ExpectEven(gaps, of + ": gaps");
  }
  if (size <= 7) ExpectEven(whole, of + ": whole orders");
}

constexpr int kKeys = 100000;

TEST(Evenness, Permutation) {
  for (const uint64_t size : {2,  3,  4,  5,  6,  7,   8,   11,  16,  17,  18,  20,   24,   31,
                              32, 33, 50, 64, 65, 100, 129, 200, 256, 257, 513, 1000, 4096, 30000}) {
    ExpectOrdersEven(
        size, kKeys,
        [&](uint64_t key) {
          const Permutation permute(size, key);
          // Only at the places that are looked at: a whole order of many elements takes long.
          Order order(size);
          for (uint64_t i = 0; i < std::min<uint64_t>(size, 12); ++i) {
            for (const uint64_t at :
                 {i * size / std::min<uint64_t>(size, 12), i * size / std::min<uint64_t>(size, 12) + 1})
              order[at % size] = permute(at % size);
          }
          return order;
        },
        "Permutation");
  }
}

TEST(Evenness, ShuffledIndexes) {
  for (const uint64_t size : {2, 3, 5, 6, 7, 8, 10, 16, 17, 33, 100, 257}) {
    ExpectOrdersEven(
        size, kKeys,
        [&](uint64_t key) {
          const std::vector<uint32_t> indexes = ShuffledIndexes(static_cast<uint32_t>(size), key);
          return Order(indexes.begin(), indexes.end());
        },
        "ShuffledIndexes");
  }
}

Order FirstEpoch(PlanDataset dataset, uint64_t seed, const PlanOptions& options = {}) {
  PlanOptions seeded = options;
  seeded.seed = seed;
  const auto plan = Plan::Create({std::move(dataset)}, seeded);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *Ordinals(**plan, 0, (*plan)->datasets()[0].samples());
}

TEST(Evenness, SamplesOfOneBlock) {
  for (const uint64_t size : {2, 3, 5, 6, 7, 8, 10, 16, 17, 40}) {
    ExpectOrdersEven(
        size, 50000, [&](uint64_t seed) { return FirstEpoch(EqualBlocks(1, static_cast<uint32_t>(size), 100), seed); },
        "samples");
  }
}

TEST(Evenness, Blocks) {
  for (const uint64_t size : {2, 3, 5, 6, 7, 8, 10, 12, 16, 17, 24, 40}) {
    for (const uint64_t buffer : {0, 10000}) {
      ExpectOrdersEven(
          size, 50000,
          [&](uint64_t seed) { return FirstEpoch(EqualBlocks(size, 1, 100), seed, {.shuffle_buffer_bytes = buffer}); },
          buffer == 0 ? "blocks" : "blocks in lanes");
    }
  }
}

// Samples that an epoch leaves out are any of the dataset's, those at the end of a block as well.
TEST(Evenness, ChosenSamples) {
  for (const uint64_t choose : {1, 3, 10, 15, 25, 39}) {
    std::vector<double> counts(40);
    const int seeds = 40000;
    for (int seed = 0; seed < seeds; ++seed) {
      PlanDataset dataset = EqualBlocks(4, 10, 100);
      dataset.choose = choose;
      const auto plan =
          Plan::Create({dataset}, {.seed = Mix(static_cast<uint64_t>(seed)), .shuffle_buffer_bytes = 1000});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const std::vector<uint64_t> chosen = *Ordinals(**plan, 0, choose);
      for (const uint64_t sample : chosen) ++counts[sample];
    }
    const double expected = seeds * static_cast<double>(choose) / 40;
    for (size_t i = 0; i < counts.size(); ++i)
      EXPECT_NEAR(counts[i], expected, 5 * std::sqrt(expected)) << choose << " of 40: sample " << i;
  }
}

// Draws of one sample, of neighbours and of epochs that follow one another do not depend on each other.
TEST(Evenness, Augmentations) {
  for (const bool epochs : {false, true}) {
    std::vector<Events> pairs(6, Events(Equal(256)));
    for (uint64_t i = 0; i < 200000; ++i) {
      AugmentationRandom first(0, epochs ? i : 0, epochs ? 0 : i);
      AugmentationRandom next(0, epochs ? i + 1 : 0, epochs ? 0 : i + 1);
      uint64_t before = first.Below(16);
      for (size_t draw = 0; draw < pairs.size(); ++draw) {
        pairs[draw].Add(before * 16 + next.Below(16));
        const auto now = static_cast<uint64_t>(16 * first.Uniform());
        before = now;
      }
    }
    ExpectEven(pairs, epochs ? "epochs" : "samples");
  }
}

}  // namespace
}  // namespace shardkit::loader
