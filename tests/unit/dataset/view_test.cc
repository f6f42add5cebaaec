// Datasets with removed samples and changed columns, as all readers see them.
#include "dataset/view_support.h"
#include "shardkit/change.h"
#include "shardkit/copy.h"
#include "shardkit/repair.h"
#include "support/effort.h"

namespace shardkit::test {
namespace {

TEST_F(ViewTest, AColumnOfAnotherTypeTakesThePlaceOfAStoredOne) {
  Column number = Text("text");
  number.type = Type::kF32;
  number.SetCodec(Codec::kZstd);
  AddColumn(number, [](uint64_t i) { return std::optional(std::string(4, static_cast<char>(i))); });
  Check();
  // Samples without the column can be appended, again and again.
  for (size_t i = 40; i < 60; i += 10) {
    DatasetWriterOptions options = SmallShards(9, 4);
    options.append = true;
    auto writer = DatasetWriter::Create(*files_, "/data", MakeSchema({KeyColumn(), ImageColumn()}), options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (OwnedSample sample : Samples(i, i + 10)) {
      std::erase_if(sample.fields, [](const auto& field) { return field.first->name != "image"; });
      ASSERT_TRUE((*writer)->Append(sample.View()).ok());
      rows_.push_back(RowOf(sample));
    }
    const auto summary = (*writer)->Finish();
    ASSERT_TRUE(summary.ok()) << summary.status();
    Check();
  }
  Remove({0, 41, 55});
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.least_lost = 0.01}).ok());
  Check();
  // Of the stored type they are refused.
  DatasetWriterOptions options = SmallShards(9, 4);
  options.append = true;
  const auto refused = WriteDataset(*files_, "/data", Samples(60, 70), options);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  Check();
  ASSERT_TRUE(RemoveSamples(*files_, "/data", {.ranges = {{0, UINT64_MAX}}}).ok());
  rows_.clear();
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  Check();
}

TEST_F(ViewTest, NothingSelectedPublishesNothing) {
  const Tree before = ReadTree(*files_, "/data");
  SampleSelection selection;
  selection.keys = {"no such key"};
  const auto report = RemoveSamples(*files_, "/data", selection);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->generation, 1u);
  EXPECT_EQ(report->selection.keys_missing, 1u);
  EXPECT_EQ(ReadTree(*files_, "/data"), before);
  // That all are meant has to be said.
  EXPECT_TRUE(absl::IsInvalidArgument(RemoveSamples(*files_, "/data", {}).status()));
  EXPECT_EQ(ReadTree(*files_, "/data"), before);
}

TEST_F(ViewTest, AnIndexMadeAnewKeepsWhatReadersSee) {
  AddColumn(Score(), ScoreOf);
  Remove({2, 20});
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.segment").ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Check();
  // Where the manifest is lost, nobody knows which samples may be seen.
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.json").ok());
  const auto lost = RebuildIndex(*files_, "/data");
  EXPECT_TRUE(absl::IsDataLoss(lost.status())) << lost.status();
}

// Values of any sample of large blocks.
TEST_F(ViewTest, ManySamplesInABlock) {
  UseLargeBlocks(900, 400, 170);
  AddColumn(Score(), ScoreOf);
  AddColumn(Text("note"), [](uint64_t i) -> std::optional<std::string> {
    if (i % 7 == 3) return std::nullopt;
    return std::string(i % 13, 'n') + std::to_string(i);
  });
  Column image{.name = "thumbnail", .type = Type::kBytes, .nullable = true};
  image.SetCodec(Codec::kNone);
  AddColumn(image, [](uint64_t i) { return std::optional(std::string(1 + i % 90, static_cast<char>(i))); });
  Check();
  Remove({0, 64, 65, 70, 71, 72, 169, 170, 399, 400, 401, 700, 899});
  Check();
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.least_lost = 0.001}).ok());
  Check();
}

TEST_F(ViewTest, WhatDoesNotFitIsRefused) {
  AddColumn(Score(), ScoreOf);
  Remove({4});
  const Manifest manifest = *ReadManifest(*files_, "/data");
  const auto refused = [&](const std::function<void(Manifest&)>& change) {
    Manifest changed = manifest;
    change(changed);
    WriteFile(*files_, "/data/dataset.json", FormatManifest(changed));
    const auto opened = DatasetReader::Open(*files_, "/data");
    EXPECT_NE(ValidateText(*files_, "/data"), "");
    return opened.status();
  };
  EXPECT_TRUE(absl::IsDataLoss(refused([](Manifest& m) { m.removed->samples = 2; })));
  EXPECT_TRUE(absl::IsDataLoss(refused([](Manifest& m) { ++m.removed->table.checksum; })));
  EXPECT_TRUE(absl::IsNotFound(refused([](Manifest& m) { m.removed->table.name = "dataset-9.removed"; })));
  EXPECT_TRUE(absl::IsDataLoss(refused([](Manifest& m) { m.column_files[0].columns[0] = "other"; })));
  // Files are opened when they are needed.
  const auto unreadable = [&](const std::function<void(ColumnFile&)>& change) {
    EXPECT_EQ(refused([&](Manifest& m) { change(m.column_files[0]); }), absl::OkStatus());
    const auto dataset = DatasetReader::Open(*files_, "/data");
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    BlockBuffer buffer;
    EXPECT_TRUE((*dataset)->ReadValue(0, 0, &buffer).ok());
    return (*dataset)->ReadValue(0, (*dataset)->columns().size() - 1, &buffer).status();
  };
  EXPECT_TRUE(absl::IsDataLoss(unreadable([](ColumnFile& file) { ++file.content_hash[0]; })));
  EXPECT_TRUE(absl::IsDataLoss(unreadable([](ColumnFile& file) { ++file.blocks; })));
  EXPECT_TRUE(absl::IsDataLoss(unreadable([](ColumnFile& file) { ++file.samples; })));
  EXPECT_TRUE(absl::IsDataLoss(unreadable([](ColumnFile& file) { ++file.bytes; })));
  EXPECT_TRUE(absl::IsNotFound(unreadable([](ColumnFile& file) { file.name = "dataset-9.columns"; })));
}

TEST_F(ViewTest, EveryChangedByteOfListAndColumnFileIsNoticed) {
  AddColumn(Score(), ScoreOf);
  Remove({4, 5, 30});
  for (const std::string name : {"dataset-3.removed", "dataset-2.columns"}) {
    const std::string path = "/data/" + name;
    const std::string whole = ReadAll(*files_, path);
    for (size_t i = 0; i <= whole.size(); i += TestStep()) {
      std::string damaged = whole.substr(0, i);  // cut off, or with one changed bit
      if (i % 2 == 0 && i < whole.size()) {
        damaged = whole;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      }
      if (damaged == whole) continue;
      WriteFile(*files_, path, damaged);
      EXPECT_NE(ValidateText(*files_, "/data"), "") << name << ": " << i;
      const auto opened = DatasetReader::Open(*files_, "/data");
      if (!opened.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(opened.status()) || absl::IsUnimplemented(opened.status())) << opened.status();
      } else {
        EXPECT_TRUE(name.ends_with(".columns")) << name << ": " << i;
        // No value is another, and damage of what no reader needs is no error.
        const auto scanner = (*opened)->Scan();
        std::vector<Row> rows;
        absl::Status status;
        while (status.ok()) {
          auto block = (*scanner)->Next();
          status = block.status();
          if (!block.ok() || *block == nullptr) break;
          for (uint32_t k = 0; k < (*block)->view().sample_count(); ++k) {
            Row& row = rows.emplace_back();
            for (size_t column = 0; column < (*opened)->columns().size(); ++column) {
              const auto value = (*block)->view().column(column).value(k);
              if (value) row[(*opened)->columns()[column].name] = std::string(*value);
            }
          }
        }
        if (status.ok()) {
          EXPECT_EQ(rows, rows_);
        }
        EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << status;
      }
    }
    WriteFile(*files_, path, whole);
  }
  Check();
}

TEST_F(ViewTest, ListsOfRemovedSamplesThatNameOneTwiceOrNoneAreRefused) {
  const auto open = [&](std::vector<uint64_t> ordinals) {
    Manifest manifest = *ReadManifest(*files_, "/data");
    const auto written =
        dataset::WriteRemoved(*files_, "/data", "dataset-2.removed", dataset::RemovedList(std::move(ordinals)));
    EXPECT_TRUE(written.ok()) << written.status();
    manifest.removed = *written;
    WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
    return DatasetReader::Open(*files_, "/data").status();
  };
  EXPECT_TRUE(open({4, 5, 39}).ok());
  for (const std::vector<uint64_t>& wrong : {std::vector<uint64_t>{4, 4}, {5, 4}, {4, 40}, {UINT64_MAX}}) {
    const absl::Status refused = open(wrong);
    EXPECT_TRUE(absl::IsDataLoss(refused)) << wrong.back() << ": " << refused;
  }
}

TEST_F(ViewTest, ListsOfRemovedSamplesHaveAnyNumberOfPages) {
  constexpr uint64_t kOfPage = 8192;  // dataset.md, section 9.5
  for (const uint64_t count : {kOfPage - 1, kOfPage, kOfPage + 1, 3 * kOfPage, 3 * kOfPage + 5}) {
    std::vector<uint64_t> ordinals;
    for (uint64_t i = 0; i < count; ++i) ordinals.push_back(3 * i + i % 2);
    const auto named = dataset::WriteRemoved(*files_, "/data", "dataset-2.removed", dataset::RemovedList(ordinals));
    ASSERT_TRUE(named.ok()) << named.status();
    const auto read = dataset::RemovedList::Read(*files_, "/data", *named, 4 * count);
    ASSERT_TRUE(read.ok()) << count << ": " << read.status();
    EXPECT_TRUE(std::ranges::equal(read->ordinals(), ordinals)) << count;
  }
}

TEST_F(ViewTest, ColumnFilesWhoseBlocksDoNotFitAreRefused) {
  Manifest manifest = *ReadManifest(*files_, "/data");
  dataset::ColumnFileWriter writer(*files_, "/data", 2, MakeSchema({Score()}), 1, nullptr);
  for (uint64_t i = 0; i < manifest.sample_count; ++i) {
    const std::optional<std::string> bytes = ScoreOf(i);
    std::optional<Value> cell;
    if (bytes) cell.emplace(*bytes);
    ASSERT_TRUE(writer.Append({&cell, 1}).ok());
    if (i % 7 == 6) {
      ASSERT_TRUE(writer.EndBlock(i - 6).ok());
    }
  }
  ASSERT_TRUE(writer.EndBlock(35).ok());
  manifest.column_files = *writer.Finish();
  std::vector<Column> columns = manifest.schema.columns();
  columns.push_back(Score());
  manifest.schema = MakeSchema(columns);
  WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  EXPECT_NE(ValidateText(*files_, "/data").find("column file 0 has no block of"), std::string::npos);
  const auto dataset = DatasetReader::Open(*files_, "/data");
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  BlockBuffer buffer;
  BlockView view;
  const absl::Status read = (*dataset)->ReadBlock(0, 1, &buffer, &view);
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  BlockDamage damage;
  const absl::Status salvaged = (*dataset)->SalvageBlock(0, 1, &buffer, &view, &damage);
  ASSERT_TRUE(salvaged.ok()) << salvaged;
  EXPECT_EQ(damage.columns.size(), 1u);
}

// Each row is one of those before, in their order; where values may be lost, without some of them.
void ExpectRowsOf(const std::vector<Row>& before, const std::vector<Row>& after, bool values_may_be_lost) {
  size_t next = 0;
  for (const Row& row : after) {
    while (next < before.size() && before[next].at("id") != row.at("id")) ++next;
    ASSERT_LT(next, before.size()) << row.at("id");
    Row expected = before[next++];
    if (values_may_be_lost) std::erase_if(expected, [&](const auto& value) { return !row.contains(value.first); });
    EXPECT_EQ(row, expected);
  }
}

TEST_F(ViewTest, RepairKeepsChangedColumnsAndRemovedSamples) {
  AddColumn(Score(), ScoreOf);
  AddColumn(Text("text"), [](uint64_t i) { return std::optional("text " + std::to_string(i)); });
  Append(40, 58);
  Remove({2, 3, 4, 5, 17, 45});
  ASSERT_TRUE(RenameColumns(*files_, "/data", {{"key", "id"}}).ok());
  for (Row& row : rows_) {
    auto key = row.extract("key");
    key.key() = "id";
    row.insert(std::move(key));
  }
  const Manifest manifest = *ReadManifest(*files_, "/data");
  ASSERT_GT(manifest.column_files.size(), 1u);
  const Tree whole = ReadTree(*files_, "/data");
  const auto repaired = [&]() {
    const auto report = RepairDataset(*files_, "/data", "/repaired", {.keep_samples = true});
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(ValidateText(*files_, "/repaired"), "");
    const std::vector<Row> rows = ScanRows(*files_, "/repaired");
    EXPECT_TRUE(RemoveTree(*files_, "/repaired").ok());
    return rows;
  };
  EXPECT_EQ(repaired(), rows_);
  for (const auto& [name, content] : whole) {
    if (!name.ends_with(".shard") && !name.ends_with(".columns")) continue;
    const bool of_columns = name.ends_with(".columns");
    SCOPED_TRACE(name);
    ASSERT_TRUE(files_->RemoveFile("/data/" + name).ok());
    const std::vector<Row> without = repaired();
    EXPECT_EQ(without.size() < rows_.size(), !of_columns);
    ExpectRowsOf(rows_, without, of_columns);
    for (size_t at = 0; at < content.size(); at += 97 * TestStep()) {
      std::string damaged = content;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      WriteFile(*files_, "/data/" + name, damaged);
      const std::vector<Row> rows = repaired();
      EXPECT_TRUE(!of_columns || rows.size() == rows_.size()) << at;
      ExpectRowsOf(rows_, rows, of_columns);
    }
    WriteFile(*files_, "/data/" + name, content);
  }
  // Of a damaged block only its own values are lost.
  const std::string path = "/data/" + manifest.column_files[0].name;
  std::string damaged = ReadAll(*files_, path);
  const auto file = ShardReader::Open(*files_, path);
  ASSERT_TRUE(file.ok()) << file.status();
  const BlockInfo& block = (*file)->blocks()[1];
  damaged[block.offset + block.length - 8] ^= 1;
  WriteFile(*files_, path, damaged);
  const std::vector<Row> rows = repaired();
  ASSERT_EQ(rows.size(), rows_.size());
  size_t lost = 0;
  for (size_t i = 0; i < rows.size(); ++i) lost += rows_[i].size() - rows[i].size();
  EXPECT_GT(lost, 0u);
  EXPECT_LE(lost, block.sample_count);
}

// Under another name in the shards a column cannot be the same.
TEST_F(ViewTest, ColumnsUnderOtherNamesAreNotMerged) {
  AddColumn(Score(), ScoreOf);
  WriteTree(*files_, "/first", ReadTree(*files_, "/data"));
  ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
  ASSERT_TRUE(WriteDataset(*files_, "/data", Samples(40, 70), SmallShards(9, 4)).ok());
  WriteTree(*files_, "/second", ReadTree(*files_, "/data"));
  ASSERT_TRUE(RenameColumns(*files_, "/second", {{"text", "score"}}).ok());
  for (const char* const second : {"/second", "/data/00000000.shard"}) {
    const auto refused = MergeDatasets(*files_, {"/first", second}, "/refused", {});
    EXPECT_FALSE(refused.ok()) << second;
    EXPECT_FALSE(files_->Stat("/refused").ok());
  }
}

}  // namespace
}  // namespace shardkit::test
