// Reading valid MDS datasets.
#include <filesystem>
#include <random>

#include "foreign/mds/mds_encoding.h"
#include "support/counting_filesystem.h"
#include "support/fault_filesystem.h"
#include "unit/foreign/mds/mds_maker.h"

namespace shardkit::test {
namespace {

class MdsReaderTest : public testing::Test {
 protected:
  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
};

TEST_F(MdsReaderTest, EveryEncodingInEveryMode) {
  const MdsFields fields = EveryField();
  const std::vector<MdsRow> rows = EveryRow(40);
  const std::string directory = testing::TempDir() + "/mds_every";
  ASSERT_TRUE(RemoveTree(*PosixFileSystem(), directory).ok());
  WriteTree(*PosixFileSystem(), directory, MdsTree(fields, rows, 7));
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped, ReadMode::kDirect}) {
    DatasetOptions options;
    options.mode = mode;
    const auto dataset = OpenDataset(*PosixFileSystem(), directory, options);
    ASSERT_NE(dataset, nullptr);
    ExpectRows(*dataset, fields, rows);
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(RemoveTree(*PosixFileSystem(), directory).ok());
}

TEST_F(MdsReaderTest, TypesOfColumns) {
  WriteTree(*files_, "/data", MdsTree(EveryField(), EveryRow(3), 2));
  const auto dataset = OpenDataset(*files_, "/data");
  ASSERT_NE(dataset, nullptr);
  std::string types;
  for (const Column& column : dataset->columns()) {
    types += std::string(TypeName(column.type)) + " ";
    EXPECT_EQ(column.codec, Codec::kNone);
    EXPECT_FALSE(column.nullable || column.is_key);
  }
  EXPECT_EQ(types,
            "bytes utf8 i64 u8 u16 u32 u64 i8 i16 i32 i64 f16 f32 f64 i64 f64 utf8 json jpeg png image bytes bytes "
            "bytes ndarray ndarray ndarray bytes ");
  EXPECT_EQ(dataset->columns()[24].dtype, Type::kI16);
  EXPECT_FALSE(dataset->columns()[24].shape.has_value());
  EXPECT_EQ(dataset->columns()[25].dtype, Type::kF32);
  EXPECT_FALSE(dataset->columns()[25].shape.has_value());
  EXPECT_EQ(dataset->columns()[26].dtype, Type::kI16);
  EXPECT_EQ(dataset->columns()[26].shape, (std::vector<uint64_t>{2, 3}));
}

TEST_F(MdsReaderTest, ManifestIsMadeFromTheIndex) {
  const Tree tree = MdsTree(TextFields(), TextRows(10), 4);
  WriteTree(*files_, "/data", tree);
  for (const std::string path : {"/data", "/data/index.json"}) {
    const auto dataset = OpenDataset(*files_, path);
    ASSERT_NE(dataset, nullptr);
    const Manifest manifest = *dataset->ReadManifest();
    ASSERT_EQ(manifest.shards.size(), 3u);
    EXPECT_EQ(manifest.shards[2].name, "shard.00002.mds");
    EXPECT_EQ(manifest.shards[2].bytes, tree.at("shard.00002.mds").size());
    EXPECT_EQ(manifest.shards[2].samples, 2u);
    EXPECT_EQ(manifest.shards[2].blocks, 1u);
    EXPECT_EQ(manifest.shards[2].content_hash, ContentHash{});
    EXPECT_EQ(dataset->index_problem(), "datasets of mds have no offset index of ours");
    ExpectRows(*dataset, TextFields(), TextRows(10));
    const auto statistics = dataset->ReadStatistics();
    ASSERT_TRUE(statistics.ok()) << statistics.status();
    EXPECT_EQ((*statistics)[0].present_count, 10u);
    EXPECT_EQ((*statistics)[0].maximum, 9u);
  }
}

TEST_F(MdsReaderTest, SomeColumnsInAnotherOrder) {
  const MdsFields fields = EveryField();
  const std::vector<MdsRow> rows = EveryRow(30);
  WriteTree(*files_, "/data", MdsTree(fields, rows, 11));
  for (const ReadMode mode : {ReadMode::kBuffered, ReadMode::kMapped}) {
    std::mt19937_64 random(5);
    for (int round = 0; round < 30; ++round) {
      DatasetOptions options;
      options.mode = mode;
      std::vector<size_t> chosen;
      for (size_t c = 0; c < fields.size(); ++c) {
        if (random() % 4 == 0) chosen.push_back(c);
      }
      if (chosen.empty()) continue;
      std::ranges::shuffle(chosen, random);
      MdsFields wanted;
      std::vector<MdsRow> expected(rows.size());
      for (const size_t c : chosen) {
        options.columns.push_back(fields[c].name);
        wanted.push_back(fields[c]);
        for (size_t i = 0; i < rows.size(); ++i) expected[i].push_back(rows[i][c]);
      }
      const auto dataset = OpenDataset(*files_, "/data", options);
      ASSERT_NE(dataset, nullptr);
      ExpectRows(*dataset, wanted, expected);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(MdsReaderTest, ValuesOfOneSampleStayWhileAnotherColumnIsRead) {
  // The arrays of a held block must not be mistaken for those of a value read later.
  WriteTree(*files_, "/data", MdsTree(EveryField(), EveryRow(9), 9));
  const auto dataset = OpenDataset(*files_, "/data");
  BlockBuffer buffer;
  BlockView view;
  ASSERT_TRUE(dataset->ReadBlock(0, 0, &buffer, &view).ok());
  for (uint64_t i = 0; i < 9; ++i) {
    const auto value = dataset->ReadValue(i, 25, &buffer);
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(*value, Expected(EveryField()[25], EveryRow(9)[i][25]));
  }
}

TEST_F(MdsReaderTest, EmptyDatasets) {
  WriteTree(*files_, "/none", {{"index.json", R"({"shards": [], "version": 2})"}});
  const auto none = OpenDataset(*files_, "/none");
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->sample_count(), 0u);
  EXPECT_TRUE(none->columns().empty());
  EXPECT_TRUE(none->ReadBlockDirectory()->empty());
  const std::string shard = MdsShardBytes(TextFields(), {});
  WriteTree(*files_, "/empty",
            {{"a.mds", shard}, {"index.json", MdsIndexText(TextFields(), {{.name = "a.mds", .bytes = shard.size()}})}});
  const auto empty = OpenDataset(*files_, "/empty");
  ASSERT_NE(empty, nullptr);
  ExpectRows(*empty, TextFields(), {});
  EXPECT_TRUE(empty->OpenShard(0).ok());
  EXPECT_TRUE(empty->ReadBlockDirectory()->empty());
}

TEST_F(MdsReaderTest, MergedIndexNamesFolders) {
  const std::vector<MdsRow> rows = TextRows(9);
  const std::string first = MdsShardBytes(TextFields(), {rows.begin(), rows.begin() + 5});
  const std::string second = MdsShardBytes(TextFields(), {rows.begin() + 5, rows.end()});
  // Bytes after the last sample are ignored, and unknown fields are skipped.
  std::string index =
      MdsIndexText(TextFields(), {{.name = "26/shard.00000.mds", .bytes = first.size(), .samples = 5},
                                  {.name = "25/shard.00000.mds", .bytes = second.size() + 3, .samples = 4}});
  index.insert(1, R"("more": {"shards": [1]}, )");
  WriteTree(*files_, "/data",
            {{"index.json", index}, {"26/shard.00000.mds", first}, {"25/shard.00000.mds", second + "abc"}});
  const auto dataset = OpenDataset(*files_, "/data");
  ASSERT_NE(dataset, nullptr);
  ExpectRows(*dataset, TextFields(), rows);
}

TEST_F(MdsReaderTest, PickledColumnsAreLeftOut) {
  const MdsFields fields = {{"a", "int", 8}, {"code", "pkl", {}}, {"other", "mine", 3}, {"z", "str", {}}};
  std::vector<MdsRow> rows, without;
  for (int64_t i = 0; i < 20; ++i) {
    rows.push_back({Little(i), std::string(static_cast<size_t>(i), 'x'), "abc", std::to_string(i)});
    without.push_back({rows.back()[0], rows.back()[3]});
  }
  WriteTree(*files_, "/data", MdsTree(fields, rows, 6));
  const auto all = OpenDataset(*files_, "/data");
  ASSERT_NE(all, nullptr);
  ExpectRows(*all, {fields[0], fields[3]}, without);
  EXPECT_EQ(
      all->notes(),
      (std::vector<std::string>{
          "/data/index.json: column \"code\" is pickled; unpickling runs code that the file brings along, so it is "
          "never done; it is left out",
          "/data/index.json: column \"other\" of encoding \"mine\" has an encoding that is not one of MDS; it is "
          "left out"}));
  const auto report = Validate(*files_, "/data");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok());
  ASSERT_EQ(report->warnings.size(), 2u);
  EXPECT_EQ(report->warnings[0].message, all->notes()[0]);
  // By name they are refused.
  DatasetOptions options;
  options.columns = {"code", "z"};
  auto refused = DatasetReader::Open(*files_, "/data", options);
  EXPECT_TRUE(absl::IsUnimplemented(refused.status()));
  EXPECT_EQ(Message(refused.status()),
            "/data/index.json: column \"code\" is pickled; unpickling runs code that the file brings along, so it is "
            "never done; leave it out: --columns a,z (of shardctl convert and bench)");
  options.columns = {"z", "other"};
  refused = DatasetReader::Open(*files_, "/data", options);
  EXPECT_TRUE(absl::IsUnimplemented(refused.status()));
  EXPECT_EQ(Message(refused.status()),
            "/data/index.json: column \"other\" of encoding \"mine\" has an encoding that is not one of MDS; leave "
            "it out: --columns a,z (of shardctl convert and bench)");
  options.columns = {"z", "a"};
  const auto dataset = OpenDataset(*files_, "/data", options);
  ASSERT_NE(dataset, nullptr);
  EXPECT_TRUE(dataset->notes().empty());
  std::vector<MdsRow> expected;
  for (const MdsRow& row : rows) expected.push_back({row[3], row[0]});
  ExpectRows(*dataset, {fields[3], fields[0]}, expected);
  options.columns = {"nothing"};
  EXPECT_TRUE(absl::IsOutOfRange(DatasetReader::Open(*files_, "/data", options).status()));
  // And so is a dataset of nothing else.
  WriteTree(*files_, "/code", MdsTree({fields[1]}, {{"x"}}, 1));
  const auto alone = DatasetReader::Open(*files_, "/code");
  EXPECT_TRUE(absl::IsUnimplemented(alone.status()));
  EXPECT_TRUE(Message(alone.status()).ends_with("so it is never done")) << alone.status();
}

TEST_F(MdsReaderTest, LargeShardsAreReadInBlocks) {
  const MdsFields fields = {{"value", "bytes", {}}};
  std::mt19937_64 random(1);
  for (const bool skewed : {false, true}) {
    std::vector<MdsRow> rows;
    for (size_t i = 0; i < 300; ++i) {
      // Skewed: most of the bytes are in the last few samples.
      const size_t size = skewed ? (i < 290 ? random() % 10 : 2 << 20) : random() % 100000;
      rows.push_back({std::string(size, static_cast<char>('a' + i % 26))});
    }
    const std::string path = skewed ? "/skewed" : "/even";
    WriteTree(*files_, path, MdsTree(fields, rows, 300));
    const auto dataset = OpenDataset(*files_, path);
    ASSERT_NE(dataset, nullptr);
    ExpectRows(*dataset, fields, rows);
    const auto blocks = dataset->ReadBlockDirectory();
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    EXPECT_GE(blocks->size(), 4u);
    EXPECT_EQ(blocks->size(), dataset->Shard(0)->blocks);
    for (const DatasetBlock& block : *blocks) EXPECT_LE(block.length, (uint64_t{6} << 20) + 100000);
    // Parts of the shard.
    for (const uint64_t first : {uint64_t{0}, uint64_t{150}, uint64_t{299}}) {
      ScanOptions options;
      options.first_sample = first;
      options.end_sample = first + 1;
      const auto scanner = dataset->Scan(options);
      const auto block = (*scanner)->Next();
      ASSERT_TRUE(block.ok() && *block != nullptr);
      EXPECT_EQ((*block)->view().column(0).value(static_cast<uint32_t>(first - (*block)->first_sample())),
                rows[first][0]);
    }
  }
}

TEST_F(MdsReaderTest, ManyTinySamplesInManyBlocks) {
  const MdsFields fields = {{"token", "uint16", 2}};
  std::vector<MdsRow> rows;
  for (uint32_t i = 0; i < 200000; ++i) rows.push_back({Little(static_cast<uint16_t>(i * 7))});
  WriteTree(*files_, "/data", MdsTree(fields, rows, rows.size()));
  const auto dataset = OpenDataset(*files_, "/data");
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->Shard(0)->blocks, 4u);
  ExpectRows(*dataset, fields, rows);
}

TEST_F(MdsReaderTest, TheColumnsOfASampleAreReadAtOnce) {
  const MdsFields fields = {{"a", "bytes", {}}, {"b", "bytes", {}}, {"c", "bytes", {}}};
  const auto value = [](size_t i, size_t column) { return std::string(i, static_cast<char>('a' + column)); };
  std::vector<MdsRow> rows;
  for (size_t i = 0; i < 6; ++i) rows.push_back({value(i, 0), value(i, 1), value(i, 2)});
  WriteTree(*files_, "/data", MdsTree(fields, rows, 3));
  CountingFileSystem counted(files_.get());
  const auto dataset = DatasetReader::Open(counted, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  for (const size_t first : {0, 3})
    ASSERT_TRUE((*dataset)->ReadValue(first, 0, &buffer).ok());  // which opens the shard
  for (const size_t i : {0, 3, 1, 4, 1}) {                       // of two shards, at the same places
    counted.Reset();
    for (const size_t column : {0, 2, 1}) EXPECT_EQ(*(*dataset)->ReadValue(i, column, &buffer), value(i, column));
    EXPECT_EQ(counted.reads().size(), 1u) << i;
  }
}

TEST_F(MdsReaderTest, MemoryIsBounded) {
  const MdsFields fields = {{"array", "ndarray:uint8", {}}, {"value", "bytes", {}}};
  const std::string elements(100000, 'e');
  const std::vector<MdsRow> rows(10, {MdsArray({100000}, 2, elements), std::string(900000, 'v')});
  WriteTree(*files_, "/data", MdsTree(fields, rows, 10));
  DatasetOptions options;
  options.max_block_memory = 200000;
  const auto dataset = OpenDataset(*files_, "/data", options);
  ASSERT_NE(dataset, nullptr);
  BlockBuffer buffer;
  BlockView view;
  EXPECT_TRUE(absl::IsResourceExhausted(dataset->ReadBlock(0, 0, &buffer, &view)));
  EXPECT_TRUE(absl::IsResourceExhausted(dataset->ReadValue(3, 1, &buffer).status()));
  EXPECT_LT(buffer.memory(), 100000u);
  // It can be read in pieces.
  uint64_t length = 0;
  const auto copied = dataset->CopyValue(3, 1, [&](std::string_view piece) {
    length += piece.size();
    return absl::OkStatus();
  });
  EXPECT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(length, 900000u);
}

TEST_F(MdsReaderTest, FewReads) {
  WriteTree(*files_, "/data", MdsTree(TextFields(), TextRows(100), 100));
  FaultFileSystem counted(files_.get());
  const auto dataset = OpenDataset(counted, "/data");
  ASSERT_NE(dataset, nullptr);
  ASSERT_TRUE(dataset->OpenShard(0).ok());
  const uint64_t opened = counted.call_count();
  EXPECT_LE(opened, 9u);
  BlockBuffer buffer;
  ASSERT_TRUE(dataset->ReadValue(50, 1, &buffer).ok());
  EXPECT_EQ(counted.call_count(), opened + 1);
  BlockView view;
  ASSERT_TRUE(dataset->ReadBlock(0, 0, &buffer, &view).ok());
  EXPECT_EQ(counted.call_count(), opened + 2);
}

TEST_F(MdsReaderTest, EveryFailingCallIsReported) {
  WriteTree(*files_, "/data", MdsTree(TextFields(), TextRows(30), 10));
  for (uint64_t n = 1;; ++n) {
    FaultFileSystem faults(files_.get());
    faults.FailCall(n, {});
    const absl::Status status = ReadEverything(faults, "/data");
    if (!faults.failed_call()) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GT(n, 20u);
      break;
    }
    EXPECT_FALSE(status.ok()) << faults.failed_call()->operation;
    EXPECT_NE(Message(status).find("/data"), std::string::npos) << status;
  }
}

TEST(MdsEncoding, ShapesAndTypes) {
  using foreign::DescribeMdsEncoding;
  EXPECT_EQ(DescribeMdsEncoding("ndarray:float64:30").size, 240u);
  EXPECT_EQ(DescribeMdsEncoding("ndarray:uint8:1,2,3").shape, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_FALSE(DescribeMdsEncoding("ndarray:").size.has_value());
  EXPECT_TRUE(DescribeMdsEncoding("ndarray:").known);
  for (const std::string_view text :
       {"", "Int", "int ", "float128", "ndarray:bool", "ndarray:float32:", "ndarray:float32:0", "ndarray:float32:-1",
        "ndarray:float32:1,", "ndarray:float32: 1", "ndarray::3", "ndarray:uint8:65536,65536",
        "ndarray:uint8:4294967296,4294967296", "list[int]", "ndarray:int8:1:2"}) {
    EXPECT_FALSE(DescribeMdsEncoding(text).known) << text;
    EXPECT_FALSE(DescribeMdsEncoding(text).refusal.empty()) << text;
  }
}

}  // namespace
}  // namespace shardkit::test
