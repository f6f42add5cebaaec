// Loaders over datasets that grow while they are read (LoaderOptions::follow), and cursors of earlier generations.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "loader/loader_support.h"

namespace shardkit::test {
namespace {

class FollowingTest : public ::testing::Test {
 protected:
  void SetUp() override { Write("/data", 0, 30); }

  // Samples `begin` to `end`: makes the dataset, or appends to it.
  void Write(const std::string& path, size_t begin, size_t end) {
    DatasetWriterOptions options = SmallShards(20, 5);
    options.append = begin > 0;
    const auto all = MakeSamples(end);
    ASSERT_TRUE(WriteDataset(*files_, path, {all.begin() + static_cast<ptrdiff_t>(begin), all.end()}, options).ok());
  }

  static LoaderOptions Following(uint64_t epochs) {
    LoaderOptions options;
    options.plan.batch_size = 10;
    options.memory_bytes = uint64_t{1} << 20;
    options.plan.shuffle_buffer_bytes = 1 << 16;
    options.decode_threads = options.read_threads = 2;
    options.epochs = epochs;
    options.columns = {{.name = "label"}};
    options.follow = true;
    return options;
  }

  // The keys of the epoch that `loader` is in, sorted.
  std::vector<std::string> Keys(Loader& loader) {
    std::vector<std::string> keys;
    const uint64_t epoch = loader.cursor().epoch;
    while (loader.cursor().epoch == epoch) {
      const auto batch = loader.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || *batch == nullptr) break;
      EXPECT_EQ((*batch)->epoch(), epoch);
      for (size_t i = 0; i < (*batch)->size(); ++i) keys.emplace_back((*batch)->key(i));
    }
    std::ranges::sort(keys);
    return keys;
  }

  static std::vector<std::string> AllKeys(size_t count) {
    std::vector<std::string> keys;
    for (const OwnedSample& sample : MakeSamples(count)) keys.push_back(sample.key);
    std::ranges::sort(keys);
    return keys;
  }

  std::shared_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(FollowingTest, SeesNewSamplesAtTheNextEpoch) {
  const auto loader = OpenLoader(*files_, Following(4));
  ASSERT_NE(loader, nullptr);
  ASSERT_TRUE((*loader->Next()) != nullptr);
  Write("/data", 30, 55);
  std::vector<std::string> rest = Keys(*loader);
  EXPECT_EQ(rest.size(), 20u) << "the epoch goes on with what it began with";
  EXPECT_EQ(loader->steps_left(), 6u);
  EXPECT_EQ(loader->plan().samples_per_epoch(), 55u);
  EXPECT_EQ(loader->cursor().generations, std::vector<uint64_t>{2});
  EXPECT_EQ(Keys(*loader), AllKeys(55));
  EXPECT_EQ(Keys(*loader), AllKeys(55));
  Write("/data", 55, 60);  // after the look: for the epoch after the next, which there is not
  EXPECT_EQ(Keys(*loader), AllKeys(55));
  EXPECT_EQ(*loader->Next(), nullptr);
  EXPECT_EQ(loader->Report().samples, 30u + 3 * 55) << "of all loaders that followed each other";
}

TEST_F(FollowingTest, GivesWhatALoaderThatBeginsThereGives) {
  const auto loader = OpenLoader(*files_, Following(3));
  Write("/data", 30, 55);
  Keys(*loader);
  const std::vector<std::string> followed = Deliver(*loader);
  LoaderOptions options = Following(3);
  options.follow = false;
  options.first_epoch = 1;
  EXPECT_EQ(Deliver(*OpenLoader(*files_, options)), followed);
}

TEST_F(FollowingTest, GoesOnInsideAnEpochWithWhatItBeganWith) {
  const auto whole = OpenLoader(*files_, Following(2));
  ASSERT_TRUE((*whole->Next()) != nullptr);
  const Cursor inside = *ParseCursor(FormatCursor(whole->cursor()));
  Write("/data", 30, 55);
  Write("/data", 55, 60);
  LoaderOptions options = Following(2);
  options.cursor = inside;
  const auto resumed = OpenLoader(*files_, options);
  ASSERT_NE(resumed, nullptr);
  EXPECT_EQ(Keys(*resumed), Keys(*whole));
  EXPECT_EQ(Keys(*resumed), AllKeys(60));

  // At the beginning of an epoch a cursor of any generation has what is there now.
  options.cursor = Cursor{1, 0, inside.plan, inside.generations};
  EXPECT_EQ(Keys(*OpenLoader(*files_, options)), AllKeys(60));
}

TEST_F(FollowingTest, ACursorOfAnEarlierGenerationSaysWhatItNeeds) {
  LoaderOptions options = Following(1);
  options.follow = false;
  const auto before = OpenLoader(*files_, options);
  ASSERT_TRUE((*before->Next()) != nullptr);
  options.cursor = before->cursor();
  EXPECT_EQ(options.cursor->generations, std::vector<uint64_t>{1});
  Write("/data", 30, 55);
  const absl::Status refused = Loader::Open(*files_, {{.path = "/data"}}, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_NE(Message(refused).find("the cursor is of generation 1 of the dataset, and this is generation 2"),
            std::string::npos)
      << refused;
  const auto resumed = Loader::Open(*files_, {{.path = "/data", .generation = 1}}, options);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(Keys(**resumed), Keys(*before));
  options.cursor.reset();
  EXPECT_TRUE(absl::IsNotFound(Loader::Open(*files_, {{.path = "/data", .generation = 3}}, options).status()));
}

TEST_F(FollowingTest, FollowsEachDatasetOfAMixture) {
  Write("/other", 0, 20);
  // A shard has no generations.
  const std::vector<LoaderDataset> datasets = {{.path = "/data"}, {.path = "/other"}, {.path = "/data/00000000.shard"}};
  EXPECT_EQ(*NewestGenerations(*files_, datasets), (std::vector<uint64_t>{1, 1, 0}));
  auto loader = Loader::Open(*files_, datasets, Following(3));
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ(Keys(**loader).size(), 70u);
  Write("/other", 20, 25);
  EXPECT_EQ(Keys(**loader).size(), 70u);
  EXPECT_EQ((*loader)->cursor().generations, (std::vector<uint64_t>{1, 2, 0}));
  EXPECT_EQ(Keys(**loader).size(), 75u);
}

TEST_F(FollowingTest, RefusesRanksAndAGenerationThatStays) {
  LoaderOptions options = Following(1);
  EXPECT_NE(Message(Loader::Open(*files_, {{.path = "/data", .generation = 1}}, options).status())
                .find("follow takes the newest generation of /data, not generation 1"),
            std::string::npos);
  options.world_size = 2;
  EXPECT_NE(Message(Loader::Open(*files_, {{.path = "/data"}}, options).status()).find("NewestGenerations"),
            std::string::npos);
}

// What cannot be opened again ends the loader, and not before the batches that there are.
TEST_F(FollowingTest, SaysAtTheNextEpochThatTheDatasetIsGone) {
  const auto loader = OpenLoader(*files_, Following(2));
  ASSERT_TRUE((*loader->Next()) != nullptr);
  Write("/data", 30, 55);
  ASSERT_TRUE(files_->RemoveFile("/data/00000001.shard").ok());
  WriteFile(*files_, "/data/dataset.json", "{");
  EXPECT_EQ(Keys(*loader).size(), 20u);
  EXPECT_TRUE(absl::IsDataLoss(loader->Next().status())) << loader->Next().status();
  EXPECT_TRUE(loader->WaitFor(std::chrono::milliseconds(1)));
  EXPECT_EQ(loader->Report().batches, 3u);
  loader->Cancel();
  EXPECT_TRUE(absl::IsDataLoss(loader->Next().status()));
}

}  // namespace
}  // namespace shardkit::test
