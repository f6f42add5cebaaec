#include "shardkit/simulate.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "loader/loader_support.h"
#include "loader/simulation/rank.h"
#include "shardctl/latency_filesystem.h"

namespace shardkit::test {
namespace {

class SimulateTest : public testing::Test {
 protected:
  // Values of 4 to 12 KiB that nothing compresses, 12 in a block, 60 in a shard.
  void Write(uint64_t samples) {
    std::mt19937_64 random(1);
    std::vector<Values> rows;
    for (uint64_t i = 0; i < samples; ++i) {
      std::string blob((4 + random() % 8) << 10, '\0');
      for (size_t at = 0; at < blob.size(); at += 8) {
        const uint64_t number = random();
        std::memcpy(blob.data() + at, &number, 8);
      }
      rows.push_back({"k" + std::to_string(i), std::move(blob)});
    }
    WriteRows(*files_, "/data", {KeyColumn(), {.name = "blob", .type = Type::kBytes}}, rows, SmallShards(60, 12));
  }

  // What a loader of this rank asks storage for in an epoch.
  LoaderReport Read(const PlanOptions& plan, uint64_t rank, uint64_t world_size) {
    const auto slow = shardctl::NewLatencyFileSystem(*files_, {.latency = std::chrono::milliseconds(2)});
    LoaderOptions options;
    options.plan = plan;
    options.rank = rank;
    options.world_size = world_size;
    const auto loader = OpenLoader(*slow, options);
    while (true) {
      const auto batch = loader->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || *batch == nullptr) break;
    }
    return loader->Report();
  }

  SimulationReport Simulated(const SimulationOptions& options) {
    const LoaderDataset datasets[] = {{.path = "/data"}};
    const auto report = Simulate(*files_, datasets, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : SimulationReport();
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

// When each of `tasks` ends, which is (begin, seconds, threads).
std::vector<double> Ends(int processors, const std::vector<std::tuple<double, double, int>>& tasks) {
  std::multimap<double, std::function<void()>> events;
  const loader::SimulatedProcessors::At at = [&](double time, auto run) { events.emplace(time, std::move(run)); };
  loader::SimulatedProcessors simulated(processors, at);
  std::vector<double> ends(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    const auto& [begin, seconds, threads] = tasks[i];
    at(begin, [&, i, begin = begin, seconds = seconds, threads = threads] {
      simulated.Work(begin, seconds, threads, [&, i](double now) { ends[i] = now; });
    });
  }
  while (!events.empty()) {
    const auto run = std::move(events.begin()->second);
    events.erase(events.begin());
    run();
  }
  return ends;
}

TEST(SimulatedProcessorsTest, AreSharedEqually) {
  using Seconds = std::vector<double>;
  EXPECT_EQ(Ends(1, {{0, 1, 1}}), (Seconds{1}));
  EXPECT_EQ(Ends(4, {{0, 1, 1}}), (Seconds{1}));  // one thread is on one processor
  EXPECT_EQ(Ends(4, {{0, 1, 4}}), (Seconds{0.25}));
  EXPECT_EQ(Ends(1, {{0, 1, 1}, {0, 1, 1}}), (Seconds{2, 2}));
  EXPECT_EQ(Ends(2, {{0, 1, 1}, {0, 1, 1}}), (Seconds{1, 1}));
  EXPECT_EQ(Ends(1, {{0, 1, 1}, {0.5, 0.25, 1}}), (Seconds{1.25, 1}));  // what comes later and is short is not behind
  EXPECT_EQ(Ends(2, {{0, 1, 2}, {0, 1, 2}}), (Seconds{1, 1}));
  EXPECT_EQ(Ends(1, {{0, 0, 1}, {3, 1, 1}}), (Seconds{0, 4}));  // nothing takes no time; a pause counts for nobody
}

// Nothing is left of a second here but the waits: the same requests for the same bytes as loaders make.
TEST_F(SimulateTest, AsksForWhatLoadersAskFor) {
  Write(1500);
  for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kSequential}) {
    for (const uint64_t buffer : {uint64_t{1} << 20, uint64_t{4} << 20}) {
      for (const uint64_t ranks : {1, 2, 3, 4}) {
        SCOPED_TRACE(testing::Message() << static_cast<int>(order) << " " << buffer << " " << ranks);
        SimulationOptions options;
        options.plan = {.seed = 7, .order = order, .batch_size = 48, .shuffle_buffer_bytes = buffer};
        options.ranks_per_node = ranks;
        options.storage.latency = 0.002;
        const SimulationReport report = Simulated(options);
        uint64_t requests = 0, bytes = 0;
        for (uint64_t rank = 0; rank < ranks; ++rank) {
          const LoaderReport read = Read(options.plan, rank, ranks);
          requests += read.requests;
          bytes += read.bytes_requested;
        }
        ASSERT_EQ(report.epochs.size(), 1u);
        EXPECT_EQ(report.epochs[0].samples, 1500u);
        EXPECT_EQ(report.epochs[0].requests, static_cast<double>(requests));
        // What opening a shard takes is an estimate, and the shards here are as small as that.
        const double opening = 25.0 * static_cast<double>(ranks) * (108 << 10);
        EXPECT_NEAR(report.epochs[0].bytes_fetched, static_cast<double>(bytes), opening);
      }
    }
  }
}

TEST_F(SimulateTest, IsTheSameEachTime) {
  Write(600);
  SimulationOptions options;
  options.plan.batch_size = 32;
  options.ranks_per_node = 3;
  options.storage = {.latency = 0.02, .latency_p99 = 0.3, .node_bytes_per_second = 1e8};
  const SimulationReport one = Simulated(options), two = Simulated(options);
  EXPECT_EQ(one.epochs[0].seconds, two.epochs[0].seconds);
  EXPECT_EQ(one.first_batch_seconds, two.first_batch_seconds);
  options.seed = 1;
  EXPECT_NE(one.epochs[0].seconds, Simulated(options).epochs[0].seconds);
}

TEST_F(SimulateTest, NodesFetchOnceWhatTheirRanksShare) {
  Write(600);
  SimulationOptions options;
  options.plan.batch_size = 40;
  options.plan.shuffle_buffer_bytes = kMiB;
  options.plan.lanes = 1;  // so that all ranks need all blocks
  options.ranks_per_node = 4;
  options.storage.latency = 0.01;
  options.cache_bytes = 100 * kMiB;
  options.epochs = 2;
  options.memory_bytes = 4 * kMiB;
  const SimulationReport shared = Simulated(options);
  options.cache_bytes = 0;
  const SimulationReport alone = Simulated(options);
  const auto sum = [](const SimulationReport& report, double SimulatedEpoch::*member) {
    return report.epochs[0].*member + report.epochs[1].*member;
  };
  EXPECT_EQ(sum(alone, &SimulatedEpoch::bytes_cached), 0);
  EXPECT_GT(sum(shared, &SimulatedEpoch::bytes_cached), 0.5 * sum(alone, &SimulatedEpoch::bytes_fetched));
  uint64_t stored = 0;
  const auto entries = files_->List("/data");
  ASSERT_TRUE(entries.ok());
  for (const DirectoryEntry& entry : *entries) stored += files_->Stat("/data/" + entry.name)->size;
  // The dataset once, and what each rank asks for on its own: opening.
  EXPECT_LT(sum(shared, &SimulatedEpoch::bytes_fetched), static_cast<double>(stored + 4 * 12 * (108 << 10)));
}

class DescribedTest : public testing::Test {
 protected:
  static SimulationReport Simulated(const SimulationOptions& options) {
    const auto report = Simulate(DatasetNumbers{.samples = 200'000, .sample_bytes = 50'000, .shards = 40}, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : SimulationReport();
  }

  static SimulationOptions Options() {
    SimulationOptions options;
    options.plan.batch_size = 256;
    options.plan.expected_world_size = 8;
    options.ranks_per_node = 8;
    options.steps = 200;
    options.storage.latency = 0.02;
    return options;
  }
};

TEST_F(DescribedTest, NamesWhatBounds) {
  SimulationOptions training = Options();
  training.step_seconds = 0.2;
  SimulationReport report = Simulated(training);
  EXPECT_EQ(report.bound, SimulationBound::kTraining);
  EXPECT_NEAR(report.epochs[0].samples_per_second(), 256 / 0.2, 64);

  SimulationOptions decoding = Options();
  decoding.decode_seconds = 0.01;
  decoding.decode_threads = 2;
  report = Simulated(decoding);
  EXPECT_EQ(report.bound, SimulationBound::kProcessors);
  EXPECT_NEAR(report.epochs[0].samples_per_second(), 8 * 2 / 0.01, 80);

  SimulationOptions checking = Options();
  checking.check_bytes_per_second = 2e7;
  checking.decode_threads = 2;
  report = Simulated(checking);
  EXPECT_EQ(report.bound, SimulationBound::kProcessors);
  EXPECT_NEAR(report.epochs[0].samples_per_second(), 8 * 2 * 2e7 / 50'000, 640);

  SimulationOptions bandwidth = Options();
  bandwidth.storage.node_bytes_per_second = 1e8;
  report = Simulated(bandwidth);
  EXPECT_EQ(report.bound, SimulationBound::kNodeBandwidth);
  EXPECT_NEAR(report.epochs[0].bytes_fetched / report.epochs[0].seconds, 1e8, 5e6);

  SimulationOptions all = Options();
  all.storage.bytes_per_second = 5e7;
  report = Simulated(all);
  EXPECT_EQ(report.bound, SimulationBound::kBandwidth);
  EXPECT_NEAR(report.epochs[0].bytes_fetched / report.epochs[0].seconds, 5e7, 25e5);

  SimulationOptions requests = Options();
  requests.storage.requests_per_second = 20;
  report = Simulated(requests);
  EXPECT_EQ(report.bound, SimulationBound::kRequests);
  EXPECT_NEAR(report.epochs[0].requests / report.epochs[0].seconds, 20, 1);

  SimulationOptions latency = Options();
  latency.storage.latency = 2;
  EXPECT_EQ(Simulated(latency).bound, SimulationBound::kLatency);
}

// Four nodes that keep what they fetch, and lanes for each: with locality nothing is fetched again.
TEST_F(DescribedTest, LocalityFindsWhatWasFetched) {
  SimulationOptions options = Options();
  options.nodes = 4;
  options.ranks_per_node = 2;
  options.steps = 0;
  options.epochs = 3;
  options.plan.batch_size = 2048;
  options.cache_bytes = uint64_t{4} << 30;  // of 10 GB
  options.plan.lanes = 24;
  const auto later = [](const SimulationReport& report) {
    return (report.epochs[1].bytes_fetched + report.epochs[2].bytes_fetched) / report.epochs[0].bytes_fetched / 2;
  };
  EXPECT_GT(later(Simulated(options)), 0.5);
  options.plan.locality = true;
  EXPECT_LT(later(Simulated(options)), 0.03);
}

TEST_F(DescribedTest, ScalesWholeNodesUp) {
  SimulationOptions options = Options();
  options.nodes = 32;
  options.plan.expected_world_size = 256;
  options.plan.batch_size = 8192;
  options.steps = 10;
  options.storage.bytes_per_second = 1e9;
  const SimulationReport report = Simulated(options);
  EXPECT_EQ(report.ranks, 256u);
  EXPECT_EQ(report.simulated_ranks, 64u);
  EXPECT_EQ(report.epochs[0].samples, 81'920u);
  EXPECT_LE(report.epochs[0].bytes_fetched / report.epochs[0].seconds, 1.01e9);
}

TEST_F(DescribedTest, EndsAfterTheLastStepOfTheLastEpoch) {
  SimulationOptions options = Options();
  options.steps = 0;
  options.epochs = 3;
  options.plan.batch_size = 4096;
  const SimulationReport report = Simulated(options);
  ASSERT_EQ(report.epochs.size(), 3u);
  for (const SimulatedEpoch& epoch : report.epochs) {
    EXPECT_EQ(epoch.steps, 49u);
    EXPECT_EQ(epoch.samples, 200'000u);
  }
}

TEST_F(DescribedTest, RefusesWhatCannotBe) {
  const auto refused = [](const SimulationOptions& options) {
    return Simulate(DatasetNumbers{.samples = 10, .sample_bytes = 10}, options).status();
  };
  SimulationOptions options;
  options.step_seconds = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(refused(options)));
  options = {};
  options.storage = {.latency = 0.1, .latency_p99 = 0.05};
  EXPECT_TRUE(absl::IsInvalidArgument(refused(options)));
  options = {};
  options.nodes = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(refused(options)));
  options = {};
  options.nodes = options.ranks_per_node = uint64_t{1} << 40;
  EXPECT_TRUE(absl::IsInvalidArgument(refused(options)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Simulate(DatasetNumbers{.samples = 3, .sample_bytes = 1, .shards = 4}, {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Simulate(DatasetNumbers{}, {}).status()));
}

}  // namespace
}  // namespace shardkit::test
