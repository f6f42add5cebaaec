// Unpacking to a disk with links, pipes and devices in the way, from the beginning or later.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "dataset/dataset_support.h"
#include "support/disturbing_filesystem.h"

namespace shardkit::test {
namespace {

class UnpackPlaces : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/shardkit-unpack-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    ASSERT_TRUE(CreateDirectories(files_, Path("elsewhere")).ok());
    WriteFile(files_, Path("elsewhere/precious"), "keep me");
    std::vector<OwnedSample> samples;
    for (const std::string key : {"a/x", "b/x", "c/d/x", "e"}) samples.push_back({key, {{&ImageColumn(), key}}});
    DatasetWriterOptions options = SmallShards(0, 1);
    options.shard.metadata["shardkit.source"] = "files";
    const auto written = WriteDataset(files_, Path("in"), samples, options);
    ASSERT_TRUE(written.ok()) << written.status();
    auto dataset = DatasetReader::Open(files_, Path("in"));
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    dataset_ = *std::move(dataset);
  }
  void TearDown() override {
    (void)RemoveTree(files_, folder_);
    EXPECT_FALSE(Exists(files_, folder_));
  }

  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }

  // `disturb` is called when only the first file and its folder have been made.
  absl::Status UnpackTo(const std::string& output, const std::function<void()>& disturb = {}) {
    DisturbingFileSystem files(files_, {}, [&](const std::string& path) {
      if (disturb && path == JoinPath(output, "a/x.image")) disturb();
    });
    return Unpack(files, *dataset_, output).status();
  }

  void ExpectElsewhereUntouched() {
    EXPECT_EQ(Describe(ReadTree(files_, Path("elsewhere"))), Describe({{"precious", "keep me"}}));
    EXPECT_EQ(ReadAll(files_, Path("elsewhere/precious")), "keep me");
  }

  FileSystem& files_ = *PosixFileSystem();
  std::string folder_;
  std::unique_ptr<DatasetReader> dataset_;
};

TEST_F(UnpackPlaces, AnOutputThatIsNoDirectory) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(symlink(Path("nothing").c_str(), Path("dangling").c_str()), 0);
  ASSERT_EQ(symlink("/dev/null", Path("null").c_str()), 0);
  for (const std::string& output : {std::string("/dev/null"), std::string("/dev/null/x"), Path("pipe"), Path("pipe/x"),
                                    Path("dangling"), Path("null"), Path("elsewhere/precious")}) {
    const absl::Status status = UnpackTo(output);
    EXPECT_FALSE(status.ok()) << output;
    EXPECT_TRUE(Message(status).starts_with("/")) << status;
  }
  EXPECT_FALSE(Exists(files_, Path("nothing")));
  ExpectElsewhereUntouched();
}

TEST_F(UnpackPlaces, WhatIsThereBeforeIsRefused) {
  ASSERT_TRUE(files_.CreateDirectory(Path("out")).ok());
  ASSERT_EQ(symlink(Path("elsewhere").c_str(), Path("out/b").c_str()), 0);
  EXPECT_TRUE(absl::IsAlreadyExists(UnpackTo(Path("out"))));
  EXPECT_TRUE(Exists(files_, Path("out/b")));
  ExpectElsewhereUntouched();
}

TEST_F(UnpackPlaces, ALinkToAnEmptyDirectoryIsTheOutput) {
  ASSERT_TRUE(files_.CreateDirectory(Path("real")).ok());
  ASSERT_EQ(symlink(Path("real").c_str(), Path("out").c_str()), 0);
  // After a failure both are unchanged.
  EXPECT_FALSE(UnpackTo(Path("out"), [&] { ASSERT_EQ(mkfifo(Path("out/b").c_str(), 0600), 0); }).ok());
  EXPECT_EQ(files_.Stat(Path("out"), false)->type, FileType::kSymbolicLink);
  EXPECT_EQ(Describe(ReadTree(files_, Path("real"))), "");
  ASSERT_TRUE(UnpackTo(Path("out")).ok());
  EXPECT_EQ(ReadAll(files_, Path("real/c/d/x.image")), "c/d/x");
}

TEST_F(UnpackPlaces, ALinkMadeMeanwhileIsNotFollowed) {
  for (const std::string name : {"b", "c", "e.image"}) {
    for (const std::string target : {"elsewhere", "elsewhere/precious", "nothing"}) {
      const absl::Status status =
          UnpackTo(Path("out"), [&] { ASSERT_EQ(symlink(Path(target).c_str(), Path("out/" + name).c_str()), 0); });
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_TRUE(Message(status).starts_with(Path("out/" + name) + ": ")) << status;
      EXPECT_FALSE(Exists(files_, Path("out")));
      EXPECT_FALSE(Exists(files_, Path("nothing")));
      ExpectElsewhereUntouched();
    }
  }
}

TEST_F(UnpackPlaces, APipeMadeMeanwhileIsNotWaitedFor) {
  for (const std::string name : {"b", "e.image"}) {
    const absl::Status status = UnpackTo(Path("out"), [&] { ASSERT_EQ(mkfifo(Path("out/" + name).c_str(), 0600), 0); });
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_FALSE(Exists(files_, Path("out")));
  }
}

}  // namespace
}  // namespace shardkit::test
