// Rebuilding manifest and index, and merging datasets.
#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "shardkit/copy.h"
#include "shardkit/filesystem.h"
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
  EXPECT_NE(Message(codecs).find("codec none here and zstd there; merge by copying (--copy) to store"),
            std::string::npos)
      << codecs;
  EXPECT_FALSE(Exists(*files_, "/merged"));
  WriteFile(*files_, "/1/00000001.shard", ReadAll(*files_, "/1/00000002.shard"));
  const absl::Status swapped = MergeDatasets(*files_, {"/0", "/1"}, "/merged").status();
  EXPECT_TRUE(absl::IsDataLoss(swapped)) << swapped;
  Cancellation cancellation;
  cancellation.Cancel();
  MergeOptions cancelled;
  cancelled.pack.dataset.cancellation = &cancellation;
  EXPECT_TRUE(absl::IsCancelled(MergeDatasets(*files_, {"/0"}, "/merged", cancelled).status()));
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

// Counts what is read of shards behind their headers and before their footers.
class CountsPayload final : public ForwardingFileSystem {
 public:
  explicit CountsPayload(FileSystem& base) : ForwardingFileSystem(base), plain_(base) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    auto file = plain_.OpenForReading(path, mode, size);
    if (!file.ok() || !path.ends_with(".shard")) return file;
    const auto shard = ShardReader::Open(plain_, path);
    EXPECT_TRUE(shard.ok()) << shard.status();
    const BlockInfo& last = (*shard)->blocks().back();
    return std::make_unique<File>(*std::move(file), (*shard)->blocks()[0].offset, last.offset + last.length, &bytes_);
  }

  uint64_t bytes() const { return bytes_; }

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<RandomAccessFile> base, uint64_t begin, uint64_t end, uint64_t* bytes)
        : ForwardingFile(std::move(base)), begin_(begin), end_(end), bytes_(bytes) {}
    absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
      const uint64_t from = std::max(offset, begin_), to = std::min(offset + buffer.size(), end_);
      if (from < to) *bytes_ += to - from;
      return ForwardingFile::ReadAt(offset, buffer);
    }
    absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
      for (const ReadRequest& request : requests) {
        if (absl::Status status = ReadAt(request.offset, request.buffer); !status.ok()) return status;
      }
      return absl::OkStatus();
    }
    std::optional<std::string_view> Mapped() const override { return std::nullopt; }

   private:
    const uint64_t begin_, end_;
    uint64_t* const bytes_;
  };

  FileSystem& plain_;
  uint64_t bytes_ = 0;
};

TEST_F(MergeTest, ReadsNoPayload) {
  std::vector<OwnedSample> samples = MakeSamples(40);
  for (OwnedSample& sample : samples) sample.fields = {{&ImageColumn(), "\xff\xd8\xff" + std::string(100000, 'x')}};
  for (size_t part = 0; part < 2; ++part) {
    const std::vector<OwnedSample> some(samples.begin() + 20 * part, samples.begin() + 20 * part + 20);
    ASSERT_TRUE(WriteDataset(*files_, StrCat("/", part), some, SmallShards(10, 5)).ok());
  }
  CountsPayload files(*files_);
  const auto merged = MergeDatasets(files, {"/0", "/1"}, "/merged");
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(files.bytes(), 0u);
  EXPECT_EQ(ValidateText(*files_, "/merged"), "");
  EXPECT_EQ(ScanRows(*files_, "/merged"), RowsOf(samples));
}

TEST_F(MergeTest, KeysOfSeveralDatasetsAreRefusedOrKept) {
  WriteParts();
  std::vector<OwnedSample> more(samples_.begin() + 30, samples_.begin() + 42);
  more.push_back({"new", {{&TextColumn(), "t"}}});
  more.push_back({"new", {{&TextColumn(), "u"}}});  // twice in one dataset
  ASSERT_TRUE(WriteDataset(*files_, "/more", more, SmallShards(5, 2)).ok());
  const Tree before = ReadTree(*files_, "/");
  for (const bool copy : {false, true}) {
    MergeOptions options;
    options.copy = copy;
    const absl::Status refused = MergeDatasets(*files_, {"/0", "/1", "/more"}, "/merged", options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    const std::string message = Message(refused);
    EXPECT_TRUE(message.starts_with("/more: key \"k")) << message;
    EXPECT_NE(message.find("; 12 samples have a key of an input before theirs: \"k"), std::string::npos) << message;
    EXPECT_NE(message.find("\", \"k"), std::string::npos) << message;
    EXPECT_TRUE(ReadTree(*files_, "/") == before);
    options.keep_repeated_keys = true;
    std::vector<Row> expected = RowsOf(samples_), added = RowsOf(more);
    expected.insert(expected.end(), added.begin(), added.end());
    const auto merged = MergeDatasets(*files_, {"/0", "/1", "/more"}, "/merged", options);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(ScanRows(*files_, "/merged"), expected);
    const auto dataset = DatasetReader::Open(*files_, "/merged");
    BlockBuffer buffer;
    EXPECT_EQ((*dataset)->FindKey(samples_[31].key, &buffer).value(), 31u);
    ASSERT_TRUE(RemoveTree(*files_, "/merged").ok());
  }
}

TEST_F(MergeTest, LostIndexesAndKeysAreMadeFromTheShards) {
  WriteParts();
  const Tree expected = ReadDataset(*files_, "/whole");
  const auto merged = [&] {
    const auto manifest = MergeDatasets(*files_, {"/0", "/1"}, "/merged");
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    const Tree tree = ReadTree(*files_, "/merged");
    EXPECT_TRUE(RemoveTree(*files_, "/merged").ok());
    return tree;
  };
  ASSERT_TRUE(files_->RemoveFile("/1/dataset.segment").ok());
  EXPECT_TRUE(merged() == expected);
  WriteFile(*files_, "/0/dataset.segment", "damaged");
  EXPECT_TRUE(merged() == expected);
}

TEST_F(MergeTest, CopiesAreConversions) {
  WriteParts();
  DatasetWriterOptions other = SmallShards(9, 4);
  other.codecs = {{"image", Codec::kZstd}, {"text", Codec::kNone}};
  const std::vector<OwnedSample> second(samples_.begin() + 36, samples_.end());
  ASSERT_TRUE(WriteDataset(*files_, "/other", second, other).ok());
  Tree expected;
  for (const int threads : {1, 2, 5}) {
    MergeOptions options;
    options.copy = true;
    options.pack.dataset.shard_size = 2000;
    options.pack.dataset.threads = threads;
    const auto merged = MergeDatasets(*files_, {"/0", "/other"}, "/merged", options);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_GT(merged->shards.size(), 2u);
    EXPECT_EQ(merged->schema, ReadManifest(*files_, "/0")->schema);
    EXPECT_EQ(ScanRows(*files_, "/merged"), RowsOf(samples_));
    EXPECT_EQ(ValidateText(*files_, "/merged"), "");
    if (expected.empty()) expected = ReadDataset(*files_, "/merged");
    EXPECT_TRUE(ReadDataset(*files_, "/merged") == expected);
    ASSERT_TRUE(RemoveTree(*files_, "/merged").ok());
  }
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
  ASSERT_TRUE(files_->RemoveFile("/whole/dataset.segment").ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/whole").ok());
  EXPECT_TRUE(ReadTree(*files_, "/whole") == expected);
  ASSERT_TRUE(files_->RemoveFile("/whole/dataset.json").ok());
  WriteFile(*files_, "/whole/dataset.segment", "damaged");
  for (const std::string name : {"dataset.segment", "dataset.json", "dataset.segment.0", "dataset-12.segment.345"})
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
  EXPECT_FALSE(Exists(*files_, "/whole/dataset.segment.tmp"));
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
