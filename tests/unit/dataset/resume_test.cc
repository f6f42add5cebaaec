// Interrupted writers, and how a later writer continues from their leftovers.
#include "base/named_hash.h"
#include "dataset/dataset_support.h"

namespace shardkit::test {
namespace {

class ResumeTest : public testing::Test {
 protected:
  static DatasetWriterOptions Options(bool resume) {
    DatasetWriterOptions options = SmallShards(10, 4);
    options.resume = resume;
    options.job = "job";
    return options;
  }
  static Schema TestSchema() { return MakeSchema({KeyColumn(), ImageColumn(), LabelColumn(), TextColumn()}); }

  std::unique_ptr<DatasetWriter> Create(const DatasetWriterOptions& options) {
    auto writer = DatasetWriter::Create(*files_, "/data", TestSchema(), options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return writer.ok() ? *std::move(writer) : nullptr;
  }
  void Append(DatasetWriter& writer, uint64_t end) {
    for (uint64_t i = writer.resume_position(); i < end; ++i) {
      const absl::Status status = writer.Append(samples_[i].View(), i + 1);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  Tree Undisturbed() {
    auto other = NewMemoryFileSystem();
    auto writer = DatasetWriter::Create(*other, "/data", TestSchema(), Options(false));
    EXPECT_TRUE(writer.ok());
    Append(**writer, samples_.size());
    EXPECT_TRUE((*writer)->Finish().ok());
    return ReadTree(*other, "/data");
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::vector<OwnedSample> samples_ = MakeSamples(64);
};

TEST_F(ResumeTest, GivesTheSameBytesWhereverItWasSuspended) {
  const Tree expected = Undisturbed();
  for (uint64_t stop = 0; stop <= samples_.size(); stop += 5) {
    ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
    auto writer = Create(Options(true));  // a fresh run may ask for it, too
    EXPECT_EQ(writer->resume_position(), 0u);
    Append(*writer, stop);
    EXPECT_TRUE(writer->Suspend().ok());
    writer.reset();
    EXPECT_FALSE(Exists(*files_, "/data/dataset.json"));
    EXPECT_TRUE(absl::IsFailedPrecondition(RebuildIndex(*files_, "/data").status()));

    writer = Create(Options(true));
    EXPECT_LE(writer->resume_position(), stop);
    EXPECT_GE(writer->resume_position() + 24, stop);
    EXPECT_EQ(writer->resume_position() % 10, 0u);
    Append(*writer, samples_.size());
    const auto summary = writer->Finish();
    ASSERT_TRUE(summary.ok()) << summary.status();
    const Tree tree = ReadTree(*files_, "/data");
    EXPECT_TRUE(tree == expected) << stop << ": " << Describe(tree);
  }
}

TEST_F(ResumeTest, AFreshRunStartsOver) {
  auto writer = Create(Options(false));
  Append(*writer, 40);
  EXPECT_TRUE(writer->Suspend().ok());
  EXPECT_TRUE(Exists(*files_, "/data/00000000.shard"));
  samples_ = MakeSamples(65);
  const Tree expected = Undisturbed();
  writer = Create(Options(false));
  EXPECT_FALSE(Exists(*files_, "/data/00000000.shard"));
  Append(*writer, samples_.size());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(ReadTree(*files_, "/data") == expected);
}

TEST_F(ResumeTest, AResumedRunCanBeAborted) {
  auto writer = Create(Options(false));
  Append(*writer, 40);
  EXPECT_TRUE(writer->Suspend().ok());
  writer = Create(Options(true));
  EXPECT_TRUE(writer->Abort().ok());
  EXPECT_EQ(Describe(ReadTree(*files_, "/data")), "");
}

TEST_F(ResumeTest, NeedsTheSameOptionsAndLeavesTheRestAlone) {
  auto writer = Create(Options(false));
  Append(*writer, 40);
  EXPECT_TRUE(writer->Suspend().ok());
  const Tree left = ReadTree(*files_, "/data");
  std::vector<DatasetWriterOptions> others(NamedHash::Create("sha256").ok() ? 7 : 6, Options(true));
  others[0].job = "another";
  others[1].shard_samples = 11;
  others[2].shard.block_size = 1000;
  others[3].codecs = {{"image", Codec::kZstd}};
  others[4].shard.metadata = {{"a", "b"}};
  others[5].shard.alignment = 128;
  others.back().sha256 = others.size() == 7;  // needs OpenSSL
  for (const DatasetWriterOptions& options : others) {
    const auto refused = DatasetWriter::Create(*files_, "/data", TestSchema(), options);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
    EXPECT_TRUE(ReadTree(*files_, "/data") == left);
  }
  Column required = ImageColumn();
  required.nullable = false;
  const auto refused = DatasetWriter::Create(
      *files_, "/data", MakeSchema({KeyColumn(), required, LabelColumn(), TextColumn()}), Options(true));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_TRUE(ReadTree(*files_, "/data") == left);
  // The number of threads does not matter.
  DatasetWriterOptions threads = Options(true);
  threads.threads = 4;
  EXPECT_EQ(Create(threads)->resume_position(), 20u);
}

TEST_F(ResumeTest, ACompleteDatasetIsLeftAsItIs) {
  auto writer = Create(Options(false));
  Append(*writer, 64);
  ASSERT_TRUE(writer->Finish().ok());
  const Tree complete = ReadTree(*files_, "/data");
  // Killed between writing the manifest and the cleanup.
  WriteFile(*files_, "/data/.shardkit/00000003.json", "left");
  WriteFile(*files_, "/data/.shardkit/00000003.json~0123456789abcdef.tmp", "left");
  WriteFile(*files_, "/data/.shardkit/lock", "");
  EXPECT_TRUE(absl::IsAlreadyExists(DatasetWriter::Create(*files_, "/data", TestSchema(), Options(false)).status()));
  writer = Create(Options(true));
  EXPECT_EQ(writer->resume_position(), UINT64_MAX);
  const absl::Status appended = writer->Append(samples_[0].View(), 65);
  EXPECT_TRUE(absl::IsFailedPrecondition(appended)) << appended;
  EXPECT_NE(Message(appended).find("/data: is complete"), std::string::npos) << appended;
  const auto summary = writer->Finish();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->manifest.sample_count, 64u);
  EXPECT_TRUE(ReadTree(*files_, "/data") == complete);
  // The mark of a change is for the next change.
  WriteFile(*files_, "/data/.shardkit/change", "");
  EXPECT_TRUE(Create(Options(true))->Finish().ok());
  EXPECT_TRUE(Exists(*files_, "/data/.shardkit/change"));
}

// A finished dataset refuses every further sample, so that none is lost silently.
TEST_F(ResumeTest, ACompleteDatasetTakesNoSamples) {
  auto writer = Create(Options(false));
  Append(*writer, 64);
  ASSERT_TRUE(writer->Finish().ok());
  writer = Create(Options(true));
  for (const OwnedSample& sample : samples_) {
    EXPECT_TRUE(absl::IsFailedPrecondition(writer->Append(sample.View(), 65)));
  }
  EXPECT_EQ(writer->Finish()->manifest.sample_count, 64u);
}

TEST_F(ResumeTest, ACompleteDatasetOfAnotherJobIsRefused) {
  auto writer = Create(Options(false));
  Append(*writer, 64);
  ASSERT_TRUE(writer->Finish().ok());
  const Tree complete = ReadTree(*files_, "/data");
  const auto expect_refused = [&](const DatasetWriterOptions& options, const Schema& schema) {
    const Tree before = ReadTree(*files_, "/data");
    const absl::Status refused = DatasetWriter::Create(*files_, "/data", schema, options).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_NE(Message(refused).find("/data: holds a dataset that another job has made"), std::string::npos) << refused;
    EXPECT_TRUE(ReadTree(*files_, "/data") == before) << Describe(ReadTree(*files_, "/data"));
  };
  std::vector<DatasetWriterOptions> others(8, Options(true));
  others[0].job = "another";
  others[1].shard_samples = 11;
  others[2].shard.block_size = 1000;
  others[3].codecs = {{"image", Codec::kZstd}};
  others[4].shard.metadata = {{"a", "b"}};
  others[5].shard.dictionaries = {{"text", 1000}};
  others[6].shard_size = 1000;
  others[7].shard.storage = {{"image", Storage::kPaged}};
  for (const DatasetWriterOptions& options : others) expect_refused(options, TestSchema());
  expect_refused(Options(true), MakeSchema({KeyColumn(), ImageColumn()}));

  // Made differently, or changed since.
  ASSERT_TRUE(files_->RemoveFile("/data/.shardkit/job.json").ok());
  expect_refused(Options(true), TestSchema());
  const std::string& record = complete.at(".shardkit/job.json");
  WriteFile(*files_, "/data/.shardkit/job.json", record.substr(0, record.size() - 1));
  expect_refused(Options(true), TestSchema());
  WriteFile(*files_, "/data/.shardkit/job.json", record);
  Manifest manifest = *ReadManifest(*files_, "/data");
  const ManifestShard last = manifest.shards.back();
  manifest.SetShards({manifest.shards.begin(), manifest.shards.end() - 1});
  manifest.segments[0].shards -= 1;
  manifest.segments[0].samples -= last.samples;
  manifest.segments[0].blocks -= last.blocks;
  WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  expect_refused(Options(true), TestSchema());
  WriteFile(*files_, "/data/dataset.json", complete.at("dataset.json"));
  EXPECT_TRUE(Create(Options(true))->Finish().ok());
}

// The record of the job is a separate file. All other files are equal for equal samples.
TEST_F(ResumeTest, TheJobDoesNotShowInTheDataset) {
  Tree trees[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
    DatasetWriterOptions options = Options(false);
    options.job = "job " + std::to_string(i);
    options.threads = 1 + 3 * i;
    auto writer = Create(options);
    Append(*writer, 64);
    ASSERT_TRUE(writer->Finish().ok());
    trees[i] = ReadTree(*files_, "/data");
  }
  EXPECT_NE(trees[0].at(".shardkit/job.json"), trees[1].at(".shardkit/job.json"));
  for (Tree& tree : trees) tree.erase(".shardkit/job.json");
  EXPECT_TRUE(trees[0] == trees[1]);
}

TEST_F(ResumeTest, GoesOnBeforeAShardThatIsDamagedOrGone) {
  const Tree expected = Undisturbed();
  const std::string second = "/data/00000001.shard";
  for (const std::string damage : {"gone", "short", "empty", "other"}) {
    ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
    auto writer = Create(Options(false));
    Append(*writer, 60);
    EXPECT_TRUE(writer->Suspend().ok());
    const std::string bytes = ReadAll(*files_, second);
    ASSERT_TRUE(files_->RemoveFile(second).ok());
    if (damage == "short") WriteFile(*files_, second, bytes.substr(0, bytes.size() - 1));
    if (damage == "empty") WriteFile(*files_, second, "");
    if (damage == "other") WriteFile(*files_, second, ReadAll(*files_, "/data/00000002.shard"));
    writer = Create(Options(true));
    EXPECT_EQ(writer->resume_position(), 10u) << damage;
    Append(*writer, 64);
    ASSERT_TRUE(writer->Finish().ok());
    EXPECT_TRUE(ReadTree(*files_, "/data") == expected) << damage;
  }
}

// Records are whole or missing. A run that removes them may have been killed in between.
TEST_F(ResumeTest, GoesOnBehindTheRecordsThatFollowEachOther) {
  const Tree expected = Undisturbed();
  auto writer = Create(Options(false));
  Append(*writer, 60);
  EXPECT_TRUE(writer->Suspend().ok());
  const Tree left = ReadTree(*files_, "/data");
  const std::vector<std::string> records = {".shardkit/00000000.json", ".shardkit/00000001.json",
                                            ".shardkit/00000002.json", ".shardkit/00000003.json"};
  for (unsigned lost = 0; lost < 16; ++lost) {
    for (const bool damaged : {false, true}) {
      ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
      WriteTree(*files_, "/data", left);
      for (size_t i = 0; i < records.size(); ++i) {
        if ((lost >> i & 1) == 0) continue;
        const std::string path = "/data/" + records[i];
        if (damaged) WriteFile(*files_, path, left.at(records[i]).substr(1));
        if (!damaged) {
          EXPECT_TRUE(files_->RemoveFile(path).ok());
        }
      }
      writer = Create(Options(true));
      EXPECT_EQ(writer->resume_position(), 10u * std::countr_zero(lost | 16u)) << lost;
      Append(*writer, 64);
      ASSERT_TRUE(writer->Finish().ok());
      EXPECT_TRUE(ReadTree(*files_, "/data") == expected) << lost;
    }
  }
  // A directory whose job is not known is refused.
  for (const std::string& text : {std::string("something else\n"), left.at(".shardkit/job.json").substr(1)}) {
    ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
    WriteTree(*files_, "/data", left);
    WriteFile(*files_, "/data/.shardkit/job.json", text);
    for (const bool resume : {false, true}) {
      const absl::Status refused = DatasetWriter::Create(*files_, "/data", TestSchema(), Options(resume)).status();
      EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
    }
    EXPECT_EQ(ReadAll(*files_, "/data/00000000.shard"), left.at("00000000.shard"));
  }
}

// Shards whose manifest was lost are no leftovers of the job that has made them.
TEST_F(ResumeTest, ShardsOfAFinishedJobAreNotRemoved) {
  auto writer = Create(Options(false));
  Append(*writer, 64);
  ASSERT_TRUE(writer->Finish().ok());
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.json").ok());
  const Tree left = ReadTree(*files_, "/data");
  for (const bool resume : {false, true}) {
    const absl::Status refused = DatasetWriter::Create(*files_, "/data", TestSchema(), Options(resume)).status();
    EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
    EXPECT_TRUE(ReadTree(*files_, "/data") == left);
  }
}

TEST_F(ResumeTest, RemembersSkippedSamplesOnce) {
  // Positions 3, 13, 23, … are skipped. The writer is suspended again and again.
  std::vector<uint64_t> expected;
  for (uint64_t i = 3; i < 64; i += 10) expected.push_back(i);
  std::vector<SkippedSample> skipped;
  for (uint64_t stop = 4; stop <= 64 + 3; stop += 3) {
    auto writer = Create(Options(true));
    for (uint64_t i = writer->resume_position(); i < std::min<uint64_t>(stop, 64); ++i) {
      if (i % 10 == 3) {
        writer->RecordSkip({i, "key\xff", "reason " + std::to_string(i)});
      } else {
        ASSERT_TRUE(writer->Append(samples_[i].View(), i + 1).ok());
      }
    }
    if (stop < 64) {
      ASSERT_TRUE(writer->Suspend().ok());
      continue;
    }
    auto summary = writer->Finish();
    ASSERT_TRUE(summary.ok()) << summary.status();
    skipped = std::move(summary->skipped);
    break;
  }
  std::vector<uint64_t> positions;
  for (const SkippedSample& sample : skipped) {
    positions.push_back(sample.position);
    EXPECT_EQ(sample.reason, "reason " + std::to_string(sample.position));
  }
  EXPECT_EQ(positions, expected);
}

TEST_F(ResumeTest, TheSchemaIsThatOfTheLastShard) {
  const Column extra = {.name = "extra", .type = Type::kBytes, .nullable = true};
  auto writer = Create(Options(false));
  const auto write = [&](DatasetWriter& to, uint64_t end) {
    for (uint64_t i = to.resume_position(); i < end; ++i) {
      OwnedSample sample = samples_[i];
      sample.fields.resize(1);
      if (i >= 17) sample.fields.emplace_back(&extra, "t");
      ASSERT_TRUE(to.Append(sample.View(), i + 1).ok());
    }
  };
  write(*writer, 40);
  EXPECT_TRUE(writer->Suspend().ok());
  writer = Create(Options(true));
  EXPECT_EQ(writer->schema().size(), 5u);
  write(*writer, 64);
  ASSERT_TRUE(writer->Finish().ok());
  const Tree resumed = ReadTree(*files_, "/data");
  ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
  writer = Create(Options(false));
  write(*writer, 64);
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(ReadTree(*files_, "/data") == resumed);
}

}  // namespace
}  // namespace shardkit::test
