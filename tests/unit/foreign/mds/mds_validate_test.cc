// Validating MDS datasets: all damage is named, shard by shard.
#include <gtest/gtest.h>

#include "base/named_hash.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

std::string HashOf(const std::string& bytes) {
  auto hash = NamedHash::Create("xxh64");
  EXPECT_TRUE(hash.ok()) << hash.status();
  (*hash)->Update(bytes);
  return (*hash)->HexDigest();
}

TEST(MdsValidate, NamesWhatIsDamagedAndGoesOn) {
  const MdsFields fields = TextFields();
  Tree tree;
  std::vector<MdsListed> shards;
  for (const std::string name : {"a.mds", "b.mds", "c.mds", "d.mds"}) {
    const std::string bytes = MdsShardBytes(fields, TextRows(10));
    tree[name] = bytes;
    shards.push_back({.name = name, .bytes = bytes.size(), .samples = 10});
    shards.back().raw_hashes = {{"xxh64", HashOf(bytes)}};
  }
  tree["index.json"] = MdsIndexText(fields, shards);
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/good", tree);
  for (const bool deep : {false, true}) {
    const auto good = Validate(*files, "/good", {{.threads = 2}, deep});
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_TRUE(good->ok()) << good->problems[0].message;
    EXPECT_EQ(good->shards, 4u);
    EXPECT_EQ(good->samples, 40u);
  }
  EXPECT_TRUE(Validate(*files, "/good/index.json").ok());

  // Damages the last byte of a text, which only the file's hash covers; removes a file; truncates a file.
  tree["a.mds"].back() ^= 1;
  tree.erase("b.mds");
  tree["c.mds"].pop_back();
  WriteTree(*files, "/bad", tree);
  const auto bad = Validate(*files, "/bad");
  ASSERT_TRUE(bad.ok()) << bad.status();
  ASSERT_EQ(bad->problem_count, 3u);
  EXPECT_NE(bad->problems[0].message.find("/bad/a.mds: xxh64 is "), std::string::npos) << bad->problems[0].message;
  EXPECT_NE(bad->problems[1].message.find("/bad/b.mds: shard 1 of index.json is missing"), std::string::npos)
      << bad->problems[1].message;
  EXPECT_NE(bad->problems[2].message.find("/bad/c.mds: the file has "), std::string::npos) << bad->problems[2].message;
  EXPECT_EQ(bad->shards, 2u);

  // An index that is none.
  tree["index.json"] = "{";
  WriteTree(*files, "/none", tree);
  const auto none = Validate(*files, "/none");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->problem_count, 1u);
}

}  // namespace
}  // namespace shardkit::test
