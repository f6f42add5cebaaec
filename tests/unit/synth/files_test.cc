#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "synth/run.h"
#include "synth/synth.h"

namespace shardctl {
namespace {

using namespace shardkit;

using Tree = std::vector<std::pair<std::string, std::string>>;

void Walk(FileSystem& file_system, const std::string& directory, Tree* tree) {
  const auto entries = file_system.List(directory);
  ASSERT_TRUE(entries.ok()) << entries.status();
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = JoinPath(directory, entry.name);
    if (entry.type == FileType::kDirectory) {
      Walk(file_system, path, tree);
    } else {
      const auto bytes = file_system.ReadFile(path, uint64_t{1} << 26);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      tree->emplace_back(path, *bytes);
    }
  }
}

Tree TreeOf(FileSystem& file_system) {
  Tree tree;
  Walk(file_system, "/d", &tree);
  std::sort(tree.begin(), tree.end());
  return tree;
}

Tree Make(const SynthFilesOptions& options) {
  const auto file_system = NewMemoryFileSystem();
  const absl::Status status = SynthesizeFiles(*file_system, "/d", options);
  EXPECT_TRUE(status.ok()) << status;
  return TreeOf(*file_system);
}

SynthFilesOptions SmallFiles() {
  SynthFilesOptions options;
  options.count = 25;
  options.threads = 1;
  options.size = 1000;
  options.files_per_directory = 10;
  return options;
}

TEST(SynthFiles, NamesAndSizes) {
  const Tree tree = Make(SmallFiles());
  ASSERT_EQ(tree.size(), 25u);
  EXPECT_EQ(tree[0].first, "/d/000000/000000000.bin");
  EXPECT_EQ(tree[24].first, "/d/000002/000000024.bin");
  std::set<std::string> contents;
  for (const auto& [path, bytes] : tree) {
    EXPECT_EQ(bytes.size(), 1000u);
    contents.insert(bytes);
  }
  EXPECT_EQ(contents.size(), 25u);
}

TEST(SynthFiles, TheNumberOfThreadsDoesNotMatter) {
  SynthFilesOptions options = SmallFiles();
  options.size_jitter_percent = 50;
  for (const SynthContent content : {SynthContent::kRandom, SynthContent::kText}) {
    options.content = content;
    options.threads = 1;
    const Tree one = Make(options);
    options.threads = 7;
    EXPECT_EQ(Make(options), one);
  }
}

TEST(SynthFiles, BytesAreTheSameEverywhere) {
  SynthFilesOptions options = SmallFiles();
  options.count = 1;
  EXPECT_EQ(Hash64(Make(options)[0].second), 16869461395319816468u);
  options.content = SynthContent::kText;
  EXPECT_EQ(Hash64(Make(options)[0].second), 1521154640744752314u);
}

TEST(SynthFiles, SizesVaryWithinTheJitter) {
  SynthFilesOptions options = SmallFiles();
  options.count = 400;
  options.size_jitter_percent = 30;
  options.files_per_directory = 0;
  options.extension = "";
  const Tree tree = Make(options);
  EXPECT_EQ(tree[399].first, "/d/000000399");
  const auto [least, most] =
      std::minmax_element(tree.begin(), tree.end(), [](auto& a, auto& b) { return a.second.size() < b.second.size(); });
  EXPECT_GE(least->second.size(), 700u);
  EXPECT_LT(least->second.size(), 730u);
  EXPECT_LE(most->second.size(), 1300u);
  EXPECT_GT(most->second.size(), 1270u);
}

TEST(SynthFiles, EmptyAndLargeFiles) {
  SynthFilesOptions options = SmallFiles();
  options.count = 2;
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, (uint64_t{2} << 20) + 3}) {
    for (const SynthContent content : {SynthContent::kRandom, SynthContent::kText}) {
      options.size = size;
      options.content = content;
      for (const auto& [path, bytes] : Make(options)) EXPECT_EQ(bytes.size(), size) << path;
    }
  }
}

TEST(SynthFiles, TextIsText) {
  SynthFilesOptions options = SmallFiles();
  options.content = SynthContent::kText;
  for (const auto& [path, bytes] : Make(options)) {
    EXPECT_EQ(bytes.back(), '\n');
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                            [](char c) { return (c >= 'a' && c <= 'z') || c == ' ' || c == '\n'; }));
  }
}

TEST(SynthFiles, ImpossibleOptionsAreRefused) {
  const auto file_system = NewMemoryFileSystem();
  const auto refused = [&](auto change) {
    SynthFilesOptions options = SmallFiles();
    change(options);
    return absl::IsInvalidArgument(SynthesizeFiles(*file_system, "/d", options));
  };
  EXPECT_TRUE(refused([](auto& o) { o.threads = -1; }));
  EXPECT_TRUE(refused([](auto& o) { o.size_jitter_percent = 101; }));
  EXPECT_TRUE(refused([](auto& o) { o.size = UINT64_MAX; }));
  EXPECT_TRUE(refused([](auto& o) { o.extension = "a/b"; }));
}

TEST(SynthFiles, FilesInTheWayAreKept) {
  const auto file_system = NewMemoryFileSystem();
  SynthFilesOptions options = SmallFiles();
  options.count = 3;
  ASSERT_TRUE(SynthesizeFiles(*file_system, "/d", options).ok());
  const Tree before = TreeOf(*file_system);
  options.seed = 2;
  const absl::Status status = SynthesizeFiles(*file_system, "/d", options);
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_EQ(TreeOf(*file_system), before);
  options.overwrite = true;
  EXPECT_TRUE(SynthesizeFiles(*file_system, "/d", options).ok());
  EXPECT_NE(TreeOf(*file_system), before);
}

TEST(SynthFiles, ACancelledRunLeavesOnlyWholeFiles) {
  const auto file_system = NewMemoryFileSystem();
  SynthFilesOptions options = SmallFiles();
  options.threads = 3;
  Cancellation cancellation;
  const absl::Status status = SynthesizeFiles(
      *file_system, "/d", options,
      [&](const SynthProgress& progress) {
        if (progress.samples_done == 5) cancellation.Cancel();
      },
      &cancellation);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  const Tree tree = TreeOf(*file_system);
  EXPECT_GE(tree.size(), 5u);
  EXPECT_LT(tree.size(), 10u);
  for (const auto& [path, bytes] : tree) {
    EXPECT_TRUE(path.ends_with(".bin")) << path;
    EXPECT_EQ(bytes.size(), 1000u);
  }
}

TEST(SynthFiles, ProgressCountsSamplesAndBytes) {
  const auto file_system = NewMemoryFileSystem();
  SynthFilesOptions options = SmallFiles();
  options.threads = 4;
  std::vector<SynthProgress> seen;
  ASSERT_TRUE(SynthesizeFiles(*file_system, "/d", options, [&](const SynthProgress& p) { seen.push_back(p); }).ok());
  ASSERT_EQ(seen.size(), 25u);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].samples_done, i + 1);
    EXPECT_EQ(seen[i].samples, 25u);
    EXPECT_EQ(seen[i].bytes, (i + 1) * 1000);
  }
}

TEST(SynthRun, TheErrorOfTheLowestIndexIsReported) {
  const auto make = [](uint64_t index, int) -> absl::StatusOr<uint64_t> {
    if (index == 3) return absl::InternalError("three");
    return uint64_t{1};
  };
  const absl::Status status = RunSynth(10, 1, make, {}, nullptr);
  EXPECT_EQ(status, absl::InternalError("three"));
}

TEST(SynthRun, AnUnpublishedFileIsRemoved) {
  const auto file_system = NewMemoryFileSystem();
  {
    auto file = PartialFile::Create(*file_system, "/", "a", false);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append("half").ok());
    EXPECT_EQ(file_system->List("/")->size(), 1u);
  }
  EXPECT_TRUE(file_system->List("/")->empty());
}

TEST(SynthRun, TheTemporaryFileOfAKilledRunIsReplaced) {
  const auto file_system = NewMemoryFileSystem();
  ASSERT_TRUE(file_system->Create("/.a.partial").ok());
  auto file = PartialFile::Create(*file_system, "/", "a", false);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("whole").ok());
  ASSERT_TRUE((*file)->Close().ok());
  ASSERT_TRUE((*file)->Publish().ok());
  EXPECT_EQ(*file_system->ReadFile("/a", 100), "whole");
  EXPECT_TRUE(absl::IsNotFound(file_system->Stat("/.a.partial").status()));
}

}  // namespace
}  // namespace shardctl
