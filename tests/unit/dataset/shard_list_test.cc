// Datasets of so many shards that only their segments list them.
#include <thread>

#include "base/named_hash.h"
#include "base/strings.h"
#include "container/read/shard_index_part.h"
#include "dataset/dataset_support.h"
#include "dataset/write/segment_writer.h"
#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "shardkit/repair.h"
#include "support/counting_filesystem.h"

namespace shardkit::test {
namespace {

constexpr size_t kRealShard = 7000;  // the only one with a file in MakeDescribed's dataset

// A dataset of `count` shards with a segment. All shards but one say that they have three samples, and have no
// file; every fifth has no samples. Returns the manifest.
Manifest MakeDescribed(FileSystem& files, size_t count) {
  const auto real = WriteDataset(files, "/real", MakeSamples(3), SmallShards(3, 3));
  EXPECT_TRUE(real.ok()) << real.status();
  Manifest manifest;
  manifest.schema = real->manifest.schema;
  WriteFile(files, "/d/real.shard", ReadAll(files, "/real/00000000.shard"));
  auto index = dataset::SegmentWriter::Create(files, "/d");
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
  manifest.segments.push_back((*index)->Finish("dataset.segment", manifest.shards, {}).value());
  WriteFile(files, "/d/dataset.json", FormatManifest(manifest));
  return manifest;
}

TEST(ShardLists, TenThousandShardsOpenWithTwoRequests) {
  const auto memory = NewMemoryFileSystem();
  const Manifest manifest = MakeDescribed(*memory, 10000);
  CountingFileSystem files(memory.get());
  const auto dataset = DatasetReader::Open(files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->index_problem(), "");
  EXPECT_LE(files.reads().size(), 2u);
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
  ASSERT_TRUE(files->CreateDirectory("/d").ok());
  const auto segment = *dataset::SegmentWriter::Create(*files, "/d");
  for (const ManifestShard& shard : manifest.shards) {
    if (shard.samples > 0) {
      ASSERT_TRUE(segment->AddBlock({}, {.sample_count = 1}, {}).ok());
    }
    segment->EndShard();
  }
  manifest.segments.push_back(segment->Finish("dataset.segment", manifest.shards, {}).value());
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
  const auto segment = *dataset::SegmentWriter::Create(*files, "/d");
  segment->EndShard();
  const ManifestShard shard{std::string(4097, 'x'), 100, 0, 0, {}, {}};
  const absl::Status status = segment->Finish("dataset.segment", {&shard, 1}, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  ASSERT_TRUE(segment->Abort().ok());
  EXPECT_TRUE(ReadTree(*files, "/d").empty());
}

// Real datasets of tiny shards around the number from which on only segments list them.
class ManyShardsTest : public testing::Test {
 protected:
  static constexpr size_t kMost = kMostShardsInManifest;

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
  bool ListsShards(const std::string& path) {
    return Text(JoinPath(path, "dataset.json")).find("\"content_hash\"") != std::string::npos;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(ManyShardsTest, AppendingGoesOverTheLine) {
  Write("/d", 0, kMost);
  EXPECT_TRUE(ListsShards("/d"));
  const auto reader = DatasetReader::Open(*files_, "/d");
  ASSERT_TRUE(reader.ok()) << reader.status();

  Write("/d", kMost, kMost + 1, /*append=*/true);
  EXPECT_FALSE(ListsShards("/d"));
  Manifest manifest = *ReadManifest(*files_, "/d");
  ASSERT_EQ(manifest.segments.size(), 2u);
  EXPECT_EQ(manifest.segments[0].table.name, "dataset.segment");
  EXPECT_EQ(manifest.segments[1].table.name, "dataset-2.segment");
  ExpectKeys("/d", kMost + 1);
  EXPECT_EQ((*reader)->ReadManifest()->shards.size(), kMost);

  Write("/d", kMost + 1, kMost + 3, /*append=*/true);
  manifest = *ReadManifest(*files_, "/d");
  ASSERT_EQ(manifest.segments.size(), 3u);
  EXPECT_EQ(manifest.segments[0].table.name, "dataset.segment");
  EXPECT_EQ(manifest.segments[2].table.name, "dataset-3.segment");
  ExpectKeys("/d", kMost + 3);

  // Joined, they are the segment of a dataset that was written at once.
  const auto compact = CompactDataset(*files_, "/d");
  ASSERT_TRUE(compact.ok()) << compact.status();
  ASSERT_EQ(compact->manifest.segments.size(), 1u);
  EXPECT_EQ(compact->manifest.segments[0].table.name, "dataset-4.segment");
  ExpectKeys("/d", kMost + 3);
  Write("/whole", 0, kMost + 3);
  EXPECT_EQ(Text("/whole/dataset.segment"), Text("/d/dataset-4.segment"));
  EXPECT_EQ(ReadManifest(*files_, "/whole")->shards, compact->manifest.shards);

  // What neither this generation nor the one before names is gone.
  Write("/d", kMost + 3, kMost + 4, /*append=*/true);
  EXPECT_FALSE(Exists(*files_, "/d/dataset-2.segment"));
  EXPECT_FALSE(Exists(*files_, "/d/dataset-3.segment"));
  EXPECT_TRUE(Exists(*files_, "/d/dataset-4.segment"));
}

// Nothing else says in which order the shards stand.
TEST_F(ManyShardsTest, ALostListIsNotMadeAgain) {
  Write("/d", 0, kMost + 1);
  const Tree whole = ReadDataset(*files_, "/d");
  ASSERT_TRUE(RebuildIndex(*files_, "/d").ok());
  EXPECT_TRUE(ReadDataset(*files_, "/d") == whole) << "an index made again of the same shards is the same";

  std::string damaged = Text("/d/dataset.segment");
  for (const bool missing : {true, false}) {
    if (missing) {
      ASSERT_TRUE(files_->RemoveFile("/d/dataset.segment").ok());
    } else {
      damaged[damaged.size() - 70] ^= 1;  // in the root
      WriteFile(*files_, "/d/dataset.segment", damaged);
    }
    const absl::Status opened = DatasetReader::Open(*files_, "/d").status();
    EXPECT_EQ(opened.code(), missing ? absl::StatusCode::kNotFound : absl::StatusCode::kDataLoss) << opened;
    EXPECT_EQ(Message(opened).rfind("/d/dataset.segment: ", 0), 0u) << opened;
    EXPECT_EQ(ValidateText(*files_, "/d"), Message(opened));
    for (const absl::Status& status :
         {ReadManifest(*files_, "/d").status(), MergeDatasets(*files_, {"/d"}, "/merged").status(),
          CompactDataset(*files_, "/d").status()}) {
      EXPECT_EQ(status.code(), opened.code()) << status;
      EXPECT_EQ(Message(status), Message(opened));
    }
    const Tree before = ReadDataset(*files_, "/d");
    const absl::Status refused = RebuildIndex(*files_, "/d").status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
    EXPECT_NE(Message(refused).find(
                  "shardctl repair /d -o OUT takes them by their names; shardctl index cannot make it again"),
              std::string::npos)
        << refused;
    EXPECT_TRUE(ReadDataset(*files_, "/d") == before);
    WriteTree(*files_, "/d", whole);
  }
  ASSERT_TRUE(files_->RemoveFile("/d/dataset.segment").ok());
  ASSERT_TRUE(files_->RemoveFile("/d/00000007.shard").ok());
  const auto repaired = RepairDataset(*files_, "/d", "/repaired", {});
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_EQ(repaired->notes,
            std::vector<std::string>{"the list of the shards is missing or damaged: they were taken by their names"});
  // They are few enough for the manifest.
  EXPECT_TRUE(ListsShards("/repaired"));
  EXPECT_EQ(ValidateText(*files_, "/repaired"), "");
}

TEST_F(ManyShardsTest, MergingAndMakingAgainGoOverTheLine) {
  Write("/a", 0, 700);
  Write("/b", 700, kMost + 1);
  ASSERT_TRUE(MergeDatasets(*files_, {"/a", "/b"}, "/d").ok());
  EXPECT_FALSE(ListsShards("/d"));
  ExpectKeys("/d", kMost + 1);
  EXPECT_EQ(ReadManifest(*files_, "/d")->shards[1000].sha256, ReadManifest(*files_, "/b")->shards[300].sha256);

  // With a shard less the manifest lists them.
  ASSERT_TRUE(files_->RemoveFile(JoinPath("/d", StrCat("0000", kMost, ".shard"))).ok());
  ASSERT_TRUE(files_->RemoveFile("/d/dataset.json").ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/d").ok());
  EXPECT_TRUE(ListsShards("/d"));
  ExpectKeys("/d", kMost);
}

TEST_F(ManyShardsTest, ValidationComparesTheListWithTheManifest) {
  Write("/d", 0, 5);
  Write("/other", 1, 6);
  // The segment of other shards, under a reference that is right.
  Manifest manifest = *ReadManifest(*files_, "/d");
  manifest.segments = ReadManifest(*files_, "/other")->segments;
  WriteFile(*files_, "/d/dataset.segment", Text("/other/dataset.segment"));
  WriteFile(*files_, "/d/dataset.json", FormatManifest(manifest));
  const std::string problems = ValidateText(*files_, "/d");
  EXPECT_NE(problems.find("list of shards: shard 0 is not the one that dataset.json lists"), std::string::npos)
      << problems;
  // A reader goes by the manifest.
  const auto dataset = DatasetReader::Open(*files_, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->ReadManifest()->shards, manifest.shards);
}

}  // namespace
}  // namespace shardkit::test
