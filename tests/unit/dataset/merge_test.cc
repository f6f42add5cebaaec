// Rebuilding manifest and index, and merging datasets.
#include "base/hash.h"
#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "shardkit/forwarding_filesystem.h"
#include "support/fault_filesystem.h"

namespace shardkit::test {
namespace {

class MergeTest : public testing::Test {
 protected:
  // Two parts whose shards are those of the whole.
  void WriteParts() {
    const std::vector<OwnedSample> first(samples_.begin(), samples_.begin() + 36);
    const std::vector<OwnedSample> second(samples_.begin() + 36, samples_.end());
    ASSERT_TRUE(WriteDataset(*files_, "/0", first, SmallShards(9, 4)).ok());
    ASSERT_TRUE(WriteDataset(*files_, "/1", second, SmallShards(9, 4)).ok());
    ASSERT_TRUE(WriteDataset(*files_, "/whole", samples_, SmallShards(9, 4)).ok());
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  const std::vector<OwnedSample> samples_ = MakeSamples(80);
};

TEST_F(MergeTest, EqualsWhatIsPackedAtOnce) {
  WriteParts();
  const auto merged = MergeDatasets(*files_, {"/0", "/1"}, "/merged");
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(ReadTree(*files_, "/merged") == ReadDataset(*files_, "/whole")) << Describe(ReadTree(*files_, "/merged"));
  EXPECT_EQ(files_->Stat("/merged/00000005.shard")->inode, files_->Stat("/1/00000001.shard")->inode);
  EXPECT_EQ(ValidateText(*files_, "/merged"), "");
}

// Links fail as they do between file systems.
class NoLinks final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  absl::Status Link(const std::string& from, const std::string&) override {
    return absl::FailedPreconditionError(from + ": cannot link: other device");
  }
};

TEST_F(MergeTest, CopiesWhereLinksDoNotWork) {
  WriteParts();
  NoLinks files(*files_);
  const auto merged = MergeDatasets(files, {"/0", "/1"}, "/merged");
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(ReadTree(*files_, "/merged") == ReadDataset(*files_, "/whole"));
  EXPECT_NE(files_->Stat("/merged/00000005.shard")->inode, files_->Stat("/1/00000001.shard")->inode);
}

TEST_F(MergeTest, SchemasAreWidened) {
  auto writer = DatasetWriter::Create(*files_, "/a", MakeSchema({KeyColumn(), ImageColumn()}));
  ASSERT_TRUE((*writer)->Append(OwnedSample{"1", {{&ImageColumn(), "i"}}}.View(), 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const Column image = {.name = "image", .type = Type::kPng, .nullable = true};
  writer = DatasetWriter::Create(*files_, "/b", MakeSchema({KeyColumn(), TextColumn(), image}));
  ASSERT_TRUE((*writer)->Append(OwnedSample{"2", {{&TextColumn(), "t"}, {&image, "p"}}}.View(), 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto merged = MergeDatasets(*files_, {"/a", "/b"}, "/merged");
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->schema[1].type, Type::kImage);
  EXPECT_EQ(ScanRows(*files_, "/merged"),
            (std::vector<Row>{{{"key", "1"}, {"image", "i"}}, {{"key", "2"}, {"image", "p"}, {"text", "t"}}}));
  EXPECT_EQ(ValidateText(*files_, "/merged"), "");
}

TEST_F(MergeTest, RefusesWhatDoesNotFitAndLeavesNothing) {
  WriteParts();
  EXPECT_TRUE(absl::IsInvalidArgument(MergeDatasets(*files_, {}, "/merged").status()));
  EXPECT_TRUE(absl::IsNotFound(MergeDatasets(*files_, {"/0", "/no"}, "/merged").status()));
  EXPECT_TRUE(absl::IsAlreadyExists(MergeDatasets(*files_, {"/0", "/1"}, "/0").status()));
  DatasetWriterOptions options;
  options.codecs = {{"image", Codec::kZstd}};
  ASSERT_TRUE(WriteDataset(*files_, "/zstd", samples_, options).ok());
  const absl::Status codecs = MergeDatasets(*files_, {"/0", "/zstd"}, "/merged").status();
  EXPECT_TRUE(absl::IsInvalidArgument(codecs)) << codecs;
  EXPECT_FALSE(Exists(*files_, "/merged"));
  WriteFile(*files_, "/1/00000001.shard", ReadAll(*files_, "/1/00000002.shard"));
  const absl::Status swapped = MergeDatasets(*files_, {"/0", "/1"}, "/merged").status();
  EXPECT_TRUE(absl::IsDataLoss(swapped)) << swapped;
  Cancellation cancellation;
  cancellation.Cancel();
  EXPECT_TRUE(absl::IsCancelled(MergeDatasets(*files_, {"/0"}, "/merged", &cancellation).status()));
  EXPECT_FALSE(Exists(*files_, "/merged"));
}

TEST_F(MergeTest, DatasetsWithoutSamplesMerge) {
  ASSERT_TRUE(WriteDataset(*files_, "/a", {}).ok());
  ASSERT_TRUE(WriteDataset(*files_, "/b", {}).ok());
  const auto merged = MergeDatasets(*files_, {"/a", "/b"}, "/merged");
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->schema.size(), 4u);
  EXPECT_EQ(ValidateText(*files_, "/merged"), "");
}

TEST_F(MergeTest, ShardsThatAreEqualAreNamed) {
  WriteParts();
  const auto refused = [&](const std::vector<std::string>& parts, const std::string& first, const std::string& second) {
    const absl::Status status = MergeDatasets(*files_, parts, "/merged").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Message(status).find(second + ": holds the same samples as " + first), std::string::npos) << status;
    EXPECT_FALSE(Exists(*files_, "/merged"));
  };
  refused({"/0", "/0"}, "/0/00000000.shard", "/0/00000000.shard");
  refused({"/0", "/whole"}, "/0/00000000.shard", "/whole/00000000.shard");
  refused({"/1", "/whole"}, "/1/00000000.shard", "/whole/00000004.shard");
  // Within one part, equal shards existed before the merge.
  const std::vector<OwnedSample> same(20, OwnedSample{"", {{&LabelColumn(), std::string(4, 'x')}}});
  auto writer = DatasetWriter::Create(*files_, "/same", MakeSchema({LabelColumn()}), SmallShards(5, 5));
  for (const OwnedSample& sample : same) ASSERT_TRUE((*writer)->Append(sample.View(), 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  ASSERT_TRUE(MergeDatasets(*files_, {"/same"}, "/merged").ok());
}

TEST_F(MergeTest, RebuildGivesTheSameFilesFromTheShardsAlone) {
  DatasetWriterOptions options = SmallShards(9, 4);
  options.shard.metadata = {{"a", "b"}};
  ASSERT_TRUE(WriteDataset(*files_, "/whole", samples_, options).ok());
  const Tree expected = ReadTree(*files_, "/whole");
  const std::string manifest = expected.at("dataset.json");
  ASSERT_TRUE(files_->RemoveFile("/whole/dataset.idx").ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/whole").ok());
  EXPECT_TRUE(ReadTree(*files_, "/whole") == expected);
  ASSERT_TRUE(files_->RemoveFile("/whole/dataset.json").ok());
  WriteFile(*files_, "/whole/dataset.idx", "damaged");
  for (const std::string name :
       {"dataset.idx", "dataset.json", "dataset.keys", "dataset.keys.0", "dataset-12.keys.345"})
    WriteFile(*files_, StrCat("/whole/", name, ".tmp"), "left");
  ASSERT_TRUE(RebuildIndex(*files_, "/whole").ok());
  EXPECT_TRUE(ReadTree(*files_, "/whole") == expected) << Describe(ReadTree(*files_, "/whole"));
  WriteFile(*files_, "/whole/dataset.json", manifest.substr(0, manifest.size() / 2));
  ASSERT_TRUE(RebuildIndex(*files_, "/whole").ok());
  EXPECT_TRUE(ReadTree(*files_, "/whole") == expected);
}

TEST_F(MergeTest, RebuildKeepsTheOrderOfAReadableManifest) {
  WriteParts();
  auto manifest = ReadManifest(*files_, "/whole");
  std::swap(manifest->shards[0], manifest->shards[3]);
  WriteFile(*files_, "/whole/dataset.json", FormatManifest(*manifest));
  EXPECT_NE(ValidateText(*files_, "/whole"), "");  // the index has the old order
  const auto rebuilt = RebuildIndex(*files_, "/whole");
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
  EXPECT_EQ(rebuilt->shards, manifest->shards);
  EXPECT_EQ(ValidateText(*files_, "/whole"), "");
  EXPECT_EQ(ScanRows(*files_, "/whole")[0], RowOf(samples_[27]));

  // A manifest of a later version is not damaged, but this version cannot read it.
  std::string later = "{\n  \"format\": \"shardkit-dataset\",\n  \"version\": 2,\n";
  later += StrCat("  \"checksum\": \"", absl::Hex(Hash64(later), absl::kZeroPad16), "\"\n}\n");
  WriteFile(*files_, "/whole/dataset.json", later);
  EXPECT_TRUE(absl::IsUnimplemented(RebuildIndex(*files_, "/whole").status()));
}

TEST_F(MergeTest, RebuildTakesAnyShards) {
  WriteParts();
  ASSERT_TRUE(files_->CreateDirectory("/loose").ok());
  WriteFile(*files_, "/loose/b.shard", ReadAll(*files_, "/1/00000000.shard"));
  WriteFile(*files_, "/loose/a.shard", ReadAll(*files_, "/0/00000000.shard"));
  WriteFile(*files_, "/loose/readme.txt", "text");
  const auto rebuilt = RebuildIndex(*files_, "/loose");
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
  EXPECT_EQ(rebuilt->shards[0].name, "a.shard");
  EXPECT_EQ(ScanRows(*files_, "/loose").size(), 18u);
  EXPECT_EQ(ValidateText(*files_, "/loose"), "");
}

TEST_F(MergeTest, RebuildRefusesDamage) {
  WriteParts();
  const std::string bytes = ReadAll(*files_, "/whole/00000002.shard");
  WriteFile(*files_, "/whole/00000002.shard", bytes.substr(0, bytes.size() - 10));
  const absl::Status status = RebuildIndex(*files_, "/whole").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_FALSE(Exists(*files_, "/whole/dataset.idx.tmp"));
  // Nothing but the key index of a shard is damaged.
  std::string damaged = bytes;
  damaged[bytes.find("\x89TBL") + 8] ^= 1;
  WriteFile(*files_, "/whole/00000002.shard", damaged);
  const Tree before = ReadTree(*files_, "/whole");
  const absl::Status of_keys = RebuildIndex(*files_, "/whole").status();
  EXPECT_TRUE(absl::IsDataLoss(of_keys)) << of_keys;
  EXPECT_NE(of_keys.message().find("/whole/00000002.shard: key table at byte "), of_keys.message().npos) << of_keys;
  EXPECT_TRUE(ReadTree(*files_, "/whole") == before);
  ASSERT_TRUE(files_->CreateDirectory("/none").ok());
  EXPECT_TRUE(absl::IsNotFound(RebuildIndex(*files_, "/none").status()));
  EXPECT_TRUE(absl::IsNotFound(RebuildIndex(*files_, "/missing").status()));
}

}  // namespace
}  // namespace shardkit::test
