// Whole shards stay the same, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardkit/repair.h"
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
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->written);
    EXPECT_TRUE(report->lossless());
    EXPECT_TRUE(report->problems.empty()) << report->problems[0];
    // A section that is unknown to this version cannot be made again. Those that may be missing are made.
    const bool has_more = entry.name == "ignorable-section.shard";
    const bool has_less = entry.name.starts_with("without-") || entry.name == "only-needed-sections.shard";
    EXPECT_EQ(report->notes.size(), has_more ? 1u : 0u);
    EXPECT_EQ(ReadWhole(*files, "/out.shard") == bytes, !has_more && !has_less);
    if (has_less) {
      EXPECT_GT(report->bytes, bytes.size());
    }
  }
  EXPECT_GT(shards, 15);
}

}  // namespace
}  // namespace shardkit::test
