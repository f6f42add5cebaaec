// Datasets of so many shards that these stand in lists beside the manifest.
#include <thread>

#include "base/named_hash.h"
#include "base/strings.h"
#include "container/shard_index_part.h"
#include "dataset/dataset_support.h"
#include "dataset/index_writer.h"
#include "dataset/segments.h"
#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "shardkit/repair.h"
#include "support/counting_filesystem.h"

namespace shardkit::test {
namespace {

constexpr size_t kRealShard = 7000;  // the only one with a file in MakeDescribed's dataset

// A dataset of `count` shards with index and lists. All shards but one say that they have three samples, and have no
// file; every fifth has no samples. Returns the manifest.
Manifest MakeDescribed(FileSystem& files, size_t count) {
  const auto real = WriteDataset(files, "/real", MakeSamples(3), SmallShards(3, 3));
  EXPECT_TRUE(real.ok()) << real.status();
  Manifest manifest;
  manifest.schema = real->manifest.schema;
  WriteFile(files, "/d/real.shard", ReadAll(files, "/real/00000000.shard"));
  auto index = dataset::IndexWriter::Create(files, "/d");
  EXPECT_TRUE(index.ok()) << index.status();
  Schema schema;
  const auto part = container::ReadShardIndexPart(files, "/d/real.shard", &schema);
  EXPECT_TRUE(part.ok()) << part.status();
  std::vector<ManifestShard> shards;
  for (size_t i = 0; i < count; ++i) {
    ManifestShard& shard = shards.emplace_back(real->manifest.shards[0]);
    shard.name = i == kRealShard ? "real.shard" : StrCat("shard-", i, ".shard");
    shard.content_hash[0] = static_cast<uint8_t>(i);
    if (i == kRealShard) {
      shard.content_hash = real->manifest.shards[0].content_hash;
      EXPECT_TRUE((*index)->Add(schema, *part).ok());
      continue;
    }
    if (i % 3 == 0) shard.sha256.emplace()[1] = static_cast<uint8_t>(i);
    if (i % 5 == 4) {
      shard.samples = shard.blocks = 0;
    } else {
      EXPECT_TRUE((*index)->AddBlock({}, {.sample_count = 3}, {}).ok());
    }
    (*index)->EndShard();
  }
  manifest.SetShards(std::move(shards));
  manifest.segments.push_back((*index)->Finish("dataset.idx", manifest.shards).value());
  EXPECT_TRUE(dataset::UpdateShardLists(files, "/d", &manifest).ok());
  WriteFile(files, "/d/dataset.json", FormatManifest(manifest));
  return manifest;
}

TEST(ShardLists, TenThousandShardsOpenWithThreeRequests) {
  const auto memory = NewMemoryFileSystem();
  const Manifest manifest = MakeDescribed(*memory, 10000);
  CountingFileSystem files(memory.get());
  const auto dataset = DatasetReader::Open(files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->index_problem(), "");
  EXPECT_LE(files.reads().size(), 3u);
  EXPECT_LE(files.bytes(), 200000u);
  EXPECT_EQ((*dataset)->shard_count(), 10000u);
  EXPECT_EQ((*dataset)->sample_count(), manifest.sample_count);
  EXPECT_EQ((*dataset)->summary().bytes, manifest.bytes);
  EXPECT_EQ((*dataset)->summary().block_count, manifest.block_count);

  // One page of the index, one of the list, the record, and the shard's trailer.
  uint64_t first = 0;
  for (size_t i = 0; i < kRealShard; ++i) first += manifest.shards[i].samples;
  files.Reset();
  BlockBuffer buffer;
  const auto value = (*dataset)->ReadValue(first, *(*dataset)->FindColumn("image"), &buffer);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(**value, RowOf(MakeSamples(3)[0]).at("image"));
  EXPECT_LE(files.reads().size(), 4u);

  // Another shard of the page needs no request, and all of them few.
  files.Reset();
  EXPECT_EQ(*(*dataset)->Shard(kRealShard + 1), manifest.shards[kRealShard + 1]);
  EXPECT_EQ(files.reads().size(), 0u);
  EXPECT_EQ((*dataset)->ReadManifest()->shards, manifest.shards);
  EXPECT_EQ(files.reads().size(), 1u);
}

TEST(ShardLists, TellEveryShardAndSample) {
  const auto files = NewMemoryFileSystem();
  const Manifest manifest = MakeDescribed(*files, 40000);  // more pages than are kept
  EXPECT_EQ(ReadManifest(*files, "/d")->shards, manifest.shards);
  const auto dataset = DatasetReader::Open(*files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      uint64_t first = 0;
      for (size_t i = 0; i < manifest.shards.size(); ++i) {
        const size_t number = thread == 0 ? i : i * 7919 % manifest.shards.size();
        if (i % 3 == thread) {
          EXPECT_EQ(*(*dataset)->Shard(number), manifest.shards[number]);
        }
        for (uint64_t local = 0; local < manifest.shards[i].samples && i % 3 == thread; ++local) {
          const auto location = (*dataset)->Locate(first + local);
          ASSERT_TRUE(location.ok()) << location.status();
          EXPECT_EQ(location->shard, i);
          EXPECT_EQ(location->local, local);
        }
        first += manifest.shards[i].samples;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(absl::IsOutOfRange((*dataset)->Shard(40000).status()));
  EXPECT_TRUE(absl::IsOutOfRange((*dataset)->Locate(manifest.sample_count).status()));
}

// Pages of such shards begin with the sample of the page behind them.
TEST(ShardLists, ASampleBehindShardsWithoutSamplesIsFound) {
  const auto files = NewMemoryFileSystem();
  Manifest manifest;
  manifest.schema = MakeSchema({KeyColumn()});
  for (size_t i = 0; i < 2000; ++i) {
    const bool sample = i == 255 || i == 1500 || i == 1999;
    manifest.AddShard({StrCat("shard-", i), 100, sample ? uint64_t{1} : 0, sample ? uint64_t{1} : 0, {}});
  }
  manifest.segments.push_back({.shards = 2000, .samples = 3, .blocks = 3, .index = {"dataset.idx", 72, 64, 0}});
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  ASSERT_TRUE(dataset::UpdateShardLists(*files, "/d", &manifest).ok());
  WriteFile(*files, "/d/dataset.json", FormatManifest(manifest));
  const auto dataset = DatasetReader::Open(*files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (const auto& [sample, shard] : {std::pair{0, 255}, {1, 1500}, {2, 1999}, {0, 255}}) {
    const auto location = (*dataset)->Locate(static_cast<uint64_t>(sample));
    ASSERT_TRUE(location.ok()) << location.status();
    EXPECT_EQ(location->shard, static_cast<size_t>(shard));
  }
}

TEST(ShardLists, ANameThatNoListCanHoldIsRefused) {
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  Manifest manifest;
  manifest.schema = MakeSchema({KeyColumn()});
  for (size_t i = 0; i < dataset::kMostShardsInManifest + 1; ++i) manifest.AddShard({StrCat(i)});
  manifest.shards.back().name = std::string(4097, 'x');
  manifest.segments.push_back({.shards = manifest.shards.size()});
  const absl::Status status = dataset::UpdateShardLists(*files, "/d", &manifest);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(ReadTree(*files, "/d").empty());
}

// Real datasets of tiny shards around the number from which on there are lists.
class ManyShardsTest : public testing::Test {
 protected:
  static constexpr size_t kMost = dataset::kMostShardsInManifest;

  static DatasetWriterOptions OneSampleEach() {
    DatasetWriterOptions options = SmallShards(1, 1);
    options.sha256 = NamedHash::Create("sha256").ok();  // not without OpenSSL
    return options;
  }

  void Write(const std::string& path, size_t begin, size_t end, bool append = false) {
    DatasetWriterOptions options = OneSampleEach();
    options.append = append;
    auto writer = DatasetWriter::Create(*files_, path, MakeSchema({KeyColumn()}), options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (size_t i = begin; i < end; ++i) {
      const OwnedSample sample{StrCat("key ", i), {}};
      ASSERT_TRUE((*writer)->Append(sample.View()).ok());
    }
    const auto summary = (*writer)->Finish();
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->manifest.segments, ReadManifest(*files_, path)->segments);
  }

  void ExpectKeys(const std::string& path, size_t count) {
    EXPECT_EQ(ValidateText(*files_, path), "");
    const auto dataset = DatasetReader::Open(*files_, path);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->index_problem(), "");
    ASSERT_EQ((*dataset)->sample_count(), count);
    BlockBuffer buffer;
    for (const size_t i : {size_t{0}, size_t{255}, size_t{256}, count - 1}) {
      EXPECT_EQ(**(*dataset)->ReadValue(i, 0, &buffer), StrCat("key ", i));
      EXPECT_EQ(**(*dataset)->FindKey(StrCat("key ", i), &buffer), i);
    }
    ScanOptions scan;
    scan.first_sample = count - 3;
    EXPECT_EQ(ScanRows(**dataset, scan).size(), 3u);
    EXPECT_EQ((*dataset)->ReadBlockDirectory()->size(), count);
  }

  std::string Text(const std::string& path) { return ReadAll(*files_, path); }
  bool HasLists(const std::string& path) {
    const bool feature = Text(JoinPath(path, "dataset.json")).find("\"shard-pages\"") != std::string::npos;
    EXPECT_EQ(feature, Text(JoinPath(path, "dataset.json")).find("\"content_hash\"") == std::string::npos);
    return feature;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(ManyShardsTest, AppendingGoesOverTheLine) {
  Write("/d", 0, kMost);
  EXPECT_FALSE(HasLists("/d"));
  EXPECT_FALSE(Exists(*files_, "/d/dataset.shards"));
  const std::string before = Text("/d/dataset.json");
  const auto reader = DatasetReader::Open(*files_, "/d");
  ASSERT_TRUE(reader.ok()) << reader.status();

  Write("/d", kMost, kMost + 1, /*append=*/true);
  EXPECT_TRUE(HasLists("/d"));
  Manifest manifest = *ReadManifest(*files_, "/d");
  ASSERT_EQ(manifest.segments.size(), 2u);
  EXPECT_EQ(manifest.segments[0].list->name, "dataset-2.shards");
  EXPECT_EQ(manifest.segments[1].list->name, "dataset-2-1.shards");
  EXPECT_EQ(manifest.segments[0].index.name, "dataset.idx");
  ExpectKeys("/d", kMost + 1);
  EXPECT_EQ((*reader)->ReadManifest()->shards.size(), kMost);

  // A segment that stays keeps its list.
  Write("/d", kMost + 1, kMost + 3, /*append=*/true);
  manifest = *ReadManifest(*files_, "/d");
  ASSERT_EQ(manifest.segments.size(), 3u);
  EXPECT_EQ(manifest.segments[0].list->name, "dataset-2.shards");
  EXPECT_EQ(manifest.segments[2].list->name, "dataset-3.shards");
  ExpectKeys("/d", kMost + 3);

  // Joined, they have the list of a dataset that was written at once.
  const auto compact = CompactDataset(*files_, "/d");
  ASSERT_TRUE(compact.ok()) << compact.status();
  ASSERT_EQ(compact->manifest.segments.size(), 1u);
  EXPECT_EQ(compact->manifest.segments[0].list->name, "dataset-4.shards");
  ExpectKeys("/d", kMost + 3);
  Write("/whole", 0, kMost + 3);
  EXPECT_EQ(Text("/whole/dataset.shards"), Text("/d/dataset-4.shards"));
  EXPECT_EQ(ReadManifest(*files_, "/whole")->shards, compact->manifest.shards);

  // What neither this generation nor the one before names is gone.
  Write("/d", kMost + 3, kMost + 4, /*append=*/true);
  EXPECT_FALSE(Exists(*files_, "/d/dataset-2.shards"));
  EXPECT_FALSE(Exists(*files_, "/d/dataset-3.shards"));
  EXPECT_TRUE(Exists(*files_, "/d/dataset-4.shards"));
}

TEST_F(ManyShardsTest, ALostListIsMadeAnew) {
  Write("/d", 0, kMost + 1);
  const Tree whole = ReadDataset(*files_, "/d");
  const auto sound = ReadManifest(*files_, "/d");
  ASSERT_TRUE(sound.ok()) << sound.status();
  ASSERT_TRUE(RebuildIndex(*files_, "/d").ok());
  EXPECT_TRUE(ReadDataset(*files_, "/d") == whole) << "an index made anew of the same shards is the same";

  std::string damaged = Text("/d/dataset.shards");
  for (const bool missing : {true, false}) {
    if (missing) {
      ASSERT_TRUE(files_->RemoveFile("/d/dataset.shards").ok());
    } else {
      damaged[damaged.size() - 70] ^= 1;  // in the root
      WriteFile(*files_, "/d/dataset.shards", damaged);
    }
    const absl::Status opened = DatasetReader::Open(*files_, "/d").status();
    EXPECT_EQ(opened.code(), missing ? absl::StatusCode::kNotFound : absl::StatusCode::kDataLoss) << opened;
    EXPECT_EQ(Message(opened).rfind("/d/dataset.shards: ", 0), 0u) << opened;
    EXPECT_NE(Message(opened).find("run shardctl index /d to make it anew"), std::string::npos) << opened;
    EXPECT_EQ(ValidateText(*files_, "/d"), Message(opened));
    for (const absl::Status& status :
         {ReadManifest(*files_, "/d").status(), MergeDatasets(*files_, {"/d"}, "/merged").status(),
          CompactDataset(*files_, "/d").status()}) {
      EXPECT_EQ(status.code(), opened.code()) << status;
      EXPECT_EQ(Message(status), Message(opened));
    }
    const auto rebuilt = RebuildIndex(*files_, "/d");
    ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
    EXPECT_EQ(rebuilt->generation, 2u);
    ASSERT_EQ(rebuilt->shards.size(), sound->shards.size());
    EXPECT_EQ(rebuilt->dataset_hash(), sound->dataset_hash());
    ExpectKeys("/d", kMost + 1);
    WriteTree(*files_, "/d", whole);
    ASSERT_TRUE(files_->RemoveFile("/d/dataset-2.shards").ok());
  }
  // Without one of the shards, the others are no substitute.
  ASSERT_TRUE(files_->RemoveFile("/d/dataset.shards").ok());
  ASSERT_TRUE(files_->RemoveFile("/d/00000007.shard").ok());
  const absl::Status refused = RebuildIndex(*files_, "/d").status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_NE(Message(refused).find("has 1024 shards (*.shard), but dataset.json counts 1025"), std::string::npos)
      << refused;
  // Those that are there are few enough for the manifest.
  const auto repaired = RepairDataset(*files_, "/d", "/repaired", {});
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_EQ(repaired->notes,
            std::vector<std::string>{"a list of shards is missing or damaged: the shards were taken by their names"});
  EXPECT_FALSE(HasLists("/repaired"));
  EXPECT_EQ(ValidateText(*files_, "/repaired"), "");
}

// The names are the order only where the index says so.
TEST_F(ManyShardsTest, ALostListIsNotMadeAnewInAnotherOrder) {
  Write("/d", 0, kMost + 1);
  const Tree whole = ReadDataset(*files_, "/d");
  const auto refused = [&](std::string_view reason) {
    ASSERT_TRUE(files_->RemoveFile("/d/dataset.shards").ok());
    const Tree before = ReadDataset(*files_, "/d");
    const absl::Status status = RebuildIndex(*files_, "/d").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    for (const std::string_view part : {std::string_view("/d/dataset.shards: "), reason,
                                        std::string_view("; shardctl repair /d -o OUT takes them by their names")}) {
      EXPECT_NE(Message(status).find(part), std::string::npos) << status;
    }
    EXPECT_TRUE(ReadDataset(*files_, "/d") == before);
    WriteTree(*files_, "/d", whole);
  };
  const std::string third = Text("/d/00000003.shard");
  WriteFile(*files_, "/d/00000003.shard", Text("/d/00000004.shard"));
  WriteFile(*files_, "/d/00000004.shard", third);
  refused("is not known: the index is of other ones, or of these in another order; ");
  ASSERT_TRUE(files_->RemoveFile("/d/dataset.idx").ok());
  refused("is not known: the index is lost, too; ");
  EXPECT_TRUE(RebuildIndex(*files_, "/d").ok());
}

TEST_F(ManyShardsTest, MergingAndMakingAnewGoOverTheLine) {
  Write("/a", 0, 700);
  Write("/b", 700, kMost + 1);
  ASSERT_TRUE(MergeDatasets(*files_, {"/a", "/b"}, "/d").ok());
  EXPECT_TRUE(HasLists("/d"));
  ExpectKeys("/d", kMost + 1);
  EXPECT_EQ(ReadManifest(*files_, "/d")->shards[1000].sha256, ReadManifest(*files_, "/b")->shards[300].sha256);

  // With a shard less the list is gone.
  ASSERT_TRUE(files_->RemoveFile(JoinPath("/d", StrCat("0000", kMost, ".shard"))).ok());
  ASSERT_TRUE(files_->RemoveFile("/d/dataset.json").ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/d").ok());
  EXPECT_FALSE(HasLists("/d"));
  EXPECT_FALSE(Exists(*files_, "/d/dataset.shards"));
  ExpectKeys("/d", kMost);
}

TEST_F(ManyShardsTest, ValidationComparesTheListWithTheShards) {
  Write("/d", 0, kMost + 1);
  Manifest manifest = *ReadManifest(*files_, "/d");
  manifest.shards[300].content_hash[3] ^= 1;
  manifest.segments[0].list.reset();
  ASSERT_TRUE(dataset::UpdateShardLists(*files_, "/d", &manifest).ok());
  EXPECT_EQ(manifest.segments[0].list->name, "dataset.shards");
  WriteFile(*files_, "/d/dataset.json", FormatManifest(manifest));
  const auto report = Validate(*files_, "/d", {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(report->ok());
  std::string messages;
  for (const Problem& problem : report->problems) messages += problem.message + "\n";
  EXPECT_NE(messages.find("/d/00000300.shard: is not shard 300 of the manifest"), std::string::npos) << messages;
}

TEST_F(ManyShardsTest, ValidationWarnsOfAListThatIsNotNamed) {
  Write("/d", 0, 2);
  WriteFile(*files_, "/d/dataset.shards", "whatever");
  const auto report = Validate(*files_, "/d", {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok());
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_EQ(report->warnings[0].path, "/d/dataset.shards");
  ASSERT_TRUE(RebuildIndex(*files_, "/d").ok());
  EXPECT_FALSE(Exists(*files_, "/d/dataset.shards"));
}

}  // namespace
}  // namespace shardkit::test
