// Random datasets, options, world sizes, threads and budgets: the ranks deliver the samples of the plan, with the
// values of DatasetReader.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "loader/loader_support.h"
#include "support/effort.h"

namespace shardkit::test {
namespace {

using Random = std::mt19937_64;

struct Made {
  std::string path;
  std::vector<Row> rows;
};

Made MakeDataset(FileSystem& files, Random& random, size_t number) {
  Made made{.path = "/data" + std::to_string(number), .rows = {}};
  const size_t count = random() % 3 == 0 ? 1 + random() % 5 : 1 + random() % 300;
  std::vector<OwnedSample> samples = MakeSamples(count);
  for (OwnedSample& sample : samples) {
    if (random() % 20 == 0) sample.fields[0].second += std::string(random() % 30000, 'x');
  }
  DatasetWriterOptions options = SmallShards(1 + random() % count, static_cast<uint32_t>(1 + random() % 40));
  options.sync = false;
  const auto summary = WriteDataset(files, made.path, samples, options);
  EXPECT_TRUE(summary.ok()) << summary.status();
  made.rows = RowsOf(samples);
  if (random() % 4 == 0) {
    EXPECT_TRUE(files.RemoveFile(made.path + "/dataset.segment").ok());
  }
  return made;
}

LoaderOptions MakeOptions(Random& random) {
  LoaderOptions options;
  options.plan.seed = random() % 100;
  options.plan.order =
      std::vector{SampleOrder::kSequential, SampleOrder::kShuffled, SampleOrder::kWindow}[random() % 3];
  options.plan.batch_size = 1 + random() % 40;
  options.plan.remainder = std::vector{Remainder::kKeep, Remainder::kDrop, Remainder::kPad}[random() % 3];
  options.plan.shuffle_buffer_bytes = uint64_t{1} << (8 + random() % 10);
  options.plan.lanes = random() % 2 ? 0 : static_cast<uint32_t>(1 + random() % 9);
  options.world_size = random() % 2 ? 1 : 1 + random() % 6;
  options.empty_batches = true;
  options.epochs = 1 + random() % 2;
  options.memory_bytes = uint64_t{1} << (20 + random() % 6);
  options.decode_threads = static_cast<int>(random() % 4);
  options.read_threads = static_cast<int>(random() % 4);
  options.keys = random() % 3 != 0;
  options.read.mode = random() % 2 ? ReadMode::kBuffered : ReadMode::kMapped;
  if (random() % 3 == 0) {
    options.plan.section_blocks = 1 + static_cast<uint32_t>(random() % 64);
    options.plan.lanes = 1;
  }
  if (random() % 2) options.columns = {{.name = "label"}, {.name = "image"}, {.name = "text"}};
  return options;
}

// Compares sample `i` of a batch with the row of the dataset.
void ExpectRow(const Batch& batch, size_t i, const Row& row, bool keys) {
  if (keys) {
    ASSERT_EQ(batch.key(i), row.at("key"));
  }
  for (const char* const name : {"image", "label", "text"}) {
    const BatchColumn& column = *batch.Find(name);
    const auto found = row.find(name);
    const bool present = column.present.empty() || column.present[i];
    ASSERT_EQ(present, found != row.end()) << name;
    const char* const values = reinterpret_cast<const char*>(column.values.data());
    std::string_view bytes;
    if (column.layout == BatchLayout::kTensor) {
      bytes = {values + 4 * i, 4};
      if (!present) {
        ASSERT_EQ(bytes, std::string(4, '\0'));
      }
    } else {
      bytes = {values + column.offsets[i], column.offsets[i + 1] - column.offsets[i]};
      if (!present) {
        ASSERT_TRUE(bytes.empty());
      }
    }
    if (present) {
      ASSERT_EQ(bytes, found->second) << name;
    }
  }
}

class EnginePropertyTest : public testing::Test {
 protected:
  // Runs one rank from its cursor to the end, or for at most `most` batches.
  void RunRank(const LoaderOptions& options, uint64_t most,
               std::map<std::pair<uint64_t, uint64_t>, BatchSample>* delivered, Cursor* cursor) {
    const auto opened = Loader::Open(*files_, datasets_, options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    Loader& loader = **opened;
    for (uint64_t step = 0; step < most; ++step) {
      const auto batch = loader.Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      if (*batch == nullptr) break;
      for (size_t i = 0; i < (*batch)->size(); ++i) {
        const BatchSample& sample = (*batch)->samples()[i];
        ASSERT_TRUE(delivered->try_emplace({(*batch)->epoch(), sample.position}, sample).second);
        ExpectRow(**batch, i, made_[sample.dataset].rows[sample.ordinal], options.keys);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
    if (cursor != nullptr) *cursor = loader.cursor();
    EXPECT_EQ(loader.Report().skipped, 0u);
  }

  std::unique_ptr<FileSystem> files_;
  std::vector<Made> made_;
  std::vector<LoaderDataset> datasets_;
};

TEST_F(EnginePropertyTest, RanksTogetherDeliverThePlan) {
  int run = 0;
  for (uint64_t seed = 0; seed < 500; seed += TestStep()) {
    SCOPED_TRACE(seed);
    Random random(seed);
    files_ = NewMemoryFileSystem();
    made_.clear();
    datasets_.clear();
    for (uint64_t i = 1 + random() % 4 / 3 * (random() % 3); i > 0; --i) {
      made_.push_back(MakeDataset(*files_, random, i));
      datasets_.push_back({.path = made_.back().path});
      if (random() % 3 == 0) datasets_.back().repeat = static_cast<double>(1 + random() % 5) / 2;
      if (random() % 5 == 0) datasets_.back() = {.path = made_.back().path, .choose = 1 + random() % 100};
    }
    LoaderOptions options = MakeOptions(random);
    const auto plan = PlanDatasets(*files_, datasets_, options.plan);
    if (!plan.ok() || (*plan)->StepsFrom(0) == 0) continue;  // no sample left by `repeat`, or a dropped remainder
    ++run;
    std::map<std::pair<uint64_t, uint64_t>, BatchSample> delivered;
    // The run is interrupted after some steps, and resumes with another world size.
    const uint64_t stop = random() % 3 == 0 ? random() % 10 : 0;
    std::optional<Cursor> cursor;
    if (stop > 0) {
      for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
        RunRank(options, stop, &delivered, &cursor.emplace());
        if (HasFatalFailure()) return;
      }
      options.world_size = 1 + random() % 4;
      options.memory_bytes = uint64_t{1} << (20 + random() % 6);
    }
    options.cursor = cursor;
    if (cursor && cursor->epoch >= options.epochs) continue;
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      RunRank(options, UINT64_MAX, &delivered, nullptr);
      if (HasFatalFailure()) return;
    }
    size_t expected = 0;
    for (uint64_t epoch = 0; epoch < options.epochs; ++epoch) {
      auto order = (*plan)->Epoch(epoch);
      const uint64_t steps = (*plan)->StepsFrom(0);
      for (uint64_t position = 0; position < (*plan)->StepAt(0, steps - 1).end; ++position, ++expected) {
        const auto found = delivered.find({epoch, position});
        ASSERT_NE(found, delivered.end()) << epoch << " " << position;
        order = *order->Covering({position % order->size(), position % order->size() + 1});
        const PlannedSample planned = order->At(position % order->size());
        ASSERT_EQ(found->second.dataset, planned.dataset);
        ASSERT_EQ(found->second.ordinal, planned.ordinal);
      }
    }
    ASSERT_EQ(delivered.size(), expected);
  }
  EXPECT_GT(run, Thinned(300));
}

// Seven sections of at least 64 blocks: each rank's directory of a section is read when it comes to it, from the index
// or from the shards, and every sample comes once, at any world size.
TEST_F(EnginePropertyTest, VeryManyBlocksAreVisitedInSections) {
  const std::vector<OwnedSample> samples = MakeSamples(400);
  DatasetWriterOptions made = SmallShards(10, 1);
  made.sync = false;
  for (const bool index : {true, false}) {
    files_ = NewMemoryFileSystem();
    ASSERT_TRUE(WriteDataset(*files_, "/data", samples, made).ok());
    if (!index) {
      ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
    }
    made_ = {{.path = "/data", .rows = RowsOf(samples)}};
    datasets_ = {{.path = "/data"}};
    std::vector<uint64_t> before;
    for (const uint64_t world_size : {1, 2, 3}) {
      SCOPED_TRACE(world_size);
      LoaderOptions options;
      options.plan = {.seed = 5, .batch_size = 30, .shuffle_buffer_bytes = 1 << 16, .lanes = 1, .section_blocks = 1};
      options.world_size = world_size;
      options.empty_batches = true;
      options.epochs = 2;
      std::map<std::pair<uint64_t, uint64_t>, BatchSample> delivered;
      for (options.rank = 0; options.rank < world_size; ++options.rank) {
        RunRank(options, UINT64_MAX, &delivered, nullptr);
        if (HasFatalFailure()) return;
      }
      ASSERT_EQ(delivered.size(), 800u);
      std::vector<uint64_t> ordinals;
      for (const auto& [position, sample] : delivered) ordinals.push_back(sample.ordinal);
      if (!before.empty()) {
        ASSERT_EQ(ordinals, before);
      }
      before = ordinals;
      for (size_t epoch = 0; epoch < 2; ++epoch) {
        std::vector<uint64_t> sorted(ordinals.begin() + 400 * epoch, ordinals.begin() + 400 * (epoch + 1));
        // The first section has not more shards than it needs for its blocks.
        std::set<uint64_t> shards;
        for (size_t i = 0; i < 50; ++i) shards.insert(sorted[i] / 10);
        ASSERT_LE(shards.size(), 7u);
        std::ranges::sort(sorted);
        for (uint64_t i = 0; i < 400; ++i) ASSERT_EQ(sorted[i], i);
      }
    }
  }
}

}  // namespace
}  // namespace shardkit::test
