// Appending samples whose keys a dataset has already, and appending a source.
#include "base/strings.h"
#include "dataset/dataset_support.h"

namespace shardkit::test {
namespace {

class ExistingKeysTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteDataset(*files_, "/data", Samples(0, 20), SmallShards(9, 4)).ok()); }

  // Samples `begin` to `end` of those that all tests use.
  static std::vector<OwnedSample> Samples(size_t begin, size_t end) {
    static const std::vector<OwnedSample> all = MakeSamples(60);
    return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  absl::StatusOr<DatasetSummary> Append(ExistingKeys action, const std::vector<OwnedSample>& samples) {
    DatasetWriterOptions options = SmallShards(9, 4);
    options.append = true;
    options.existing_keys = action;
    return WriteDataset(*files_, "/data", samples, options);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(ExistingKeysTest, AreRefusedWithTheirNumberAndTheDatasetStays) {
  const Tree tree = ReadTree(*files_, "/data");
  const absl::Status many = Append(ExistingKeys::kRefuse, Samples(10, 40)).status();
  EXPECT_TRUE(absl::IsAlreadyExists(many)) << many;
  EXPECT_NE(Message(many).find("/data: has the keys of 10 samples already: \"" + Samples(10, 11)[0].key + "\""),
            std::string::npos)
      << many;
  EXPECT_NE(Message(many).find("\", …; nothing was appended"), std::string::npos) << many;
  const absl::Status one = Append(ExistingKeys::kRefuse, Samples(19, 40)).status();
  EXPECT_NE(Message(one).find("has the key of 1 sample already: \"" + Samples(19, 20)[0].key + "\"; nothing"),
            std::string::npos)
      << one;
  EXPECT_TRUE(ReadTree(*files_, "/data") == tree) << Describe(ReadTree(*files_, "/data"));
}

TEST_F(ExistingKeysTest, AreLeftOutAndCounted) {
  for (const size_t begin : {10, 30}) {  // the second time they are in two segments
    const auto summary = Append(ExistingKeys::kSkip, Samples(begin, begin + 20));
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->existing, begin == 10 ? 10u : 0u);
  }
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(Samples(0, 50)));
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
  const Tree tree = ReadTree(*files_, "/data");
  const auto nothing = Append(ExistingKeys::kSkip, Samples(5, 45));
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(nothing->existing, 40u);
  EXPECT_EQ(nothing->manifest.generation, 3u);
  EXPECT_TRUE(ReadTree(*files_, "/data") == tree) << Describe(ReadTree(*files_, "/data"));
}

TEST_F(ExistingKeysTest, AreFoundWhereTheSegmentIsLost) {
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Append(ExistingKeys::kRefuse, Samples(10, 11)).status()));
  EXPECT_TRUE(Append(ExistingKeys::kRefuse, Samples(20, 21)).ok());
}

TEST_F(ExistingKeysTest, WhatDoesNotFitNamesTheColumn) {
  const Tree tree = ReadTree(*files_, "/data");
  DatasetWriterOptions options = SmallShards(9, 4);
  options.append = true;
  const absl::Status type =
      DatasetWriter::Create(*files_, "/data", MakeSchema({KeyColumn(), {.name = "label", .type = Type::kF64}}), options)
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(type)) << type;
  EXPECT_NE(Message(type).find("column \"label\" has type i32 here and f64 there"), std::string::npos) << type;
  options.codecs["text"] = Codec::kNone;
  const absl::Status codec =
      DatasetWriter::Create(*files_, "/data", MakeSchema({KeyColumn(), TextColumn()}), options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(codec)) << codec;
  EXPECT_NE(Message(codec).find("column \"text\" has codec zstd there, and none was asked for"), std::string::npos);
  EXPECT_TRUE(ReadTree(*files_, "/data") == tree) << Describe(ReadTree(*files_, "/data"));
}

class AppendFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("first", 0, 25, "txt");
    PackOptions options;
    options.dataset = SmallShards(10, 4);
    ASSERT_TRUE(PackFiles(*files_, {"/first"}, "/data", options).ok());
  }

  void Write(const std::string& folder, int begin, int end, const std::string& column) {
    Tree tree;
    for (int i = begin; i < end; ++i) tree[StrCat(1000 + i, ".", column)] = StrCat("value ", i);
    WriteTree(*files_, "/" + folder, tree);
  }

  absl::StatusOr<PackReport> Append(const std::string& folder, int threads = 1,
                                    ExistingKeys action = ExistingKeys::kRefuse) {
    PackOptions options;
    options.dataset = SmallShards(10, 4);
    options.dataset.append = true;
    options.dataset.existing_keys = action;
    options.dataset.threads = threads;
    return PackFiles(*files_, {"/" + folder}, "/data", options);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(AppendFilesTest, ShardsGoOnBehindTheOthersWhateverTheThreads) {
  Write("second", 25, 60, "txt");
  const Tree before = ReadTree(*files_, "/");
  std::optional<Tree> expected;
  for (const int threads : {1, 2, 7}) {
    files_ = NewMemoryFileSystem();
    WriteTree(*files_, "/", before);
    const auto report = Append("second", threads);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->samples, 35u);
    EXPECT_EQ(report->manifest.generation, 2u);
    EXPECT_EQ(report->manifest.sample_count, 60u);
    EXPECT_EQ(report->manifest.shards[3].name, "00000003.shard");
    EXPECT_EQ(report->manifest.shards.size(), 7u);
    EXPECT_EQ(ValidateText(*files_, "/data", /*deep=*/true), "");
    if (!expected) expected = ReadTree(*files_, "/data");
    EXPECT_TRUE(ReadTree(*files_, "/data") == *expected) << threads;
  }
}

TEST_F(AppendFilesTest, NewColumnsComeAndSamplesThatAreThereAreLeftOut) {
  Write("second", 20, 40, "cls");
  EXPECT_TRUE(absl::IsAlreadyExists(Append("second").status()));
  const auto report = Append("second", 2, ExistingKeys::kSkip);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples, 15u);
  EXPECT_EQ(report->existing, 5u);
  EXPECT_EQ(report->manifest.sample_count, 40u);
  EXPECT_TRUE(report->manifest.schema.Find("cls").has_value());
  EXPECT_EQ(ValidateText(*files_, "/data", /*deep=*/true), "");
}

TEST_F(AppendFilesTest, AKeyThatStandsTwiceInTheInputIsRefused) {
  Write("second", 25, 40, "txt");
  Write("third", 39, 45, "txt");
  const Tree tree = ReadTree(*files_, "/data");
  PackOptions options;
  options.dataset = SmallShards(10, 4);
  options.dataset.append = true;
  const absl::Status refused = PackFiles(*files_, {"/second", "/third"}, "/data", options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_NE(Message(refused).find("the key \"1039\" occurs twice"), std::string::npos) << refused;
  EXPECT_TRUE(ReadTree(*files_, "/data") == tree) << Describe(ReadTree(*files_, "/data"));
}

TEST_F(AppendFilesTest, TasksDoNotAppend) {
  PackOptions options;
  options.dataset.append = true;
  EXPECT_TRUE(absl::IsInvalidArgument(PlanPack(*files_, "files", {"/first"}, {}, "/data", options).status()));
}

}  // namespace
}  // namespace shardkit::test
