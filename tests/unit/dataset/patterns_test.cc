// Several datasets, or shards, that one path names.
#include "dataset/patterns.h"

#include "absl/strings/str_join.h"
#include "dataset/view_support.h"
#include "shardkit/copy.h"
#include "shardkit/select.h"

namespace shardkit::test {
namespace {

class PatternsTest : public ViewTest {
 protected:
  // /data, which was changed, and two others; rows_ are those of all.
  void WriteOthers() {
    ASSERT_TRUE(WriteDataset(*files_, "/data-2", Samples(200, 225), SmallShards(9, 4)).ok());
    ASSERT_TRUE(WriteDataset(*files_, "/data-3", Samples(300, 301), SmallShards(9, 4)).ok());
    for (const auto& [begin, end] : {std::pair(200, 225), std::pair(300, 301)}) {
      for (Row& row : RowsOf(Samples(begin, end))) rows_.push_back(std::move(row));
    }
  }

  std::string Members(const std::string& pattern) {
    const auto members = dataset::ExpandPattern(*files_, pattern);
    return members.ok() ? absl::StrJoin(*members, " ") : Message(members.status());
  }
};

TEST_F(PatternsTest, FoldersAreOneDataset) {
  WriteOthers();
  for (const char* const pattern : {"/{data,data-2,data-3}", "/data*", "/data*/", "/**"}) {
    Check({}, pattern);
    EXPECT_EQ((*DatasetReader::Open(*files_, pattern))->index_problem(), "") << pattern;
  }
  Check({.columns = {"image"}}, "/data*");
}

TEST_F(PatternsTest, FoldersThatWereChanged) {
  Remove({0, 3, 4, 5, 6, 7, 8, 9, 39});
  AddColumn(Score(), ScoreOf);
  ASSERT_TRUE(RenameColumns(*files_, "/data", {{"text", "caption"}}).ok());
  for (Row& row : rows_) {
    if (auto node = row.extract("text")) node.key() = "caption", row.insert(std::move(node));
  }
  ASSERT_TRUE(WriteDataset(*files_, "/data-2", Samples(200, 225), SmallShards(9, 4)).ok());
  const auto refused = DatasetReader::Open(*files_, "/data{,-2}");
  EXPECT_NE(Message(refused.status()).find("/data-2: its columns do not lie under the same names"), std::string::npos)
      << refused.status();
  ASSERT_TRUE(RenameColumns(*files_, "/data-2", {{"text", "caption"}}).ok());
  for (Row row : RowsOf(Samples(200, 225))) {
    if (auto node = row.extract("text")) node.key() = "caption", row.insert(std::move(node));
    rows_.push_back(std::move(row));
  }
  Check({}, "/data{,-2}");
  Check({.columns = {"score", "key"}}, "/data{,-2}");
  const auto with_removed = dataset::OpenWithRemoved(*files_, "/data{,-2}");
  ASSERT_TRUE(with_removed.ok()) << with_removed.status();
  EXPECT_EQ((*with_removed)->sample_count(), 65);
  // In the other order, removed samples and added columns are those of the second dataset.
  std::rotate(rows_.begin(), rows_.end() - 25, rows_.end());
  Check({}, "/{data-2,data}");
  Check({.columns = {"score", "key"}}, "/{data-2,data}");
}

TEST_F(PatternsTest, ShardsAlone) {
  rows_.resize(18);
  const auto all = RowsOf(Samples(0, 40));
  for (const char* const pattern : {"/data/0000000{0..1}.shard", "/data/*[01].shard"}) {
    EXPECT_EQ(ValidateText(*files_, pattern), "");
    const auto opened = DatasetReader::Open(*files_, pattern);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(ScanRows(**opened), rows_);
    BlockBuffer buffer;
    EXPECT_EQ(**(*opened)->FindKey(rows_[17].at("key"), &buffer), 17);
    EXPECT_EQ((*opened)->index_problem(), "some of these datasets have no offset index");
  }
  EXPECT_EQ(ScanRows(*files_, "/data/*"), all);
  EXPECT_EQ(Members("/data/*"),
            "/data/00000000.shard /data/00000001.shard /data/00000002.shard /data/00000003.shard /data/00000004.shard");
}

TEST_F(PatternsTest, WildcardsTakeFilesBeforeFolders) {
  WriteOthers();
  EXPECT_EQ(Members("/*"), "/data /data-2 /data-3");
  ASSERT_TRUE(files_->CreateDirectory("/data-4").ok());  // empty
  ASSERT_TRUE(files_->CreateDirectory("/data-5").ok());
  WriteFile(*files_, "/data-5/a.tar", "");
  EXPECT_EQ(Members("/data-*"), "/data-2 /data-3 /data-5");
  EXPECT_EQ(Members("/**"), "/data-5/a.tar");
  WriteFile(*files_, "/data-x.tar", "");
  EXPECT_EQ(Members("/data-*"), "/data-x.tar");
  EXPECT_EQ(Members("/data-4*"), "/data-4*: no tar, shard or dataset fits this pattern");
  EXPECT_EQ(Members("/*/dataset.json"), "/*/dataset.json: no tar, shard or dataset fits this pattern");
}

TEST_F(PatternsTest, BackslashesEscape) {
  for (const char* const path : {"/{x}/a.tar", "/{x}/a,b.tar", "/{x}/c*.tar", "/{x}/cd.tar", "/y\\z/e.tar"}) {
    ASSERT_TRUE(files_->CreateDirectory(std::string(path).substr(0, 4)).ok());
    WriteFile(*files_, path, "");
  }
  EXPECT_EQ(Members("/\\{x\\}/{a\\,b,cd}.tar"), "/{x}/a,b.tar /{x}/cd.tar");
  EXPECT_EQ(Members("/\\{x\\}/{a,c\\*}.tar"), "/{x}/a.tar /{x}/c*.tar");
  EXPECT_EQ(Members("/\\{x\\}/c\\**"), "/{x}/c*.tar");
  EXPECT_EQ(Members("/y\\\\z/*.tar"), "/y\\z/e.tar");
}

TEST_F(PatternsTest, OneContainerAtATime) {
  ConvertOptions options{.to = Container::kMds, .columns = {"key", "image"}};
  ASSERT_TRUE(Convert(*files_, "/data", "/mds-0", options).ok());
  options.to = Container::kWebDataset;
  ASSERT_TRUE(Convert(*files_, "/data", "/tars", options).ok());
  for (const auto& [pattern, what] : {std::pair("/{data,mds-0}", "/data is of Shardkit, and /mds-0 is mds"),
                                      std::pair("/{tars,mds-0}", "/tars is webdataset, and /mds-0 is mds")}) {
    const auto opened = DatasetReader::Open(*files_, pattern);
    EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
    EXPECT_NE(Message(opened.status()).find(what), std::string::npos) << opened.status();
  }
  EXPECT_TRUE(absl::IsNotFound(DatasetReader::Open(*files_, "/{data,nothing}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(DatasetReader::Open(*files_, "/{data,data}", {.generation = 1}).status()));
}

TEST_F(PatternsTest, FoldersOfOtherContainers) {
  WriteOthers();
  const std::vector<Row> all = rows_;
  for (const Container container : {Container::kMds, Container::kWebDataset}) {
    const std::string name = container == Container::kMds ? "/mds" : "/tars";
    for (const char* const part : {"", "-2", "-3"}) {
      const ConvertOptions options{.to = container, .columns = {"key", "image"}};
      const auto converted = Convert(*files_, StrCat("/data", part), StrCat(name, part), options);
      ASSERT_TRUE(converted.ok()) << converted.status();
    }
    for (const std::string& pattern : {name + "{,-2,-3}", name + "*"}) {
      const auto together = DatasetReader::Open(*files_, pattern);
      ASSERT_TRUE(together.ok()) << together.status();
      std::vector<Row> rows;
      for (const char* const part : {"", "-2", "-3"}) {
        for (Row& row : ScanRows(*files_, StrCat(name, part))) rows.push_back(std::move(row));
      }
      EXPECT_EQ(rows.size(), all.size());
      EXPECT_EQ(ScanRows(**together), rows) << pattern;
      EXPECT_EQ(ValidateText(*files_, pattern), "");
    }
  }
  EXPECT_EQ(ScanRows(*files_, "/mds{,-2}/shard.00000.mds").size(), 65);
  EXPECT_EQ(ScanRows(*files_, "/mds*/*").size(), 66);
}

TEST_F(PatternsTest, AreMergedFilteredAndValidated) {
  Remove({1});
  WriteOthers();
  const auto merged = MergeDatasets(*files_, {"/data{,-2}", "/data-3"}, "/merged");
  ASSERT_TRUE(merged.ok()) << merged.status();
  Check({}, "/merged");
  ASSERT_TRUE(Convert(*files_, "/data*", "/copied").ok());
  Check({}, "/copied");
  FilterOptions options;
  SampleSelection selection;
  selection.keys.emplace({rows_[0].at("key"), rows_.back().at("key")});
  for (const char* output : {"/filtered", "/data-filtered/by/reference"}) {
    const auto filtered = Filter(*files_, "/data{,-2,-3}", output, selection, options);
    ASSERT_TRUE(filtered.ok()) << filtered.status();
    EXPECT_EQ(filtered->pack.samples, 2);
    options.by_reference = true;
  }
  EXPECT_EQ(ScanRows(*files_, "/filtered"), (std::vector<Row>{rows_[0], rows_.back()}));
  const Manifest referring = *ParseManifest(ReadAll(*files_, "/data-filtered/by/reference/dataset.json"));
  EXPECT_EQ(referring.bases.size(), 2);
  EXPECT_EQ(referring.seen_samples(), 2);
  const auto report = Validate(*files_, "/data{,-2,-3}");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->samples, 65);
  EXPECT_EQ(report->removed_samples, 1);
  WriteFile(*files_, "/data-2/00000001.shard", "damaged");
  EXPECT_EQ(Validate(*files_, "/data{,-2,-3}")->problems.at(0).path, "/data-2/00000001.shard");
}

TEST_F(PatternsTest, ShardsStandInLists) {
  WriteOthers();
  ListShardsApart(*files_, "/data-2");
  Check({}, "/data*");
}

}  // namespace
}  // namespace shardkit::test
