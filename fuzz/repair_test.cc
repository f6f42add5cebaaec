// The repair of checksums. Without it, mutated shards would always fail at the first check.

#include "support/repair_checksums.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "format/paged_table.h"
#include "shardkit/manifest.h"
#include "shardkit/shard.h"
#include "shardkit/validate.h"
#include "support/file_sections.h"

namespace shardkit::fuzz {
namespace {

std::string Golden(const std::string& name) {
  std::ifstream file(std::string(std::getenv("SHARDKIT_GOLDEN")) + "/valid/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The status of opening the shard and reading all blocks.
absl::Status Read(const std::string& bytes) {
  const auto files = NewMemoryFileSystem();
  WriteWhole(*files, "/s.shard", bytes);
  const auto shard = ShardReader::Open(*files, "/s.shard");
  if (!shard.ok()) return shard.status();
  BlockBuffer buffer;
  BlockView view;
  for (size_t i = 0; i < (*shard)->blocks().size(); ++i) {
    if (auto status = (*shard)->ReadBlock(i, {}, &buffer, &view); !status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(RepairTest, LeavesSoundShardsAsTheyAre) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(std::getenv("SHARDKIT_GOLDEN")) + "/valid")) {
    if (entry.path().extension() != ".shard") continue;
    const std::string sound = Golden(entry.path().filename());
    std::string repaired = sound;
    RepairShard(&repaired);
    EXPECT_EQ(repaired, sound) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 15u);
}

TEST(RepairTest, MakesAChangedValueReadable) {
  // The last byte of the value and the first byte of the key, in the shard that the specification shows byte by byte.
  std::string shard = Golden("one-sample.shard");
  for (const uint64_t at : {128 + 320 + 3, 128 + 192 + 8}) {
    std::string changed = shard;
    changed[at] ^= 1;
    EXPECT_FALSE(Read(changed).ok()) << at;
    RepairShard(&changed);
    EXPECT_TRUE(Read(changed).ok()) << at << " " << Read(changed);
  }
}

TEST(RepairTest, ReachesTheRulesBehindTheChecksums) {
  std::string shard = Golden("one-sample.shard");
  shard[128 + 44] = 1;  // reserved in the block's header
  RepairShard(&shard);
  const absl::Status status = Read(shard);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message().find("checksum"), std::string_view::npos) << status;
}

TEST(RepairTest, MakesAChangedKeyIndexWhole) {
  std::string shard = Golden("one-sample.shard");
  const size_t table = shard.find("\x89TBL"), sample = table + 16;
  ASSERT_NE(table, shard.npos);
  shard[sample] = 1;  // its ordinal
  RepairShard(&shard);
  const auto files = NewMemoryFileSystem();
  WriteWhole(*files, "/s.shard", shard);
  const auto report = Validate(*files, "/s.shard");
  ASSERT_TRUE(report.ok() && report->problems.size() == 1) << report.status();
  EXPECT_NE(report->problems[0].message.find("entry 0 names sample 1 instead of 0"), std::string::npos);
}

TEST(RepairTest, MakesAManifestNameATable) {
  const std::string shard = Golden("one-sample.shard");
  const size_t begin = shard.find("\x89TBL"), end = shard.find("\x89TBE") + 8;
  std::string manifest = R"("table": {"name": "a.segment", "bytes": 7, "root": 8, "checksum": "0000000000000000"}})";
  RepairReference(&manifest, "a.segment", std::string_view(shard).substr(begin, end - begin));
  EXPECT_EQ(manifest, R"("table": {"name": "a.segment", "bytes": 152, "root": 128, "checksum": "f43040097b713b6d"}})");
}

TEST(RepairTest, TakesAnyBytes) {
  const std::string shard = Golden("every-type.shard");
  for (size_t length = 0; length < shard.size(); length += 7) {
    std::string cut = shard.substr(0, length);
    RepairShard(&cut);
    EXPECT_EQ(cut.size(), length);
  }
}

TEST(RepairTest, MakesDatasetsAgree) {
  const std::string manifest = Golden("two-shards/dataset.json"), segment = Golden("two-shards/dataset.segment");
  std::string repaired = segment;
  RepairTable(&repaired);
  EXPECT_EQ(repaired, segment);
  repaired[20] ^= 1;
  const std::string changed = repaired;
  RepairTable(&repaired);
  EXPECT_NE(repaired, changed);
  EXPECT_NE(repaired, segment);
  EXPECT_TRUE(format::DecodeTableTail(std::string_view(repaired).substr(repaired.size() - format::kTableTailBytes),
                                      repaired.size())
                  .ok());
  std::string named = manifest;
  RepairReference(&named, "dataset.segment", segment);
  EXPECT_EQ(named, manifest);
  RepairReference(&named, "dataset.segment", repaired);
  RepairManifest(&named);
  const auto parsed = ParseManifest(named);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_NE(parsed->segments[0].table.checksum, ParseManifest(manifest)->segments[0].table.checksum);
  std::string text = manifest;
  RepairManifest(&text);
  EXPECT_EQ(text, manifest);
}

}  // namespace
}  // namespace shardkit::fuzz
