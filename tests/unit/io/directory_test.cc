// Names: rename, link, remove, list, stat, lock.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "unit/io/backend.h"

namespace shardkit {
namespace {

class DirectoryTest : public BackendTest {
 protected:
  std::string Content(std::string_view name) {
    auto content = file_system().ReadFile(Path(name), 1000);
    return content.ok() ? *content : content.status().ToString();
  }

  std::vector<std::string> Names(const std::string& path) {
    auto entries = file_system().List(path);
    EXPECT_TRUE(entries.ok()) << entries.status();
    std::vector<std::string> names;
    if (entries.ok()) {
      for (const DirectoryEntry& entry : *entries) names.push_back(entry.name);
    }
    return names;
  }
};
INSTANTIATE_TEST_SUITE_P(AllBackends, DirectoryTest, AllBackends(), BackendName);

TEST_P(DirectoryTest, RenameReplaces) {
  Write("a", "new");
  Write("b", "old");
  ASSERT_TRUE(file_system().Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(Content("b"), "new");
  EXPECT_EQ(Names(root()), std::vector<std::string>{"b"});
  ASSERT_TRUE(file_system().Rename(Path("b"), Path("b")).ok());
  EXPECT_EQ(Content("b"), "new");
}

TEST_P(DirectoryTest, RenameMovesDirectories) {
  ASSERT_TRUE(file_system().CreateDirectory(Path("a")).ok());
  ASSERT_TRUE(file_system().CreateDirectory(Path("b")).ok());
  Write("a/file", "x");
  ASSERT_TRUE(file_system().Rename(Path("a"), Path("b")).ok());  // over an empty one
  EXPECT_EQ(Content("b/file"), "x");
  ASSERT_TRUE(file_system().CreateDirectory(Path("a")).ok());
  EXPECT_TRUE(Says(file_system().Rename(Path("a"), Path("b")), absl::StatusCode::kFailedPrecondition, Path("a"),
                   "cannot rename to " + Path("b")));
  EXPECT_TRUE(absl::IsInvalidArgument(file_system().Rename(Path("b"), Path("b/below"))));
  Write("file", "y");
  EXPECT_TRUE(absl::IsFailedPrecondition(file_system().Rename(Path("file"), Path("b"))));
  EXPECT_TRUE(absl::IsNotFound(file_system().Rename(Path("b"), Path("file"))));  // ENOTDIR
}

TEST_P(DirectoryTest, RenameOfNothingSaysWhatAndWhereTo) {
  EXPECT_TRUE(Says(file_system().Rename(Path("a"), Path("b")), absl::StatusCode::kNotFound, Path("a"),
                   "cannot rename to " + Path("b") + ": No such file"));
  Write("a", "x");
  EXPECT_TRUE(absl::IsNotFound(file_system().Rename(Path("a"), Path("no/b"))));
  EXPECT_EQ(Content("a"), "x");
}

TEST_P(DirectoryTest, LinksShareOneFile) {
  Write("a", "content");
  ASSERT_TRUE(file_system().Link(Path("a"), Path("b")).ok());
  auto a = file_system().Stat(Path("a"));
  auto b = file_system().Stat(Path("b"));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->inode, b->inode);
  EXPECT_EQ(a->device, b->device);
  ASSERT_TRUE(file_system().RemoveFile(Path("a")).ok());
  EXPECT_EQ(Content("b"), "content");
  Write("c", "");
  EXPECT_TRUE(Says(file_system().Link(Path("b"), Path("c")), absl::StatusCode::kAlreadyExists, Path("b"),
                   "cannot link to " + Path("c")));
  EXPECT_TRUE(absl::IsNotFound(file_system().Link(Path("a"), Path("d"))));
  EXPECT_TRUE(absl::IsPermissionDenied(file_system().Link(root(), Path("d"))));
}

TEST_P(DirectoryTest, RemovesFilesAndEmptyDirectories) {
  ASSERT_TRUE(file_system().CreateDirectory(Path("directory")).ok());
  const std::string path = Write("directory/file", "x");
  EXPECT_TRUE(Says(file_system().RemoveDirectory(Path("directory")), absl::StatusCode::kFailedPrecondition,
                   Path("directory"), "cannot remove directory: Directory not empty"));
  EXPECT_TRUE(Says(file_system().RemoveFile(Path("directory")), absl::StatusCode::kFailedPrecondition,
                   Path("directory"), "cannot remove: Is a directory"));
  EXPECT_TRUE(absl::IsNotFound(file_system().RemoveDirectory(path)));  // ENOTDIR
  ASSERT_TRUE(file_system().RemoveFile(path).ok());
  EXPECT_TRUE(Says(file_system().RemoveFile(path), absl::StatusCode::kNotFound, path, "cannot remove"));
  ASSERT_TRUE(file_system().RemoveDirectory(Path("directory")).ok());
  EXPECT_TRUE(absl::IsNotFound(file_system().RemoveDirectory(Path("directory"))));
  EXPECT_EQ(Names(root()), std::vector<std::string>{});
}

TEST_P(DirectoryTest, CreateDirectoryIsContentWithAnExistingOne) {
  ASSERT_TRUE(file_system().CreateDirectory(Path("directory")).ok());
  EXPECT_TRUE(file_system().CreateDirectory(Path("directory")).ok());
  const std::string path = Write("file", "x");
  EXPECT_TRUE(
      Says(file_system().CreateDirectory(path), absl::StatusCode::kAlreadyExists, path, "cannot create directory"));
  EXPECT_TRUE(absl::IsNotFound(file_system().CreateDirectory(Path("no/parent"))));
}

TEST_P(DirectoryTest, ListsNamesAndTypes) {
  Write("file", "x");
  ASSERT_TRUE(file_system().CreateDirectory(Path("directory")).ok());
  auto entries = file_system().List(root());
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 2u);
  for (const DirectoryEntry& entry : *entries) {
    EXPECT_EQ(entry.type, entry.name == "file" ? FileType::kRegular : FileType::kDirectory) << entry.name;
  }
  EXPECT_EQ(Names(root()), (std::vector<std::string>{"directory", "file"}));
  std::vector<std::string> names = {"B", "z", "\xc3\xa9"};
  for (int i = 100; i < 140; ++i) names.push_back(std::to_string(i * 7919 % 1000));
  ASSERT_TRUE(file_system().CreateDirectory(Path("directory/many")).ok());
  for (const std::string& name : names) Write("directory/many/" + name, "");
  std::ranges::sort(names);
  EXPECT_EQ(Names(Path("directory/many")), names);
  EXPECT_TRUE(Says(file_system().List(Path("missing")).status(), absl::StatusCode::kNotFound, Path("missing"),
                   "cannot list directory"));
  EXPECT_TRUE(absl::IsNotFound(file_system().List(Path("file")).status()));  // ENOTDIR
}

TEST_P(DirectoryTest, StatTellsTypeAndSize) {
  Write("file", "12345");
  auto info = file_system().Stat(Path("file"));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->type, FileType::kRegular);
  EXPECT_EQ(info->size, 5u);
  EXPECT_NE(info->inode, 0u);
  info = file_system().Stat(root() + "//./");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->type, FileType::kDirectory);
  EXPECT_TRUE(Says(file_system().Stat(Path("no")).status(), absl::StatusCode::kNotFound, Path("no"), "cannot stat"));
}

TEST_P(DirectoryTest, SyncDirectoryNeedsADirectory) {
  Write("file", "x");
  EXPECT_TRUE(file_system().SyncDirectory(root()).ok());
  EXPECT_TRUE(
      Says(file_system().SyncDirectory(Path("no")), absl::StatusCode::kNotFound, Path("no"), "cannot sync directory"));
  EXPECT_TRUE(absl::IsNotFound(file_system().SyncDirectory(Path("file"))));  // ENOTDIR
}

TEST_P(DirectoryTest, LocksExcludeEachOther) {
  auto lock = file_system().Lock(Path("lock"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_TRUE(Says(file_system().Lock(Path("lock")).status(), absl::StatusCode::kFailedPrecondition, Path("lock"),
                   "cannot lock"));
  EXPECT_TRUE(file_system().Lock(Path("other")).ok());
  lock->reset();
  lock = file_system().Lock(Path("lock"));
  EXPECT_TRUE(lock.ok()) << lock.status();
  EXPECT_TRUE(absl::IsNotFound(file_system().Lock(Path("no/lock")).status()));
}

TEST_P(DirectoryTest, ALockOnARemovedFileDoesNotHinderTheNext) {
  auto first = file_system().Lock(Path("lock"));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(file_system().RemoveFile(Path("lock")).ok());
  auto second = file_system().Lock(Path("lock"));
  EXPECT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(absl::IsFailedPrecondition(file_system().Lock(Path("lock")).status()));
}

TEST(PosixDirectoryTest, TellsLinksAndPipesApart) {
  const TemporaryDirectory directory;
  FileSystem& file_system = *PosixFileSystem();
  const std::string link = directory.path() + "/link";
  const std::string pipe = directory.path() + "/pipe";
  ASSERT_EQ(symlink(".", link.c_str()), 0);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(file_system.Stat(link)->type, FileType::kDirectory);
  EXPECT_EQ(file_system.Stat(link, /*follow=*/false)->type, FileType::kSymbolicLink);
  EXPECT_EQ(file_system.Stat(pipe)->type, FileType::kOther);
  auto entries = file_system.List(directory.path());
  ASSERT_TRUE(entries.ok()) << entries.status();
  for (const DirectoryEntry& entry : *entries) {
    EXPECT_EQ(entry.type, entry.name == "link" ? FileType::kSymbolicLink : FileType::kOther) << entry.name;
  }
  EXPECT_TRUE(file_system.CreateDirectory(link).ok());
  // None of these opens waits for a process at the other end.
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect}) {
    EXPECT_TRUE(Says(file_system.OpenForReading(pipe, mode).status(), absl::StatusCode::kFailedPrecondition, pipe,
                     "not a regular file"));
  }
}

}  // namespace
}  // namespace shardkit
