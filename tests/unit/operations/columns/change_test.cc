// Columns dropped, renamed and described: what readers see then, and that nothing else changes.

#include <algorithm>
#include <functional>

#include "shardkit/change.h"
#include "shardkit/history.h"
#include "unit/operations/columns/columns_support.h"

namespace shardkit::test {
namespace {

void AddScores(FileSystem& files, size_t count, const std::string& name = "score") {
  std::vector<GivenRows::Values> given;
  for (size_t i = 0; i < count; ++i) given.push_back({Score(i)});
  GivenRows rows({Scored(name)}, given);
  const auto report = AddColumns(files, "/d", rows);
  EXPECT_TRUE(report.ok()) << report.status();
}

// The rows of MakeSamples(count), changed.
std::vector<Row> Expected(size_t count, const std::function<void(Row&, size_t)>& change) {
  std::vector<Row> rows = RowsOf(MakeSamples(count));
  for (size_t i = 0; i < rows.size(); ++i) change(rows[i], i);
  return rows;
}

void Rename(Row& row, const std::string& from, const std::string& to) {
  if (auto value = row.extract(from); !value.empty()) {
    value.key() = to;
    row.insert(std::move(value));
  }
}

TEST(ChangeColumnsTest, Drop) {
  const auto files = NewDataset();
  const Tree shards = ShardsOf(*files, "/d");
  AddScores(*files, 40);
  const auto generation = DropColumns(*files, "/d", {"text", "score"});
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, 3u);
  EXPECT_EQ(SeenColumns(*files, "/d"), "key:utf8 image:jpeg? label:i32?");
  EXPECT_EQ(ScanRows(*files, "/d"), Expected(40, [](Row& row, size_t) { row.erase("text"); }));
  EXPECT_EQ(ValidateText(*files, "/d"), "");
  for (const auto& [name, bytes] : shards) EXPECT_EQ(ReadAll(*files, "/d/" + name), bytes);
  // A dropped column may come again, with other values.
  AddScores(*files, 40, "text");
  EXPECT_EQ(ScanRows(*files, "/d"), Expected(40, [](Row& row, size_t i) { row["text"] = Score(i); }));
}

TEST(ChangeColumnsTest, RenameAlsoInACircle) {
  const auto files = NewDataset();
  AddScores(*files, 40);
  const auto generation = RenameColumns(*files, "/d", {{"text", "label"}, {"label", "score"}, {"score", "text"}});
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(SeenColumns(*files, "/d"), "key:utf8 image:jpeg? score:i32? label:utf8? text:f32");
  const auto expected = Expected(40, [](Row& row, size_t i) {
    Rename(row, "label", "new");
    Rename(row, "text", "label");
    Rename(row, "new", "score");
    row["text"] = Score(i);
  });
  EXPECT_EQ(ScanRows(*files, "/d"), expected);
  EXPECT_EQ(ValidateText(*files, "/d"), "");
}

TEST(ChangeColumnsTest, RenamedBackColumnsAreJustThoseOfTheShards) {
  const auto files = NewDataset();
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"text", "words"}}).ok());
  EXPECT_FALSE(ReadManifest(*files, "/d")->shards_have_columns());
  EXPECT_EQ(ScanRows(*files, "/d"), Expected(40, [](Row& row, size_t) { Rename(row, "text", "words"); }));
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"words", "text"}}).ok());
  const auto manifest = ReadManifest(*files, "/d");
  EXPECT_TRUE(manifest->shards_have_columns());
  EXPECT_EQ(manifest->generation, 3u);
}

TEST(ChangeColumnsTest, TheKeyCanBeRenamed) {
  const auto files = NewDataset();
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"key", "id"}}).ok());
  EXPECT_EQ(ScanRows(*files, "/d"), Expected(40, [](Row& row, size_t) { Rename(row, "key", "id"); }));
  const auto dataset = DatasetReader::Open(*files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  const auto found = (*dataset)->FindKey(MakeSamples(40)[17].key, &buffer);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, 17u);
  GivenRows rows({KeyColumn(), Scored()}, {{MakeSamples(40)[3].key, Score(3)}});
  const auto report = AddColumns(*files, "/d", rows);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->matched, 1u);
}

// A dataset has one key: appended samples have it, whatever it is called. Other columns are told apart by their names.
TEST(ChangeColumnsTest, AppendingToRenamedColumns) {
  const std::vector<OwnedSample> samples = MakeSamples(60);
  DatasetWriterOptions appending = SmallShards(15, 4);
  appending.append = true;
  using Names = std::vector<std::pair<std::string, std::string>>;
  for (const Names& names : {Names{{"key", "id"}}, Names{{"text", "words"}},
                             Names{{"key", "id"}, {"image", "picture"}, {"label", "class"}, {"text", "words"}}}) {
    const auto files = NewDataset();
    ASSERT_TRUE(RenameColumns(*files, "/d", names).ok());
    for (size_t begin = 40; begin < 60; begin += 10) {  // an append to what was appended, too
      const auto begins = samples.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto appended = WriteDataset(*files, "/d", {begins, begins + 10}, appending);
      ASSERT_TRUE(appended.ok()) << appended.status();
    }
    std::vector<Row> expected = RowsOf(samples);
    for (size_t i = 0; i < expected.size(); ++i) {
      for (const auto& [from, to] : names) {
        if (i < 40 || from == "key") Rename(expected[i], from, to);
      }
    }
    EXPECT_EQ(ScanRows(*files, "/d"), expected);
    EXPECT_EQ(ValidateText(*files, "/d"), "");
    const auto dataset = DatasetReader::Open(*files, "/d");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    BlockBuffer buffer;
    for (const size_t i : {3, 47, 59}) EXPECT_EQ(*(*dataset)->FindKey(samples[i].key, &buffer), i);
    EXPECT_TRUE(absl::IsAlreadyExists(
        WriteDataset(*files, "/d", {samples.begin() + 45, samples.begin() + 46}, appending).status()));
  }
  // The key has a codec of its own, whatever it is called.
  {
    const auto files = NewMemoryFileSystem();
    DatasetWriterOptions options = SmallShards(15, 4);
    options.codecs["key"] = Codec::kNone;
    const std::vector<OwnedSample> before(samples.begin(), samples.begin() + 40);
    ASSERT_TRUE(WriteDataset(*files, "/d", before, options).ok());
    ASSERT_TRUE(RenameColumns(*files, "/d", {{"key", "id"}}).ok());
    const auto appended = WriteDataset(*files, "/d", {samples.begin() + 40, samples.begin() + 50}, appending);
    EXPECT_TRUE(appended.ok()) << appended.status();
  }
  // The key's name is another column's now, and the other way round: a shard cannot have both.
  const auto files = NewDataset();
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"key", "text"}, {"text", "key"}}).ok());
  const Tree before = ReadTree(*files, "/d");
  const absl::Status refused = WriteDataset(*files, "/d", {samples.begin() + 40, samples.end()}, appending).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused) || absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("\"text\""), std::string_view::npos) << refused;
  EXPECT_EQ(Describe(ReadTree(*files, "/d")), Describe(before));
}

TEST(ChangeColumnsTest, Metadata) {
  const auto files = NewDataset();
  const auto metadata = [&](const std::string& name) {
    const auto dataset = DatasetReader::Open(*files, "/d");
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return (*dataset)->columns()[*(*dataset)->FindColumn(name)].metadata;
  };
  ASSERT_TRUE(SetColumnMetadata(*files, "/d", "label", {{"class_names", "[\"a\", \"b\"]"}, {"unit", "one"}}).ok());
  EXPECT_EQ(metadata("label"), (Metadata{{"class_names", "[\"a\", \"b\"]"}, {"unit", "one"}}));
  ASSERT_TRUE(SetColumnMetadata(*files, "/d", "label", {{"unit", ""}, {"description", "d"}}).ok());
  EXPECT_EQ(metadata("label"), (Metadata{{"class_names", "[\"a\", \"b\"]"}, {"description", "d"}}));
  EXPECT_EQ(ScanRows(*files, "/d"), RowsOf(MakeSamples(40)));
  EXPECT_EQ(ValidateText(*files, "/d"), "");
}

TEST(ChangeColumnsTest, WhatChangesNothingIsNotPublished) {
  const auto files = NewDataset();
  ASSERT_EQ(*SetColumnMetadata(*files, "/d", "label", {{"unit", "m"}}), 2u);
  const Tree before = ReadTree(*files, "/d");
  EXPECT_EQ(*SetColumnMetadata(*files, "/d", "label", {{"unit", "m"}}), 2u);
  EXPECT_EQ(*SetColumnMetadata(*files, "/d", "label", {{"none", ""}}), 2u);
  EXPECT_EQ(Describe(ReadTree(*files, "/d")), Describe(before));
}

TEST(ChangeColumnsTest, HistoryTellsWhatEachGenerationDid) {
  const auto files = NewDataset();
  AddScores(*files, 40);
  AddScores(*files, 40, "text");
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"text", "label"}, {"label", "text"}}).ok());
  ASSERT_TRUE(SetColumnMetadata(*files, "/d", "label", {{"unit", "m"}}).ok());
  ASSERT_TRUE(DropColumns(*files, "/d", {"score", "image"}).ok());
  const auto history = ReadHistory(*files, "/d");
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->size(), 6u);
  const std::string expected[] = {"create",
                                  "columns add=score",
                                  "columns replace=text",
                                  "columns rename=text,label to=label,text",
                                  "columns describe=label",
                                  "columns drop=score,image"};
  const size_t columns[] = {4, 5, 5, 5, 5, 3};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(DescribeOperation((*history)[i].operation), expected[i]);
    EXPECT_EQ((*history)[i].columns, columns[i]);
  }
}

// An earlier generation is read with the columns that it had.
TEST(ChangeColumnsTest, EarlierGenerations) {
  const auto files = NewDataset();
  AddScores(*files, 40);
  ASSERT_TRUE(DropColumns(*files, "/d", {"score", "text"}).ok());
  const auto before = DatasetReader::Open(*files, "/d", DatasetOptions{.generation = 2});
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(ScanRows(**before), Expected(40, [](Row& row, size_t i) { row["score"] = Score(i); }));
}

TEST(ChangeColumnsTest, Refused) {
  const auto files = NewDataset();
  const Tree before = ReadTree(*files, "/d");
  const auto expect = [&](const absl::StatusOr<uint64_t>& done, std::string_view text) {
    EXPECT_FALSE(done.ok());
    EXPECT_NE(Message(done.status()).find(text), std::string::npos) << done.status();
    EXPECT_EQ(Describe(ReadTree(*files, "/d")), Describe(before));
  };
  expect(DropColumns(*files, "/d", {"text", "none"}), "\"none\"");
  expect(DropColumns(*files, "/d", {"key"}), "/d: column \"key\": is the key of the samples, and stays");
  expect(DropColumns(*files, "/d", {}), "no column is named");
  expect(DropColumns(*files, "/d", {"text", "text"}), "\"text\"");
  expect(RenameColumns(*files, "/d", {{"none", "a"}}), "\"none\"");
  expect(RenameColumns(*files, "/d", {{"text", "label"}}),
         "/d: two columns would have the name \"label\"; drop one first");
  expect(RenameColumns(*files, "/d", {{"text", "a"}, {"text", "b"}}), "gets two names");
  expect(RenameColumns(*files, "/d", {{"text", ""}}), "name");
  expect(RenameColumns(*files, "/d", {{"text", "text"}}), "has that name already");
  expect(SetColumnMetadata(*files, "/d", "none", {{"a", "b"}}), "\"none\"");
  expect(SetColumnMetadata(*files, "/d", "label", {}), "no metadata is named");
  expect(SetColumnMetadata(*files, "/d", "label", {{"class_names", "[1]"}}), "JSON array of texts");
  expect(SetColumnMetadata(*files, "/d", "label", {{"class_names", "cat"}}), "JSON array of texts");
  expect(SetColumnMetadata(*files, "/missing", "label", {{"a", "b"}}), "/missing");
}

// All samples removed, and the shards that held them gone.
TEST(ChangeColumnsTest, ColumnsOfADatasetWithoutShardsAreRenamed) {
  const auto files = NewDataset(3);
  AddScores(*files, 3);
  ASSERT_TRUE(RemoveSamples(*files, "/d", {.ranges = {{0, UINT64_MAX}}}).ok());
  ASSERT_TRUE(CompactDataset(*files, "/d", {.fold = true}).ok());
  const auto renamed = RenameColumns(*files, "/d", {{"score", "other"}});
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  const auto dataset = DatasetReader::Open(*files, "/d");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE((*dataset)->plain());
  const auto other = (*dataset)->FindColumn("other");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE((*dataset)->columns()[*other].nullable);
  EXPECT_TRUE(DropColumns(*files, "/d", {"other"}).ok());
}

}  // namespace
}  // namespace shardkit::test
