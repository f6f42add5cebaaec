// Shards without an index, folders of datasets, and one index for them.
#include "unit/foreign/mds/mds_maker.h"

#include "base/strings.h"
#include "shardkit/copy.h"
#include "support/fault_filesystem.h"

namespace shardkit::test {
namespace {

MdsRow Text(int64_t id, const std::string& text) { return {Little(id), text}; }

// A dataset of one shard.
Tree Stream(const std::string& folder, const std::vector<MdsRow>& rows, const MdsFields& fields = TextFields()) {
  Tree tree;
  for (const auto& [name, bytes] : MdsTree(fields, rows, 100)) tree[folder + "/" + name] = bytes;
  return tree;
}

class MdsFoldersTest : public testing::Test {
 protected:
  void Write(const Tree& tree) { WriteTree(*files_, "/data", tree); }

  absl::Status OpenStatus(const std::string& path) { return DatasetReader::Open(*files_, path).status(); }

  std::string Merge(const std::vector<std::string>& parts, const std::string& output = "/data") {
    const auto manifest = MergeDatasets(*files_, parts, output);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest.ok() ? ReadAll(*files_, output + "/index.json") : "";
  }

  std::string Refused(const std::vector<std::string>& parts, const std::string& output = "/data") {
    const auto manifest = MergeDatasets(*files_, parts, output);
    EXPECT_TRUE(absl::IsInvalidArgument(manifest.status())) << manifest.status();
    return Message(manifest.status());
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(MdsFoldersTest, AShardAloneIsADataset) {
  WriteFile(*files_, "/shard.00007.mds", MdsShardBytes(TextFields(), TextRows(5)));
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    DatasetOptions options;
    options.mode = mode;
    const auto dataset = OpenDataset(*files_, "/shard.00007.mds", options);
    ASSERT_NE(dataset, nullptr);
    EXPECT_EQ(dataset->Shard(0)->name, "shard.00007.mds");
    ExpectRows(*dataset, TextFields(), TextRows(5));
  }
  EXPECT_EQ(ValidateText(*files_, "/shard.00007.mds", true), "");
  // Every encoding, and none at all.
  WriteFile(*files_, "/every.mds", MdsShardBytes(EveryField(), EveryRow(3)));
  const auto every = OpenDataset(*files_, "/every.mds");
  ASSERT_NE(every, nullptr);
  ExpectRows(*every, EveryField(), EveryRow(3));
  WriteFile(*files_, "/empty.mds", MdsShardBytes(TextFields(), {}));
  const auto empty = OpenDataset(*files_, "/empty.mds");
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(empty->sample_count(), 0u);
  EXPECT_EQ(empty->columns().size(), 2u);
  // An index beside the shard is ignored.
  Write({{"index.json", "nonsense"}, {"a.mds", MdsShardBytes(TextFields(), TextRows(2))}});
  EXPECT_NE(OpenDataset(*files_, "/data/a.mds"), nullptr);
}

TEST_F(MdsFoldersTest, ADamagedShardAlone) {
  const std::string sound = MdsShardBytes(TextFields(), TextRows(3));
  for (size_t length = 0; length < sound.size(); ++length) {
    WriteFile(*files_, "/a.mds", sound.substr(0, length));
    const absl::Status status = ReadEverything(*files_, "/a.mds");
    EXPECT_TRUE(absl::IsDataLoss(status)) << length << ": " << status;
    EXPECT_TRUE(Message(status).starts_with("/a.mds: header: byte ") || length < 4) << status;
  }
  for (size_t bit = 0; bit < 8 * (20 + MdsHeader(TextFields()).size()); ++bit) {
    std::string changed = sound;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    WriteFile(*files_, "/a.mds", changed);
    const absl::Status status = ReadEverything(*files_, "/a.mds");
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << bit << ": " << status;
  }
  MdsFields pickled = TextFields();
  pickled[1].encoding = "pkl";
  WriteFile(*files_, "/a.mds", MdsShardBytes(pickled, TextRows(3)));
  EXPECT_EQ(OpenDataset(*files_, "/a.mds")->columns().size(), 1u);
  DatasetOptions options;
  options.columns = {"text"};
  const absl::Status refused = DatasetReader::Open(*files_, "/a.mds", options).status();
  EXPECT_TRUE(absl::IsUnimplemented(refused));
  EXPECT_TRUE(Message(refused).starts_with("/a.mds: column \"text\" is pickled")) << refused;
}

TEST_F(MdsFoldersTest, FoldersAreReadInTheOrderOfTheirNames) {
  Write(Stream("b", {Text(2, "b")}));
  Write(Stream("B", {Text(1, "B")}));
  Write(Stream("\xc3\xa4", {Text(3, "umlaut"), Text(4, "again")}));
  Write({{"empty/index.json", R"({"version": 2, "shards": []})"}, {"notes/readme.txt", "no dataset"}, {"file", ""}});
  const auto dataset = OpenDataset(*files_, "/data");
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->Shard(0)->name, "B/shard.00000.mds");
  ExpectRows(*dataset, TextFields(), {Text(1, "B"), Text(2, "b"), Text(3, "umlaut"), Text(4, "again")});
  EXPECT_EQ(ValidateText(*files_, "/data", true), "");
  // An index in the folder itself has priority.
  Write({{"index.json", MdsIndexText(TextFields(), {})}});
  EXPECT_EQ(OpenDataset(*files_, "/data")->sample_count(), 0u);
}

TEST_F(MdsFoldersTest, FoldersThatAreNoDatasetTogether) {
  Write(Stream("a", {Text(1, "a")}));
  MdsFields other = TextFields();
  other[1].encoding = "bytes";
  Write(Stream("b", {Text(2, "b")}, other));
  absl::Status status = OpenStatus("/data");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(Message(status),
            "/data/b: its columns, their encodings or sizes differ from those of /data/a, so that they are "
            "no one dataset: open one of them");
  ASSERT_TRUE(RemoveTree(*files_, "/data/b").ok());
  ASSERT_TRUE(OpenStatus("/data").ok());
  // A dataset whose index was never written.
  Write({{"c/shard.00000.mds.zstd", "x"}});
  status = OpenStatus("/data");
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_TRUE(Message(status).starts_with("/data/c: has MDS shards, but no index.json")) << status;
  Write({{"c/index.json", "{"}});
  status = OpenStatus("/data");
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_TRUE(Message(status).starts_with("/data/c/index.json: ")) << status;
  // The name of a missing shard includes its folder.
  ASSERT_TRUE(RemoveTree(*files_, "/data/c").ok());
  ASSERT_TRUE(files_->RemoveFile("/data/a/shard.00000.mds").ok());
  status = ReadEverything(*files_, "/data");
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_TRUE(Message(status).starts_with("/data/a/shard.00000.mds: ")) << status;
}

TEST_F(MdsFoldersTest, EveryFailureOfReadingIsAnError) {
  Write(Stream("a", {Text(1, "a")}));
  Write(Stream("b", {Text(2, "b")}));
  for (const std::string path : {"/data", "/data/a/shard.00000.mds"}) {
    for (uint64_t n = 1;; ++n) {
      FaultFileSystem faults(files_.get());
      faults.FailCall(n, {.status = absl::UnavailableError("gone")});
      const absl::Status status = ReadEverything(faults, path);
      if (!faults.failed_call()) break;
      EXPECT_TRUE(absl::IsUnavailable(status)) << n << " " << faults.failed_call()->operation << ": " << status;
    }
  }
}

TEST_F(MdsFoldersTest, MergingWritesTheIndexThatMergeIndexWrites) {
  Write(Stream("y", {Text(1, "a")}));
  Write(Stream("x\xc3\xa4", {Text(2, "b")}));
  Write(Stream("deep/er", {Text(3, "c")}));
  Write({{"empty/index.json", R"({"shards": [], "version": 2})"}});
  // A part as the peer writes it, with sorted keys. Unknown members stay.
  const std::string shard =
      R"({"column_encodings": ["int", "str"], "column_names": ["id", "text"], "column_sizes": [8, null], "compression": null, )"
      R"("format": "mds", "hashes": [], "raw_data": {"basename": "%", "bytes": @, "hashes": {}}, "samples": 1, "size_limit": 67108864, )"
      R"("version": 2, "zip_data": null, "zz": [{"\u00e4": 18446744073709551615}, true]})";
  const auto entry = [&](const std::string& path, const std::string& name) {
    std::string text = shard;
    const uint64_t bytes = ReadAll(*files_, path).size();
    text.replace(text.find('%'), 1, name);
    return text.replace(text.find('@'), 1, std::to_string(bytes));
  };
  std::string expected;
  for (const auto& [folder, escaped] : std::vector<std::pair<std::string, std::string>>{
           {"y", "y"}, {"x\xc3\xa4", "x\\u00e4"}, {"deep/er", "deep/er"}}) {
    const std::string part = "/data/" + folder;
    WriteFile(*files_, part + "/index.json",
              StrCat("{\"shards\": [", entry(part + "/shard.00000.mds", "shard.00000.mds"), "], \"version\": 2}"));
    expected += StrCat(expected.empty() ? "" : ", ", entry(part + "/shard.00000.mds", escaped + "/shard.00000.mds"));
  }
  EXPECT_EQ(Merge({"/data/y", "/data//x\xc3\xa4/", "/data/empty", "/data/./deep/er"}),
            StrCat("{\"version\": 2, \"shards\": [", expected, "]}"));
  const auto dataset = OpenDataset(*files_, "/data");
  ASSERT_NE(dataset, nullptr);
  ExpectRows(*dataset, TextFields(), {Text(1, "a"), Text(2, "b"), Text(3, "c")});
  // Again, with other parts, in the same place.
  Merge({"/data/y"});
  EXPECT_EQ(OpenDataset(*files_, "/data")->sample_count(), 1u);
  EXPECT_EQ(Merge({"/data/empty"}), R"({"version": 2, "shards": []})");
}

TEST_F(MdsFoldersTest, WhatCannotBeMerged) {
  Write(Stream("a", {Text(1, "a")}));
  MdsFields other = TextFields();
  other[1].encoding = "bytes";
  Write(Stream("b", {Text(2, "b")}, other));
  EXPECT_EQ(Refused({"/data/a", "/data/b"}),
            "/data/b: its columns, their encodings or sizes differ from those of /data/a");
  EXPECT_EQ(Refused({"/data/a", "/data/a/"}), "/data/a/: is given twice");
  EXPECT_TRUE(Refused({"/data/a"}, "/data/a").starts_with("/data/a: does not lie below /data/a"));
  EXPECT_TRUE(Refused({"/data/a"}, "/data/b").starts_with("/data/a: does not lie below /data/b"));
  ASSERT_TRUE(files_->CreateDirectory("/data/c").ok());
  EXPECT_TRUE(Refused({"/data/a", "/data/c"}).starts_with("/data/c: is no MDS dataset, but /data/a is"));
  EXPECT_FALSE(Exists(*files_, "/data/index.json"));
  Write({{"index.json", MdsIndexText(TextFields(), {{.name = "own.mds", .bytes = 100, .samples = 1}})}});
  EXPECT_TRUE(Refused({"/data/a"}).starts_with("/data: has shards of its own ('own.mds')"));
  ASSERT_TRUE(files_->RemoveFile("/data/index.json").ok());
  Write({{"dataset.json", "{}"}});
  EXPECT_TRUE(Refused({"/data/a"}).starts_with("/data: is a dataset already"));
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.json").ok());
  // The shards are checked first, and the written index is never nested deeper than it can be read.
  const std::string index = ReadAll(*files_, "/data/a/index.json");
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  WriteFile(*files_, "/data/a/index.json",
            std::string(index).replace(index.find("\"samples\""), 0, "\"deep\": " + deep + ", "));
  EXPECT_TRUE(absl::IsDataLoss(MergeDatasets(*files_, {"/data/a"}, "/data").status()));
  WriteFile(*files_, "/data/a/index.json", index);
  WriteFile(*files_, "/data/a/shard.00000.mds", "short");
  EXPECT_TRUE(absl::IsDataLoss(MergeDatasets(*files_, {"/data/a"}, "/data").status()));
  ASSERT_TRUE(files_->RemoveFile("/data/a/shard.00000.mds").ok());
  const auto missing = MergeDatasets(*files_, {"/data/a"}, "/data");
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_TRUE(Message(missing.status()).starts_with("/data/a/shard.00000.mds: ")) << missing.status();
  EXPECT_FALSE(Exists(*files_, "/data/index.json"));
}

TEST_F(MdsFoldersTest, MergingSurvivesEveryFailure) {
  Write(Stream("a", {Text(1, "a")}));
  Write(Stream("b", {Text(2, "b")}));
  const std::string old = Merge({"/data/a"});
  const std::string good = Merge({"/data/a", "/data/b"});
  uint64_t failures = 0;
  for (uint64_t n = 1;; ++n) {
    WriteFile(*files_, "/data/index.json", old);
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {.status = absl::ResourceExhaustedError("no space"), .short_write = true});
    const auto manifest = MergeDatasets(faults, {"/data/a", "/data/b"}, "/data");
    if (!faults.failed_call()) {
      EXPECT_TRUE(manifest.ok());
      break;
    }
    ++failures;
    EXPECT_FALSE(manifest.ok()) << n << " " << faults.failed_call()->operation;
    const std::string now = ReadAll(*files_, "/data/index.json");
    EXPECT_TRUE(now == old || now == good) << n;
    EXPECT_FALSE(Exists(*files_, "/data/index.json.tmp")) << n << " " << faults.failed_call()->operation;
  }
  EXPECT_GT(failures, 12u);
}

}  // namespace
}  // namespace shardkit::test
