// Whole shards stay the same, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "shardkit/repair.h"
#include "shardkit/validate.h"
#include "unit/container/shard_maker.h"

namespace shardkit::test {
namespace {

TEST(RepairGolden, WholeShardsAreRepairedToThemselves) {
  const std::string folder = JoinPath(SHARDKIT_GOLDEN_FOLDER, "valid");
  FileSystem& disk = *PosixFileSystem();
  const auto entries = disk.List(folder);
  ASSERT_TRUE(entries.ok()) << entries.status();
  int shards = 0;
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.name.ends_with(".shard")) continue;
    SCOPED_TRACE(entry.name);
    ++shards;
    const auto files = NewMemoryFileSystem();
    const std::string bytes = ReadWhole(disk, JoinPath(folder, entry.name));
    WriteWhole(*files, "/in.shard", bytes);
    const auto report = RepairShard(*files, "/in.shard", "/out.shard");
    if (entry.name == "unknown-codec-of-key.shard") {  // the key index cannot be made
      EXPECT_TRUE(absl::IsUnimplemented(report.status())) << report.status();
      continue;
    }
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->written);
    EXPECT_TRUE(report->lossless());
    EXPECT_TRUE(report->problems.empty()) << report->problems[0];
    // A section that is unknown to this version cannot be made again. Those that may be missing are made.
    const bool has_more = entry.name == "ignorable-section.shard";
    const bool has_less = entry.name.starts_with("without-") || entry.name == "only-needed-sections.shard";
    // Of what is not known of values, the footer says nothing, and it is of this version.
    const bool has_unknown = entry.name.starts_with("unknown-") || entry.name == "key-index-minor-7.shard";
    const std::map<std::string_view, size_t> notes = {
        {"unknown-codec.shard", 5}, {"unknown-statistics.shard", 1}, {"ignorable-section.shard", 1}};
    EXPECT_EQ(report->notes.size(), notes.contains(entry.name) ? notes.at(entry.name) : 0);
    EXPECT_EQ(ReadWhole(*files, "/out.shard") == bytes, !has_more && !has_less && !has_unknown);
    const auto valid = Validate(*files, "/out.shard");
    ASSERT_TRUE(valid.ok()) << valid.status();
    EXPECT_TRUE(valid->ok());
    if (has_less) {
      EXPECT_GT(report->bytes, bytes.size());
    }
  }
  EXPECT_GT(shards, 15);
}

// Of each invalid file that says so, repair gives the blocks that the specification's recovery finds, with their
// values.
TEST(RepairGolden, RecoversWhatTheSpecificationSays) {
  const std::string folder = JoinPath(SHARDKIT_GOLDEN_FOLDER, "invalid");
  FileSystem& disk = *PosixFileSystem();
  const auto entries = disk.List(folder);
  ASSERT_TRUE(entries.ok()) << entries.status();
  int shards = 0;
  for (const DirectoryEntry& entry : *entries) {
    if (!entry.name.ends_with(".error.json")) continue;
    SCOPED_TRACE(entry.name);
    const auto error = nlohmann::json::parse(ReadWhole(disk, JoinPath(folder, entry.name)));
    if (!error.contains("recovered")) continue;
    ++shards;
    const std::string name = entry.name.substr(0, entry.name.size() - std::string(".error.json").size());
    const auto files = NewMemoryFileSystem();
    WriteWhole(*files, "/in.shard", ReadWhole(disk, JoinPath(folder, name + ".shard")));
    const auto report = RepairShard(*files, "/in.shard", "/out.shard");
    ASSERT_TRUE(report.ok()) << report.status();
    // The blocks lie in the output one after another. In the input the lost samples lie between them.
    nlohmann::json recovered = nlohmann::json::array();
    if (report->written) {
      const auto shard = ShardReader::Open(*files, "/out.shard");
      ASSERT_TRUE(shard.ok()) << shard.status();
      size_t next = 0;
      uint64_t lost = 0;
      for (const BlockInfo& block : (*shard)->blocks()) {
        for (; next < report->losses.size() && report->losses[next].first_sample <= block.first_sample + lost; ++next) {
          lost += report->losses[next].sample_count;
        }
        recovered.push_back({{"first_sample", block.first_sample + lost}, {"sample_count", block.sample_count}});
      }
      EXPECT_TRUE(Validate(*files, "/out.shard")->ok());
    }
    EXPECT_EQ(recovered, error["recovered"]);
  }
  EXPECT_GT(shards, 15);
}

// Blocks with columns of a codec that is not known are copied where they are whole, and are not taken apart.
TEST(RepairGolden, UnknownCodecs) {
  for (const std::string name : {"unknown-codec-head", "unknown-codec-values"}) {
    SCOPED_TRACE(name);
    const auto files = NewMemoryFileSystem();
    WriteWhole(*files, "/in.shard",
               ReadWhole(*PosixFileSystem(), JoinPath(SHARDKIT_GOLDEN_FOLDER, StrCat("invalid/", name, ".shard"))));
    RepairOptions options;
    options.keep_samples = true;
    const auto report = RepairShard(*files, "/in.shard", "/out.shard", options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->samples_recovered, 3u);
    EXPECT_EQ(report->samples_lost, 2u);
    ASSERT_EQ(report->losses.size(), 1u);
    EXPECT_EQ(report->losses[0].keys, (std::vector<std::string>{"k3", "k4"}));
    EXPECT_EQ(report->losses[0].columns, std::vector<std::string>{"v"});
    const auto valid = Validate(*files, "/out.shard");
    ASSERT_TRUE(valid.ok()) << valid.status();
    EXPECT_TRUE(valid->ok());
    const auto shard = ShardReader::Open(*files, "/out.shard");
    ASSERT_TRUE(shard.ok()) << shard.status();
    const auto statistics = (*shard)->ReadStatistics();
    ASSERT_TRUE(statistics.ok()) << statistics.status();
    EXPECT_EQ((*statistics)[0].present_count, 3u);
    EXPECT_EQ((*statistics)[1].present_count, 0u);
    EXPECT_GT((*statistics)[1].stored_bytes, 0u);
  }
}

// A dictionary that cannot be loaded takes with it the blocks that need it, and is left out.
TEST(RepairGolden, AMalformedDictionaryIsLeftOut) {
  for (const std::string name : {"dictionary-malformed", "dictionary-malformed-unused"}) {
    SCOPED_TRACE(name);
    const bool needed = name == "dictionary-malformed";
    const auto files = NewMemoryFileSystem();
    WriteWhole(*files, "/in.shard",
               ReadWhole(*PosixFileSystem(), JoinPath(SHARDKIT_GOLDEN_FOLDER, StrCat("invalid/", name, ".shard"))));
    const auto report = RepairShard(*files, "/in.shard", "/out.shard");
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->samples_lost, needed ? 2u : 0u);
    EXPECT_EQ(report->written, !needed);
    if (needed) continue;
    ASSERT_EQ(report->problems.size(), 1u);
    EXPECT_NE(report->problems[0].find("the dictionary is left out"), std::string::npos) << report->problems[0];
    const auto valid = Validate(*files, "/out.shard", {.deep = true});
    ASSERT_TRUE(valid.ok()) << valid.status();
    EXPECT_TRUE(valid->ok());
    EXPECT_EQ(valid->samples, 2u);
  }
}

}  // namespace
}  // namespace shardkit::test
