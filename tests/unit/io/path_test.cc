// The helper functions on top of the interface.
#include <unistd.h>

#include <string>

#include "unit/io/backend.h"

namespace shardkit {
namespace {

TEST(JoinPathTest, PutsOneSlashBetween) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("a//", "//b/c"), "a/b/c");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("//", "/b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(JoinPath("", "/b"), "/b");
  EXPECT_EQ(JoinPath("a", ""), "a");
}

using PathTest = BackendTest;
INSTANTIATE_TEST_SUITE_P(AllBackends, PathTest, AllBackends(), BackendName);

TEST_P(PathTest, CreateDirectoriesMakesWhatIsMissing) {
  ASSERT_TRUE(CreateDirectories(file_system(), Path("a//b/c/")).ok());
  EXPECT_EQ(file_system().Stat(Path("a/b/c"))->type, FileType::kDirectory);
  EXPECT_TRUE(CreateDirectories(file_system(), Path("a/b/c")).ok());
  EXPECT_TRUE(CreateDirectories(file_system(), "/").ok());
  Write("file", "x");
  EXPECT_TRUE(absl::IsAlreadyExists(CreateDirectories(file_system(), Path("file"))));
  EXPECT_FALSE(CreateDirectories(file_system(), Path("file/a/b")).ok());
  EXPECT_FALSE(CreateDirectories(file_system(), "").ok());
}

TEST_P(PathTest, RemoveTreeTakesAllBelow) {
  ASSERT_TRUE(CreateDirectories(file_system(), Path("a/b/c")).ok());
  ASSERT_TRUE(CreateDirectories(file_system(), Path("a/d")).ok());
  Write("a/1", "");
  Write("a/b/2", "");
  Write("a/b/c/3", "");
  Write("kept", "");
  ASSERT_TRUE(RemoveTree(file_system(), Path("a")).ok());
  EXPECT_TRUE(absl::IsNotFound(file_system().Stat(Path("a")).status()));
  EXPECT_TRUE(file_system().Stat(Path("kept")).ok());
  EXPECT_TRUE(RemoveTree(file_system(), Path("a")).ok());
  EXPECT_TRUE(Says(RemoveTree(file_system(), Path("kept")), absl::StatusCode::kFailedPrecondition, Path("kept"),
                   "cannot remove tree"));
}

TEST(RemoveTreeTest, DoesNotFollowLinks) {
  const TemporaryDirectory directory;
  FileSystem& file_system = *PosixFileSystem();
  const std::string outside = directory.path() + "/outside";
  const std::string tree = directory.path() + "/tree";
  ASSERT_TRUE(CreateDirectories(file_system, outside).ok());
  ASSERT_TRUE(CreateDirectories(file_system, tree).ok());
  ASSERT_TRUE(file_system.Create(outside + "/file").ok());
  ASSERT_EQ(symlink("../outside", (tree + "/link").c_str()), 0);
  ASSERT_TRUE(RemoveTree(file_system, tree).ok());
  EXPECT_TRUE(file_system.Stat(outside + "/file").ok());
  ASSERT_EQ(symlink("outside", tree.c_str()), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(RemoveTree(file_system, tree)));
  EXPECT_TRUE(file_system.Stat(outside + "/file").ok());
}

TEST(Paths, UrlsBeginWithAScheme) {
  for (const char* const url : {"s3://bucket/name", "https://host", "x-y+z.1://", "gs://"})
    EXPECT_TRUE(IsUrl(url)) << url;
  for (const char* const path : {"", "/data", "://host", "a b://c", "/data/s3://x", "s3:/x", "s3:"}) {
    EXPECT_FALSE(IsUrl(path)) << path;
  }
}

}  // namespace
}  // namespace shardkit
