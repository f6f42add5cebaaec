// Datasets whose shards and column files lie in other datasets.
#include "dataset/bases.h"

#include <algorithm>

#include "base/hash.h"
#include "base/strings.h"
#include "dataset/manifest_text.h"
#include "dataset/view_support.h"
#include "shardkit/copy.h"
#include "shardkit/history.h"
#include "shardkit/repair.h"

namespace shardkit::test {
namespace {

class BasesTest : public ViewTest {
 protected:
  void SetUp() override {
    ViewTest::SetUp();
    AllowBases({"/"});
  }
  void TearDown() override { AllowBases({}); }

  // What was made so far becomes a base, and the dataset one that refers to it.
  void Refer() {
    WriteTree(*files_, "/base", ReadTree(*files_, "/data"));
    ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
    base_ = ReadTree(*files_, "/base");
    MergeOptions options;
    options.by_reference = true;
    const auto merged = MergeDatasets(*files_, {"/base"}, "/data", options);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->BaseOf(merged->shards[0].name)->path, "/base");
  }

  // Has shards, and not of a base alone.
  void ExpectOwnShards() {
    const Tree tree = ReadTree(*files_, "/data");
    EXPECT_TRUE(std::ranges::any_of(tree, [](const auto& file) { return file.first.ends_with(".shard"); }));
  }

  Tree base_;
};

TEST_F(BasesTest, AllThatADatasetDoes) {
  Remove({2, 3, 30});
  AddColumn(Score(), &ScoreOf);
  Append(40, 60);
  Refer();
  Check();
  Check({.columns = {"score"}});
  Remove({0, 1, 20, 45});
  Check();
  AddColumn(Text("caption"), [](uint64_t sample) { return StrCat("of ", sample); });
  Check();
  Append(60, 77);
  Check();
  ExpectOwnShards();
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Check();
  ASSERT_TRUE(files_->RemoveFile("/data/" + ReadManifest(*files_, "/data")->segments[0].table.name).ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Check();
  const auto compacted = CompactDataset(*files_, "/data", {.least_lost = 0.3});
  ASSERT_TRUE(compacted.ok()) << compacted.status();
  EXPECT_GT(compacted->shards_rewritten, 0u);
  EXPECT_EQ(compacted->manifest.bases.size(), 1u);
  EXPECT_EQ(compacted->manifest.replaced, std::vector<std::string>());
  Check();
  ASSERT_TRUE(files_->CreateDirectory("/data/base").ok());
  WriteFile(*files_, "/data/base/00000000.shard", "no file of the dataset");
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.purge = true}).ok());
  Check();
  EXPECT_TRUE(Exists(*files_, "/data/base/00000000.shard"));
  EXPECT_TRUE(ReadTree(*files_, "/base") == base_) << Describe(ReadTree(*files_, "/base"));
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.fold = true, .purge = true}).ok());
  EXPECT_EQ(ReadManifest(*files_, "/data")->bases.size(), 0u);
  EXPECT_TRUE(ReadTree(*files_, "/base") == base_);
  ASSERT_TRUE(RemoveTree(*files_, "/base").ok());
  Check();
}

// Only the manifest says which samples lie in bases.
TEST_F(BasesTest, ALostManifestIsNotMadeOfTheOwnShardsAlone) {
  Refer();
  Append(40, 50);
  const Tree before = ReadTree(*files_, "/data");
  for (const size_t left : {size_t{0}, before.at("dataset.json").size() - 5}) {
    WriteTree(*files_, "/data", before);
    WriteFile(*files_, "/data/dataset.json", before.at("dataset.json").substr(0, left));
    if (left == 0) {
      ASSERT_TRUE(files_->RemoveFile("/data/dataset.json").ok());
    }
    const Tree damaged = ReadTree(*files_, "/data");
    EXPECT_TRUE(absl::IsDataLoss(RebuildIndex(*files_, "/data").status()));
    EXPECT_TRUE(absl::IsFailedPrecondition(RepairDataset(*files_, "/data", "/whole", {}).status()));
    EXPECT_TRUE(ReadTree(*files_, "/data") == damaged);
  }
}

// What a base was needed for may go without a shard being rewritten.
TEST_F(BasesTest, BasesGoWithTheirLastFile) {
  Refer();
  AddColumn(Score(), &ScoreOf);
  MergeOptions options;
  options.by_reference = true;
  ASSERT_TRUE(MergeDatasets(*files_, {"/data"}, "/third", options).ok());
  EXPECT_EQ(ReadManifest(*files_, "/third")->bases.size(), 2u);
  ASSERT_TRUE(DropColumns(*files_, "/third", {"score"}).ok());
  const Manifest manifest = *ReadManifest(*files_, "/third");
  ASSERT_EQ(manifest.bases.size(), 1u);
  EXPECT_EQ(manifest.bases[0].path, "/base");
}

// A dataset of today does not need what earlier generations referred to.
TEST_F(BasesTest, EarlierGenerationsOutOfReach) {
  Refer();
  Remove({3});
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.fold = true}).ok());
  AllowBases({});
  Check();
  const auto history = ReadHistory(*files_, "/data");
  ASSERT_TRUE(history.ok()) << history.status();
  std::vector<bool> readable;
  for (const DatasetGeneration& each : *history) readable.push_back(each.readable);
  EXPECT_EQ(readable, (std::vector<bool>{false, false, true}));
  EXPECT_TRUE(absl::IsPermissionDenied(DatasetReader::Open(*files_, "/data", {.generation = 1}).status()));
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Check();
}

TEST_F(BasesTest, ManyBases) {
  Refer();
  Manifest manifest = *ReadManifest(*files_, "/data");
  const Base base = manifest.bases[0];
  for (int i = 0; i < 60000; ++i) {
    manifest.bases.push_back({.name = StrCat("c", absl::Dec(i, absl::kZeroPad8)), .location = base.location});
  }
  const auto parsed = ParseManifest(FormatManifest(manifest));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->BaseOf("c00000007/x")->name, "c00000007");
  EXPECT_EQ(parsed->BaseOf("c/x"), nullptr);
  EXPECT_EQ(parsed->BaseOf("c00000007"), nullptr);
  std::swap(manifest.bases[1], manifest.bases[2]);
  EXPECT_TRUE(absl::IsDataLoss(ParseManifest(FormatManifest(manifest)).status()));
}

// Names of files in a web server's folder are no way out of it.
TEST_F(BasesTest, NamesBelowBasesInTheWeb) {
  Manifest manifest;
  manifest.bases = {{.name = "b", .location = "https://h/x", .path = "https://h/x"},
                    {.name = "c", .location = "s3://h/x", .path = "s3://h/x"}};
  EXPECT_EQ(manifest.PathOf("/d", "b/%2e%2e/a?b#c.shard"), "https://h/x/%252e%252e/a%3Fb%23c.shard");
  EXPECT_EQ(manifest.PathOf("/d", "c/%2e%2e/a?b.shard"), "s3://h/x/%2e%2e/a?b.shard");
  EXPECT_EQ(manifest.PathOf("/d", "d/a.shard"), "/d/d/a.shard");
}

TEST_F(BasesTest, ListsOfShardsHaveNamesOfBases) {
  Remove({7});
  Refer();
  ListShardsApart(*files_, "/data");
  Check();
  Append(40, 45);
  Check();
}

TEST_F(BasesTest, RepairMakesAWholeDataset) {
  Remove({5, 6});
  AddColumn(Score(), &ScoreOf);
  Refer();
  const auto repaired = RepairDataset(*files_, "/data", "/whole", {});
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_TRUE(repaired->lossless());
  EXPECT_EQ(repaired->manifest.bases.size(), 0u);
  ASSERT_TRUE(RemoveTree(*files_, "/base").ok());
  EXPECT_EQ(ScanRows(*files_, "/whole"), rows_);
  EXPECT_EQ(ValidateText(*files_, "/whole"), "");
}

TEST_F(BasesTest, OneShardInTwoBases) {
  Refer();
  MergeOptions options;
  options.by_reference = true;
  EXPECT_TRUE(absl::IsInvalidArgument(MergeDatasets(*files_, {"/base", "/data"}, "/twice", options).status()));
  options.keep_repeated_keys = true;
  const auto merged = MergeDatasets(*files_, {"/base", "/data"}, "/twice", options);
  ASSERT_TRUE(merged.ok()) << merged.status();
  std::vector<Row> twice = rows_;
  twice.insert(twice.end(), rows_.begin(), rows_.end());
  EXPECT_EQ(ScanRows(*files_, "/twice"), twice);
  EXPECT_EQ(ValidateText(*files_, "/twice"), "");
  options.copy = true;
  EXPECT_TRUE(absl::IsInvalidArgument(MergeDatasets(*files_, {"/base"}, "/no", options).status()));
}

class CountShards final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    opened += path.ends_with(".shard") ? 1 : 0;
    return ForwardingFileSystem::OpenForReading(path, mode, size);
  }
  int opened = 0;
};

// Ordinals need no values, and segments have all that the new segment is made of.
TEST_F(BasesTest, NoShardIsOpenedForARange) {
  Refer();
  CountShards files(*files_);
  FilterOptions options;
  options.by_reference = true;
  SampleSelection selection;
  selection.ranges = {{5, 8}, {20, 38}};
  const auto filtered = Filter(files, "/data", "/new", selection, options);
  ASSERT_TRUE(filtered.ok()) << filtered.status();
  EXPECT_EQ(filtered->pack.manifest.shards.size(), 4u);
  EXPECT_EQ(files.opened, 0);
  // Without its keys and index, the shards are asked.
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
  ASSERT_TRUE(Filter(files, "/data", "/same", selection, options).ok());
  EXPECT_GT(files.opened, 0);
  EXPECT_EQ(ReadAll(*files_, "/same/dataset.segment"), ReadAll(*files_, "/new/dataset.segment"));
}

// Changes the dataset while the selection reads it.
TEST_F(BasesTest, AnInputThatChangesMeanwhileIsRefused) {
  FilterOptions options;
  options.by_reference = true;
  bool changed = false;
  options.selecting = [&](uint64_t, uint64_t) {
    if (!std::exchange(changed, true)) Remove({1});
  };
  SampleSelection selection;
  selection.where = "label is not null";
  const absl::Status status = Filter(*files_, "/data", "/new", selection, options).status();
  EXPECT_TRUE(changed);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_FALSE(Exists(*files_, "/new"));
}

TEST_F(BasesTest, ErrorsNameTheBase) {
  AddColumn(Score(), &ScoreOf);
  Refer();
  const auto opened = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(opened.ok());
  const auto expect = [&](absl::StatusCode code, const std::string& path) {
    const auto dataset = DatasetReader::Open(*files_, "/data");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    BlockBuffer buffer;
    absl::Status status;
    for (size_t column = 0; column < (*dataset)->columns().size() && status.ok(); ++column) {
      status = (*dataset)->ReadValue(0, column, &buffer).status();
    }
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(Message(status).find(path), std::string::npos) << status;
    EXPECT_NE(Message(status).find("base \"base\""), std::string::npos) << status;
    EXPECT_NE(ValidateText(*files_, "/data").find("base \"base\""), std::string::npos);
  };
  const std::string column_file = "/base/dataset-2.columns", shard = "/base/00000000.shard";
  for (const std::string& path : {column_file, shard}) {
    const std::string bytes = ReadAll(*files_, path);
    ASSERT_TRUE(files_->RemoveFile(path).ok());
    expect(absl::StatusCode::kNotFound, path);
    WriteFile(*files_, path, ReadAll(*files_, "/base/00000001.shard"));
    expect(absl::StatusCode::kDataLoss, path);
    WriteFile(*files_, path, bytes);
  }
  Check();
}

TEST_F(BasesTest, ValidationSaysThatABaseHasChanged) {
  Refer();
  const auto warning = [&]() -> std::string {
    const auto report = Validate(*files_, "/data", {});
    if (!report.ok() || !report->ok()) return "not valid";
    return report->warnings.empty() ? "" : report->warnings[0].message;
  };
  EXPECT_EQ(warning(), "");
  SampleSelection selection;
  selection.ranges = {{0, 3}};
  ASSERT_TRUE(RemoveSamples(*files_, "/base", selection).ok());
  EXPECT_NE(warning().find("base \"base\" (/base): has generation 2 now, and this dataset was made of 1"),
            std::string::npos)
      << warning();
  WriteTree(*files_, "/base", {{"dataset.json", FormatManifest(*ReadManifest(*files_, "/data"))}});
  EXPECT_NE(warning().find("is another dataset"), std::string::npos) << warning();
  ASSERT_TRUE(files_->RemoveFile("/base/dataset.json").ok());
  EXPECT_NE(warning().find("cannot be read"), std::string::npos) << warning();
}

struct Place {
  std::string directory, location;
  std::string path;  // empty: out of reach
};

TEST_F(BasesTest, Reach) {
  const std::vector<Place> places = {
      {"/data/ds", "../x", "/data/x"},
      {"/data/ds", ".././//y/../x/", "/data/x"},
      {"/data/ds", "/data/x", "/data/x"},
      {"/data/ds", "//data/x", "/data/x"},
      {"/data/ds", "..", "/data"},
      {"/data/ds", ".", "own"},
      {"/data/ds", "x/..", "own"},
      {"https://h/ds", "../a%2Eb", "own"},
      {"https://h/ds", "../a%2fb", "own"},
      {"https://h/ds", "../a?b", "own"},
      {"https://h/ds", "../a#b", "own"},
      {"s3://b/ds", "../a%2fb", "s3://b/a%2fb"},
      {"/data/ds", "../..", ""},
      {"/data/ds", "../../data2/x", ""},
      {"/data/ds", "/data2", ""},
      {"/data/ds", "s3://b/x", ""},
      {"/a/data/ds", "../../x", "/a/x"},
      {"/a/data/ds", "../../../x", ""},
      {"/a/data/ds", "../../../ab/x", ""},
      {"/ds", "x", "/ds/x"},
      {"/ds", "../x", ""},
      {"s3://b/ds", "../x", "s3://b/x"},
      {"s3://b/ds", "../../../../c/x", "s3://b/c/x"},
      {"s3://b/ds", "s3://b/x/./y", "s3://b/x/y"},
      {"s3://b/ds", "s3://bc/x", ""},
      {"s3://b/ds", "gs://b/x", ""},
      {"s3://b/ds", "/etc", ""},
      {"s3://b", "x", "s3://b/x"},
      {"https://h:1/a/ds", "https://h:1/b", "https://h:1/b"},
      {"https://h:1/a/ds", "https://h:2/b", ""},
      {"https://h:1/a/ds", "http://h:1/b", ""},
      {"https://h/a/ds", "https://h.evil/b", ""},
      {"hf://datasets/o/n/ds", "../x", "hf://datasets/o/n/x"},
      {"hf://datasets/o/n@main/ds", "hf://datasets/o/n@main/x", "hf://datasets/o/n@main/x"},
      {"hf://datasets/o/n@main/ds", "hf://datasets/o/n/x", ""},
      {"hf://datasets/o/n/ds", "../../other/x", ""},
  };
  AllowBases({});
  for (const Place& place : places) {
    ManifestSummary summary;
    summary.bases = {{.name = "b\n", .location = place.location}};
    const absl::Status status = dataset::FindBases(place.directory, &summary);
    if (place.path == "own") {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      continue;
    }
    EXPECT_EQ(status.ok() ? summary.bases[0].path : "", place.path) << place.directory << " " << place.location;
    if (status.ok()) continue;
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_EQ(Message(status).find('\n'), std::string::npos);
    for (const char* const word : {"--allow-base", "SHARDKIT_ALLOW_BASES", "AllowBases"}) {
      EXPECT_NE(Message(status).find(word), std::string::npos) << status;
    }
  }
}

TEST_F(BasesTest, Prefixes) {
  const std::vector<Place> places = {
      {"/team/x", "/team/x", "in"},      {"/team/x/", "/team/x/y", "in"},
      {"/team/x", "/team/xy", ""},       {"/", "/team/x", "in"},
      {"s3://", "s3://b/x", "in"},       {"s3://b", "s3://b/x", "in"},
      {"s3://b/x/", "s3://b/x", "in"},   {"s3://b/x", "s3://b/xy", ""},
      {"s3://b", "s3://bc/x", ""},       {"/", "s3://b/x", ""},
      {"/a,/team/x", "/team/x", ""},     {"/team/../x", "/team/x", ""},
      {"/team/y/../x", "/team/x", "in"}, {"https://h", "http://h/x", ""},
  };
  for (const Place& place : places) {
    ManifestSummary summary;
    summary.bases = {{.name = "b", .location = place.location}};
    AllowBases({"/nowhere", place.directory});
    EXPECT_EQ(dataset::FindBases("/data/ds", &summary).ok(), !place.path.empty())
        << place.directory << " " << place.location;
  }
}

TEST_F(BasesTest, LocationsOfNewDatasets) {
  const std::vector<Place> places = {
      {"/data/new", "/data/base", "../base"},   {"/data/parts/new", "/data/base", "../../base"},
      {"/a/parts/b/new", "/a/base", "/a/base"}, {"/data/new", "s3://b/x", "s3://b/x"},
      {"s3://b/new", "s3://b/x/y", "../x/y"},   {"s3://c/new", "s3://b/x", "s3://b/x"},
      {"s3://c/new", "/data/base", ""},
  };
  AllowBases({"/", "s3://"});
  for (const Place& place : places) {
    const auto base = dataset::BaseFor(place.directory, place.location, 3, 7);
    EXPECT_EQ(base.ok() ? base->location : "", place.path) << base.status();
    if (!base.ok()) continue;
    EXPECT_EQ(base->generation, 3u);
    ManifestSummary summary;
    summary.bases = {*base};
    ASSERT_TRUE(dataset::FindBases(place.directory, &summary).ok());
    EXPECT_EQ(summary.bases[0].path, place.location);
  }
}

}  // namespace
}  // namespace shardkit::test
