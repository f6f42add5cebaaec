// Files of mosaicml-streaming's MDSWriter (0.13). Shardkit must write the same bytes.
#include <nlohmann/json.hpp>

#include <iterator>

#include "base/json.h"
#include "base/named_hash.h"
#include "foreign/mds/mds_text.h"
#include "unit/operations/copy/containers_support.h"

namespace shardkit::test {
namespace {

using namespace std::string_literals;

// Everything in the directory except shardkit.json, which the peer does not write.
Tree WriteMds(const std::vector<Column>& columns, const Samples& samples, const MdsWriterOptions& options) {
  const auto files = NewMemoryFileSystem();
  const auto written = WriteSamples(CreateMdsWriter(*files, "/out", MakeSchema(columns), options), samples);
  EXPECT_TRUE(written.ok()) << written.status();
  Tree tree = ReadDataset(*files, "/out");
  EXPECT_EQ(tree.erase("shardkit.json"), 1u);
  return tree;
}

std::string SamplesText(const std::string& index) {
  std::string text;
  const auto parsed = nlohmann::json::parse(index);
  for (const auto& shard : parsed.at("shards")) {
    text += (text.empty() ? "" : ",") + std::to_string(shard.at("samples").get<uint64_t>());
  }
  return text;
}

TEST(MdsGoldenTest, ASmallDataset) {
  MdsWriterOptions options;
  options.shard_size = 400;
  options.hashes = {"xxh64", "sha1", "xxh64"};  // sorted, once each
  options.encodings = {{"id", "int"}};
  const Tree tree = WriteMds({MakeColumn("text", Type::kUtf8), MakeColumn("id", Type::kI64)},
                             {{{"id", Bytes(int64_t{1})}, {"text", "a"}},
                              {{"id", Bytes(int64_t{-2})},
                               {"text",
                                "\xc3\xbc"
                                "ber\n"}}},
                             options);
  ASSERT_EQ(tree.size(), 2u) << Describe(tree);
  EXPECT_EQ(
      tree.at("index.json"),
      R"({"shards": [{"column_encodings": ["int", "str"], "column_names": ["id", "text"], "column_sizes": [8, null], )"
      R"("compression": null, "format": "mds", "hashes": ["sha1", "xxh64"], "raw_data": {"basename": "shard.00000.mds", )"
      R"("bytes": 242, "hashes": {"sha1": "4b4a52163ea62e89a86aeaa79781a055ca39394d", "xxh64": "6c06ca55fe8dbf2a"}}, )"
      R"("samples": 2, "size_limit": 400, "version": 2, "zip_data": null}], "version": 2})");
  EXPECT_EQ(tree.at("shard.00000.mds"),
            "\x02\0\0\0\xd3\0\0\0\xe0\0\0\0\xf2\0\0\0"s
            R"({"column_encodings": ["int", "str"], "column_names": ["id", "text"], "column_sizes": [8, null], )"
            R"("compression": null, "format": "mds", "hashes": ["sha1", "xxh64"], "size_limit": 400, "version": 2})"
            "\x01\0\0\0\x01\0\0\0\0\0\0\0a\x06\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\xc3\xbc"
            "ber\n"s);
}

// The md5 is the peer's. It covers arrays with and without shapes, also with wide dimensions.
TEST(MdsGoldenTest, NamesAndArrays) {
  const std::string horse = "\xf0\x9f\x90\x8e", e_acute = "\xc3\xa9", last = "\xef\xbf\xbf",
                    control = "\x01\t\"\\/\x7f";
  std::string four, three_hundred, six, negative;
  for (uint16_t i = 0; i < 4; ++i) four += Bytes(i);
  for (uint16_t i = 0; i < 300; ++i) three_hundred += Bytes(i);
  for (int i = 0; i < 6; ++i) six += Bytes(static_cast<float>(i)), negative += Bytes(-static_cast<float>(i));
  MdsWriterOptions options;
  options.hashes = {"md5"};
  const Tree tree =
      WriteMds({MakeColumn(horse, Type::kUtf8), MakeColumn(e_acute, Type::kBytes), MakeColumn(control, Type::kU8),
                MakeArrayColumn("Z", Type::kU16), MakeArrayColumn("a", Type::kF32, {{2, 3}}),
                MakeColumn("z", Type::kJson), MakeColumn(last, Type::kJpeg)},
               {{{horse, "x"},
                 {e_acute, "yz"},
                 {control, "\x07"},
                 {"Z", ArrayValue(Type::kU16, {2, 2}, four)},
                 {"a", six},
                 {"z", "{}"},
                 {last, "\xff\xd8"}},
                {{horse, ""},
                 {e_acute, ""},
                 {control, "\xff"},
                 {"Z", ArrayValue(Type::kU16, {300}, three_hundred)},
                 {"a", negative},
                 {"z", "[1]"},
                 {last, ""}}},
               options);
  EXPECT_EQ(
      tree.at("index.json"),
      R"({"shards": [{"column_encodings": ["uint8", "ndarray:uint16", "ndarray:float32:2,3", "json", "bytes", "jpeg", "str"], )"
      R"("column_names": ["\u0001\t\"\\/\u007f", "Z", "a", "z", "\u00e9", "\uffff", "\ud83d\udc0e"], )"
      R"("column_sizes": [1, null, 24, null, null, null, null], "compression": null, "format": "mds", "hashes": ["md5"], )"
      R"("raw_data": {"basename": "shard.00000.mds", "bytes": 1076, "hashes": {"md5": "d3c28dadd2cc7cb309fbcff98a38f31e"}}, )"
      R"("samples": 2, "size_limit": 67108864, "version": 2, "zip_data": null}], "version": 2})");
  // The peer's file has a line feed, which our columns cannot have, in the name's place of the tab.
  std::string peer = tree.at("shard.00000.mds");
  const size_t tab = peer.find("u0001\\t");
  ASSERT_NE(tab, peer.npos);
  peer[tab + 6] = 'n';
  const auto md5 = NamedHash::Create("md5");
  ASSERT_TRUE(md5.ok()) << md5.status();
  (*md5)->Update(peer);
  EXPECT_EQ((*md5)->HexDigest(), "3405d378e54dfde49facbb576a523d7e");
}

// Sizes at which the peer begins to divide four values of 10, 20, 30 and 5 bytes differently.
TEST(MdsGoldenTest, RollOver) {
  const Samples samples = {{{"b", std::string(10, 'x')}},
                           {{"b", std::string(20, 'x')}},
                           {{"b", std::string(30, 'x')}},
                           {{"b", std::string(5, 'x')}}};
  const std::map<uint64_t, std::string> expected = {{1, "0,1,1,1,1"}, {189, "1,1,1,1"}, {217, "2,1,1"},
                                                    {222, "2,2"},     {255, "3,1"},     {268, "4"}};
  for (uint64_t size = 1; size < 280; ++size) {
    MdsWriterOptions options;
    options.shard_size = size;
    const Tree tree = WriteMds({MakeColumn("b", Type::kBytes)}, samples, options);
    EXPECT_EQ(SamplesText(tree.at("index.json")), std::prev(expected.upper_bound(size))->second) << size;
  }
}

TEST(MdsGoldenTest, AnEmptyFirstShard) {
  MdsWriterOptions options;
  options.shard_size = 50;
  const Tree tree = WriteMds({MakeColumn("s", Type::kUtf8)}, {{{"s", "abc"}}, {{"s", ""}}}, options);
  ASSERT_EQ(tree.size(), 4u) << Describe(tree);
  const std::string header =
      R"({"column_encodings": ["str"], "column_names": ["s"], "column_sizes": [null], "compression": null, "format": "mds", )"
      R"("hashes": [], "size_limit": 50, "version": 2})";
  EXPECT_EQ(tree.at("shard.00000.mds"), "\0\0\0\0\xa8\0\0\0"s + header);
  EXPECT_EQ(tree.at("shard.00001.mds"), "\x01\0\0\0\xac\0\0\0\xb3\0\0\0"s + header + "\x03\0\0\0abc"s);
  EXPECT_EQ(tree.at("shard.00002.mds"), "\x01\0\0\0\xac\0\0\0\xb0\0\0\0"s + header + "\0\0\0\0"s);
  EXPECT_EQ(SamplesText(tree.at("index.json")), "0,1,1");
}

TEST(MdsGoldenTest, NoSamples) {
  const Tree tree = WriteMds({MakeColumn("s", Type::kUtf8)}, {}, {});
  EXPECT_TRUE(tree == Tree({{"index.json", R"({"shards": [], "version": 2})"}})) << Describe(tree);
}

TEST(MdsGoldenTest, CompressedShardsHoldTheSame) {
  Samples samples;
  for (int i = 0; i < 40; ++i) samples.push_back({{"b", std::string(100, static_cast<char>('a' + i % 3))}});
  MdsWriterOptions options;
  options.shard_size = 1000;
  options.hashes = {"xxh3_64"};
  const Tree plain = WriteMds({MakeColumn("b", Type::kBytes)}, samples, options);
  for (const std::string compression : {"zstd", "zstd:1", "zstd:19"}) {
    options.compression = compression;
    const auto files = NewMemoryFileSystem();
    ASSERT_TRUE(
        WriteSamples(CreateMdsWriter(*files, "/out", MakeSchema({MakeColumn("b", Type::kBytes)}), options), samples)
            .ok());
    const auto index = nlohmann::json::parse(ReadAll(*files, "/out/index.json"));
    for (const auto& shard : index.at("shards")) {
      EXPECT_EQ(shard.at("compression"), compression);
      const std::string name = shard.at("zip_data").at("basename");
      EXPECT_EQ(name, shard.at("raw_data").at("basename").get<std::string>() + ".zstd");
      EXPECT_EQ(ReadAll(*files, "/out/" + name).size(), shard.at("zip_data").at("bytes").get<uint64_t>());
      EXPECT_FALSE(Exists(*files, "/out/" + shard.at("raw_data").at("basename").get<std::string>()));
      EXPECT_TRUE(shard.at("zip_data").at("hashes").contains("xxh3_64"));
    }
    EXPECT_EQ(ValidateText(*files, "/out", /*deep=*/true), "");  // compares the hashes
    EXPECT_EQ(ScanRows(*files, "/out").size(), samples.size());
  }
  EXPECT_GT(plain.size(), 5u);
}

// json.dumps(value, sort_keys=True)
TEST(JsonValueTest, AsPythonWritesIt) {
  JsonValue list = JsonValue::Array();
  list.Add(1).Add(-2).Add(JsonValue::Array()).Add(JsonValue::Object());
  JsonValue object = JsonValue::Object();
  object.Set("b", std::move(list)).Set("a", JsonValue()).Set("é", true).Set("B", "x");
  EXPECT_EQ(object.FormatLikePython(), R"({"B": "x", "a": null, "b": [1, -2, [], {}], "\u00e9": true})");
  EXPECT_EQ(object.Format(), R"({"b":[1,-2,[],{}],"a":null,"é":true,"B":"x"})");
  EXPECT_EQ(JsonValue("\x00\x08\x09\x0a\x0b\x0c\x0d\x1f\x7f\"\\/"s).FormatLikePython(),
            R"("\u0000\b\t\n\u000b\f\r\u001f\u007f\"\\/")");
  EXPECT_EQ(JsonValue("\xe2\x82\xac\xf0\x9f\x90\x8e\xef\xbf\xbd").FormatLikePython(), R"("\u20ac\ud83d\udc0e\ufffd")");
  EXPECT_EQ(JsonValue(UINT64_MAX).FormatLikePython(), "18446744073709551615");
  EXPECT_EQ(JsonValue("\xff").FormatLikePython(), R"("\ufffd")");  // not UTF-8
  // Sorted by code points, not by UTF-16 units: U+FFFF comes before U+1F40E.
  JsonValue high = JsonValue::Object();
  high.Set("\xf0\x9f\x90\x8e", 1).Set("\xef\xbf\xbf", 2);
  EXPECT_EQ(high.FormatLikePython(), R"({"\uffff": 2, "\ud83d\udc0e": 1})");
}

TEST(MdsTextTest, ShardNames) {
  EXPECT_EQ(foreign::MdsShardName(0), "shard.00000.mds");
  EXPECT_EQ(foreign::MdsShardName(99999), "shard.99999.mds");
  EXPECT_EQ(foreign::MdsShardName(100000), "shard.100000.mds");
}

}  // namespace
}  // namespace shardkit::test
