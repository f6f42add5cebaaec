// Merging key tables in bounded memory.
#include "dataset/key_table_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/strings.h"
#include "container/key_table_reader.h"
#include "unit/container/shard_maker.h"
#include "unit/dataset/dataset_support.h"

namespace shardkit::test {
namespace {

class KeyTableBuilder : public testing::Test {
 protected:
  KeyTableBuilder() : files_(NewMemoryFileSystem()) {
    EXPECT_TRUE(CreateDirectories(*files_, "/in").ok());
    EXPECT_TRUE(CreateDirectories(*files_, "/out").ok());
  }

  // A table of random hashes, few of them different, behind some bytes of another kind.
  void AddInput(uint64_t samples) {
    std::vector<uint64_t> hashes(samples);
    for (uint64_t& hash : hashes) hash = random_.Below(500);
    const std::string table = format::EncodeKeyTable(hashes);
    const std::string path = StrCat("/in/", inputs_.size());
    WriteFile(*files_, path, StrCat("12345678", table, "behind"));
    inputs_.push_back({path, {.offset = 8, .length = table.size()}, samples, hashes_.size()});
    hashes_.insert(hashes_.end(), hashes.begin(), hashes.end());
  }

  absl::StatusOr<format::TableTail> Build(const Cancellation* cancellation = nullptr) {
    return dataset::BuildKeyTable(*files_, "/out/dataset.keys", inputs_, cancellation);
  }

  void ExpectWhole() {
    const auto tail = Build();
    ASSERT_TRUE(tail.ok()) << tail.status();
    const Tree tree = ReadTree(*files_, "/out");
    ASSERT_EQ(tree.size(), 1u) << Describe(tree);
    EXPECT_TRUE(tree.at("dataset.keys") == format::EncodeKeyTable(hashes_));
    EXPECT_EQ(tail->table_length, tree.at("dataset.keys").size());
  }

  const std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  Random random_{3};
  std::vector<dataset::KeyTableInput> inputs_;
  std::vector<uint64_t> hashes_;
};

TEST_F(KeyTableBuilder, MakesTheTableOfAllSamples) {
  for (const uint64_t samples : {0, 1, 5000, 0, 300}) AddInput(samples);
  ExpectWhole();
}

TEST_F(KeyTableBuilder, MakesAnEmptyTableOfNothing) { ExpectWhole(); }

TEST_F(KeyTableBuilder, MergesInSeveralPassesWhatIsTooMuchForOne) {
  for (int i = 0; i < 256; ++i) AddInput(random_.Below(5));
  ExpectWhole();
  ASSERT_TRUE(files_->RemoveFile("/out/dataset.keys").ok());
  AddInput(2);
  ExpectWhole();
  ASSERT_TRUE(files_->RemoveFile("/out/dataset.keys").ok());
  while (inputs_.size() < 700) AddInput(random_.Below(5));
  ExpectWhole();
}

TEST_F(KeyTableBuilder, MergesItsOwnTables) {
  AddInput(1000);
  AddInput(20);
  ASSERT_TRUE(dataset::BuildKeyTable(*files_, "/in/a", inputs_, nullptr).ok());
  const std::vector<uint64_t> first = hashes_;
  inputs_.clear();
  AddInput(3000);
  for (dataset::KeyTableInput& input : inputs_) input.first_sample -= first.size();
  const auto second = dataset::BuildKeyTable(*files_, "/in/b", inputs_, nullptr);
  ASSERT_TRUE(second.ok()) << second.status();
  const uint64_t length = ReadAll(*files_, "/in/a").size();
  inputs_ = {{"/in/a", {.length = length}, first.size(), 0},
             {"/in/b", {.length = second->table_length, .root = second->root_length() + 64}, 3000, first.size()}};
  ExpectWhole();
}

TEST_F(KeyTableBuilder, LeavesNothingWhenAnInputIsDamaged) {
  for (int i = 0; i < 300; ++i) AddInput(3);
  std::string last = ReadAll(*files_, "/in/299");
  last[20] ^= 1;
  WriteFile(*files_, "/in/299", last);
  const absl::Status status = Build().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(status.message(), "/in/299: key table at byte 8: page 0: checksum is wrong");
  EXPECT_TRUE(ReadTree(*files_, "/out").empty()) << Describe(ReadTree(*files_, "/out"));

  inputs_.pop_back();
  inputs_[7].samples = 4;
  EXPECT_EQ(Build().status().message(), "/in/7: key table at byte 8: has 3 entries for 4 samples");
  EXPECT_TRUE(ReadTree(*files_, "/out").empty());
}

TEST_F(KeyTableBuilder, LeavesNothingWhenItIsCancelled) {
  for (int i = 0; i < 300; ++i) AddInput(3);
  Cancellation cancellation;
  cancellation.Cancel();
  EXPECT_TRUE(absl::IsCancelled(Build(&cancellation).status()));
  EXPECT_TRUE(ReadTree(*files_, "/out").empty());
}

}  // namespace
}  // namespace shardkit::test
