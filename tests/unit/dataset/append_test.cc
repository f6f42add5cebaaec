// Appending to a dataset, and joining its segments.
#include <cstring>
#include <functional>

#include "absl/strings/match.h"
#include "base/hash.h"
#include "base/strings.h"
#include "dataset/dataset_support.h"
#include "shardkit/change.h"
#include "support/counting_filesystem.h"
#include "support/disturbing_filesystem.h"

namespace shardkit::test {
namespace {

// A file system without locks, as some of those over a network are.
class LocklessFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string&) override { return std::make_unique<FileLock>(); }
};

class AppendTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteDataset(*files_, "/data", Samples(0, 20), SmallShards(9, 4)).ok()); }

  static DatasetWriterOptions Appending() {
    DatasetWriterOptions options = SmallShards(9, 4);
    options.append = true;
    return options;
  }

  // Samples `begin` to `end` of those that all tests use.
  static std::vector<OwnedSample> Samples(size_t begin, size_t end) {
    static const std::vector<OwnedSample> all = MakeSamples(100);
    return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  absl::StatusOr<std::unique_ptr<DatasetWriter>> Begin(FileSystem& files) {
    DatasetWriterOptions options = Appending();
    options.shard.storage["image"] = Storage::kBlob;
    return DatasetWriter::Create(files, "/data", MakeSchema({KeyColumn(), ImageColumn(), LabelColumn(), TextColumn()}),
                                 options);
  }

  void Append(DatasetWriter& writer, size_t begin, size_t end) {
    for (const OwnedSample& sample : Samples(begin, end)) {
      const absl::Status status = writer.Append(sample.View());
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  void Append(size_t begin, size_t end) {
    auto writer = Begin(*files_);
    ASSERT_TRUE(writer.ok()) << writer.status();
    Append(**writer, begin, end);
    const auto summary = (*writer)->Finish();
    ASSERT_TRUE(summary.ok()) << summary.status();
  }

  // Reads every sample in order, and every image through the index.
  void ExpectSamples(const DatasetReader& dataset, size_t count) {
    EXPECT_EQ(dataset.index_problem(), "");
    EXPECT_EQ(ScanRows(dataset), RowsOf(Samples(0, count)));
    BlockBuffer buffer;
    const size_t image = *dataset.FindColumn("image");
    for (size_t i = 0; i < count; ++i) {
      const auto value = dataset.ReadValue(i, image, &buffer);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_EQ(**value, RowOf(Samples(i, i + 1)[0]).at("image")) << i;
    }
    const auto blocks = dataset.ReadBlockDirectory();
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    EXPECT_EQ(blocks->size(), dataset.summary().block_count);
    ExpectBlocksOfShards(dataset, *blocks);
  }

  void ExpectSamples(size_t count) {
    EXPECT_EQ(ValidateText(*files_, "/data"), "");
    const auto dataset = DatasetReader::Open(*files_, "/data");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    ExpectSamples(**dataset, count);
  }

  Manifest Listed() { return *ReadManifest(*files_, "/data"); }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(AppendTest, AddsASegmentAndReadersGoOn) {
  const auto before = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(before.ok()) << before.status();
  Append(20, 35);
  const Manifest manifest = Listed();
  EXPECT_EQ(manifest.generation, 2u);
  ASSERT_EQ(manifest.segments.size(), 2u);
  EXPECT_EQ(manifest.segments[0].table.name, "dataset.segment");
  EXPECT_EQ(manifest.segments[1].table.name, "dataset-2.segment");
  EXPECT_EQ(manifest.segments[1].shards, 2u);
  EXPECT_EQ(manifest.shards[3].name, "00000003.shard");
  ExpectSamples(35);
  ExpectSamples(**before, 20);
  Tree tree = ReadTree(*files_, "/data");
  // Shards, manifest and indexes, the job and its folder, the manifest before.
  EXPECT_EQ(tree.size(), 3u + 2u + 3u + 2u + 1u) << Describe(tree);

  // Joining leaves what readers have open, and what the manifest before names.
  const auto between = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(between.ok()) << between.status();
  const auto compact = CompactDataset(*files_, "/data");
  ASSERT_TRUE(compact.ok()) << compact.status();
  EXPECT_EQ(compact->manifest.generation, 3u);
  ASSERT_EQ(compact->manifest.segments.size(), 1u);
  EXPECT_EQ(compact->manifest.segments[0].table.name, "dataset-3.segment");
  EXPECT_TRUE(Exists(*files_, "/data/dataset-2.segment"));
  ExpectSamples(35);
  ExpectSamples(**between, 35);

  Append(35, 36);
  EXPECT_FALSE(Exists(*files_, "/data/dataset.segment"));  // neither this manifest nor the one before names it
  EXPECT_FALSE(Exists(*files_, "/data/dataset-2.segment"));
  ExpectSamples(36);
  ExpectSamples(**between, 35);
}

TEST_F(AppendTest, AJoinedIndexIsTheOneMadeFromTheShards) {
  Append(20, 24);
  Append(24, 40);
  const auto compact = CompactDataset(*files_, "/data");
  ASSERT_TRUE(compact.ok()) << compact.status();
  // A second time there is nothing to do.
  const Tree tree = ReadTree(*files_, "/data");
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  EXPECT_TRUE(ReadTree(*files_, "/data") == tree);
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.json").ok());
  const auto rebuilt = RebuildIndex(*files_, "/data");
  ASSERT_TRUE(rebuilt.ok()) << rebuilt.status();
  EXPECT_EQ(rebuilt->segments[0].table.checksum, compact->manifest.segments[0].table.checksum);
  EXPECT_EQ(rebuilt->generation, 1u);
  EXPECT_EQ(ReadAll(*files_, "/data/dataset.segment"), tree.at(compact->manifest.segments[0].table.name));
  EXPECT_FALSE(Exists(*files_, JoinPath("/data", compact->manifest.segments[0].table.name)));
  ExpectSamples(40);
}

TEST_F(AppendTest, LeavesAtMostEightSegments) {
  for (size_t i = 0; i < 15; ++i) {
    Append(20 + i, 21 + i);
    EXPECT_EQ(Listed().segments.size(), std::min<size_t>(i + 2, 8));
    EXPECT_EQ(Listed().generation, i + 2);
  }
  ExpectSamples(35);
  // The first one is never among the two smallest neighbours; the later of equals are joined.
  std::vector<uint64_t> samples;
  for (const Segment& segment : Listed().segments) samples.push_back(segment.samples);
  EXPECT_EQ(samples.front(), 20u);
  EXPECT_EQ(samples, (std::vector<uint64_t>{20, 2, 2, 2, 2, 2, 2, 3}));
  // Files of the manifest and of the one before are left, and no others.
  size_t tables = 0;
  for (const auto& [name, bytes] : ReadTree(*files_, "/data")) tables += name.ends_with(".segment");
  EXPECT_LE(tables, 10u);
}

TEST_F(AppendTest, WhereAnIndexIsDamagedJoiningReadsTheShards) {
  Append(20, 30);
  const std::string sound = ReadAll(*files_, "/data/dataset.segment");
  for (const bool missing : {false, true}) {
    if (missing) {
      ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
    } else {
      std::string damaged = sound;
      damaged[20] ^= 1;
      WriteFile(*files_, "/data/dataset.segment", damaged);
    }
    ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
    ExpectSamples(30);
    Append(30, 30);
    // For the next round.
    files_ = NewMemoryFileSystem();
    SetUp();
    Append(20, 30);
  }
}

TEST_F(AppendTest, WhereASegmentIsDamagedJoiningReadsTheKeysOfTheShards) {
  Append(20, 30);
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  const std::string whole = ReadAll(*files_, JoinPath("/data", Listed().segments[0].table.name));
  for (const bool missing : {false, true}) {
    files_ = NewMemoryFileSystem();
    SetUp();
    Append(20, 30);
    const std::string path = JoinPath("/data", Listed().segments[1].table.name);
    std::string bytes = ReadAll(*files_, path);
    const uint64_t hash = Hash64(Samples(25, 26)[0].key);
    bytes[bytes.find(std::string_view(reinterpret_cast<const char*>(&hash), 8))] ^= 1;  // so that only merging finds it
    if (missing) {
      ASSERT_TRUE(files_->RemoveFile(path).ok());
    } else {
      WriteFile(*files_, path, bytes);
    }
    ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
    EXPECT_EQ(ReadAll(*files_, JoinPath("/data", Listed().segments[0].table.name)), whole) << missing;
    ExpectSamples(30);
  }
}

TEST_F(AppendTest, ACancelledJoinOrRebuildLeavesTheDatasetAsItWas) {
  using Change = std::function<absl::Status(FileSystem&, const std::string&, const Cancellation*)>;
  for (const Change& change : {Change([](FileSystem&files, const std::string&path, const Cancellation*cancellation) {
                                 return CompactDataset(files, path, {{.cancellation = cancellation}}).status();
                               }),
                               Change([](FileSystem&files, const std::string&path, const Cancellation*cancellation) {
                                 return RebuildIndex(files, path, cancellation).status();
                               })}) {
    bool finished = false;
    size_t cancelled = 0, with_keys = 0;
    for (size_t number = 1; !finished; ++number) {
      files_ = NewMemoryFileSystem();
      SetUp();
      Append(20, 30);
      const Tree tree = ReadTree(*files_, "/data");
      Cancellation cancellation;
      size_t calls = 0;
      DisturbingFileSystem cancelling(*files_,
                                      [&](std::string path) {
                                        if (++calls == number) cancellation.Cancel();
                                        return path;
                                      },
                                      {});
      const absl::Status status = change(cancelling, "/data", &cancellation);
      finished = calls < number;
      if (status.ok()) continue;
      ASSERT_TRUE(absl::IsCancelled(status)) << number << ": " << status;
      EXPECT_TRUE(ReadTree(*files_, "/data") == tree) << number << Describe(ReadTree(*files_, "/data"));
      ++cancelled;
      with_keys += absl::StrContains(status.message(), "merging keys") ? 1 : 0;
    }
    EXPECT_GE(cancelled, 5u);
    EXPECT_GE(with_keys, 1u) << "the keys of a large dataset take the most time";
  }
}

TEST_F(AppendTest, NewColumnsAreNullable) {
  static const Column late = {.name = "late", .type = Type::kBytes};
  const auto schema = MakeSchema({KeyColumn(), ImageColumn(), late});
  const auto write = [&](const Schema& columns, const OwnedSample& sample) {
    auto writer = DatasetWriter::Create(*files_, "/data", columns, Appending());
    if (!writer.ok()) return writer.status();
    const absl::Status appended = (*writer)->Append(sample.View());
    return appended.ok() ? (*writer)->Finish().status() : appended;
  };
  OwnedSample sample = Samples(20, 21)[0];
  std::erase_if(sample.fields, [](const auto& field) { return field.first->name != "image"; });
  sample.fields.emplace_back(&late, "value");
  ASSERT_TRUE(write(schema, sample).ok());
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const Schema& columns = (*dataset)->summary().schema;
  EXPECT_EQ(columns.size(), 5u);
  EXPECT_TRUE(columns[*columns.Find("late")].nullable);
  EXPECT_EQ(columns[*columns.Find("text")].codec, Codec::kZstd);
  EXPECT_EQ(ValidateText(*files_, "/data"), "");
  BlockBuffer buffer;
  const size_t position = *(*dataset)->FindColumn("late");
  EXPECT_EQ(*(*dataset)->ReadValue(20, position, &buffer), "value");
  EXPECT_EQ(*(*dataset)->ReadValue(3, position, &buffer), std::nullopt);
  const std::vector<uint64_t> wanted = {20, 3, 20};
  std::vector<std::string_view> values(3);
  ASSERT_TRUE((*dataset)->ReadValues(wanted, position, &buffer, values).ok());
  EXPECT_EQ(values[0], "value");
  EXPECT_EQ(values[1].data(), nullptr);
  EXPECT_EQ(values[2], "value");

  const Tree tree = ReadTree(*files_, "/data");
  EXPECT_TRUE(absl::IsInvalidArgument(write(MakeSchema({{.name = "key", .type = Type::kI32}}), sample)));
  EXPECT_TRUE(ReadTree(*files_, "/data") == tree);
}

TEST_F(AppendTest, NothingIsReadOfAShardThatHasNoneOfTheColumns) {
  static const Column late = {.name = "late", .type = Type::kBytes};
  auto writer = DatasetWriter::Create(*files_, "/data", MakeSchema({KeyColumn(), ImageColumn(), late}), Appending());
  ASSERT_TRUE(writer.ok()) << writer.status();
  OwnedSample sample = Samples(20, 21)[0];
  std::erase_if(sample.fields, [](const auto& field) { return field.first->name != "image"; });
  sample.fields.emplace_back(&late, "value");
  ASSERT_TRUE((*writer)->Append(sample.View()).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  // No block of the first shard can be read any more.
  std::string shard = ReadAll(*files_, "/data/00000000.shard");
  const auto first = ShardReader::Open(*files_, "/data/00000000.shard");
  ASSERT_TRUE(first.ok()) << first.status();
  for (const BlockInfo& block : (*first)->blocks()) std::memset(shard.data() + block.offset, 'x', block.length);
  WriteFile(*files_, "/data/00000000.shard", shard);
  for (const bool readable : {false, true}) {
    const std::vector<std::string> columns = {readable ? "late" : "image"};
    const auto dataset = DatasetReader::Open(*files_, "/data", {{}, columns});
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    const auto scanner = (*dataset)->Scan({.threads = 1});
    ASSERT_TRUE(scanner.ok()) << scanner.status();
    const auto block = (*scanner)->Next();
    EXPECT_EQ(block.ok(), readable) << block.status();
    if (!readable || !block.ok()) continue;
    EXPECT_EQ((*block)->view().sample_count(), 4u);
    EXPECT_EQ((*block)->view().column(0).value(0), std::nullopt);
  }
}

TEST_F(AppendTest, WhatIsNotFinishedLeavesTheDatasetAsItWas) {
  const Tree tree = ReadTree(*files_, "/data");
  for (const int way : {0, 1, 2, 3}) {
    auto writer = Begin(*files_);
    ASSERT_TRUE(writer.ok()) << writer.status();
    if (way > 0) Append(**writer, 20, 40);
    if (way == 0) {
      EXPECT_EQ((*writer)->Finish()->manifest.generation, 1u);  // nothing to publish
    } else if (way == 1) {
      EXPECT_TRUE((*writer)->Abort().ok());
    } else if (way == 2) {
      EXPECT_TRUE((*writer)->Suspend().ok());
    }
    writer->reset();
    EXPECT_TRUE(ReadTree(*files_, "/data") == tree) << way << Describe(ReadTree(*files_, "/data"));
  }
}

TEST_F(AppendTest, RefusesWhatItCannotDo) {
  DatasetWriterOptions options = Appending();
  const Schema schema = MakeSchema({KeyColumn(), ImageColumn()});
  EXPECT_TRUE(absl::IsNotFound(DatasetWriter::Create(*files_, "/none", schema, options).status()));
  EXPECT_FALSE(Exists(*files_, "/none"));
  ASSERT_TRUE(files_->CreateDirectory("/empty").ok());
  EXPECT_TRUE(absl::IsNotFound(DatasetWriter::Create(*files_, "/empty", schema, options).status()));
  EXPECT_TRUE(absl::IsNotFound(CompactDataset(*files_, "/empty").status()));
  EXPECT_TRUE(ReadTree(*files_, "/empty").empty());
  {
    auto unfinished = DatasetWriter::Create(*files_, "/begun", schema, SmallShards(9, 4));
    ASSERT_TRUE(unfinished.ok()) << unfinished.status();
    EXPECT_TRUE(absl::IsFailedPrecondition(DatasetWriter::Create(*files_, "/begun", schema, options).status()));
  }
  options.resume = true;
  EXPECT_TRUE(absl::IsInvalidArgument(DatasetWriter::Create(*files_, "/data", schema, options).status()));
  EXPECT_FALSE(Exists(*files_, "/data/.shardkit/lock"));
}

TEST_F(AppendTest, OneAppenderAtATime) {
  auto first = Begin(*files_);
  ASSERT_TRUE(first.ok()) << first.status();
  Append(**first, 20, 40);
  for (const absl::Status& refused :
       {Begin(*files_).status(), CompactDataset(*files_, "/data").status(), RebuildIndex(*files_, "/data").status()}) {
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  }
  ASSERT_TRUE((*first)->Finish().ok());
  ExpectSamples(40);
}

TEST_F(AppendTest, WithoutLocksOneOfTwoIsRefused) {
  for (const bool first_ends_first : {true, false}) {
    files_ = NewMemoryFileSystem();
    SetUp();
    LocklessFileSystem lockless(*files_);
    auto first = Begin(lockless);
    ASSERT_TRUE(first.ok()) << first.status();
    Append(**first, 20, 40);
    auto second = Begin(lockless);
    ASSERT_TRUE(second.ok()) << second.status();
    Append(**second, 20, 30);
    auto& one = first_ends_first ? *first : *second;
    auto& other = first_ends_first ? *second : *first;
    const absl::Status ended = one->Finish().status();
    one.reset();
    const absl::Status then = other->Finish().status();
    other.reset();
    // The second one has taken what the first was writing for leftovers. Both may be refused; what one has published
    // stays whole.
    EXPECT_LE(ended.ok() + then.ok(), 1) << ended << then;
    ExpectSamples(!ended.ok() && !then.ok() ? 20 : ended.ok() == first_ends_first ? 40 : 30);
  }
}

TEST_F(AppendTest, WithoutLocksTheLaterOneToPublishIsRefused) {
  LocklessFileSystem lockless(*files_);
  auto first = Begin(lockless);
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = Begin(lockless);
  ASSERT_TRUE(second.ok()) << second.status();
  Append(**second, 20, 30);
  const auto published = (*second)->Finish();
  ASSERT_TRUE(published.ok()) << published.status();
  absl::Status refused;
  for (const OwnedSample& sample : Samples(30, 50)) {
    refused = (*first)->Append(sample.View());
    if (!refused.ok()) break;
  }
  if (refused.ok()) refused = (*first)->Finish().status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  first->reset();
  ExpectSamples(30);
}

TEST_F(AppendTest, ALaterGenerationIsNotOverwritten) {
  LocklessFileSystem lockless(*files_);
  auto writer = Begin(lockless);
  ASSERT_TRUE(writer.ok()) << writer.status();
  Append(**writer, 20, 21);
  Manifest manifest = Listed();
  manifest.metadata["note"] = "of another writer";
  ++manifest.generation;
  WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  const absl::Status refused = (*writer)->Finish().status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  writer->reset();
  EXPECT_EQ(Listed().metadata, manifest.metadata);
  ExpectSamples(20);
}

TEST_F(AppendTest, RemovesLeftoversOfItsOwnAndNoOtherFile) {
  const Tree tree = ReadTree(*files_, "/data");
  const auto leave = [&] {
    for (const std::string name :
         {"00000003.shard", "00000004.shard.tmp", "dataset-2.segment", "dataset.segment.tmp", "dataset.json.tmp"}) {
      WriteFile(*files_, "/data/" + name, "left");
    }
  };
  WriteFile(*files_, "/data/.shardkit/change", "");
  leave();
  WriteFile(*files_, "/data/dataset-notes.txt", "mine");
  Append(20, 20);
  Tree left = ReadTree(*files_, "/data");
  EXPECT_EQ(left.erase("dataset-notes.txt"), 1u);
  EXPECT_TRUE(left == tree) << Describe(left);

  // A temporary file is one in any case.
  WriteFile(*files_, "/data/dataset.segment.tmp", "left");
  Append(20, 20);
  EXPECT_FALSE(Exists(*files_, "/data/dataset.segment.tmp"));

  // Without the mark a shard is not known to be left by an append.
  WriteFile(*files_, "/data/00000003.shard", "mine");
  auto writer = Begin(*files_);
  ASSERT_TRUE(writer.ok()) << writer.status();
  Append(**writer, 20, 21);
  const absl::Status refused = (*writer)->Finish().status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
}

// For the record: the shard's header and directory are not read, and a small index is in memory. With a shard's first
// record comes its trailer.
TEST_F(AppendTest, AValueTakesOneRequest) {
  Append(20, 60);
  CountingFileSystem counting(files_.get());
  const auto dataset = DatasetReader::Open(counting, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(counting.reads().size(), 3u);  // the manifest, and each index
  const size_t image = *(*dataset)->FindColumn("image");
  const std::string expected = RowOf(Samples(30, 31)[0]).at("image");
  BlockBuffer buffer;
  counting.Reset();
  EXPECT_EQ(*(*dataset)->ReadValue(30, image, &buffer), expected);
  EXPECT_EQ(counting.reads().size(), 2u);
  EXPECT_EQ(counting.bytes(), expected.size() + 8 + 104);
  counting.Reset();
  EXPECT_EQ(*(*dataset)->ReadValue(30, image, &buffer), expected);
  EXPECT_EQ(counting.reads().size(), 1u);
  EXPECT_EQ(counting.bytes(), expected.size() + 8);
}

TEST_F(AppendTest, AFileOfAnotherLengthIsNotRead) {
  const std::string bytes = ReadAll(*files_, "/data/00000001.shard");
  WriteFile(*files_, "/data/00000001.shard", bytes + std::string(8, '\0'));
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  const absl::Status status = (*dataset)->ReadValue(10, *(*dataset)->FindColumn("image"), &buffer).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("/data/00000001.shard"), std::string::npos) << status;
}

}  // namespace
}  // namespace shardkit::test
