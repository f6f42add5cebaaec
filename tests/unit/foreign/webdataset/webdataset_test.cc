// Tars as a dataset: directories, the loader, real tars.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/str_join.h"
#include "base/strings.h"
#include "dataset/patterns.h"
#include "loader/loader_support.h"
#include "shardkit/tar_index.h"
#include "support/fault_filesystem.h"
#include "unit/foreign/webdataset/tar_maker.h"

namespace shardkit::test {
namespace {

class WebDatasetTest : public testing::Test {
 protected:
  // Writes tars with different extensions, one compressed and one empty. Returns their contents in the order of their
  // names.
  std::vector<Row> WriteTars() {
    EXPECT_TRUE(files_->CreateDirectory("/data").ok());
    std::vector<Row> expected;
    for (int tar = 0; tar < 20; ++tar) {
      std::vector<TarMember> members;
      for (int i = 0; i < tar % 5 * 10; ++i) {
        members.push_back(
            {StrCat(tar, "/", i, ".jpg"), std::string(static_cast<size_t>(i * 40), static_cast<char>('a' + tar))});
        if (tar % 2 == 0) members.push_back({StrCat(tar, "/", i, ".cls"), std::to_string(i)});
      }
      const std::string name = StrCat("/data/", tar < 10 ? "0" : "", tar, ".tar");
      WriteFile(*files_, tar == 7 ? name + ".zst" : name,
                tar == 7 ? WriteTar(members, "pax", "zstd") : MakeTar(members));
      if (tar == 9) {
        EXPECT_TRUE(BuildTarIndex(*files_, name).ok());
      }
      for (Row& row : Expected(members)) expected.push_back(std::move(row));
    }
    WriteFile(*files_, "/data/readme.txt", "no tar");
    EXPECT_TRUE(files_->CreateDirectory("/data/folder.tar").ok());
    return expected;
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(WebDatasetTest, DirectoriesAreReadInTheOrderOfNames) {
  const std::vector<Row> expected = WriteTars();
  for (const size_t open : {size_t{1}, size_t{256}}) {
    DatasetOptions options;
    options.max_open_shards = open;
    const auto dataset = DatasetReader::Open(*files_, "/data", options);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->shard_count(), 20u);
    EXPECT_EQ((*dataset)->Shard(9)->name, "09.tar");
    EXPECT_EQ(AllRows(**dataset), expected);
    EXPECT_EQ(AllRowsByValue(**dataset), expected);
    BlockBuffer buffer;
    const auto found = (*dataset)->FindKey("13/5", &buffer);
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ(expected[**found].at("key"), "13/5");
    const auto statistics = (*dataset)->ReadStatistics();
    ASSERT_TRUE(statistics.ok());
    EXPECT_EQ((*statistics)[0].present_count, expected.size());
  }
}

TEST_F(WebDatasetTest, OneBadTarIsNamed) {
  WriteTars();
  const std::string tar = ReadAll(*files_, "/data/13.tar");
  WriteFile(*files_, "/data/13.tar", tar.substr(0, 5000));
  const auto dataset = DatasetReader::Open(*files_, "/data");
  EXPECT_TRUE(absl::IsDataLoss(dataset.status()));
  EXPECT_TRUE(Message(dataset.status()).starts_with("/data/13.tar: after member '13/")) << dataset.status();
}

TEST_F(WebDatasetTest, EveryFailureIsAnError) {
  EXPECT_TRUE(files_->CreateDirectory("/data").ok());
  WriteFile(*files_, "/data/a.tar", MakeTar({{"a.x", "1"}, {"b.x", "2"}}));
  WriteFile(*files_, "/data/b.tar.gz", WriteTar({{"c.x", "3"}}, "ustar", "gzip"));
  for (uint64_t n = 1;; ++n) {
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::UnavailableError("gone")});
    absl::Status status;
    if (const auto dataset = DatasetReader::Open(faults, "/data"); dataset.ok()) {
      BlockBuffer buffer;
      for (uint64_t i = 0; i < (*dataset)->sample_count(); ++i)
        status.Update((*dataset)->ReadValue(i, 1, &buffer).status());
    } else {
      status = dataset.status();
    }
    if (!faults.failed_call()) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << n << " " << faults.failed_call()->operation << ": " << status;
  }
}

TEST_F(WebDatasetTest, TheLoaderDeliversEverySample) {
  const std::vector<Row> rows = WriteTars();
  std::multiset<std::string> expected;
  for (const Row& row : rows) expected.insert(row.at("key") + "=" + row.at("jpg"));
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    for (const SampleOrder order : {SampleOrder::kSequential, SampleOrder::kShuffled, SampleOrder::kWindow}) {
      LoaderOptions options;
      options.plan.seed = 5;
      options.plan.order = order;
      options.plan.batch_size = 8;
      options.plan.shuffle_buffer_bytes = 20000;
      options.memory_bytes = 16 << 20;
      options.decode_threads = options.read_threads = 2;
      options.epochs = 1;
      options.read.mode = mode;
      options.columns = {{.name = "jpg"}};
      const auto loader = OpenLoader(*files_, options);
      ASSERT_NE(loader, nullptr);
      std::multiset<std::string> delivered;
      std::vector<std::string> keys;
      while (true) {
        auto batch = loader->Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        if (*batch == nullptr) break;
        const BatchColumn& column = (*batch)->column(0);
        for (size_t i = 0; i < (*batch)->size(); ++i) {
          const char* const values = reinterpret_cast<const char*>(column.values.data());
          keys.emplace_back((*batch)->key(i));
          delivered.insert(
              StrCat(keys.back(), "=",
                     std::string_view(values + column.offsets[i], column.offsets[i + 1] - column.offsets[i])));
        }
      }
      EXPECT_EQ(delivered, expected);
      EXPECT_EQ(std::ranges::equal(keys, rows, {}, {}, [](const Row& row) { return row.at("key"); }),
                order == SampleOrder::kSequential);
    }
  }
}

TEST_F(WebDatasetTest, GenuineTars) {
  const char* const root = std::getenv("SHARDKIT_TEST_DATA");
  FileSystem& files = *PosixFileSystem();
  const std::string folder = StrCat(root == nullptr ? "" : root, "/webdataset");
  const auto info = files.Stat(folder);
  if (root == nullptr || !info.ok())
    GTEST_SKIP() << "no test data: set SHARDKIT_TEST_DATA to the folder that has webdataset/";
  struct Known {
    std::string name;
    uint64_t samples;
    std::string columns;
    std::string first_key;
  };
  for (const Known& known :
       std::vector<Known>{{"dali_extra_mnist/train-0.tar", 1000, "key cls jpg ", "2000"},
                          {"webdataset_webdataset/mpdata.tar", 100, "key mp ", "000000"},
                          {"webdataset_webdataset/testgz.tar", 1000, "key txt.gz ", "71671c5e285c455c892fb565330233ba"},
                          {"webdataset_webdataset/compressed.tar", 3, "key txt.gz ", "compressed/0001"},
                          {"pytorch_data/json.tar", 3, "key json ", "json/0"},
                          {"pytorch_data/json.tar.gz", 3, "key json ", "json/0"},
                          {"pytorch_data/csv.tar.gz", 3, "key csv ", "csv/0"}}) {
    const auto dataset = DatasetReader::Open(files, StrCat(folder, "/", known.name));
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->sample_count(), known.samples) << known.name;
    std::string columns;
    for (const Column& column : (*dataset)->columns()) columns += column.name + " ";
    EXPECT_EQ(columns, known.columns) << known.name;
    const std::vector<Row> rows = AllRows(**dataset);
    ASSERT_EQ(rows.size(), known.samples);
    EXPECT_EQ(rows[0].at("key"), known.first_key);
    if (known.samples <= 100) {
      EXPECT_EQ(AllRowsByValue(**dataset), rows);
    }
    for (const Row& row : rows) {
      if (row.contains("jpg")) {
        EXPECT_TRUE(row.at("jpg").starts_with("\xff\xd8\xff"));
      }
      if (row.contains("txt.gz")) {
        EXPECT_TRUE(row.at("txt.gz").starts_with("\x1f\x8b"));
      }
      if (row.contains("cls")) {
        EXPECT_EQ(row.at("cls").size(), 1u);
      }
    }
  }
}

// As shells expand them.
TEST(Patterns, Braces) {
  const auto files = NewMemoryFileSystem();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x-{0..2}.tar", "x-0.tar x-1.tar x-2.tar"},
      {"x-{08..11}.tar", "x-08.tar x-09.tar x-10.tar x-11.tar"},
      {"{2..0}", "2 1 0"},
      {"{-1..1}", "-1 0 1"},
      {"{-01..1}", "-01 000 001"},
      {"{0..9..4}", "0 4 8"},
      {"{9..0..4}", "9 5 1"},
      {"{3..3}", "3"},
      {"{a..c}", "a b c"},
      {"{b,a}{1,}", "b1 b a1 a"},
      {"{a,b{0..1}}", "a b0 b1"},
      {"{a}{}{", "{a}{}{"},
      {"{a..2}", "{a..2}"},
      {"\\{a,b}", "{a,b}"},
      {"{a\\,b,c}", "a,b c"},
  };
  for (const auto& [pattern, expected] : cases) {
    const auto tars = dataset::ExpandPattern(*files, pattern);
    ASSERT_TRUE(tars.ok()) << pattern << ": " << tars.status();
    EXPECT_EQ(absl::StrJoin(*tars, " "), expected) << pattern;
  }
  for (const char* const pattern :
       {"{0..1048576}", "{0..1048575}{0..1048575}{0..1048575}", "{0..4611686018427387903}"}) {
    EXPECT_TRUE(absl::IsResourceExhausted(dataset::ExpandPattern(*files, pattern).status())) << pattern;
  }
  EXPECT_EQ(dataset::ExpandPattern(*files, "{1..1048576}")->size(), size_t{1} << 20);
}

TEST(Patterns, Wildcards) {
  const auto files = NewMemoryFileSystem();
  for (const char* const folder : {"/d", "/d/e", "/d/.hidden"}) ASSERT_TRUE(files->CreateDirectory(folder).ok());
  for (const char* const name :
       {"/d/a1.tar", "/d/a2.tar.gz", "/d/b1.tar", "/d/a.txt", "/d/e/a3.tar", "/d/.hidden/a4.tar", "/d/*.tar"}) {
    WriteFile(*files, name, "");
  }
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"/d/a?.tar", "/d/a1.tar"},
      {"/d/a*", "/d/a1.tar /d/a2.tar.gz"},
      {"/d/[ab]1.tar", "/d/a1.tar /d/b1.tar"},
      {"/*/e/*.tar", "/d/e/a3.tar"},
      {"/d/**", "/d/*.tar /d/a1.tar /d/a2.tar.gz /d/b1.tar /d/e/a3.tar"},
      {"/d/**/a*.tar", "/d/a1.tar /d/e/a3.tar"},
      {"/d/{e/a,b}*.tar", "/d/e/a3.tar /d/b1.tar"},
      {"/d/\\*.tar", "/d/*.tar"},
  };
  for (const auto& [pattern, expected] : cases) {
    const auto tars = dataset::ExpandPattern(*files, pattern);
    ASSERT_TRUE(tars.ok()) << pattern << ": " << tars.status();
    EXPECT_EQ(absl::StrJoin(*tars, " "), expected) << pattern;
  }
  for (const char* const pattern : {"/d/*.txt", "/none/*.tar", "/d/a1.tar/*"}) {
    EXPECT_FALSE(dataset::ExpandPattern(*files, pattern).ok()) << pattern;
  }
}

}  // namespace
}  // namespace shardkit::test
