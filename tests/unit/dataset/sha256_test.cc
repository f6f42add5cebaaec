// The SHA-256 of whole shards, which a manifest may list: how writers make it, and what validation and making a
// manifest again do about a shard that has another one.
#include <thread>

#include "base/named_hash.h"
#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "shardkit/copy.h"
#include "shardkit/repair.h"

namespace shardkit::test {
namespace {

constexpr size_t kSamples = 30;

class Sha256Test : public testing::Test {
 protected:
  void SetUp() override {
    if (!NamedHash::Create("sha256").ok()) GTEST_SKIP() << "no OpenSSL";
  }

  static DatasetWriterOptions Options(const std::string& note = "1") {
    DatasetWriterOptions options = SmallShards(10, 4);
    options.sha256 = true;
    options.shard.metadata = {{"note", note}};
    return options;
  }

  // Three shards. Their metadata are not in the manifest, which may have fewer than they have.
  void Write(const std::string& directory, const DatasetWriterOptions& options = Options()) {
    const auto summary = WriteDataset(*files_, directory, MakeSamples(kSamples), options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    Manifest manifest = summary->manifest;
    manifest.metadata.clear();
    WriteManifest(directory, manifest);
  }
  void WriteManifest(const std::string& directory, const Manifest& manifest) {
    WriteFile(*files_, directory + "/dataset.json", FormatManifest(manifest));
  }
  Manifest Listed(const std::string& directory) {
    const auto manifest = ReadManifest(*files_, directory);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }
  std::string HashOf(const std::string& path) { return *HexDigestOf("sha256", ReadAll(*files_, path)); }

  void ExpectListed(const std::string& directory, const Manifest& manifest) {
    for (const ManifestShard& shard : manifest.shards) {
      ASSERT_TRUE(shard.sha256.has_value()) << shard.name;
      EXPECT_EQ(ToHex(*shard.sha256), HashOf(JoinPath(directory, shard.name)));
    }
  }

  // Replaces a shard by one of the same samples with other metadata. These are not part of the content hash, and every
  // length stays, so all else that the manifest and the index say of the shard is still true.
  void Exchange(const std::string& shard) {
    Write("/other", Options("2"));
    const std::string bytes = ReadAll(*files_, "/other/" + shard);
    ASSERT_EQ(bytes.size(), ReadAll(*files_, "/data/" + shard).size());
    ASSERT_NE(bytes, ReadAll(*files_, "/data/" + shard));
    WriteFile(*files_, "/data/" + shard, bytes);
  }

  std::vector<std::string> Problems(const ValidateOptions& options = {}) {
    const auto report = Validate(*files_, "/data", options);
    EXPECT_TRUE(report.ok()) << report.status();
    std::vector<std::string> messages;
    for (const Problem& problem : report->problems) messages.push_back(problem.message);
    return messages;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(Sha256Test, IsThatOfTheFileForAnyNumberOfThreads) {
  for (const int threads : {1, 4}) {
    DatasetWriterOptions options = Options();
    options.threads = threads;
    const std::string directory = "/data" + std::to_string(threads);
    const auto summary = WriteDataset(*files_, directory, MakeSamples(kSamples), options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    ASSERT_EQ(summary->manifest.shards.size(), 3u);
    ExpectListed(directory, summary->manifest);
    EXPECT_EQ(Listed(directory).shards, summary->manifest.shards);
    EXPECT_EQ(ValidateText(*files_, directory), "");
  }
  EXPECT_EQ(ReadTree(*files_, "/data1"), ReadTree(*files_, "/data4"));
  // Apart from manifest and list, the files are those without it.
  DatasetWriterOptions without = Options();
  without.sha256 = false;
  ASSERT_TRUE(WriteDataset(*files_, "/without", MakeSamples(kSamples), without).ok());
  Tree with = ReadDataset(*files_, "/data1"), plain = ReadDataset(*files_, "/without");
  EXPECT_EQ(with.at("dataset.json").find("sha256") == std::string::npos, false);
  EXPECT_EQ(plain.at("dataset.json").find("sha256"), std::string::npos);
  for (const char* const name : {"dataset.json", "dataset.segment"}) {
    with.erase(name);
    plain.erase(name);
  }
  EXPECT_EQ(with, plain);
}

// Such a value is read twice, and hashed as it is written.
TEST_F(Sha256Test, OfAShardWithAValueThatIsAFile) {
  const Column blob = {.name = "blob", .type = Type::kBytes, .nullable = true};
  WriteFile(*files_, "/value", std::string((5 << 20) + 3, 'v'));
  auto writer = DatasetWriter::Create(*files_, "/data", MakeSchema({KeyColumn(), blob}), Options());
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int i = 0; i < 4; ++i) {
    Sample sample;
    const std::string key = "k" + std::to_string(i);
    sample.key = key;
    Value value("inline");
    if (i == 1) value.file = *files_->OpenForReading("/value");
    sample.fields.push_back({&blob, value});
    ASSERT_TRUE((*writer)->Append(sample).ok());
  }
  const auto summary = (*writer)->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(summary->manifest.shards.size(), 1u);
  ExpectListed("/data", summary->manifest);
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
}

TEST_F(Sha256Test, OfAFinishedShardIsKeptWhenTheRunIsResumed) {
  const std::vector<OwnedSample> samples = MakeSamples(kSamples);
  Write("/undisturbed");
  DatasetWriterOptions options = Options();
  options.shard.storage["image"] = Storage::kBlob;
  auto writer = DatasetWriter::Create(*files_, "/data",
                                      MakeSchema({KeyColumn(), ImageColumn(), LabelColumn(), TextColumn()}), options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (size_t i = 0; i < 25; ++i) ASSERT_TRUE((*writer)->Append(samples[i].View()).ok());
  ASSERT_TRUE((*writer)->Suspend().ok());
  ASSERT_TRUE(Exists(*files_, "/data/00000000.shard"));
  // Damage that comes while nothing runs must not be taken for what was written.
  std::string bytes = ReadAll(*files_, "/data/00000000.shard");
  bytes[bytes.find("\xff\xd8\xff")] ^= 1;
  WriteFile(*files_, "/data/00000000.shard", bytes);
  options.resume = true;
  writer = DatasetWriter::Create(*files_, "/data", (*writer)->schema(), options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_GE((*writer)->resume_position(), 10u);
  for (size_t i = (*writer)->resume_position(); i < samples.size(); ++i) {
    ASSERT_TRUE((*writer)->Append(samples[i].View()).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(Listed("/data").shards, Listed("/undisturbed").shards);
  const std::vector<std::string> problems = Problems();
  ASSERT_GE(problems.size(), 2u);
  EXPECT_TRUE(problems.back().starts_with("/data/00000000.shard: sha256 is " + HashOf("/data/00000000.shard")))
      << problems.back();
}

TEST_F(Sha256Test, ValidationFindsAnExchangedShard) {
  Write("/data");
  EXPECT_EQ(Problems(), std::vector<std::string>{});
  const std::string listed = HashOf("/data/00000001.shard");
  Exchange("00000001.shard");
  const std::vector<std::string> wanted = {
      StrCat("/data/00000001.shard: sha256 is ", HashOf("/data/00000001.shard"), ", but dataset.json lists ", listed,
             ": the content differs although every XXH3 checksum fits: not the file that was published")};
  for (const int threads : {1, 2, 5}) {
    ValidateOptions options;
    options.threads = threads;
    EXPECT_EQ(Problems(options), wanted);
  }
  EXPECT_EQ(ScanRows(*files_, "/data"), RowsOf(MakeSamples(kSamples)));  // reading does not compare it
  // Without a listed hash nothing tells.
  Manifest manifest = Listed("/data");
  manifest.shards[1].sha256.reset();
  WriteManifest("/data", manifest);
  EXPECT_EQ(Problems(), std::vector<std::string>{"/data/dataset.segment: list of shards: shard 1 is not the one that "
                                                 "dataset.json lists; run shardctl index /data to make it again"});
}

TEST_F(Sha256Test, ValidationReportsItWithTheOtherProblemsOfItsShard) {
  Write("/data");
  ASSERT_TRUE(files_->RemoveFile("/data/00000000.shard").ok());
  std::string bytes = ReadAll(*files_, "/data/00000001.shard");
  bytes[bytes.find("\xff\xd8\xff")] ^= 1;
  WriteFile(*files_, "/data/00000001.shard", bytes);
  WriteFile(*files_, "/data/00000002.shard", ReadAll(*files_, "/data/00000002.shard").substr(0, 500));
  ValidateOptions options;
  options.threads = 3;
  const auto report = Validate(*files_, "/data", options);
  ASSERT_TRUE(report.ok()) << report.status();
  std::vector<std::string> paths, hashes;
  for (const Problem& problem : report->problems) {
    if (paths.empty() || paths.back() != problem.path) paths.push_back(problem.path);
    if (problem.message.find("sha256") != std::string::npos) hashes.push_back(problem.message);
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"/data/00000000.shard", "/data/00000001.shard", "/data/00000002.shard"}));
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(hashes[0].find("not the file"), std::string::npos) << hashes[0];
  EXPECT_TRUE(hashes[1].starts_with("/data/00000002.shard: sha256")) << hashes[1];
}

TEST_F(Sha256Test, ACancelledValidationDoesNotWaitForHashes) {
  Write("/data");
  Cancellation cancellation;
  cancellation.Cancel();
  ValidateOptions options;
  options.cancellation = &cancellation;
  EXPECT_TRUE(absl::IsCancelled(Validate(*files_, "/data", options).status()));
}

TEST_F(Sha256Test, RebuildingKeepsItForTheShardsThatHaveIt) {
  ASSERT_TRUE(WriteDataset(*files_, "/data", MakeSamples(kSamples), Options()).ok());
  const Tree expected = ReadTree(*files_, "/data");
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  EXPECT_EQ(ReadTree(*files_, "/data"), expected);

  Manifest manifest = Listed("/data");
  manifest.shards[0].sha256.reset();
  WriteManifest("/data", manifest);
  auto rebuilt = RebuildIndex(*files_, "/data");
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
  EXPECT_EQ(rebuilt->shards, manifest.shards);

  const std::string before = ReadAll(*files_, "/data/dataset.json");
  Exchange("00000002.shard");
  const absl::Status refused = RebuildIndex(*files_, "/data").status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_TRUE(Message(refused).starts_with("/data/00000002.shard: sha256 is " + HashOf("/data/00000002.shard")));
  EXPECT_NE(Message(refused).find("remove dataset.json first"), std::string::npos) << refused;
  EXPECT_EQ(ReadAll(*files_, "/data/dataset.json"), before);
  EXPECT_FALSE(Exists(*files_, "/data/dataset.segment.tmp"));

  // Where none is listed, any shard is taken.
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.json").ok());
  rebuilt = RebuildIndex(*files_, "/data");
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
  for (const ManifestShard& shard : rebuilt->shards) EXPECT_FALSE(shard.sha256.has_value());
}

TEST_F(Sha256Test, MergingKeepsThatOfEachPart) {
  Write("/data");
  const std::vector<OwnedSample> all = MakeSamples(2 * kSamples);
  DatasetWriterOptions without = Options();
  without.sha256 = false;
  ASSERT_TRUE(WriteDataset(*files_, "/plain", {all.begin() + kSamples, all.end()}, without).ok());
  const auto merged = MergeDatasets(*files_, {"/plain", "/data"}, "/merged");
  ASSERT_TRUE(merged.ok()) << merged.status();
  ASSERT_EQ(merged->shards.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(merged->shards[i].sha256.has_value());
    EXPECT_EQ(merged->shards[3 + i].sha256, Listed("/data").shards[i].sha256);
  }
  EXPECT_EQ(ValidateText(*files_, "/merged"), "");
}

TEST_F(Sha256Test, ARepairedDatasetListsNone) {
  Write("/data");
  const auto report = RepairDataset(*files_, "/data", "/out");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_NE(report->notes[0].find("sha256"), std::string::npos) << report->notes[0];
  for (const ManifestShard& shard : Listed("/out").shards) EXPECT_FALSE(shard.sha256.has_value());
  EXPECT_TRUE(RepairDataset(*files_, "/out", "/again")->notes.empty());
}

TEST_F(Sha256Test, OtherContainersHaveNoPlaceForIt) {
  Write("/data");
  for (const Container container : {Container::kMds, Container::kWebDataset}) {
    ConvertOptions options;
    options.to = container;
    options.lossy = true;
    options.pack.dataset.sha256 = true;
    for (const absl::Status& status :
         {Convert(*files_, "/data", "/out", options).status(), DryRunConvert(*files_, "/data", options).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_EQ(Message(status).find("--hash sha256") != std::string::npos, container == Container::kMds);
    }
    EXPECT_FALSE(Exists(*files_, "/out"));
  }
  ConvertOptions options;
  options.pack.dataset.sha256 = true;
  ASSERT_TRUE(Convert(*files_, "/data", "/out", options).ok());
  ExpectListed("/out", Listed("/out"));
}

}  // namespace
}  // namespace shardkit::test
