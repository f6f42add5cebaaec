// Columns dropped, renamed and described: what readers see then, and that nothing else changes.

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

TEST(ChangeColumnsTest, RenamedBackColumnsAreJustThoseOfTheShards) {
  const auto files = NewDataset();
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"text", "words"}}).ok());
  EXPECT_FALSE(ReadManifest(*files, "/d")->shards_have_columns());
  ASSERT_TRUE(RenameColumns(*files, "/d", {{"words", "text"}}).ok());
  const auto manifest = ReadManifest(*files, "/d");
  EXPECT_TRUE(manifest->shards_have_columns());
  EXPECT_EQ(manifest->generation, 3u);
}

TEST(ChangeColumnsTest, AppendingToRenamedColumns) {
  const std::vector<OwnedSample> samples = MakeSamples(60);
  DatasetWriterOptions appending = SmallShards(15, 4);
  appending.append = true;
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
