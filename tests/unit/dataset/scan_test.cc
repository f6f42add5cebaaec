#include "dataset/dataset_support.h"
#include "shardkit/error_place.h"

namespace shardkit::test {
namespace {

class ScanTest : public testing::Test {
 protected:
  // 23 shards of 3, 3 and 1 samples in blocks.
  void SetUp() override {
    const auto summary = WriteDataset(*files_, "/data", samples_, SmallShards(7, 3));
    ASSERT_TRUE(summary.ok()) << summary.status();
    auto dataset = DatasetReader::Open(*files_, "/data");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    dataset_ = *std::move(dataset);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  const std::vector<OwnedSample> samples_ = MakeSamples(160);
  std::unique_ptr<DatasetReader> dataset_;
};

TEST_F(ScanTest, AnyNumberOfThreadsGivesAllSamplesInOrder) {
  const std::vector<Row> expected = RowsOf(samples_);
  for (const int threads : {0, 1, 2, 5}) {
    for (const int ahead : {0, 1, 4, 100}) {
      ScanOptions options;
      options.threads = threads;
      options.blocks_ahead = ahead;
      EXPECT_EQ(ScanRows(*dataset_, options), expected) << threads << " threads, " << ahead << " ahead";
    }
  }
  ScanOptions options;
  options.threads = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(dataset_->Scan(options).status()));
}

TEST_F(ScanTest, RangesAreRoundedOutToBlocks) {
  const std::vector<Row> all = RowsOf(samples_);
  for (const int threads : {0, 2}) {
    for (uint64_t first = 0; first < 24; ++first) {
      for (const uint64_t count : {0, 1, 2, 3, 7, 8, 20, 200}) {
        ScanOptions options;
        options.threads = threads;
        options.first_sample = first;
        options.end_sample = first + count;
        uint64_t begin = 0;
        const std::vector<Row> rows = ScanRows(*dataset_, options, &begin);
        if (count == 0) {
          EXPECT_TRUE(rows.empty());
          continue;
        }
        // Block boundaries: 0, 3, 6, 7, 10, 13, 14, …
        const uint64_t expected_begin = first / 7 * 7 + first % 7 / 3 * 3;
        const uint64_t last = std::min<uint64_t>(first + count, 160) - 1;
        const uint64_t expected_end =
            std::min<uint64_t>(std::min(last / 7 * 7 + (last % 7 / 3 + 1) * 3, last / 7 * 7 + 7), 160);
        EXPECT_EQ(begin, expected_begin);
        EXPECT_TRUE(rows == std::vector<Row>(all.begin() + static_cast<ptrdiff_t>(expected_begin),
                                             all.begin() + static_cast<ptrdiff_t>(expected_end)))
            << first << " + " << count;
      }
    }
    ScanOptions options;
    options.threads = threads;
    options.first_sample = 160;
    EXPECT_TRUE(ScanRows(*dataset_, options).empty());
    options.first_sample = 10;
    options.end_sample = 5;
    EXPECT_TRUE(ScanRows(*dataset_, options).empty());
  }
}

TEST_F(ScanTest, BlocksKnowWhereTheyAre) {
  auto scanner = dataset_->Scan();
  for (size_t shard = 0; shard < 23; ++shard) {
    for (size_t block = 0; block < (shard == 22 ? 2u : 3u); ++block) {
      auto scanned = (*scanner)->Next();
      ASSERT_TRUE(scanned.ok() && *scanned != nullptr);
      EXPECT_EQ((*scanned)->shard(), shard);
      EXPECT_EQ((*scanned)->block(), block);
      EXPECT_EQ((*scanned)->first_sample(), shard * 7 + block * 3);
      EXPECT_EQ((*scanned)->view().first_sample(), block * 3);
    }
  }
  EXPECT_EQ(*(*scanner)->Next(), nullptr);
  EXPECT_EQ(*(*scanner)->Next(), nullptr);
}

// When a consumer holds blocks, fewer are read ahead. The blocks must be the same.
TEST_F(ScanTest, HoldingSomeBlocksChangesNothing) {
  for (const int threads : {0, 1, 2, 5}) {
    for (size_t hold = 1; hold <= 6; ++hold) {
      ScanOptions options;
      options.threads = threads;
      options.blocks_ahead = 6;
      auto scanner = dataset_->Scan(options);
      ASSERT_TRUE(scanner.ok());
      std::vector<std::unique_ptr<ScannedBlock>> held;
      uint64_t expected = 0;
      while (true) {
        auto block = (*scanner)->Next();
        ASSERT_TRUE(block.ok()) << block.status();
        if (*block == nullptr) break;
        ASSERT_EQ((*block)->first_sample(), expected) << threads << " threads, " << hold << " held";
        for (uint32_t i = 0; i < (*block)->view().sample_count(); ++i) {
          ASSERT_EQ((*block)->view().column(0).bytes(i), samples_[expected++].key);
        }
        held.push_back(*std::move(block));
        if (held.size() > hold) held.erase(held.begin());
        // Held blocks stay readable.
        ASSERT_EQ(held[0]->view().column(0).bytes(0), samples_[held[0]->first_sample()].key);
      }
      EXPECT_EQ(expected, 160u);
    }
  }
}

TEST_F(ScanTest, HoldingTooManyBlocksIsAnError) {
  for (int round = 0; round < 6; ++round) {
    ScanOptions options;
    options.threads = std::array{0, 1, 3}[static_cast<size_t>(round) % 3];
    options.blocks_ahead = 3;
    options.most_held = round < 3 ? 1 : 9;
    auto scanner = dataset_->Scan(options);
    ASSERT_TRUE(scanner.ok());
    std::vector<std::unique_ptr<ScannedBlock>> held;
    for (int i = 0; i < options.blocks_ahead + options.most_held; ++i) {
      auto block = (*scanner)->Next();
      ASSERT_TRUE(block.ok()) << i << ": " << block.status();
      held.push_back(*std::move(block));
    }
    EXPECT_TRUE(absl::IsFailedPrecondition((*scanner)->Next().status()));
    EXPECT_FALSE((*scanner)->Next().ok());
    EXPECT_EQ(held[3]->view().column(0).bytes(0), samples_[held[3]->first_sample()].key);
    // Blocks may outlive the scanner.
    scanner->reset();
    EXPECT_EQ(held[2]->view().column(0).bytes(0), samples_[held[2]->first_sample()].key);
  }
}

TEST_F(ScanTest, MayBeDestroyedAtAnyTime) {
  for (const int threads : {0, 1, 5}) {
    for (int blocks = 0; blocks < 12; ++blocks) {
      ScanOptions options;
      options.threads = threads;
      options.blocks_ahead = 20;
      auto scanner = dataset_->Scan(options);
      ASSERT_TRUE(scanner.ok());
      for (int i = 0; i < blocks; ++i) ASSERT_TRUE((*scanner)->Next().ok());
    }
  }
}

TEST_F(ScanTest, DamageEndsTheScanAfterWhatComesBefore) {
  std::string bytes = ReadAll(*files_, "/data/00000001.shard");
  const auto shard = ShardReader::Open(*files_, "/data/00000001.shard");
  bytes[(*shard)->blocks()[1].offset + (*shard)->blocks()[1].length / 2] ^= 1;
  WriteFile(*files_, "/data/00000001.shard", bytes);
  for (const int threads : {0, 2}) {
    ScanOptions options;
    options.threads = threads;
    const auto dataset = DatasetReader::Open(*files_, "/data");
    auto scanner = (*dataset)->Scan(options);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE((*scanner)->Next().ok());
    const absl::Status status = (*scanner)->Next().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(Message(status).find("/data/00000001.shard"), std::string::npos) << status;
    EXPECT_EQ((*scanner)->Next().status(), status);
    const ErrorPlace place = PlaceOf(status);
    EXPECT_EQ(place.path, "/data/00000001.shard");
    EXPECT_EQ(place.shard, 1u);
    EXPECT_EQ(place.block, 1u);
    EXPECT_FALSE(place.sample.has_value());
  }
}

TEST_F(ScanTest, ChosenColumnsComeInTheOrderAskedFor) {
  DatasetOptions options;
  options.columns = {"text", "key"};
  const auto dataset = DatasetReader::Open(*files_, "/data", options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->columns().size(), 2u);
  EXPECT_EQ((*dataset)->columns()[0].name, "text");
  std::vector<Row> expected = RowsOf(samples_);
  for (Row& row : expected) {
    row.erase("image");
    row.erase("label");
  }
  EXPECT_EQ(ScanRows(**dataset), expected);
  options.columns = {"nothing"};
  const absl::Status status = DatasetReader::Open(*files_, "/data", options).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_NE(Message(status).find("image"), std::string::npos) << status;
}

}  // namespace
}  // namespace shardkit::test
