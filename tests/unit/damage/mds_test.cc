// MDS has no checksums, except the hashes of whole files that its index may list. A bit of a value changes only that
// value. A bit of the shard's structure is found.
#include "shardkit/copy.h"
#include "unit/damage/observe.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

const MdsFields& Fields() {
  static const MdsFields fields = {{"array", "ndarray:uint8", {}}, {"number", "int16", 2}, {"text", "str", {}}};
  return fields;
}

// Each shard has one sample, of the same length: only their names distinguish the shards.
const std::vector<MdsRow>& Rows() {
  static const std::vector<MdsRow> rows = {{MdsArray({2}, 0, "ab"), "xy", "text"},
                                           {MdsArray({2}, 0, "cd"), "uv", "TEXT"}};
  return rows;
}

Values ValuesOfRows() {
  Values values;
  for (const MdsRow& row : Rows()) values.push_back({OurArray({2}, row[0].substr(2)), row[1], row[2]});
  return values;
}

Subject NewSubject() { return MakeSubject("mds", MdsTree(Fields(), Rows(), 1), "", ValuesOfRows()); }

// As Shardkit writes it.
Subject NewCompressedSubject(const std::vector<std::string>& hashes) {
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/in", MdsTree(Fields(), Rows(), 1));
  ConvertOptions options;
  options.to = Container::kMds;
  options.mds.shard_samples = 1;
  options.mds.compression = "zstd";
  options.mds.hashes = hashes;
  const auto converted = Convert(*files, "/in", "/out", options);
  EXPECT_TRUE(converted.ok()) << converted.status();
  return MakeSubject("compressed", ReadDataset(*files, "/out"), "", ValuesOfRows());
}

// The original's data or an error. Validate finds the damage unless it has no effect.
void ExpectFoundOrUnharmed(const Observation& seen) {
  EXPECT_TRUE(seen.changed.empty());
  EXPECT_TRUE(seen.unharmed() || seen.found);
  EXPECT_TRUE(seen.error.ok() || absl::IsDataLoss(seen.error) || absl::IsUnimplemented(seen.error) ||
              absl::IsNotFound(seen.error) || absl::IsResourceExhausted(seen.error) ||
              absl::IsInvalidArgument(seen.error))
      << seen.error;
}

TEST(MdsDamage, OfAShard) {
  const Subject subject = NewSubject();
  const std::string file = "shard.00000.mds";
  const std::string& bytes = subject.files.at(file);
  // [begin, end) of the payloads of sample 0: the last bytes of the shard.
  std::vector<size_t> begins = {bytes.size()};
  for (size_t c = Fields().size(); c-- > 0;) begins.insert(begins.begin(), begins[0] - Rows()[0][c].size());
  FlipEveryBit(subject, file, [&](uint64_t bit, const Observation& seen) {
    size_t column = 0;
    while (column < Fields().size() && bit / 8 >= begins[column + 1]) ++column;
    if (bit / 8 < begins[0]) return ExpectFoundOrUnharmed(seen);
    EXPECT_TRUE(seen.lies.empty());
    if (!seen.error.ok()) {
      // The shape of an array is checked against its elements.
      EXPECT_EQ(column, 0u);
      return ExpectFoundOrUnharmed(seen);
    }
    ASSERT_EQ(seen.changed.size(), 1u);
    const auto& [place, value] = *seen.changed.begin();
    EXPECT_EQ(place, Place(0, column));
    std::string payload = Rows()[0][column];
    char& changed = payload[bit / 8 - begins[column]];
    changed = static_cast<char>(changed ^ (1 << bit % 8));
    EXPECT_EQ(value, Expected({"", column == 0 ? "ndarray:float32" : "str", {}}, payload));
  });
  CutAtEveryLength(subject, file, [&](uint64_t, const Observation& seen) {
    ExpectFoundOrUnharmed(seen);
    EXPECT_TRUE(absl::IsDataLoss(seen.error)) << seen.error;
  });
}

TEST(MdsDamage, OfAShardWithHashesIsFound) {
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/in", MdsTree(Fields(), Rows(), 1));
  ConvertOptions options;
  options.to = Container::kMds;
  options.mds.shard_samples = 1;
  options.mds.hashes = {"xxh64"};
  ASSERT_TRUE(Convert(*files, "/in", "/out", options).ok());
  const Subject subject = MakeSubject("hashed", ReadDataset(*files, "/out"), "", ValuesOfRows());
  FlipEveryBit(subject, "shard.00000.mds", [&](uint64_t, const Observation& seen) {
    ExpectFoundOrUnharmed(seen);
    EXPECT_TRUE(seen.found);
    EXPECT_FALSE(seen.error.ok());
  });
}

TEST(MdsDamage, OfTheIndex) {
  const Subject subject = NewSubject();
  FlipEveryBit(subject, "index.json", [&](uint64_t, const Observation& seen) {
    ExpectFoundOrUnharmed(seen);
    // Until a shard is opened, only the index says how many samples there are.
    for (const std::string& lie : seen.lies) EXPECT_TRUE(lie == "another number of samples" && !seen.error.ok()) << lie;
  });
  CutAtEveryLength(subject, "index.json", [&](uint64_t, const Observation& seen) {
    ExpectFoundOrUnharmed(seen);
    EXPECT_TRUE(absl::IsDataLoss(seen.error)) << seen.error;
  });
}

TEST(MdsDamage, OfACompressedShardWithHashes) {
  const Subject subject = NewCompressedSubject({"xxh64"});
  FlipEveryBit(subject, "shard.00000.mds.zstd", [&](uint64_t, const Observation& seen) {
    ExpectFoundOrUnharmed(seen);
    EXPECT_TRUE(seen.lies.empty() && seen.found);
  });
}

// The decompressed shard is consistent, but its values may be different.
TEST(MdsDamage, OfACompressedShard) {
  const Subject subject = NewCompressedSubject({});
  size_t silent = 0;
  FlipEveryBit(subject, "shard.00000.mds.zstd", [&](uint64_t, const Observation& seen) {
    EXPECT_TRUE(seen.lies.empty());
    EXPECT_TRUE(seen.error.ok() || absl::IsDataLoss(seen.error) || absl::IsUnimplemented(seen.error)) << seen.error;
    for (const auto& change : seen.changed) EXPECT_EQ(change.first.first, 0u) << "a value of another shard";
    silent += seen.changed.empty() ? 0 : 1;
  });
  EXPECT_GT(silent, 0u) << "it has a checksum after all";
  CutAtEveryLength(subject, "shard.00000.mds.zstd", [&](uint64_t, const Observation& seen) {
    ExpectFoundOrUnharmed(seen);
    EXPECT_TRUE(absl::IsDataLoss(seen.error)) << seen.error;
  });
}

}  // namespace
}  // namespace shardkit::test
