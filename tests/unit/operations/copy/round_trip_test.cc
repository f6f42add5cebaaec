// Random datasets converted through the containers and back.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "shardkit/history.h"
#include "support/counting_filesystem.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

using Make = DatasetGenerator::Target;

struct Journey {
  std::vector<Container> stations;
  Make target;
};

std::vector<Journey> Journeys() {
  using enum Container;
  return {{{kShard}, {}},
          {{kMds, kShard}, {.mds = true}},
          {{kWebDataset, kShard}, {.tar = true}},
          {{kMds, kWebDataset, kShard}, {.mds = true, .tar = true}},
          {{kWebDataset, kMds, kShard}, {.mds = true, .tar = true}},
          {{kMds, kMds, kWebDataset, kWebDataset, kMds, kShard}, {.mds = true, .tar = true}}};
}

ConvertOptions OptionsFor(Container to, DatasetGenerator& generator, const DatasetWriterOptions& native) {
  ConvertOptions options = SmallOptions(to);
  options.pack.dataset = native;
  options.pack.dataset.shard.metadata.clear();
  for (ForeignWriterOptions* foreign :
       {static_cast<ForeignWriterOptions*>(&options.mds), static_cast<ForeignWriterOptions*>(&options.webdataset)}) {
    foreign->shard_size = 1 + generator.Below(20000);
    foreign->shard_samples = generator.Chance(50) ? 1 + generator.Below(9) : 0;
  }
  if (generator.Chance(30)) options.mds.compression = "zstd:1";
  if (generator.Chance(30)) options.mds.hashes = {"xxh64", "sha1"};
  options.webdataset.index = generator.Chance(50);
  return options;
}

void CheckThreads(FileSystem& files, const std::string& input, ConvertOptions options, const Tree& expected) {
  for (const int threads : {2, 3, 4}) {
    options.pack.dataset.threads = threads;
    ASSERT_TRUE(ConvertTo(files, input, "/again", options).ok());
    EXPECT_TRUE(ReadTree(files, "/again") == expected) << threads << " threads give other bytes than one";
    ASSERT_TRUE(RemoveTree(files, "/again").ok());
  }
}

void Travel(uint64_t seed, const Journey& journey) {
  DatasetGenerator generator(seed);
  generator.Make(journey.target);
  const auto files = NewMemoryFileSystem();
  const DatasetWriterOptions native = generator.Options();
  WriteShards(*files, "/0", generator.columns(), generator.samples(), native);
  std::string at = "/0";
  for (size_t i = 0; i < journey.stations.size(); ++i) {
    const std::string next = "/" + std::to_string(i + 1);
    const ConvertOptions options = OptionsFor(journey.stations[i], generator, native);
    const absl::Status status = ConvertTo(*files, at, next, options);
    ASSERT_TRUE(status.ok()) << status << " to " << ContainerName(journey.stations[i]) << " of "
                             << ColumnText(*files, "/0");
    ASSERT_EQ(ValidateText(*files, next), "");
    if (seed % 8 == 0) CheckThreads(*files, at, options, ReadTree(*files, next));
    if (testing::Test::HasFailure()) return;
    at = next;
  }
  EXPECT_TRUE(ColumnsOf(*files, at) == ColumnsOf(*files, "/0")) << ColumnText(*files, at) << "\nis not\n"
                                                                << ColumnText(*files, "/0");
  EXPECT_TRUE(ScanRows(*files, at) == generator.samples());
  EXPECT_TRUE(ReadDataset(*files, at) == ReadDataset(*files, "/0")) << Describe(ReadTree(*files, at)) << "\nis not\n"
                                                                    << Describe(ReadTree(*files, "/0"));
}

class RoundTripTest : public testing::TestWithParam<size_t> {};

TEST_P(RoundTripTest, GivesTheSameFiles) {
  for (uint64_t seed = 0; seed < 40; seed += TestStep()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Travel(seed, Journeys()[GetParam()]);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Journeys, RoundTripTest, testing::Range<size_t>(0, Journeys().size()));

// Without samples, an MDS index or a tar does not show the columns. shardkit.json has them.
TEST(EmptyTest, KeepsItsColumns) {
  const Container containers[] = {Container::kShard, Container::kMds, Container::kWebDataset};
  for (uint64_t seed = 0; seed < 20; seed += TestStep()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DatasetGenerator generator(seed);
    generator.Make({.mds = true, .tar = true});
    const auto files = NewMemoryFileSystem();
    WriteShards(*files, "/in", generator.columns(), {}, generator.Options());
    for (const Container first : containers) {
      for (const Container second : containers) {
        const std::string base = "/" + std::string(ContainerName(first)) + "," + std::string(ContainerName(second));
        ASSERT_TRUE(ConvertTo(*files, "/in", base + "1", SmallOptions(first)).ok());
        ASSERT_TRUE(ConvertTo(*files, base + "1", base + "2", SmallOptions(second)).ok());
        ASSERT_TRUE(ConvertTo(*files, base + "2", base + "3", SmallOptions(Container::kShard)).ok());
        for (const char* step : {"1", "2", "3"}) {
          ASSERT_EQ(ValidateText(*files, base + step), "") << base << step;
        }
        EXPECT_TRUE(ColumnsOf(*files, base + "3") == ColumnsOf(*files, "/in"))
            << base << ": " << ColumnText(*files, base + "3") << " is not " << ColumnText(*files, "/in");
        EXPECT_TRUE(ScanRows(*files, base + "3").empty());
      }
    }
  }
}

// How samples are stored is no difference, and no container is read again for each of its keys.
TEST(DiffContainersTest, FindsNoneAndReadsEachOnce) {
  const auto files = NewMemoryFileSystem();
  Samples samples;
  for (int i = 0; i < 400; ++i) {
    samples.push_back({{"key", "s" + std::to_string(1000 + i)}, {"txt", "text " + std::to_string(i % 7)}});
  }
  const std::vector<Column> columns = {KeyColumn(), MakeColumn("txt", Type::kUtf8)};
  WriteShards(*files, "/in", columns, samples);
  std::ranges::reverse(samples);
  WriteShards(*files, "/reversed", columns, samples);
  ConvertOptions options;
  for (const Container to : {Container::kMds, Container::kWebDataset}) {
    options.to = to;
    ASSERT_TRUE(ConvertTo(*files, "/in", "/" + std::string(ContainerName(to)), options).ok());
  }
  ASSERT_TRUE(ConvertTo(*files, "/mds", "/mds.tars", options).ok());
  CountingFileSystem counting(files.get());
  for (const char* const a : {"/in", "/reversed", "/mds", "/webdataset"}) {
    for (const char* const b : {"/in", "/mds", "/webdataset", "/mds.tars"}) {
      SCOPED_TRACE(std::string(a) + " " + b);
      counting.Reset();
      const auto diff = DiffDatasets(counting, a, b);
      ASSERT_TRUE(diff.ok()) << diff.status();
      EXPECT_TRUE(diff->same());
      EXPECT_EQ(diff->matched, 400u);
      EXPECT_LT(counting.reads().size(), 100u);
    }
  }
}

// The first sample is larger than a shard, so a shard without samples comes before it. Its entry still has the columns.
TEST(EmptyTest, ShardsWithoutSamplesHaveColumns) {
  const auto files = NewMemoryFileSystem();
  WriteThree(*files, "/in", {{.name = "y", .type = Type::kU8}}, {{"1"}, {"2"}, {"3"}});
  ConvertOptions options = SmallOptions(Container::kMds);
  options.mds.shard_size = 1;
  ASSERT_TRUE(ConvertTo(*files, "/in", "/mds", options).ok());
  nlohmann::json index = nlohmann::json::parse(ReadAll(*files, "/mds/index.json"));
  ASSERT_EQ(index["shards"][0]["samples"], 0);
  index["shards"].erase(index["shards"].begin() + 1, index["shards"].end());
  WriteFile(*files, "/mds/index.json", index.dump());
  EXPECT_EQ(Message(ConvertTo(*files, "/mds", "/back", SmallOptions(Container::kShard))), "");
  EXPECT_EQ(ColumnText(*files, "/back"), ColumnText(*files, "/in"));
}

}  // namespace
}  // namespace shardkit::test
