// Unpacking datasets whose keys and columns are names chosen by somebody else.
#include <array>

#include "dataset/dataset_support.h"
#include "operations/sources/source_names.h"
#include "support/disturbing_filesystem.h"
#include "support/effort.h"

namespace shardkit::test {
namespace {

// A dataset at /in with these keys, each with a value "text".
std::unique_ptr<DatasetReader> MakeDataset(FileSystem& files, const std::vector<std::string>& keys,
                                           const std::string& column = "txt", const std::string& source = "files",
                                           const std::string& names = "") {
  static std::vector<std::unique_ptr<Column>> columns;  // samples borrow them
  columns.push_back(std::make_unique<Column>(Column{.name = column, .type = Type::kBytes}));
  std::vector<OwnedSample> samples;
  for (const std::string& key : keys) samples.push_back({key, {{columns.back().get(), "text of " + key}}});
  DatasetWriterOptions options = SmallShards(0, 1);
  if (!source.empty()) options.shard.metadata["shardkit.source"] = source;
  if (!names.empty()) options.shard.metadata["shardkit.names"] = names;
  const auto written = WriteDataset(files, "/in", samples, options);
  EXPECT_TRUE(written.ok()) << written.status();
  auto dataset = DatasetReader::Open(files, "/in");
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : nullptr;
}

// Unpacks a good sample, then this one. Returns the error, if nothing at all was left behind.
absl::Status UnpackOne(const std::string& key, const std::string& column = "txt", const std::string& source = "files",
                       const std::string& names = "") {
  const auto files = NewMemoryFileSystem();
  const auto dataset = MakeDataset(*files, {"a/good", key}, column, source, names);
  if (!dataset) return absl::InternalError("no dataset");
  const Tree before = ReadTree(*files, "/");
  const absl::Status status = Unpack(*files, *dataset, "/out").status();
  if (!status.ok()) {
    EXPECT_EQ(Describe(ReadTree(*files, "/")), Describe(before)) << key;
  }
  return status;
}

TEST(UnpackNames, ThatLeadElsewhereAreRefused) {
  for (const std::string key : {"/etc/passwd", "//x", "../x", "a/../../x", "a/..", "..", "a//x", "./x", "a/./x", "a/",
                                "/", "../../../../../../../../tmp/x"}) {
    for (const std::string column : {"/", "txt"}) {
      // "..txt" and "a/.txt" are ordinary file names.
      if (column == "txt" && (key == ".." || key == "a/.." || key == "a/")) continue;
      const absl::Status status = UnpackOne(key, column);
      EXPECT_TRUE(absl::IsDataLoss(status)) << key << " " << status;
      EXPECT_NE(Message(status).find(": sample 1: will not be unpacked: "), std::string::npos) << status;
    }
  }
}

TEST(UnpackNames, ThatAreDecodedLeadNowhereElseEither) {
  for (const std::string key : {"%2e%2e/x", "..%2Fx", "%2fetc/passwd", "a/%2e%2e/%2e%2e/x", "a%00", "%", "%4", "%zz"}) {
    const absl::Status status = UnpackOne(key, "txt", "files", "escape");
    EXPECT_TRUE(absl::IsDataLoss(status)) << key << " " << status;
    EXPECT_NE(Message(status).find(": sample 1: will not be unpacked: "), std::string::npos) << status;
  }
  EXPECT_TRUE(UnpackOne("a%ff%2541", "txt", "files", "escape").ok());
  // Latin-1 has no such character.
  EXPECT_TRUE(absl::IsDataLoss(UnpackOne("a/\xe6\x97\xa5", "txt", "files", "latin1")));
  for (const std::string names : {"klingon", "ISO-2022-CN-EXT", "../../x", "UTF-16"}) {
    const absl::Status status = UnpackOne("a", "txt", "files", names);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Message(status).find("metadata shardkit.names"), std::string::npos) << status;
  }
}

TEST(UnpackNames, AColumnLeadsNowhereElseEither) {
  for (const std::string column : {"/../../x", "x/../../../y", "x//y", "x/."}) {
    for (const std::string source : {"files", ""}) {
      EXPECT_TRUE(absl::IsDataLoss(UnpackOne("key", column, source))) << column;
    }
  }
}

TEST(UnpackNames, OfImageFoldersAreKeys) { EXPECT_TRUE(absl::IsDataLoss(UnpackOne("../x", "image", "imagefolder"))); }

TEST(UnpackNames, WithNulAreRefused) {
  const absl::Status status = UnpackOne(std::string("a\0b", 3));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Message(status).find("NUL"), std::string::npos) << status;
}

TEST(UnpackNames, TooLongAreRefusedBeforeTheSystemDoes) {
  EXPECT_TRUE(UnpackOne(std::string(251, 'x')).ok());  // and ".txt"
  const absl::Status component = UnpackOne("d/" + std::string(252, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(component)) << component;
  EXPECT_NE(Message(component).find(" sample 1: will not be unpacked: the name 'xxxxxxxx"), std::string::npos);
  EXPECT_NE(Message(component).find("256 bytes between slashes"), std::string::npos) << component;
  EXPECT_TRUE(absl::IsResourceExhausted(UnpackOne(std::string(300, 'x') + "/y")));

  std::string deep;
  while (deep.size() < 4000) deep += std::string(100, 'd') + "/";
  EXPECT_TRUE(UnpackOne(deep + "x").ok());
  const absl::Status path = UnpackOne(deep + std::string(100, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(path)) << path;
  EXPECT_NE(Message(path).find("at most 4095"), std::string::npos) << path;
  EXPECT_LT(Message(path).size(), 400u);
}

TEST(UnpackNames, AreText) {
  EXPECT_TRUE(operations::OutputName("/out", "d/\xc3\xa4.txt").ok());
  for (const std::string name : {"\xff", "a/\xc3", "\xed\xa0\x80", "\xc0\xaf"}) {
    const absl::Status status = operations::OutputName("/out", name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(Message(status).find("UTF-8"), std::string::npos) << status;
  }
  // A message never cuts a character.
  const absl::Status status =
      operations::OutputName("/", "x" + std::string(40, '\xc3') + std::string(300, '\xa4')).status();
  EXPECT_FALSE(status.ok());
  std::string umlauts = "x";
  while (umlauts.size() < 300) umlauts += "\xc3\xa4";
  EXPECT_NE(Message(operations::OutputName("/", umlauts).status()).find("\xc3\xa4…'"), std::string::npos);
}

// They are file names, and users want them back.
TEST(UnpackNames, WithControlCharactersComeBack) {
  const auto files = NewMemoryFileSystem();
  const auto dataset = MakeDataset(*files, {"a\nb", "c\x1b[31m", "d\\e", "C:f", "~", " ", "con"});
  ASSERT_TRUE(dataset);
  ASSERT_TRUE(Unpack(*files, *dataset, "/out").ok());
  Tree tree = ReadTree(*files, "/out");
  EXPECT_EQ(tree.size(), 7u);
  EXPECT_EQ(tree["c\x1b[31m.txt"], "text of c\x1b[31m");
}

TEST(UnpackNames, OfAFileAndAFolderAtOnce) {
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"a", "a.txt/b"}, std::vector<std::string>{"a.txt/b", "a"}}) {
    const auto files = NewMemoryFileSystem();
    const auto dataset = MakeDataset(*files, keys);
    ASSERT_TRUE(dataset);
    const absl::Status status = Unpack(*files, *dataset, "/out").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(Message(status).starts_with("/out/a.txt: ")) << status;
    EXPECT_NE(Message(status).find("sample 1 of /in/"), std::string::npos) << status;
    EXPECT_FALSE(Exists(*files, "/out"));
  }
}

TEST(UnpackNames, ThatComeTwice) {
  const auto files = NewMemoryFileSystem();
  const auto dataset = MakeDataset(*files, {"same", "other", "same"});
  ASSERT_TRUE(dataset);
  const absl::Status status = Unpack(*files, *dataset, "/out").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(Message(status).find("/out/same.txt: "), std::string::npos) << status;
  EXPECT_NE(Message(status).find(": sample 2 of "), std::string::npos) << status;
  EXPECT_FALSE(Exists(*files, "/out"));
}

// As in the usual file systems of other operating systems, and on memory cards.
std::string Lower(std::string path) {
  for (char& c : path) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return path;
}

TEST(UnpackNames, ThatAFileSystemTakesForTheSame) {
  const auto files = NewMemoryFileSystem();
  const auto dataset = MakeDataset(*files, {"d/Photo", "D/photo2", "d/PHOTO"});
  ASSERT_TRUE(dataset);
  DisturbingFileSystem blind(*files, Lower, {});
  const absl::Status status = Unpack(blind, *dataset, "/out").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(Message(status).find("sample 2 of "), std::string::npos) << status;
  EXPECT_NE(Message(status).find("as A and a may be"), std::string::npos) << status;
  EXPECT_FALSE(Exists(*files, "/out"));
  // Where the names differ, all files come back.
  ASSERT_TRUE(Unpack(*files, *dataset, "/out").ok());
  EXPECT_EQ(ReadAll(*files, "/out/d/PHOTO.txt"), "text of d/PHOTO");
}

TEST(UnpackNames, ThatAreRefusedCanBeLeftOut) {
  const auto files = NewMemoryFileSystem();
  const std::vector<std::string> keys = {"a", "../x", "b", std::string(300, 'n'), std::string("c\0", 2), "c"};
  const auto dataset = MakeDataset(*files, keys);
  ASSERT_TRUE(dataset);
  UnpackOptions options;
  options.skip_errors = true;
  for (const int threads : {1, 4}) {
    options.threads = threads;
    const auto report = Unpack(*files, *dataset, "/out", options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->samples, 3u);
    EXPECT_EQ(Describe(ReadTree(*files, "/out")),
              Describe({{"a.txt", "text of a"}, {"b.txt", "text of b"}, {"c.txt", "text of c"}}));
    ASSERT_EQ(report->skipped.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const uint64_t position = std::array{1, 3, 4}[i];
      EXPECT_EQ(report->skipped[i].position, position);
      EXPECT_EQ(report->skipped[i].key, keys[position]);
      EXPECT_NE(report->skipped[i].reason.find("will not be unpacked"), std::string::npos) << report->skipped[i].reason;
    }
    ASSERT_TRUE(RemoveTree(*files, "/out").ok());
  }
}

// All of a sample's files or none, whatever byte is damaged.
TEST(UnpackNames, ADamagedSampleLeavesNoFile) {
  const auto files = NewMemoryFileSystem();
  const std::vector<std::string> keys = {"a", "b", "c", "d"};
  ASSERT_TRUE(MakeDataset(*files, keys));
  const Tree in = ReadTree(*files, "/in");
  UnpackOptions options;
  options.skip_errors = true;
  uint64_t alone = 0;
  for (const auto& [name, whole] : in) {
    if (!name.ends_with(".shard")) continue;
    for (size_t place = 0; place < whole.size(); place += 7 * TestStep()) {
      SCOPED_TRACE(name + " " + std::to_string(place));
      std::string shard = whole;
      shard[place] = static_cast<char>(shard[place] ^ 2);
      WriteFile(*files, "/in/" + name, shard);
      const auto dataset = DatasetReader::Open(*files, "/in");
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      const auto report = Unpack(*files, **dataset, "/out", options);
      ASSERT_TRUE(report.ok()) << report.status();
      Tree expected;
      for (const std::string& key : keys) expected[key + ".txt"] = "text of " + key;
      for (const SkippedSample& lost : report->skipped) {
        EXPECT_TRUE(lost.key.empty() || lost.key == keys[lost.position]) << lost.key;
        expected.erase(keys[lost.position] + ".txt");
      }
      EXPECT_EQ(Describe(ReadTree(*files, "/out")), Describe(expected));
      alone += report->skipped.size() == 1 ? 1 : 0;
      ASSERT_TRUE(RemoveTree(*files, "/out").ok());
    }
    WriteFile(*files, "/in/" + name, whole);
  }
  EXPECT_GT(alone, 0u);
}

}  // namespace
}  // namespace shardkit::test
