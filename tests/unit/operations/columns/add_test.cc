// Columns added to complete datasets: every value at its sample, the shards untouched, all of it or nothing.
#include <algorithm>
#include <random>

#include "shardkit/change.h"
#include "support/fault_filesystem.h"
#include "unit/operations/columns/columns_support.h"

namespace shardkit::test {
namespace {

std::vector<GivenRows::Values> OrderedScores(size_t count) {
  std::vector<GivenRows::Values> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back({Score(i)});
  return rows;
}

// Keys and scores of every `step`-th of the samples, shuffled.
std::vector<GivenRows::Values> KeyedScores(size_t count, size_t step = 1) {
  const std::vector<OwnedSample> samples = MakeSamples(count);
  std::vector<GivenRows::Values> rows;
  for (size_t i = 0; i < count; i += step) rows.push_back({samples[i].key, Score(i)});
  std::ranges::shuffle(rows, std::mt19937(3));
  return rows;
}

TEST(AddColumnsTest, ByOrder) {
  const auto files = NewDataset();
  const Tree shards = ShardsOf(*files, "/d");
  GivenRows rows({Scored()}, OrderedScores(40));
  const auto report = AddColumns(*files, "/d", rows);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->generation, 2u);
  EXPECT_EQ(report->columns, std::vector<std::string>{"score"});
  EXPECT_TRUE(report->replaced.empty());
  EXPECT_EQ(report->matched, 40u);
  EXPECT_EQ(report->rows, 40u);
  EXPECT_EQ(report->files, 1u) << "one for many shards of the dataset";
  std::vector<Row> expected = RowsOf(MakeSamples(40));
  for (size_t i = 0; i < expected.size(); ++i) expected[i]["score"] = Score(i);
  EXPECT_EQ(ScanRows(*files, "/d"), expected);
  EXPECT_EQ(SeenColumns(*files, "/d"), "key:utf8 image:jpeg? label:i32? text:utf8? score:f32");
  EXPECT_EQ(ValidateText(*files, "/d"), "");
  for (const auto& [name, bytes] : shards) EXPECT_EQ(ReadAll(*files, "/d/" + name), bytes) << name;
}

TEST(AddColumnsTest, ByKeyInAnyMemory) {
  for (const uint64_t memory : {uint64_t{1} << 20, uint64_t{500}}) {
    const auto files = NewDataset();
    std::vector<GivenRows::Values> given = KeyedScores(40, 3);
    given.insert(given.begin() + 2, {{"none", Score(0)}, {"", Score(1)}});
    GivenRows rows({KeyColumn(), Scored()}, given, /*counted=*/false);
    const auto report = AddColumns(*files, "/d", rows, {.memory = memory});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->matched, 14u);
    EXPECT_EQ(report->rows, 16u);
    EXPECT_EQ(report->unmatched, 2u);
    EXPECT_EQ(report->unmatched_keys, (std::vector<std::string>{"none", ""}));
    std::vector<Row> expected = RowsOf(MakeSamples(40));
    for (size_t i = 0; i < expected.size(); i += 3) expected[i]["score"] = Score(i);
    EXPECT_EQ(ScanRows(*files, "/d"), expected);
    EXPECT_TRUE(SeenColumns(*files, "/d").ends_with(" score:f32?"));
    EXPECT_EQ(ValidateText(*files, "/d"), "");
    for (const auto& [name, bytes] : ReadTree(*files, "/d")) EXPECT_FALSE(name.ends_with(".tmp")) << name;
  }
}

TEST(AddColumnsTest, UnmatchedKeysAreCountedAndTheFirstListed) {
  const auto files = NewDataset(5);
  std::vector<GivenRows::Values> given;
  std::vector<std::string> first;
  for (size_t i = 0; i < 100; ++i) {
    given.push_back({"other " + std::to_string(i), Score(i)});
    if (i < kMostUnmatched) first.push_back(*given.back()[0]);
  }
  GivenRows rows({KeyColumn(), Scored()}, given);
  const auto report = AddColumns(*files, "/d", rows, {.memory = 300});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->matched, 0u);
  EXPECT_EQ(report->unmatched, 100u);
  EXPECT_EQ(report->unmatched_keys, first);
}

TEST(AddColumnsTest, AColumnIsReplacedAndTypesMayDiffer) {
  const auto files = NewDataset();
  GivenRows scores({Scored("label"), Noted("text")}, [] {
    std::vector<GivenRows::Values> rows;
    for (size_t i = 0; i < 40; ++i) {
      rows.push_back({Score(i), i % 2 == 0 ? std::optional<std::string>() : std::to_string(i)});
    }
    return rows;
  }());
  auto report = AddColumns(*files, "/d", scores);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->replaced, (std::vector<std::string>{"label", "text"}));
  EXPECT_EQ(SeenColumns(*files, "/d"), "key:utf8 image:jpeg? label:f32 text:utf8?");
  // A later file takes the place of one column of an earlier one; the other column of that stays.
  GivenRows again({Scored("label")}, OrderedScores(40));
  ASSERT_TRUE(AddColumns(*files, "/d", again).ok());
  const auto manifest = ReadManifest(*files, "/d");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->column_files.size(), 2u);
  EXPECT_EQ(manifest->generation, 3u);
  // The first file is needed no more.
  ASSERT_TRUE(DropColumns(*files, "/d", {"text"}).ok());
  EXPECT_EQ(ReadManifest(*files, "/d")->column_files.size(), 1u);
  EXPECT_TRUE(Exists(*files, "/d/dataset-2.columns")) << "earlier generations still name it";
}

TEST(AddColumnsTest, ThreadsDoNotChangeAByte) {
  std::optional<Tree> first;
  std::vector<GivenRows::Values> given = KeyedScores(300, 2);
  for (size_t i = 0; i < given.size(); ++i)
    given[i].push_back(std::string(20000 + 10 * i, static_cast<char>('a' + i % 26)));
  for (const int threads : {1, 4}) {
    const auto files = NewDataset(300);
    GivenRows rows({KeyColumn(), Scored(), Noted()}, given);
    ASSERT_TRUE(AddColumns(*files, "/d", rows, {{.threads = threads}}).ok());
    const Tree tree = ReadTree(*files, "/d");
    EXPECT_GT(ReadManifest(*files, "/d")->column_files[0].blocks, 8u) << "so many that threads have several at once";
    if (!first) first = tree;
    EXPECT_TRUE(tree == *first) << Describe(tree);
  }
}

TEST(AddColumnsTest, BlocksAreThoseOfTheShards) {
  const auto files = NewMemoryFileSystem();
  ASSERT_TRUE(WriteDataset(*files, "/d", MakeSamples(100), SmallShards(37, 5)).ok());
  std::vector<GivenRows::Values> given;
  for (size_t i = 0; i < 100; ++i) given.push_back({std::string(20000 + 100 * i, static_cast<char>(i))});
  const auto ends = [&](const std::string& path) {
    const auto dataset = DatasetReader::Open(*files, path);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    const auto blocks = (*dataset)->ReadBlockDirectory();
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    std::vector<uint64_t> found;
    for (const DatasetBlock& block : *blocks) {
      found.push_back(block.first_sample + block.sample_count);
    }
    return found;
  };
  const std::vector<uint64_t> base = ends("/d");
  GivenRows rows({Noted()}, given);
  ASSERT_TRUE(AddColumns(*files, "/d", rows).ok());
  EXPECT_GT(base.size(), 20u);
  EXPECT_EQ(ends("/d/dataset-2.columns"), base);
}

// Who has signed a manifest has signed every byte.
TEST(AddColumnsTest, FilesAreHashedAsShardsAre) {
  for (const bool hashed : {false, true}) {
    const auto files = NewMemoryFileSystem();
    DatasetWriterOptions options = SmallShards(9, 4);
    options.sha256 = hashed;
    ASSERT_TRUE(WriteDataset(*files, "/d", MakeSamples(40), options).ok());
    GivenRows rows({Scored()}, OrderedScores(40));
    ASSERT_TRUE(AddColumns(*files, "/d", rows).ok());
    EXPECT_EQ(ReadManifest(*files, "/d")->column_files[0].sha256.has_value(), hashed);
    EXPECT_EQ(ValidateText(*files, "/d"), "");
  }
}

TEST(AddColumnsTest, Refused) {
  const auto files = NewDataset();
  const Tree before = ReadTree(*files, "/d");
  const auto error = [&](std::vector<Column> columns, std::vector<GivenRows::Values> rows, bool counted = true) {
    GivenRows given(std::move(columns), std::move(rows), counted);
    const auto report = AddColumns(*files, "/d", given);
    EXPECT_FALSE(report.ok());
    EXPECT_EQ(Describe(ReadTree(*files, "/d")), Describe(before));
    return Message(report.status());
  };
  EXPECT_EQ(error({Scored()}, OrderedScores(39)),
            "/d: samples: 40, rows: 39: without a key each sample takes one row; or name the column with the keys");
  EXPECT_EQ(error({Scored()}, OrderedScores(39), false),
            "/d: samples: 40, rows: 39: without a key each sample takes one row; or name the column with the keys");
  EXPECT_EQ(error({Scored()}, OrderedScores(41), false),
            "/d: samples: 40, rows: more than 40: without a key each sample takes one row; or name the column with the "
            "keys");
  std::vector<GivenRows::Values> twice = KeyedScores(10);
  twice.push_back(twice[4]);
  EXPECT_EQ(error({KeyColumn(), Scored()}, twice),
            "/d: rows 4 and 10 (from 0) both have the key \"" + *twice[4][0] + "\"");
  EXPECT_EQ(error({KeyColumn(), Scored()}, {{std::nullopt, Score(1)}}), "/d: row 0 (from 0) has no key");
  EXPECT_EQ(error({Scored("key")}, OrderedScores(40)),
            "/d: column \"key\": is the key of the samples, which stays as it is");
  EXPECT_EQ(error({KeyColumn()}, {{"a"}}), "/d: there is no column to add besides the key");
  EXPECT_NE(error({Scored()}, std::vector<GivenRows::Values>(40, {std::nullopt})).find("sample 0"), std::string::npos);
  // The wrong column as the key would take all values away.
  EXPECT_EQ(error({KeyColumn(), Noted("text")}, {{"12", "a"}, {"13", "b"}}),
            "/d: no sample has a key of the rows, as \"12\": values would be replaced by none; is that the column with "
            "the keys?");
}

TEST(AddColumnsTest, AReplacedColumnKeepsItsMetadata) {
  const auto files = NewDataset();
  ASSERT_TRUE(SetColumnMetadata(*files, "/d", "label", {{"unit", "m"}}).ok());
  GivenRows rows({Scored("label")}, OrderedScores(40));
  ASSERT_TRUE(AddColumns(*files, "/d", rows).ok());
  const auto dataset = DatasetReader::Open(*files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->columns()[*(*dataset)->FindColumn("label")].metadata, (Metadata{{"unit", "m"}}));
  EXPECT_EQ(ValidateText(*files, "/d"), "");
}

TEST(AddColumnsTest, WhereThereIsNoDatasetToChange) {
  const auto files = NewMemoryFileSystem();
  const auto error = [&](const std::string& path) {
    GivenRows rows({Scored()}, OrderedScores(3));
    return Message(AddColumns(*files, path, rows).status());
  };
  GivenRows any({Scored()}, OrderedScores(3));
  EXPECT_TRUE(absl::IsNotFound(AddColumns(*files, "/missing", any).status()));
  ASSERT_TRUE(WriteDataset(*files, "/d", MakeSamples(3), {}).ok());
  EXPECT_NE(error("/d/00000000.shard").find("single shard"), std::string::npos);
  ASSERT_TRUE(WriteDataset(*files, "/empty", {}, {}).ok());
  EXPECT_NE(error("/empty").find("has no samples"), std::string::npos);
  auto writer = DatasetWriter::Create(*files, "/keyless", MakeSchema({Scored("a")}), {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(std::vector<std::optional<Value>>{Value(Score(1))}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  GivenRows rows({KeyColumn(), Scored()}, {{"a", Score(1)}});
  const auto status = AddColumns(*files, "/keyless", rows).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST(AddColumnsTest, CancelledAtAnyTime) {
  const auto files = NewDataset(200);
  const Tree before = ReadTree(*files, "/d");
  for (const uint64_t at : {50, 200}) {
    Cancellation cancellation;
    AddColumnsOptions options;
    options.cancellation = &cancellation;
    options.progress = [&](uint64_t done, uint64_t total) {
      EXPECT_EQ(total, 200u);
      if (done >= at) cancellation.Cancel();
    };
    GivenRows rows({KeyColumn(), Scored()}, KeyedScores(200));
    const absl::Status status = AddColumns(*files, "/d", rows, options).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(Describe(ReadTree(*files, "/d")), Describe(before));
  }
}

// Each call of the file system fails in turn: the dataset is then as before or as after, and the next change works.
TEST(AddColumnsTest, EveryCallFails) {
  const auto source = NewDataset(12);
  const Tree before = ReadTree(*source, "/d");
  const std::vector<Row> old_rows = RowsOf(MakeSamples(12));
  std::vector<Row> new_rows = old_rows;
  for (size_t i = 0; i < 12; i += 2) new_rows[i]["score"] = Score(i);
  const auto run = [](FileSystem& files) {
    GivenRows rows({KeyColumn(), Scored()}, KeyedScores(12, 2));
    return AddColumns(files, "/d", rows, {.memory = 200}).status();
  };
  for (uint64_t number = 1;; ++number) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, "/d", before);
    FaultFileSystem faults(files.get());
    faults.FailCall(number, {.all_following = number % 2 == 0});
    const absl::Status status = run(faults);
    const auto failed = faults.failed_call();
    if (!failed) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GT(number, 50u);
      return;
    }
    SCOPED_TRACE("call " + std::to_string(number) + ": " + failed->operation + " " + failed->path);
    const std::vector<Row> rows = ScanRows(*files, "/d");
    EXPECT_TRUE(rows == old_rows || rows == new_rows) << status;
    if (status.ok()) {
      EXPECT_EQ(rows, new_rows);
    }
    ASSERT_TRUE(run(*files).ok());
    EXPECT_EQ(ScanRows(*files, "/d"), new_rows);
    EXPECT_EQ(ValidateText(*files, "/d"), "");
    for (const auto& [name, bytes] : ReadTree(*files, "/d")) {
      EXPECT_FALSE(name.ends_with(".tmp") || name.ends_with(".change") || name.ends_with(".lock")) << name;
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace shardkit::test
