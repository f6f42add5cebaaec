#include "support/unsynced_filesystem.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace shardkit {
namespace {

class UnsyncedFileSystemTest : public testing::Test {
 protected:
  // Creates a file. Syncs its bytes if `sync` is true.
  void Write(const std::string& path, std::string_view bytes, bool sync) {
    auto file = files_.Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(bytes).ok());
    if (sync) {
      ASSERT_TRUE((*file)->Sync().ok());
    }
    ASSERT_TRUE((*file)->Close().ok());
  }

  static std::string Content(FileSystem& files, const std::string& path) {
    auto content = files.ReadFile(path, 1000);
    return content.ok() ? *content : absl::IsNotFound(content.status()) ? "(missing)" : content.status().ToString();
  }
  std::string AfterCrash(const std::string& path) { return Content(*files_.Crash(), path); }

  UnsyncedFileSystem files_;
};

TEST_F(UnsyncedFileSystemTest, DataNeedsSyncAndItsEntryNeedsSyncDirectory) {
  Write("/neither", "x", false);
  Write("/data", "x", true);
  EXPECT_EQ(AfterCrash("/neither"), "(missing)");
  EXPECT_EQ(AfterCrash("/data"), "(missing)");
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  EXPECT_EQ(AfterCrash("/neither"), "");
  EXPECT_EQ(AfterCrash("/data"), "x");
  EXPECT_EQ(Content(files_, "/neither"), "x");  // here nothing has crashed
}

TEST_F(UnsyncedFileSystemTest, KeepsWhatWasWrittenBeforeTheLastSync) {
  auto file = files_.Create("/file");
  ASSERT_TRUE(file.ok() && files_.SyncDirectory("/").ok());
  ASSERT_TRUE((*file)->Append("0123456789").ok() && (*file)->Sync().ok());
  ASSERT_TRUE((*file)->Append("lost").ok());
  EXPECT_EQ(AfterCrash("/file"), "0123456789");
  const std::string_view pieces[] = {"a", "b"};
  ASSERT_TRUE((*file)->AppendPieces(pieces).ok() && (*file)->Sync().ok());
  EXPECT_EQ(AfterCrash("/file"), "0123456789lostab");
  ASSERT_TRUE((*file)->Append("lost").ok() && (*file)->Close().ok());
  EXPECT_EQ(AfterCrash("/file"), "0123456789lostab");
}

TEST_F(UnsyncedFileSystemTest, RenamesWithinADirectoryAreOneChange) {
  Write("/temporary", "new", true);
  Write("/name", "old", true);
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  ASSERT_TRUE(files_.Rename("/temporary", "/name").ok());
  EXPECT_EQ(AfterCrash("/name"), "old");
  EXPECT_EQ(AfterCrash("/temporary"), "new");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto after = files_.Crash(seed);
    const bool renamed = Content(*after, "/temporary") == "(missing)";
    EXPECT_EQ(Content(*after, "/name"), renamed ? "new" : "old");
  }
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  EXPECT_EQ(AfterCrash("/name"), "new");
  EXPECT_EQ(AfterCrash("/temporary"), "(missing)");
}

TEST_F(UnsyncedFileSystemTest, RenamesBetweenDirectoriesNeedBothSynced) {
  ASSERT_TRUE(files_.CreateDirectory("/a").ok() && files_.CreateDirectory("/b").ok());
  Write("/a/file", "x", true);
  files_.SyncEverything();
  ASSERT_TRUE(files_.Rename("/a/file", "/b/file").ok());
  ASSERT_TRUE(files_.SyncDirectory("/b").ok());
  EXPECT_EQ(AfterCrash("/a/file"), "x");  // both names, one file
  EXPECT_EQ(AfterCrash("/b/file"), "x");
  const auto both = files_.Crash();
  EXPECT_EQ(both->Stat("/a/file")->inode, both->Stat("/b/file")->inode);
  ASSERT_TRUE(files_.SyncDirectory("/a").ok());
  EXPECT_EQ(AfterCrash("/a/file"), "(missing)");
  ASSERT_TRUE(files_.Rename("/b/file", "/a/file").ok());
  ASSERT_TRUE(files_.SyncDirectory("/b").ok());
  EXPECT_EQ(AfterCrash("/a/file"), "(missing)");  // synced in the wrong order: lost
  EXPECT_EQ(AfterCrash("/b/file"), "(missing)");
}

TEST_F(UnsyncedFileSystemTest, RemovalsComeBack) {
  Write("/file", "x", true);
  ASSERT_TRUE(files_.CreateDirectory("/directory").ok() && files_.SyncDirectory("/").ok());
  ASSERT_TRUE(files_.RemoveFile("/file").ok() && files_.RemoveDirectory("/directory").ok());
  EXPECT_EQ(AfterCrash("/file"), "x");
  EXPECT_TRUE(files_.Crash()->Stat("/directory").ok());
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  EXPECT_EQ(AfterCrash("/file"), "(missing)");
  EXPECT_FALSE(files_.Crash()->Stat("/directory").ok());
}

TEST_F(UnsyncedFileSystemTest, LinksShareTheirFateOnlyInContent) {
  Write("/a", "x", true);
  ASSERT_TRUE(files_.SyncDirectory("/").ok() && files_.Link("/a", "/b").ok());
  EXPECT_EQ(AfterCrash("/b"), "(missing)");
  ASSERT_TRUE(files_.SyncDirectory("/").ok() && files_.RemoveFile("/a").ok() && files_.SyncDirectory("/").ok());
  EXPECT_EQ(AfterCrash("/b"), "x");
}

TEST_F(UnsyncedFileSystemTest, DirectoriesAreLostWithAllBelow) {
  ASSERT_TRUE(files_.CreateDirectory("/d").ok());
  Write("/d/file", "x", true);
  ASSERT_TRUE(files_.SyncDirectory("/d").ok());
  EXPECT_EQ(AfterCrash("/d/file"), "(missing)");
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  EXPECT_EQ(AfterCrash("/d/file"), "x");
  ASSERT_TRUE(files_.Rename("/d", "/e").ok());
  EXPECT_EQ(AfterCrash("/d/file"), "x");
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  EXPECT_EQ(AfterCrash("/e/file"), "x");
  EXPECT_EQ(AfterCrash("/d/file"), "(missing)");
}

TEST_F(UnsyncedFileSystemTest, SeedsGiveManyOutcomesButTheSameEachTime) {
  auto file = files_.Create("/file");
  ASSERT_TRUE(file.ok() && (*file)->Append("AB").ok() && (*file)->Sync().ok() && files_.SyncDirectory("/").ok());
  ASSERT_TRUE((*file)->Append("CD").ok() && (*file)->Append("EF").ok());
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string content = Content(*files_.Crash(seed), "/file");
    EXPECT_EQ(Content(*files_.Crash(seed), "/file"), content);
    EXPECT_EQ(content.substr(0, 2), "AB");  // synced bytes exist with every seed
    outcomes.insert(content);
  }
  for (const std::string& expected : {std::string("AB"), std::string("ABC"), std::string("ABCD"), std::string("ABCDE"),
                                      std::string("ABCDEF"), std::string("AB\0\0EF", 6)}) {
    EXPECT_EQ(outcomes.count(expected), 1u) << testing::PrintToString(expected);
  }
}

TEST_F(UnsyncedFileSystemTest, TheStateAfterACrashIsDurable) {
  Write("/file", "x", true);
  ASSERT_TRUE(files_.SyncDirectory("/").ok());
  const auto after = files_.Crash();
  const auto again = after->Crash();
  EXPECT_EQ(Content(*again, "/file"), "x");
  ASSERT_TRUE(after->RemoveFile("/file").ok());
  EXPECT_EQ(Content(*after->Crash(), "/file"), "x");
}

TEST_F(UnsyncedFileSystemTest, LocksEndWithACrash) {
  auto lock = files_.Lock("/lock");
  ASSERT_TRUE(lock.ok() && files_.SyncDirectory("/").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(files_.Lock("/lock").status()));
  EXPECT_TRUE(files_.Crash()->Lock("/lock").ok());
}

}  // namespace
}  // namespace shardkit
