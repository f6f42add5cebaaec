// Shards that are damaged, truncated, missing, or do not match the index.
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

class MdsDamageTest : public testing::Test {
 protected:
  // A dataset of this one shard. The index is right except for the shard's inner bytes.
  absl::Status Read(const std::string& shard, uint64_t samples, const MdsFields& fields = TextFields(),
                    ReadMode mode = ReadMode::kBuffered) {
    const auto files = NewMemoryFileSystem();
    WriteTree(*files, "/data",
              {{"shard.00000.mds", shard},
               {"index.json",
                MdsIndexText(fields, {{.name = "shard.00000.mds", .bytes = shard.size(), .samples = samples}})}});
    DatasetOptions options;
    options.mode = mode;
    return ReadEverything(*files, "/data", options);
  }

  void ExpectDamage(const std::string& shard, uint64_t samples, const std::string& message,
                    const MdsFields& fields = TextFields()) {
    const absl::Status status = Read(shard, samples, fields);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(Message(status).starts_with("/data/shard.00000.mds: ")) << status;
    EXPECT_NE(Message(status).find(message), std::string::npos) << status;
  }

  static std::string WithNumber(std::string bytes, size_t at, uint32_t number) {
    return bytes.replace(at, 4, Little(number));
  }

  const std::string sound_ = MdsShardBytes(TextFields(), TextRows(3));
  const uint32_t begin_ = static_cast<uint32_t>(4 + 4 * 4 + MdsHeader(TextFields()).size());
};

TEST_F(MdsDamageTest, Sound) { EXPECT_TRUE(Read(sound_, 3).ok()) << Read(sound_, 3); }

TEST_F(MdsDamageTest, TheTableOfOffsets) {
  ExpectDamage(WithNumber(sound_, 0, 4000000000), 3,
               "header: byte 0 announces 4000000000 samples, but the file ends at byte");
  ExpectDamage(WithNumber(sound_, 0, UINT32_MAX), 3, "header: byte 0 announces 4294967295 samples");
  ExpectDamage(sound_, 2, "header: byte 0 announces 3 samples, but index.json says 2");
  ExpectDamage(WithNumber(sound_, 4, 19), 3,
               "header: byte 4: the first sample would begin at byte 19, within the table of offsets");
  ExpectDamage(WithNumber(sound_, 4, 1 << 30), 3,
               "header: byte 4: the first sample would begin at byte 1073741824, but the file ends");
  ExpectDamage(WithNumber(sound_, 8, begin_ - 1), 3,
               "header: byte 8: sample 0 would end at byte " + std::to_string(begin_ - 1) + ", before it begins");
  ExpectDamage(WithNumber(sound_, 16, static_cast<uint32_t>(sound_.size() + 1)), 3,
               "header: byte 16: sample 2 would end at byte");
  ExpectDamage("", 0, "header: the file has 0 bytes, too few");
  ExpectDamage("abc", 0, "header: the file has 3 bytes, too few");
}

TEST_F(MdsDamageTest, TheHeaderInJson) {
  MdsFields fields = TextFields();
  fields[1].encoding = "bytes";
  ExpectDamage(sound_, 3, "header: byte 20: the shard has other columns, encodings or sizes than index.json says",
               fields);
  std::string text = sound_;
  text[20] = '[';
  ExpectDamage(text, 3, "header: byte 20: is not the JSON of an MDS shard");
  text = sound_;
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 1");
  EXPECT_TRUE(absl::IsUnimplemented(Read(text, 3))) << Read(text, 3);
}

TEST_F(MdsDamageTest, Samples) {
  // The length of the text of sample 0, its first field.
  const std::string place = "sample 0 at byte " + std::to_string(begin_) + ": ";
  ExpectDamage(WithNumber(sound_, begin_, 9), 3,
               place + "column \"text\": a value of 9 bytes at byte 12 of the sample, which ends at 20");
  ExpectDamage(WithNumber(sound_, begin_, UINT32_MAX), 3, place + "column \"text\": a value of 4294967295 bytes");
  ExpectDamage(WithNumber(sound_, begin_, 7), 3, place + "1 bytes follow its last value");
  ExpectDamage(WithNumber(sound_, 8, begin_ + 3), 3,
               place + "it has 3 bytes, fewer than the lengths of its values take");
  ExpectDamage(WithNumber(sound_, 8, begin_), 3, place + "it has 0 bytes");
}

TEST_F(MdsDamageTest, Arrays) {
  const MdsFields fields = {{"a", "ndarray:int16", {}}};
  const std::string good = MdsArray({3}, 0, "abcdef");
  const std::string shard = MdsShardBytes(fields, {{good}, {MdsArray({3}, 0, "abcde")}});
  ExpectDamage(shard, 2, "column \"a\": ndarray: the shape does not fit 5 bytes", fields);
  ExpectDamage(shard, 2, ": sample 1 at byte ", fields);
  EXPECT_TRUE(absl::IsUnimplemented(
      Read(MdsShardBytes(fields, {{MdsArray(std::vector<uint64_t>(9, 1), 0, "ab")}}), 1, fields)));
}

TEST_F(MdsDamageTest, EveryLength) {
  for (size_t length = 0; length < sound_.size(); ++length) {
    // First the index has the shorter length, so that the inner checks are reached. Then it has the original length.
    const absl::Status status = Read(sound_.substr(0, length), 3);
    EXPECT_TRUE(absl::IsDataLoss(status)) << length << ": " << status;
    const auto files = NewMemoryFileSystem();
    Tree tree = MdsTree(TextFields(), TextRows(3), 3);
    tree["shard.00000.mds"].resize(length);
    WriteTree(*files, "/data", tree);
    const absl::Status cut = ReadEverything(*files, "/data");
    EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
    EXPECT_EQ(Message(cut), "/data/shard.00000.mds: the file has " + std::to_string(length) +
                                " bytes, but index.json says " + std::to_string(sound_.size()) +
                                ": it is cut short; fetch it again");
  }
}

TEST_F(MdsDamageTest, MissingShardsAndOthersInTheirPlace) {
  Tree tree = MdsTree(TextFields(), TextRows(9), 3);
  tree.erase("shard.00001.mds");
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/missing", tree);
  const absl::Status missing = ReadEverything(*files, "/missing");
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_EQ(Message(missing), "/missing/shard.00001.mds: shard 1 of index.json is missing");
  // The shards before it can be read.
  const auto dataset = OpenDataset(*files, "/missing");
  BlockBuffer buffer;
  EXPECT_TRUE(dataset->ReadValue(2, 0, &buffer).ok());
  EXPECT_TRUE(dataset->ReadValue(8, 0, &buffer).ok());

  tree = MdsTree(TextFields(), TextRows(9), 3);
  tree["shard.00001.mds"] += "more";
  WriteTree(*files, "/longer", tree);
  const absl::Status longer = ReadEverything(*files, "/longer");
  EXPECT_TRUE(absl::IsDataLoss(longer));
  EXPECT_NE(Message(longer).find(": it is another file"), std::string::npos) << longer;

  EXPECT_TRUE(absl::IsNotFound(DatasetReader::Open(*files, "/nothing/index.json").status()));
}

// The block's other samples, and the other values of the damaged sample, are readable.
TEST_F(MdsDamageTest, IsOfOneSampleWhereItCanBeTold) {
  const MdsFields fields = {{"a", "ndarray:uint8", std::nullopt}, {"key", "str", std::nullopt}};
  std::vector<MdsRow> rows;
  for (int i = 0; i < 4; ++i) rows.push_back({MdsArray({2, 3}, 0, "abcdef"), "k" + std::to_string(i)});
  rows[1][0] = MdsArray({2, 4}, 0, "abcdef");
  std::string shard = MdsShardBytes(fields, rows);
  uint32_t third;
  std::memcpy(&third, shard.data() + 4 + 4 * 2, 4);
  shard[third + 1] = 1;  // a length
  const auto files = NewMemoryFileSystem();
  WriteTree(*files, "/data",
            {{"shard.00000.mds", shard},
             {"index.json", MdsIndexText(fields, {{.name = "shard.00000.mds", .bytes = shard.size(), .samples = 4}})}});
  const auto dataset = OpenDataset(*files, "/data");
  ASSERT_TRUE(dataset);
  BlockBuffer buffer;
  BlockView view;
  BlockDamage damage;
  uint64_t kept = 0;
  const auto blocks = dataset->ReadBlockDirectory();
  ASSERT_TRUE(blocks.ok()) << blocks.status();
  for (const DatasetBlock& block : *blocks) {
    ASSERT_TRUE(dataset->SalvageBlock(block.shard, block.block, &buffer, &view, &damage).ok());
    for (uint32_t i = 0; i < view.sample_count(); ++i) {
      const uint64_t sample = block.first_sample + i;
      EXPECT_EQ(damage.OfSample(i).ok(), sample != 1 && sample != 2) << sample;
      EXPECT_EQ(damage.Has(i, 0), sample == 1 || sample == 2);
      EXPECT_EQ(damage.Has(i, 1), sample == 2);
      if (sample != 2) {
        EXPECT_EQ(view.column(1).value(i), rows[sample][1]);
      }
      if (damage.OfSample(i).ok()) {
        EXPECT_EQ(view.column(0).value(i), OurArray({2, 3}, "abcdef"));
      }
      kept += damage.OfSample(i).ok() ? 1 : 0;
    }
  }
  EXPECT_EQ(kept, 2u);
  EXPECT_TRUE(dataset->columns()[1].is_key);
}

}  // namespace
}  // namespace shardkit::test
