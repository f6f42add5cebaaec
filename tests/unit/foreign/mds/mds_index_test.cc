// Wrong index.json files.
#include "foreign/mds/mds_index.h"

#include "base/strings.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

std::string Sound() {
  return MdsIndexText(TextFields(), {{.name = "a.mds", .bytes = 500, .samples = 3},
                                     {.name = "b/c.mds",
                                      .bytes = 600,
                                      .samples = 4,
                                      .raw_hashes = {{"sha1", "00ff"}},
                                      .compression = "zstd:7",
                                      .zip_name = "b/c.mds.zstd",
                                      .zip_bytes = 70,
                                      .zip_hashes = {}}});
}

std::string Replaced(const std::string& from, const std::string& to, bool last = false) {
  std::string text = Sound();
  const size_t at = last ? text.rfind(from) : text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

void ExpectError(const std::string& text, absl::StatusCode code, const std::string& message) {
  const auto index = foreign::ParseMdsIndex(text);
  EXPECT_EQ(index.status().code(), code) << index.status();
  EXPECT_NE(Message(index.status()).find(message), std::string::npos) << index.status();
}

// A flipped bit of a name may give another shard's name.
TEST(MdsIndex, AFileThatIsListedTwice) {
  ExpectError(Replaced("\"basename\": \"a.mds\"", "\"basename\": \"b/c.mds\""), absl::StatusCode::kDataLoss,
              "shard 1: its file \"b/c.mds\" is also that of shard 0: a name was damaged");
  ExpectError(Replaced("\"basename\": \"a.mds\"", "\"basename\": \"b/c.mds.zstd\""), absl::StatusCode::kDataLoss,
              "is also that of");
}

// Two readers, or merge and reader, could take different ones of its values.
TEST(MdsIndex, AKeyThatStandsTwice) {
  using enum absl::StatusCode;
  ExpectError(Replaced("\"version\": 2", "\"raw_data\": null, \"version\": 2"), kDataLoss,
              "shards[0]: has the key \"raw_data\" twice");
  ExpectError(Replaced("\"version\": 2}", "\"version\": 2, \"shards\": []}", true), kDataLoss,
              "has the key \"shards\" twice");
}

TEST(MdsIndex, Sound) {
  const auto index = foreign::ParseMdsIndex(Sound());
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->shards.size(), 2u);
  ASSERT_EQ(index->columns.size(), 2u);
  EXPECT_EQ(index->columns[0].size, 8u);
  EXPECT_EQ(index->shards[1].raw.name, "b/c.mds");
  EXPECT_EQ(index->shards[1].raw.hashes[0].second, "00ff");
  EXPECT_EQ(index->shards[1].compression, "zstd:7");
  ASSERT_TRUE(index->shards[1].zip.has_value());
  EXPECT_EQ(index->shards[1].zip->bytes, 70u);
  EXPECT_FALSE(index->shards[0].zip.has_value());
}

TEST(MdsIndex, DamagedOrOfAnotherKind) {
  using enum absl::StatusCode;
  const std::string text = Sound();
  ExpectError(Replaced("\"version\": 2}", "\"version\": 3}", true), kUnimplemented, "version 3 is not read");
  ExpectError(Replaced("\"version\": 2", "\"version\": 1"), kUnimplemented, "shards[0]: version 1");
  ExpectError(Replaced("\"mds\"", "\"csv\""), kUnimplemented, "shards[0]: format \"csv\" is not read");
  ExpectError(Replaced("\"mds\"", "\"xsv\"", true), kUnimplemented, "shards[1]: format \"xsv\"");
  ExpectError(Replaced("b/c.mds\"", "../c.mds\""), kDataLoss, "shards[1]: basename would lead out");
  ExpectError(Replaced("b/c.mds.zstd\"", "/c.mds.zstd\""), kDataLoss, "shards[1]: basename would lead out");
  ExpectError(Replaced("\"samples\": 4", "\"samples\": 4294967296"), kDataLoss, "shards[1]: has 4294967296 samples");
  ExpectError(Replaced("\"samples\": 4", "\"samples\": 151"), kDataLoss, "151 samples in 600 bytes");
  ExpectError(Replaced("\"samples\": 4", "\"samples\": -4"), kDataLoss, "not the index of an MDS dataset");
  ExpectError(Replaced("\"samples\": 4, ", ""), kDataLoss, "does not say how many samples");
  ExpectError(Replaced("\"bytes\": 500, ", ""), kDataLoss, "not the index of an MDS dataset");
  ExpectError(Replaced("[\"int\", \"str\"]", "[\"int\"]"), kDataLoss,
              "2 column_names, 1 column_encodings and 2 column_sizes");
  ExpectError(Replaced("[\"int\", \"str\"]", "[\"str\", \"str\"]"), kDataLoss,
              "column_sizes says 8 bytes, but values of encoding str have no fixed size");
  ExpectError(Replaced("[8, null]", "[null, null]"), kDataLoss,
              "column_sizes says no fixed size, but values of encoding int have 8 bytes");
  ExpectError(Replaced("[8, null]", "[8, -1]"), kDataLoss, "not the index");
  ExpectError(Replaced("[\"int\", \"str\"]", "[\"int\", \"bytes\"]", true), kDataLoss, "shards[1]: its columns");
  ExpectError(Replaced("\"raw_data\"", "\"row_data\""), kDataLoss, "shards[0]: has no raw_data");
  const auto with_hashes = [](int count) {
    std::string hashes;
    for (int i = 0; i < count; ++i) hashes += StrCat(i == 0 ? "" : ", ", "\"h", i, "\": \"00\"");
    return Replaced("\"sha1\": \"00ff\"", hashes);
  };
  EXPECT_TRUE(foreign::ParseMdsIndex(with_hashes(64)).ok());
  ExpectError(with_hashes(65), kDataLoss, "shards[1].raw_data.hashes.h64: there are more than 64 hashes");
  ExpectError("", kDataLoss, "not the index");
  ExpectError("[]", kDataLoss, "not the index");
  ExpectError("{}", kDataLoss, "lacks the key \"version\"");
  ExpectError("{\"version\": 2}", kDataLoss, "lacks the key \"shards\"");
  ExpectError("{\"version\": 2, \"shards\": {}}", kDataLoss, "not the index");
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(foreign::ParseMdsIndex(text.substr(0, length)).ok()) << length;
  }
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    (void)foreign::ParseMdsIndex(flipped);
  }
}

TEST(MdsIndex, NamesThatCannotBeColumns) {
  const auto files = NewMemoryFileSystem();
  for (const std::string& name : {std::string("text"), std::string(), std::string(256, 'n')}) {
    MdsFields fields = TextFields();
    fields[0].name = name;
    const std::string path = "/data" + std::to_string(name.size());
    WriteTree(*files, path, {{"index.json", MdsIndexText(fields, {{.name = "a.mds", .bytes = 500, .samples = 3}})}});
    const auto dataset = DatasetReader::Open(*files, path);
    EXPECT_TRUE(absl::IsUnimplemented(dataset.status())) << dataset.status();
    EXPECT_NE(Message(dataset.status()).find("index.json: columns that cannot be read"), std::string::npos);
  }
}

}  // namespace
}  // namespace shardkit::test
