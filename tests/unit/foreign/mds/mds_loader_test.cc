// The loader over MDS datasets.
#include <set>

#include "base/named_hash.h"
#include "loader/loader_support.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

LoaderOptions Options(std::vector<LoaderColumn> columns = {}) {
  LoaderOptions options;
  options.plan = {.seed = 9, .order = SampleOrder::kShuffled, .batch_size = 16, .shuffle_buffer_bytes = 1 << 16};
  options.memory_bytes = 64 << 20;
  options.decode_threads = options.read_threads = 2;
  options.columns = std::move(columns);
  return options;
}

TEST(MdsLoader, ShuffledRunHasEverySampleOnce) {
  const auto files = NewMemoryFileSystem();
  const std::vector<MdsRow> rows = TextRows(1000);
  WriteTree(*files, "/data", MdsTree(TextFields(), rows, 90));
  const auto loader = OpenLoader(*files, Options());
  ASSERT_NE(loader, nullptr);
  std::set<uint64_t> seen;
  bool in_order = true;
  while (true) {
    const auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (*batch == nullptr) break;
    const BatchColumn& ids = *(*batch)->Find("id");
    const BatchColumn& texts = *(*batch)->Find("text");
    for (size_t i = 0; i < (*batch)->size(); ++i) {
      const uint64_t ordinal = (*batch)->samples()[i].ordinal;
      in_order = in_order && ordinal == seen.size();
      EXPECT_TRUE(seen.insert(ordinal).second) << ordinal;
      const char* const values = reinterpret_cast<const char*>(texts.values.data());
      EXPECT_EQ(std::string_view(values + texts.offsets[i], texts.offsets[i + 1] - texts.offsets[i]), rows[ordinal][1]);
      EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(ids.values.data()) + 8 * i, 8), rows[ordinal][0]);
    }
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_FALSE(in_order);
}

TEST(MdsLoader, AHashOfTheIndexIsCompared) {
  const auto files = NewMemoryFileSystem();
  std::string shard = MdsShardBytes(TextFields(), TextRows(100));
  const MdsListed listed = {
      .name = "a.mds", .bytes = shard.size(), .samples = 100, .raw_hashes = {{"xxh64", *HexDigestOf("xxh64", shard)}}};
  shard.back() ^= 1;
  WriteTree(*files, "/data", {{"a.mds", shard}, {"index.json", MdsIndexText(TextFields(), {listed})}});
  LoaderOptions options = Options();
  const auto refused = OpenLoader(*files, options)->Next();
  EXPECT_TRUE(absl::IsDataLoss(refused.status())) << refused.status();
  EXPECT_NE(Message(refused.status()).find("/data/a.mds: xxh64 is "), std::string::npos) << refused.status();
  options.read.verify_listed_hashes = false;
  const auto loader = OpenLoader(*files, options);
  size_t seen = 0;
  while (seen < 100) {
    const auto batch = loader->Next();
    ASSERT_TRUE(batch.ok() && *batch != nullptr) << batch.status();
    seen += (*batch)->size();
  }
}

TEST(MdsLoader, ArraysOfEveryKind) {
  const auto files = NewMemoryFileSystem();
  const MdsFields fields = {{"fixed", "ndarray:int16:2,3", 12}, {"free", "ndarray:uint8", {}}, {"code", "pkl", {}}};
  std::vector<MdsRow> rows;
  for (size_t i = 0; i < 100; ++i) {
    rows.push_back({std::string(12, static_cast<char>(i)),
                    MdsArray({1 + i % 5, 2}, 0, std::string(2 + 2 * (i % 5), static_cast<char>(i))), "x"});
  }
  WriteTree(*files, "/data", MdsTree(fields, rows, 30));
  // A pickled column does not matter unless it is named.
  const auto all = OpenLoader(*files, Options());
  ASSERT_NE(all, nullptr);
  const auto first = all->Next();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->column_count(), 2u);
  EXPECT_TRUE(absl::IsUnimplemented(Loader::Open(*files, {{.path = "/data"}}, Options({{.name = "code"}})).status()));
  const auto loader = OpenLoader(*files, Options({{.name = "free"}, {.name = "fixed"}}));
  ASSERT_NE(loader, nullptr);
  size_t seen = 0;
  while (true) {
    const auto batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (*batch == nullptr) break;
    const BatchColumn& fixed = *(*batch)->Find("fixed");
    for (size_t i = 0; i < (*batch)->size(); ++i, ++seen) {
      const uint64_t ordinal = (*batch)->samples()[i].ordinal;
      EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(fixed.values.data()) + 12 * i, 12), rows[ordinal][0]);
    }
  }
  EXPECT_EQ(seen, 100u);
}

TEST(MdsLoader, PixelsAreImagesAndListsAreRefusedAsSuch) {
  const auto files = NewMemoryFileSystem();
  const MdsFields fields = {{"frames", "jpeg_array", {}}, {"label", "str_int", {}}, {"picture", "pil", {}}};
  std::vector<MdsRow> rows;
  for (size_t i = 0; i < 5; ++i) {
    rows.push_back({Little(uint32_t{0}), std::to_string(i), MdsPixels(2, 1, "RGB", std::string(6, char('a' + i)))});
  }
  WriteTree(*files, "/data", MdsTree(fields, rows, 2));
  LoaderColumn picture = {.name = "picture", .decode = ColumnDecode::kImage};
  const auto loader = OpenLoader(*files, Options({picture, {.name = "label"}}));
  ASSERT_NE(loader, nullptr);
  const auto batch = loader->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ((*batch)->size(), 5u);
  const BatchColumn& pixels = *(*batch)->Find("picture");
  const BatchColumn& labels = *(*batch)->Find("label");
  for (size_t i = 0; i < 5; ++i) {
    const uint64_t ordinal = (*batch)->samples()[i].ordinal;
    const char* const values = reinterpret_cast<const char*>(pixels.values.data()) + pixels.offsets[i];
    EXPECT_EQ(std::string_view(values, 6), std::string(6, static_cast<char>('a' + ordinal)));
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(labels.values.data()) + 8 * i, 8), Little(ordinal));
    // MDS has no keys.
    EXPECT_EQ((*batch)->key(i), "00000000000" + std::to_string(ordinal));
  }
  picture.name = "frames";
  const absl::Status list = Loader::Open(*files, {{.path = "/data"}}, Options({picture})).status();
  EXPECT_TRUE(absl::IsInvalidArgument(list)) << list;
  EXPECT_NE(Message(list).find("column \"frames\": each value is a list of image files"), std::string::npos) << list;
}

TEST(MdsLoader, DamageEndsTheRunWithItsPlace) {
  const auto files = NewMemoryFileSystem();
  Tree tree = MdsTree(TextFields(), TextRows(200), 50);
  std::string& shard = tree["shard.00002.mds"];
  shard[shard.rfind("sample 120") - 12] ^= 1;  // the length of its text
  WriteTree(*files, "/data", tree);
  const auto loader = OpenLoader(*files, Options());
  const std::string last = Deliver(*loader).back();
  EXPECT_NE(last.find("/data/shard.00002.mds: sample 20 at byte "), std::string::npos) << last;
}

}  // namespace
}  // namespace shardkit::test
