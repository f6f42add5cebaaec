// Inputs that change between an interrupted run and the one that resumes it.
#include <atomic>
#include <functional>

#include "base/strings.h"
#include "shardkit/copy.h"
#include "shardkit/filesystem.h"
#include "shardkit/pack.h"
#include "shardkit/shard.h"
#include "unit/operations/pack/convert_support.h"

namespace shardkit {
namespace {

using test::Message;
using test::ReadTree;
using test::Tree;
using test::WriteFile;
using test::WriteTree;

// Refuses to create the shard after the first `shards`.
class NoShardsAfter final : public ForwardingFileSystem {
 public:
  NoShardsAfter(FileSystem& base, uint64_t shards) : ForwardingFileSystem(base), shards_(shards) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (path.ends_with(".shard.tmp") && created_.fetch_add(1) >= shards_) return absl::InternalError("no more shards");
    return ForwardingFileSystem::Create(path);
  }

 private:
  const uint64_t shards_;
  std::atomic<uint64_t> created_ = 0;
};

std::vector<std::string> KeysOf(FileSystem& files, const std::string& path) {
  std::vector<std::string> keys;
  const auto shard = ShardReader::Open(files, path);
  EXPECT_TRUE(shard.ok()) << shard.status();
  if (!shard.ok()) return keys;
  const size_t column = *(*shard)->schema().key_column();
  for (uint64_t i = 0; i < (*shard)->sample_count(); ++i) {
    BlockBuffer buffer;
    keys.emplace_back(**(*shard)->ReadValue(i, column, &buffer));
  }
  return keys;
}

class ChangedInputTest : public testing::Test {
 protected:
  // 24 samples of two files each: shards of 5. Every eighth image is none.
  void WriteInput() {
    Tree tree;
    for (int i = 0; i < 24; ++i) {
      const std::string key = StrCat("d/k", 100 + i);
      tree[key + ".png"] = i % 8 == 3 ? "no picture" : std::string(test::kPngBytes);
      tree[key + ".txt"] = std::string(static_cast<size_t>(10 + i), 'a');
    }
    WriteTree(*files_, "/in", tree);
  }

  absl::StatusOr<PackReport> Run(FileSystem& output, const std::vector<std::string>& inputs = {"/in"},
                                 const std::string& directory = "/out") {
    SourceOptions source_options;
    source_options.file_system = files_.get();
    source_options.skip_errors = true;
    auto source = OpenSource(kind_, inputs, source_options);
    if (!source.ok()) return source.status();
    PackOptions options;
    options.dataset.shard_samples = 5;
    options.dataset.threads = 2;
    options.dataset.resume = options.keep_on_cancel = options.skip_errors = true;
    return Pack(output, **source, directory, options);
  }

  // Leaves `shards` finished shards.
  void Interrupt(uint64_t shards, const std::vector<std::string>& inputs = {"/in"}) {
    ASSERT_TRUE(RemoveTree(*files_, "/out").ok());
    NoShardsAfter output(*files_, shards);
    const auto report = Run(output, inputs);
    ASSERT_TRUE(absl::IsInternal(report.status())) << report.status();
    uint64_t finished = 0;
    for (const auto& [name, bytes] : ReadTree(*files_, "/out")) finished += name.ends_with(".shard");
    ASSERT_EQ(finished, shards);
  }

  void ExpectRefused(const std::string& words, const std::vector<std::string>& inputs = {"/in"}) {
    const Tree before = ReadTree(*files_, "/out");
    const absl::Status status = Run(*files_, inputs).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_NE(Message(status).find(words), std::string::npos) << status;
    EXPECT_EQ(ReadTree(*files_, "/out").count("00000000.shard"), before.count("00000000.shard"));
  }

  void ExpectAsFromTheStart(const std::vector<std::string>& inputs = {"/in"}) {
    const auto resumed = Run(*files_, inputs);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    ASSERT_TRUE(RemoveTree(*files_, "/whole").ok());
    ASSERT_TRUE(Run(*files_, inputs, "/whole").ok());
    EXPECT_TRUE(ReadTree(*files_, "/out") == ReadTree(*files_, "/whole"));
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::string kind_ = "files";
};

TEST_F(ChangedInputTest, AFileThatIsGoneFromAFinishedShardIsNamed) {
  WriteInput();
  Interrupt(3);
  const std::string png = test::ReadAll(*files_, "/in/d/k107.png"), txt = test::ReadAll(*files_, "/in/d/k107.txt");
  ASSERT_TRUE(files_->RemoveFile("/in/d/k107.png").ok());
  ExpectRefused("files of the samples that 00000001.shard has, \"d/k105\" to \"d/k109\", have other sizes or endings");
  ASSERT_TRUE(files_->RemoveFile("/in/d/k107.txt").ok());
  ExpectRefused("\"d/k107\", which 00000001.shard has, is not in its place any more");
  WriteFile(*files_, "/in/d/k107.png", png);
  WriteFile(*files_, "/in/d/k107.txt", txt);
  ExpectAsFromTheStart();
}

TEST_F(ChangedInputTest, SoAreSamplesThatWereSkipped) {
  WriteInput();
  Interrupt(3);
  for (const char* const key : {"k103", "k111", "k119"}) {
    ASSERT_TRUE(files_->RemoveFile(StrCat("/in/d/", key, ".png")).ok());
    ASSERT_TRUE(files_->RemoveFile(StrCat("/in/d/", key, ".txt")).ok());
  }
  ExpectRefused("\"d/k103.png\", which 00000000.shard has, is not in its place any more");
}

TEST_F(ChangedInputTest, AFileInFrontIsNamed) {
  WriteInput();
  Interrupt(2);
  WriteFile(*files_, "/in/d/k0.txt", "new");
  ExpectRefused("\"d/k0.txt\" is new");
}

TEST_F(ChangedInputTest, AnInputThatEndsBeforeIsRefused) {
  WriteInput();
  Interrupt(3);
  for (int i = 12; i < 24; ++i) {
    ASSERT_TRUE(files_->RemoveFile(StrCat("/in/d/k", 100 + i, ".png")).ok());
    ASSERT_TRUE(files_->RemoveFile(StrCat("/in/d/k", 100 + i, ".txt")).ok());
  }
  ExpectRefused("\"d/k112\", which 00000002.shard has, is not in its place any more");
}

TEST_F(ChangedInputTest, AFileOfAnotherSizeIsRefused) {
  WriteInput();
  Interrupt(1);
  WriteFile(*files_, "/in/d/k104.txt", "other");
  ExpectRefused("have other sizes or endings");
}

TEST_F(ChangedInputTest, WhatChangesBehindFinishedShardsIsPackedAsItIs) {
  WriteInput();
  Interrupt(2);
  ASSERT_TRUE(files_->RemoveFile("/in/d/k112.txt").ok());
  WriteFile(*files_, "/in/d/k1125.txt", "new");
  WriteFile(*files_, "/in/d/k122.txt", "other");
  ExpectAsFromTheStart();
}

TEST_F(ChangedInputTest, AFinishedDatasetSaysThatTheInputHasChanged) {
  WriteInput();
  ASSERT_TRUE(Run(*files_).ok());
  ASSERT_TRUE(Run(*files_).ok());
  WriteFile(*files_, "/in/d/z.txt", "new");
  ExpectRefused("is finished, and its input has changed since");
  ASSERT_TRUE(files_->RemoveFile("/in/d/z.txt").ok());
  ASSERT_TRUE(Run(*files_).ok());
  std::string record = test::ReadAll(*files_, "/out/.shardkit/job.json");
  char& digit = record[record.find_last_of("0123456789")];
  digit = digit == '1' ? '2' : '1';
  WriteFile(*files_, "/out/.shardkit/job.json", record);
  ExpectRefused("is finished, and its input has changed since");
}

TEST_F(ChangedInputTest, TarsAreComparedByTheirMembers) {
  for (const std::string kind : {"files", "sa1b"}) {
    kind_ = kind;
    const auto tar = [](int first) {
      std::vector<test::TarItem> items;
      for (int i = 0; i < 24; ++i) {
        const std::string key = StrCat("sa_", 100 + (i == 3 ? first : i));
        items.push_back({key + ".jpg", std::string(test::kJpegBytes)});
        items.push_back({key + ".json", "{\"a\": 1}"});
      }
      return test::MakeTar(items);
    };
    WriteFile(*files_, "/in.tar", tar(3));
    if (kind == "sa1b") {
      // Every sample fails, so that nothing is stored but the order of the input.
      ASSERT_TRUE(RemoveTree(*files_, "/out").ok());
      ASSERT_TRUE(Run(*files_, {"/in.tar"}).ok());
      ASSERT_TRUE(Run(*files_, {"/in.tar"}).ok());
      WriteFile(*files_, "/in.tar", tar(3) + std::string(512, '\0'));
      ExpectRefused("is finished, and its input has changed since", {"/in.tar"});
      continue;
    }
    Interrupt(2, {"/in.tar"});
    WriteFile(*files_, "/in.tar", tar(50));
    ExpectRefused("\"sa_103\", which 00000000.shard has, is not in its place any more", {"/in.tar"});
    WriteFile(*files_, "/in.tar", tar(3));
    ExpectAsFromTheStart({"/in.tar"});
  }
}

TEST_F(ChangedInputTest, ClassesAreMixedAlikeWhenARunIsResumed) {
  kind_ = "imagefolder";
  Tree tree;
  for (int i = 0; i < 60; ++i) tree[StrCat("c", i / 10, "/", 100 + i, ".jpg")] = test::kJpegBytes;
  WriteTree(*files_, "/in", tree);
  Interrupt(3);
  const auto shard = KeysOf(*files_, "/out/00000001.shard");
  const std::string gone = "/in/" + shard.at(2);
  ASSERT_TRUE(files_->RemoveFile(gone).ok());
  ExpectRefused(StrCat("\"", shard.at(2), "\", which 00000001.shard has, is not in its place any more"));
  WriteFile(*files_, gone, test::kJpegBytes);
  ExpectAsFromTheStart();
}

// Datasets are known by their shards.
TEST_F(ChangedInputTest, ADatasetThatChangedAfterItWasPlannedIsRefused) {
  WriteInput();
  ASSERT_TRUE(Run(*files_).ok());
  for (const Container to : {Container::kMds, Container::kWebDataset}) {
    SCOPED_TRACE(ContainerName(to));
    kind_ = ContainerName(to);
    ConvertOptions convert;
    convert.to = to;
    convert.lossy = true;
    ASSERT_TRUE(Convert(*files_, "/out", "/foreign", convert).ok());
    ASSERT_TRUE(Run(*files_, {"/foreign"}, "/again").ok());
    SourceOptions source_options;
    source_options.file_system = files_.get();
    ASSERT_TRUE(PlanPack(*files_, kind_, {"/foreign"}, source_options, "/tasks").ok());
    ASSERT_TRUE(RemoveTree(*files_, "/few").ok());
    ASSERT_TRUE(RemoveTree(*files_, "/foreign").ok());
    WriteFile(*files_, "/few/a.txt", "a");
    WriteFile(*files_, "/few/a.png", test::kPngBytes);
    ASSERT_TRUE(RemoveTree(*files_, "/less").ok());
    kind_ = "files";
    ASSERT_TRUE(Run(*files_, {"/few"}, "/less").ok());
    kind_ = ContainerName(to);
    ASSERT_TRUE(Convert(*files_, "/less", "/foreign", convert).ok());
    const absl::Status task = PackTask(*files_, "/tasks").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(task)) << task;
    EXPECT_NE(Message(task).find("/foreign: has changed since it was planned"), std::string::npos) << task;
    const absl::Status again = Run(*files_, {"/foreign"}, "/again").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
    for (const char* const path : {"/foreign", "/tasks", "/again"}) ASSERT_TRUE(RemoveTree(*files_, path).ok());
  }
}

// The record of a dataset that tasks made is that of one that was packed at once.
TEST_F(ChangedInputTest, WhatTasksHaveMadeKnowsItsInput) {
  WriteInput();
  SourceOptions source_options;
  source_options.file_system = files_.get();
  source_options.skip_errors = true;
  PackOptions options;
  options.dataset.shard_samples = 5;
  options.skip_errors = true;
  ASSERT_TRUE(PlanPack(*files_, "files", {"/in"}, source_options, "/out", options).ok());
  ASSERT_TRUE(PackTask(*files_, "/out").ok());
  ASSERT_TRUE(FinishPack(*files_, "/out").ok());
  ASSERT_TRUE(Run(*files_).ok());
  ASSERT_TRUE(files_->RemoveFile("/in/d/k100.txt").ok());
  ExpectRefused("is finished, and its input has changed since");
}

}  // namespace
}  // namespace shardkit
