#include "operations/sources/source_walk.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>

#include "unit/operations/pack/convert_support.h"

namespace shardkit::operations {
namespace {

// Every path of the walk, and its keys.
struct Walked {
  std::vector<std::string> paths;
  std::vector<std::string> keys;
  absl::Status status;
};
Walked WalkAll(FileSystem* file_system, const std::string& root, NameSplit split) {
  Walked walked;
  TreeWalk walk(file_system, root, split);
  WalkedGroup group;
  while (true) {
    const auto more = walk.Next(&group);
    walked.status = more.status();
    if (!more.ok() || !*more) return walked;
    EXPECT_FALSE(group.files.empty());
    walked.keys.push_back(std::string(group.directory) + std::string(group.stem));
    for (const WalkedFile& file : group.files) {
      walked.paths.push_back(walked.keys.back() + (file.has_dot ? "." : "") + std::string(file.rest));
    }
  }
}

// Names from few letters, so that they often share a beginning, around the bytes that sort near '.' and '/'.
std::string RandomName(std::minstd_rand& random) {
  constexpr std::string_view kLetters = "ab-.0\x01~!/";
  std::string name;
  for (size_t length = 1 + random() % 5; name.size() < length;) {
    const char letter = kLetters[random() % (kLetters.size() - 1)];
    if (letter != '/') name.push_back(letter);
  }
  return name == "." || name == ".." ? "a" : name;
}

void MakeRandomTree(FileSystem& file_system, const std::string& root, std::minstd_rand& random,
                    std::set<std::string>* paths) {
  std::set<std::string> directories;
  std::set<std::string> files;
  for (int i = 0; i < 60; ++i) {
    std::string path;
    for (size_t depth = random() % 3; depth > 0; --depth) {
      path += RandomName(random) + "/";
      if (files.contains(path.substr(0, path.size() - 1))) path.clear();
    }
    const std::string file = path + RandomName(random);
    if (directories.contains(file)) continue;
    for (size_t slash = file.find('/'); slash != std::string::npos; slash = file.find('/', slash + 1)) {
      directories.insert(file.substr(0, slash));
    }
    if (files.insert(file).second) test::WriteFile(file_system, root + "/" + file, "x");
  }
  *paths = files;
}

std::string KeyOf(const std::string& path, NameSplit split) {
  const std::string_view base = BasePart(path);
  return std::string(DirectoryPart(path)) + std::string(DivideName(base, split).stem);
}

void ExpectOrderOfASort(FileSystem& file_system, const std::string& root, unsigned seed) {
  std::minstd_rand random(seed);
  std::set<std::string> paths;
  MakeRandomTree(file_system, root, random, &paths);
  for (const NameSplit split : {NameSplit::kFirstDot, NameSplit::kLastDot, NameSplit::kNever}) {
    const Walked walked = WalkAll(&file_system, root, split);
    ASSERT_TRUE(walked.status.ok()) << walked.status;
    std::set<std::string> keys;
    for (const std::string& path : paths) keys.insert(KeyOf(path, split));
    EXPECT_EQ(walked.keys, std::vector<std::string>(keys.begin(), keys.end())) << "seed " << seed;
    EXPECT_EQ(std::set<std::string>(walked.paths.begin(), walked.paths.end()), paths) << "seed " << seed;
    EXPECT_EQ(walked.paths.size(), paths.size());
  }
}

TEST(TreeWalkTest, OrderIsThatOfASortInMemory) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    const auto file_system = NewMemoryFileSystem();
    ExpectOrderOfASort(*file_system, "/root", seed);
  }
}

TEST(TreeWalkTest, OrderIsThatOfASortOnDisk) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    const test::TemporaryFolder folder;
    ExpectOrderOfASort(*PosixFileSystem(), folder / "tree", seed);
  }
}

TEST(TreeWalkTest, DirectoriesSortBehindStemsTheyBeginWith) {
  const auto file_system = NewMemoryFileSystem();
  for (const char* const name : {"/r/a.jpg", "/r/a/b.jpg", "/r/a-.jpg", "/r/a0.jpg", "/r/a", "/r/b./x"}) {
    if (std::string_view(name) != "/r/a") test::WriteFile(*file_system, name, "x");
  }
  const Walked walked = WalkAll(file_system.get(), "/r", NameSplit::kFirstDot);
  EXPECT_EQ(walked.keys, (std::vector<std::string>{"a", "a-", "a/b", "a0", "b./x"}));
}

TEST(TreeWalkTest, AnEmptyTreeHasNothing) {
  const auto file_system = NewMemoryFileSystem();
  ASSERT_TRUE(CreateDirectories(*file_system, "/r/a/b").ok());
  EXPECT_TRUE(WalkAll(file_system.get(), "/r", NameSplit::kFirstDot).keys.empty());
}

TEST(TreeWalkTest, AMissingRootIsNotFound) {
  const auto file_system = NewMemoryFileSystem();
  EXPECT_TRUE(absl::IsNotFound(WalkAll(file_system.get(), "/none", NameSplit::kFirstDot).status));
}

TEST(TreeWalkTest, FollowsLinksButNotInCircles) {
  const test::TemporaryFolder folder;
  test::WriteFile(*PosixFileSystem(), folder / "tree/a/x.txt", "x");
  test::WriteFile(*PosixFileSystem(), folder / "elsewhere/y.txt", "y");
  ASSERT_EQ(symlink("../elsewhere", (folder / "tree/b").c_str()), 0);
  ASSERT_EQ(symlink("../../tree", (folder / "tree/a/up").c_str()), 0);
  ASSERT_EQ(symlink("x.txt", (folder / "tree/a/z.txt").c_str()), 0);
  ASSERT_EQ(symlink("nothing", (folder / "tree/a/w.txt").c_str()), 0);

  TreeWalk walk(PosixFileSystem(), folder / "tree", NameSplit::kFirstDot);
  WalkedGroup group;
  std::map<std::string, EntryKind> found;
  while (true) {
    const auto more = walk.Next(&group);
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) break;
    found[std::string(group.directory) + std::string(group.stem)] = group.files[0].kind;
  }
  const std::map<std::string, EntryKind> expected = {{"a/up", EntryKind::kLoop},
                                                     {"a/w", EntryKind::kDangling},
                                                     {"a/x", EntryKind::kFile},
                                                     {"a/z", EntryKind::kFile},
                                                     {"b/y", EntryKind::kFile}};
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace shardkit::operations
