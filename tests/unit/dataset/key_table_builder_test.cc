// Merging key tables in bounded memory.
#include "dataset/write/key_table_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/strings.h"
#include "container/read/key_table_reader.h"
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

  // A table that has the merged keys alone.
  absl::StatusOr<std::string> Build(const Cancellation* cancellation = nullptr) {
    std::string bytes;
    format::PagedTableWriter table([&](std::string_view piece) {
      bytes += piece;
      return absl::OkStatus();
    });
    taken_.clear();
    const auto payload = dataset::MergeKeys(
        *files_, "/out/dataset.segment", inputs_, cancellation,
        [this](const format::KeyEntry& entry) {
          taken_.push_back(entry);
          return absl::OkStatus();
        },
        [&](uint64_t first, std::string_view page) { return table.AddPage(first, page); });
    if (!payload.ok()) return payload.status();
    EXPECT_TRUE(table.EndSection(format::TableKind::kKeys, *payload).ok());
    EXPECT_TRUE(table.Finish().ok());
    return bytes;
  }

  void ExpectWhole() {
    const auto table = Build();
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_TRUE(*table == format::EncodeKeyTable(hashes_));
    EXPECT_TRUE(ReadTree(*files_, "/out").empty()) << Describe(ReadTree(*files_, "/out"));
    std::vector<format::KeyEntry> entries;
    for (const uint64_t hash : hashes_) entries.push_back({hash, entries.size()});
    std::ranges::sort(entries);
    EXPECT_TRUE(taken_ == entries);
  }

  const std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  Random random_{3};
  std::vector<dataset::KeyTableInput> inputs_;
  std::vector<uint64_t> hashes_;
  std::vector<format::KeyEntry> taken_;
};

TEST_F(KeyTableBuilder, MakesTheTableOfAllSamples) {
  for (const uint64_t samples : {0, 1, 5000, 0, 300}) AddInput(samples);
  ExpectWhole();
}

TEST_F(KeyTableBuilder, MakesAnEmptyTableOfNothing) { ExpectWhole(); }

TEST_F(KeyTableBuilder, MergesInSeveralPassesWhatIsTooMuchForOne) {
  for (int i = 0; i < 256; ++i) AddInput(random_.Below(5));
  ExpectWhole();
  AddInput(2);
  ExpectWhole();
  while (inputs_.size() < 700) AddInput(random_.Below(5));
  ExpectWhole();
}

TEST_F(KeyTableBuilder, MergesItsOwnTables) {
  AddInput(1000);
  AddInput(20);
  const auto first_table = Build();
  ASSERT_TRUE(first_table.ok()) << first_table.status();
  const std::vector<uint64_t> first = hashes_;
  inputs_.clear();
  AddInput(3000);
  for (dataset::KeyTableInput& input : inputs_) input.first_sample -= first.size();
  const auto second_table = Build();
  ASSERT_TRUE(second_table.ok()) << second_table.status();
  WriteFile(*files_, "/in/a", *first_table);
  WriteFile(*files_, "/in/b", *second_table);
  const uint64_t length = second_table->size();
  const auto tail =
      format::DecodeTableTail(std::string_view(*second_table).substr(length - format::kTableTailBytes), length);
  ASSERT_TRUE(tail.ok()) << tail.status();
  inputs_ = {{"/in/a", {.length = first_table->size()}, first.size(), 0},
             {"/in/b", {.length = length, .root = tail->root_length + format::kTableTailBytes}, 3000, first.size()}};
  ExpectWhole();
}

// They stand behind the other tables of a segment.
TEST_F(KeyTableBuilder, MergesTheKeysOfSegments) {
  AddInput(5000);
  for (const bool with_keys : {true, false}) {
    std::string segment;
    format::PagedTableWriter table([&](std::string_view piece) {
      segment += piece;
      return absl::OkStatus();
    });
    EXPECT_TRUE(table.AddPage(0, "12345678").ok());
    EXPECT_TRUE(table.EndSection(format::TableKind::kOffsetIndex, "").ok());
    EXPECT_TRUE(table.EndSection(format::TableKind::kShardList, "payload!").ok());
    format::KeyTableWriter keys([&](uint64_t first, std::string_view page) { return table.AddPage(first, page); });
    const uint64_t first_sample = hashes_.size();
    if (with_keys) {
      for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(keys.Add({100 * i, i}).ok());
      EXPECT_TRUE(table.EndSection(format::TableKind::kKeys, keys.Finish().value()).ok());
      for (const uint64_t hash : {0, 100, 200}) hashes_.push_back(hash);
    }
    EXPECT_TRUE(table.Finish().ok());
    const std::string path = StrCat("/in/segment", inputs_.size());
    WriteFile(*files_, path, segment);
    inputs_.push_back({path, {.length = segment.size()}, 3, first_sample});
    if (with_keys) ExpectWhole();
  }
  EXPECT_TRUE(absl::IsNotFound(Build().status())) << Build().status();
  EXPECT_TRUE(ReadTree(*files_, "/out").empty());
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
