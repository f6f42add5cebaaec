// Records of shards: what was written comes back, and a record that is damaged or another job's is none.
#include "dataset/write/job_folder.h"

#include "dataset/dataset_support.h"
#include "shardkit/manifest.h"

namespace shardkit::test {
namespace {

using dataset::ShardRecord;
using dataset::ShardRecords;

constexpr std::string_view kJob = "0123456789abcdef";
const std::string kFirst = "/data/.shardkit/00000012.json";

ShardRecord Example() {
  ShardRecord record;
  record.shard = {"part-\u00e9.shard", 1000, 10, 2, {}};
  record.shard.content_hash.fill(0x5a);
  record.shard.sha256.emplace().fill(0xab);
  record.shards_before = 4;
  record.next_position = 12;
  record.listing = UINT64_MAX;
  record.may_continue = false;
  record.skipped = {{3, "k\"ey", "why"}, {7, "", "line\nbreak"}};
  record.details = "{}";
  return record;
}

class ShardRecordsTest : public testing::Test {
 protected:
  ShardRecordsTest() { EXPECT_TRUE(CreateDirectories(*files_, "/data/.shardkit").ok()); }

  // What is read of a record with this text.
  std::optional<ShardRecord> Read(std::string_view text) {
    WriteFile(*files_, kFirst, std::string(text));
    const auto record = records_.Read({12});
    EXPECT_TRUE(record.ok()) << record.status();
    return record.value_or(std::nullopt);
  }

  const std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  const ShardRecords records_{*files_, "/data", std::string(kJob)};
};

TEST_F(ShardRecordsTest, ComeBack) {
  EXPECT_EQ(*records_.Read({12}), std::nullopt);
  const ShardRecord record = Example();
  ASSERT_TRUE(records_.Publish({12}, record).ok());
  const std::optional<ShardRecord> read = *records_.Read({12});
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->shard, record.shard);
  EXPECT_EQ(read->shards_before, 4u);
  EXPECT_EQ(read->next_position, 12u);
  EXPECT_EQ(read->listing, UINT64_MAX);
  EXPECT_FALSE(read->may_continue);
  EXPECT_EQ(read->details, "{}");
  ASSERT_EQ(read->skipped.size(), 2u);
  EXPECT_EQ(read->skipped[0].position, 3u);
  EXPECT_EQ(read->skipped[0].key, "k\"ey");
  EXPECT_EQ(read->skipped[1].reason, "line\nbreak");
  EXPECT_FALSE(read->unit_end.has_value());
  ShardRecord without = record;
  without.shard.sha256.reset();
  without.skipped.clear();
  without.unit_end = {1, UINT64_MAX, 3};
  ASSERT_TRUE(records_.Publish({12}, without).ok());
  const std::optional<ShardRecord> again = *records_.Read({12});
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->shard.sha256.has_value());
  EXPECT_TRUE(again->skipped.empty());
  ASSERT_TRUE(again->unit_end.has_value());
  EXPECT_EQ(again->unit_end->listed, 1u);
  EXPECT_EQ(again->unit_end->listing, UINT64_MAX);
  EXPECT_EQ(again->unit_end->input_bytes, 3u);
}

TEST_F(ShardRecordsTest, IncompleteOrChangedOnesAreNone) {
  ShardRecord record = Example();
  record.unit_end = {1, 2, 3};
  ASSERT_TRUE(records_.Publish({12}, record).ok());
  const std::string text = ReadAll(*files_, kFirst);
  ASSERT_TRUE(Read(text).has_value());
  for (size_t length = 0; length + 1 < text.size(); ++length) {  // the line feed alone is not needed
    EXPECT_FALSE(Read(text.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(Read(text + text).has_value());
  for (const std::string_view key :
       {"job", "name", "bytes", "samples", "blocks", "content_hash", "shards_before", "next_position", "listing",
        "may_continue", "skipped", "details", "position", "key", "reason", "kind", "listed", "input_bytes"}) {
    std::string renamed = text;
    const size_t at = renamed.find("\"" + std::string(key) + "\":");
    ASSERT_NE(at, renamed.npos) << key;
    EXPECT_FALSE(Read(renamed.replace(at + 1, 1, "_")).has_value()) << key;
  }
  const std::pair<std::string_view, std::string_view> edits[] = {
      {"\"job\":\"01", "\"job\":\"11"},
      {"\"bytes\":1000", "\"bytes\":-1000"},
      {"\"bytes\":1000", "\"bytes\":\"1000\""},
      {"false", "0"},
      {"\"content_hash\":\"5a", "\"content_hash\":\"5"},
      {"\"sha256\":\"ab", "\"sha256\":\"aB"},
      {"\"sha256\":\"ab", "\"sha256\":\""},
      {"\"details\":\"{}\"", "\"details\":{}"},
      {"\"position\":3", "\"position\":3.5"},
  };
  for (const auto& [from, to] : edits) {
    std::string edited = text;
    const size_t at = edited.find(from);
    ASSERT_NE(at, edited.npos) << from;
    EXPECT_FALSE(Read(edited.replace(at, from.size(), to)).has_value()) << from << " -> " << to;
  }
}

TEST_F(ShardRecordsTest, AUnitIsThereWithItsLastRecord) {
  ShardRecord record = Example();
  ASSERT_TRUE(records_.Publish({12, 0}, record).ok());
  EXPECT_FALSE(records_.ReadUnit(12)->has_value());
  record.unit_end = {1, 2, 3};
  ASSERT_TRUE(records_.Publish({12, 2}, record).ok());
  EXPECT_FALSE(records_.ReadUnit(12)->has_value());
  record.unit_end.reset();
  ASSERT_TRUE(records_.Publish({12, 1}, record).ok());
  const auto unit = records_.ReadUnit(12);
  ASSERT_TRUE(unit.ok() && unit->has_value()) << unit.status();
  EXPECT_EQ((*unit)->size(), 3u);
  EXPECT_FALSE(records_.ReadUnit(1)->has_value());
  WriteFile(*files_, "/data/.shardkit/00000012_00001.json~0123456789abcdef.tmp", "left");
  WriteFile(*files_, "/data/.shardkit/job.json", "stays");
  ASSERT_TRUE(records_.RemoveAll().ok());
  const Tree left = ReadTree(*files_, "/data");
  EXPECT_EQ(left, (Tree{{".shardkit/", ""}, {".shardkit/job.json", "stays"}})) << Describe(left);
}

}  // namespace
}  // namespace shardkit::test
