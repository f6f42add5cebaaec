// Datasets with removed samples and with layers, as all readers see them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>

#include "base/hash.h"
#include "dataset/dataset_support.h"
#include "dataset/manifest_text.h"
#include "shardkit/compact.h"
#include "shardkit/convert.h"
#include "shardkit/diff.h"
#include "shardkit/history.h"
#include "shardkit/remove.h"

namespace shardkit::test {
namespace {

class ViewTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteDataset(*files_, "/data", Samples(0, 40), SmallShards(9, 4)).ok());
    rows_ = RowsOf(Samples(0, 40));
  }

  static std::vector<OwnedSample> Samples(size_t begin, size_t end) {
    static const std::vector<OwnedSample> all = MakeSamples(100);
    return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  // By ordinal of what is seen.
  void Remove(std::vector<size_t> ordinals) {
    SampleSelection selection;
    selection.keys.emplace();
    for (const size_t i : ordinals) selection.keys->push_back(rows_[i].at("key"));
    const auto report = RemoveSamples(*files_, "/data", selection);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->selection.selected, ordinals.size());
    std::ranges::sort(ordinals, std::greater());
    for (const size_t i : ordinals) rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(report->samples, rows_.size());
  }

  void Append(size_t begin, size_t end) {
    DatasetWriterOptions options = SmallShards(9, 4);
    options.append = true;
    const auto summary = WriteDataset(*files_, "/data", Samples(begin, end), options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    for (Row& row : RowsOf(Samples(begin, end))) rows_.push_back(std::move(row));
  }

  // Adds a layer whose blocks have the samples of whole shards, with one column that `value` tells of stored samples.
  // It takes the place of the column, if there is one.
  void AddLayer(Column column, const std::function<std::optional<std::string>(uint64_t)>& value) {
    Manifest manifest = *ReadManifest(*files_, "/data");
    const std::string name = "layer-" + std::to_string(manifest.generation + 1);
    column.nullable = true;
    auto writer = DatasetWriter::Create(*files_, "/data/" + name, MakeSchema({column}), SmallShards(27, 9));
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::vector<std::optional<std::string>> values;
    for (uint64_t i = 0; i < manifest.samples(); ++i) {
      values.push_back(value(i));
      std::optional<Value> cell;
      if (values.back()) cell.emplace(*values.back());
      ASSERT_TRUE((*writer)->Append({&cell, 1}).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    const auto text = ReadManifestText(*files_, "/data/" + name);
    ASSERT_TRUE(text.ok()) << text.status();
    if (!manifest.view) {
      manifest.view.emplace();
      manifest.view->schema = manifest.schema;
      manifest.view->sources.resize(manifest.schema.size());
    }
    DatasetView& view = *manifest.view;
    view.layers.push_back({name, text->checksum, manifest.samples()});
    std::vector<Column> columns = view.schema.columns();
    auto place = static_cast<size_t>(std::ranges::find(columns, column.name, &Column::name) - columns.begin());
    if (place == columns.size()) {
      columns.push_back(text->summary.schema[0]);
      view.sources.emplace_back();
    } else {
      columns[place] = text->summary.schema[0];
    }
    view.schema = MakeSchema(columns);
    view.sources[place] = {{manifest.samples(), view.layers.size() - 1, column.name}};
    ++manifest.generation;
    WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
    // The samples that are seen, in their order, are the stored ones that were not removed.
    std::vector<uint64_t> removed = StoredRemoved();
    size_t seen = 0;
    for (uint64_t i = 0; i < values.size(); ++i) {
      if (std::ranges::binary_search(removed, i)) continue;
      rows_[seen].erase(column.name);
      if (values[i]) rows_[seen][column.name] = *values[i];
      ++seen;
    }
  }

  // Found by what is missing of what the shards hold.
  std::vector<uint64_t> StoredRemoved() {
    Manifest manifest = *ReadManifest(*files_, "/data");
    manifest.removed.reset();
    manifest.view.reset();
    WriteTree(*files_, "/whole", ReadTree(*files_, "/data"));
    WriteFile(*files_, "/whole/dataset.json", FormatManifest(manifest));
    std::set<std::string> seen;
    for (const Row& row : rows_) seen.insert(row.at("key"));
    std::vector<uint64_t> removed;
    uint64_t stored = 0;
    for (const Row& row : ScanRows(*files_, "/whole")) {
      if (!seen.contains(row.at("key"))) removed.push_back(stored);
      ++stored;
    }
    EXPECT_TRUE(RemoveTree(*files_, "/whole").ok());
    return removed;
  }

  void Check(const DatasetOptions& options = {}) {
    EXPECT_EQ(ValidateText(*files_, "/data"), "");
    const auto opened = DatasetReader::Open(*files_, "/data", options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const DatasetReader& dataset = **opened;
    std::vector<Row> rows = rows_;
    for (Row& row : rows) {
      std::erase_if(row, [&](const auto& value) {
        return std::ranges::find(dataset.columns(), value.first, &Column::name) == dataset.columns().end();
      });
    }
    EXPECT_EQ(dataset.sample_count(), rows.size());
    EXPECT_EQ(ScanRows(dataset), rows);
    EXPECT_EQ(ScanRows(dataset, {.threads = 0}), rows);
    for (uint64_t begin = 0; begin < rows.size(); begin += 7) {
      uint64_t first = 0;
      const auto part = ScanRows(dataset, {.threads = 2, .first_sample = begin, .end_sample = begin + 3}, &first);
      ASSERT_LE(first, begin);
      ASSERT_GE(first + part.size(), std::min<uint64_t>(begin + 3, rows.size()));
      EXPECT_TRUE(std::ranges::equal(part, std::span(rows).subspan(first, part.size()))) << begin;
    }
    BlockBuffer buffer;
    const auto key = dataset.summary().schema.key_column();
    for (uint64_t i = 0; i < rows.size(); ++i) {
      for (size_t column = 0; column < dataset.columns().size(); ++column) {
        const std::string& name = dataset.columns()[column].name;
        const auto value = dataset.ReadValue(i, column, &buffer);
        ASSERT_TRUE(value.ok()) << value.status();
        ASSERT_EQ(value->has_value(), rows[i].contains(name)) << i << " " << name;
        EXPECT_EQ(value->value_or(""), rows[i].contains(name) ? rows[i].at(name) : "") << i << " " << name;
        std::string copied;
        const auto copy = dataset.CopyValue(i, column, [&](std::string_view piece) {
          copied += piece;
          return absl::OkStatus();
        });
        ASSERT_TRUE(copy.ok()) << copy.status();
        EXPECT_EQ(*copy, rows[i].contains(name));
        EXPECT_EQ(copied, rows[i].contains(name) ? rows[i].at(name) : "");
      }
      if (!key || !rows[i].contains("key")) continue;
      const auto found = dataset.FindKey(rows[i].at("key"), &buffer);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, i);
    }
    CheckBlocks(dataset, rows);
    CheckManyValues(dataset, rows);
  }

  void CheckBlocks(const DatasetReader& dataset, const std::vector<Row>& rows) {
    const auto blocks = dataset.ReadBlockDirectory();
    ASSERT_TRUE(blocks.ok()) << blocks.status();
    EXPECT_EQ(blocks->size(), dataset.summary().block_count);
    uint64_t next = 0;
    BlockBuffer buffer;
    BlockView view;
    for (const DatasetBlock& block : *blocks) {
      EXPECT_EQ(block.first_sample, next);
      for (const bool salvage : {false, true}) {
        BlockDamage damage;
        const absl::Status read = salvage ? dataset.SalvageBlock(block.shard, block.block, &buffer, &view, &damage)
                                          : dataset.ReadBlock(block.shard, block.block, &buffer, &view);
        ASSERT_TRUE(read.ok()) << read;
        ASSERT_TRUE(damage.OfSample(0).ok());
        ASSERT_EQ(view.sample_count(), block.sample_count);
        for (uint32_t i = 0; i < view.sample_count(); ++i) {
          Row row;
          for (size_t column = 0; column < dataset.columns().size(); ++column) {
            const auto value = view.column(column).value(i);
            if (value) row[dataset.columns()[column].name] = std::string(*value);
          }
          EXPECT_EQ(row, rows[next + i]);
        }
      }
      next += block.sample_count;
    }
    EXPECT_EQ(next, dataset.sample_count());
    ExpectBlocksOfShards(dataset, *blocks);
    uint64_t samples = 0;
    for (size_t shard = 0; shard < dataset.shard_count(); ++shard) samples += dataset.Shard(shard)->samples;
    EXPECT_EQ(samples, dataset.sample_count());
  }

  void CheckManyValues(const DatasetReader& dataset, const std::vector<Row>& rows) {
    const auto column = dataset.FindColumn("image");
    if (!column.ok()) return;
    std::vector<uint64_t> samples;
    for (uint64_t i = 0; i < rows.size(); ++i) samples.push_back(i);
    std::shuffle(samples.begin(), samples.end(), std::mt19937(1));
    std::vector<std::string_view> values(samples.size());
    BlockBuffer buffer;
    ASSERT_TRUE(dataset.ReadValues(samples, *column, &buffer, values).ok());
    for (size_t i = 0; i < samples.size(); ++i) {
      const Row& row = rows[samples[i]];
      ASSERT_EQ(values[i].data() != nullptr, row.contains("image"));
      EXPECT_EQ(values[i], row.contains("image") ? row.at("image") : "");
    }
  }

  static Column Text(std::string name) {
    Column column{.name = std::move(name), .type = Type::kUtf8, .nullable = true};
    column.SetCodec(Codec::kZstd);
    return column;
  }
  static Column Score() {
    Column column{.name = "score", .type = Type::kI32, .nullable = true};
    column.SetCodec(Codec::kZstd);
    return column;
  }
  static std::optional<std::string> ScoreOf(uint64_t sample) {
    if (sample % 5 == 3) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(&sample), 4);
  }

  std::unique_ptr<FileSystem> files_ = NewMemoryFileSystem();
  std::vector<Row> rows_;
};

TEST_F(ViewTest, RemovedSamplesAreInvisible) {
  Check();
  Remove({0, 5, 6, 39});
  Check();
  Check({.columns = {"text", "key"}});
  Remove({0});
  Remove({3, 4, 5, 6, 7, 8, 9, 10});  // whole blocks among them
  Check();
  Append(40, 60);
  Check();
  Remove({rows_.size() - 1, rows_.size() - 2});
  Check();
  EXPECT_EQ(ReadManifest(*files_, "/data")->samples(), 60u);
  // A generation from before shows them.
  const auto before = DatasetReader::Open(*files_, "/data", {.generation = 1});
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(ScanRows(**before), RowsOf(Samples(0, 40)));
}

TEST_F(ViewTest, EarlierGenerationsKeepTheirListsOfRemovedSamples) {
  Remove({39});
  const std::vector<Row> second = rows_;
  Remove({1, 2, 3});
  Append(40, 45);
  Remove({7});
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Append(45, 50);
  const auto history = ReadHistory(*files_, "/data");
  ASSERT_TRUE(history.ok()) << history.status();
  for (const DatasetGeneration& each : *history) EXPECT_TRUE(each.readable) << each.generation;
  EXPECT_EQ((*history)[1].change, DatasetChange::kRemoved);
  EXPECT_EQ((*history)[2].samples_removed, 3u);
  const auto dataset = DatasetReader::Open(*files_, "/data", {.generation = 2});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(ScanRows(**dataset), second);
  Check();
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.purge = true}).ok());
  for (const auto& [name, content] : ReadTree(*files_, "/data")) EXPECT_FALSE(name.ends_with(".removed")) << name;
  Check();
}

TEST_F(ViewTest, NamesOfShardsAreNotGivenTwice) {
  Remove({27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39});  // the last two shards
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  EXPECT_GT(ReadManifest(*files_, "/data")->next_shard, 5u);
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Append(40, 50);
  Check();
  EXPECT_EQ(ScanRows(**DatasetReader::Open(*files_, "/data", {.generation = 1})), RowsOf(Samples(0, 40)));
}

TEST_F(ViewTest, AColumnOfAnotherTypeTakesThePlaceOfAStoredOne) {
  Column number = Text("text");
  number.type = Type::kF32;
  number.SetCodec(Codec::kZstd);
  AddLayer(number, [](uint64_t i) { return std::optional(std::string(4, static_cast<char>(i))); });
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
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  Check();
  ASSERT_TRUE(RemoveSamples(*files_, "/data", {}).ok());
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
}

TEST_F(ViewTest, AllSamplesCanBeRemoved) {
  const auto report = RemoveSamples(*files_, "/data", {});
  ASSERT_TRUE(report.ok()) << report.status();
  rows_.clear();
  Check();
}

TEST_F(ViewTest, ARemovedKeyCanBeAppendedAgain) {
  Remove({7});
  Append(7, 8);
  Check();
}

TEST_F(ViewTest, AnIndexMadeAnewKeepsWhatReadersSee) {
  AddLayer(Score(), ScoreOf);
  Remove({2, 20});
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.idx").ok());
  ASSERT_TRUE(RebuildIndex(*files_, "/data").ok());
  Check();
  // Where the manifest is lost, nobody knows which samples may be seen.
  ASSERT_TRUE(files_->RemoveFile("/data/dataset.json").ok());
  const auto lost = RebuildIndex(*files_, "/data");
  EXPECT_TRUE(absl::IsDataLoss(lost.status())) << lost.status();
}

TEST_F(ViewTest, LayersAddAndReplaceColumns) {
  AddLayer(Score(), ScoreOf);
  Check();
  Check({.columns = {"score"}});
  Check({.columns = {"score", "image"}, .key_column = true});
  Remove({1, 2, 3, 11, 39});
  Check();
  AddLayer(Text("text"), [](uint64_t i) { return std::optional("text " + std::to_string(i * i)); });
  Check();
  AddLayer(Score(), [](uint64_t i) { return ScoreOf(i + 1); });
  Check();
  Append(40, 55);  // whose text comes from the shards
  Check();
  Remove({30, 36});
  Check();
  const auto statistics = (*DatasetReader::Open(*files_, "/data"))->ReadStatistics();
  ASSERT_TRUE(statistics.ok()) << statistics.status();
}

TEST_F(ViewTest, BlobsOfLayersAndShards) {
  Column image = ImageColumn();
  image.SetCodec(Codec::kNone);
  AddLayer(image, [](uint64_t i) { return i % 3 == 0 ? std::nullopt : std::optional(std::string(2000 + i, 'x')); });
  Check();
  Append(40, 50);
  Remove({3, 42, 44});
  Check();
}

TEST_F(ViewTest, ColumnsAreRenamedAndDropped) {
  Manifest manifest = *ReadManifest(*files_, "/data");
  std::vector<Column> columns = manifest.schema.columns();
  std::erase_if(columns, [](const Column& column) { return column.name == "label"; });
  auto text = std::ranges::find(columns, "text", &Column::name);
  text->name = "caption";
  const auto place = static_cast<size_t>(text - columns.begin());
  manifest.view.emplace();
  manifest.view->schema = MakeSchema(columns);
  manifest.view->sources.resize(columns.size());
  manifest.view->sources[place] = {{40, {}, "text"}};
  ++manifest.generation;
  WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  for (Row& row : rows_) {
    row.erase("label");
    if (const auto node = row.extract("text"); node) row["caption"] = node.mapped();
  }
  Check();
  // What is appended brings both names again; what was there before stays unseen.
  Append(40, 60);
  Check();
  const auto dataset = DatasetReader::Open(*files_, "/data");
  EXPECT_TRUE((*dataset)->FindColumn("text").ok());
}

TEST_F(ViewTest, ConvertingSeesWhatReadersSee) {
  AddLayer(Score(), ScoreOf);
  Remove({0, 1, 2, 3, 17, 39});
  const auto report = Convert(*files_, "/data", "/copy", {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ScanRows(*files_, "/copy"), rows_);
  EXPECT_EQ(ValidateText(*files_, "/copy"), "");
  const auto diff = DiffDatasets(*files_, "/data", "/copy");
  ASSERT_TRUE(diff.ok()) << diff.status();
  EXPECT_EQ(diff->matched, rows_.size());
  EXPECT_TRUE(diff->columns.empty());
  const auto count = CountSamples(*files_, "/data", {.where = "score > 20 and score < 30"});
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->selected, 7u);
}

// Whether a file of the dataset has these bytes anywhere.
std::string FileWith(const Tree& tree, std::string_view bytes) {
  for (const auto& [name, content] : tree) {
    if (content.find(bytes) != content.npos) return name;
  }
  return "";
}

TEST_F(ViewTest, CompactingDropsWhatWasRemoved) {
  const Tree before = ReadTree(*files_, "/data");
  // A whole shard, most of another, and one sample of a third.
  Remove({0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 20});
  const auto report = CompactDataset(*files_, "/data", {.least_lost = 0.4});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->shards_rewritten, 2u);
  EXPECT_EQ(report->samples_dropped, 14u);
  Check();
  const Manifest manifest = *ReadManifest(*files_, "/data");
  EXPECT_EQ(manifest.samples(), 26u);
  EXPECT_EQ(manifest.removed->samples, 1u);
  EXPECT_EQ(manifest.shards.size(), 4u);
  EXPECT_EQ(manifest.shards[0].name, "00000006.shard");
  EXPECT_EQ(manifest.shards[1].name, "00000002.shard");
  // An earlier generation is there, whatever happens to the newest.
  Append(40, 50);
  Check();
  EXPECT_EQ(ScanRows(**DatasetReader::Open(*files_, "/data", {.generation = 1})), RowsOf(Samples(0, 40)));
  const auto again = CompactDataset(*files_, "/data", {.least_lost = 0.4});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shards_rewritten, 0u);  // the segments are joined
  EXPECT_EQ(ReadManifest(*files_, "/data")->segments.size(), 1u);
  Check();
}

TEST_F(ViewTest, NothingIsCompactedWhereNothingWasRemoved) {
  const Tree before = ReadTree(*files_, "/data");
  ASSERT_TRUE(CompactDataset(*files_, "/data").ok());
  EXPECT_EQ(ReadTree(*files_, "/data"), before);
  for (const double share : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CompactDataset(*files_, "/data", {.least_lost = share}).status()));
  }
}

TEST_F(ViewTest, TheResultDoesNotDependOnThreads) {
  AddLayer(Score(), ScoreOf);
  Remove({0, 9, 10, 18, 30, 31, 38});
  WriteTree(*files_, "/other", ReadTree(*files_, "/data"));
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.least_lost = 0.01}).ok());
  ASSERT_TRUE(CompactDataset(*files_, "/other", {.least_lost = 0.01, .threads = 7}).ok());
  EXPECT_EQ(ReadTree(*files_, "/data"), ReadTree(*files_, "/other"));
  Check();
}

TEST_F(ViewTest, LayersGoWithTheSamples) {
  AddLayer(Score(), ScoreOf);
  AddLayer(Text("text"), [](uint64_t i) { return std::optional("text " + std::to_string(i)); });
  Append(40, 60);
  Remove({1, 2, 3, 11, 39, 44, 45, 46, 58});
  for (const double share : {0.2, 0.01}) {
    const auto report = CompactDataset(*files_, "/data", {.least_lost = share});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_GT(report->shards_rewritten, 0u);
    EXPECT_EQ(report->layers_rewritten, 2u);
    Check();
  }
  EXPECT_FALSE(ReadManifest(*files_, "/data")->removed.has_value());
}

TEST_F(ViewTest, FoldingPutsLayersIntoShards) {
  AddLayer(Score(), ScoreOf);
  AddLayer(Text("text"), [](uint64_t i) { return std::optional("text " + std::to_string(i)); });
  Append(40, 60);
  Remove({1, 2, 3, 11, 39, 44, 45, 46, 58});
  const auto report = CompactDataset(*files_, "/data", {.fold = true, .purge = true});
  ASSERT_TRUE(report.ok()) << report.status();
  Check();
  const Manifest manifest = *ReadManifest(*files_, "/data");
  EXPECT_FALSE(manifest.view.has_value());
  EXPECT_FALSE(manifest.removed.has_value());
  EXPECT_EQ(ReadTree(*files_, "/data").count("layer-2/"), 0u);
}

TEST_F(ViewTest, AllSamplesCanBePurged) {
  AddLayer(Score(), ScoreOf);
  Remove({3});
  const auto all = RemoveSamples(*files_, "/data", {});
  ASSERT_TRUE(all.ok()) << all.status();
  rows_.clear();
  ASSERT_TRUE(CompactDataset(*files_, "/data", {.purge = true}).ok());
  Check();
  EXPECT_TRUE(ReadManifest(*files_, "/data")->shards.empty());
  Append(0, 10);
  for (Row& row : rows_) row.erase("score");
  Check();
}

TEST_F(ViewTest, NoByteOfARemovedSampleIsLeft) {
  // With dictionaries, and with the sample's values in a layer, too.
  DatasetWriterOptions options = SmallShards(20, 4);
  options.shard.dictionaries = {{"text", 4096}, {"key", 4096}};
  ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
  std::vector<OwnedSample> samples;
  const Column text = TextColumn(), image = ImageColumn();
  for (size_t i = 0; i < 60; ++i) {
    std::string words = "common words before";
    for (int k = 0; k < 8; ++k) words += i == 17 ? " UNFORGETTABLE" : " ordinary" + std::to_string(k + i % 5);
    samples.push_back({"key/" + std::string(i == 17 ? "UNFORGETTABLE" : std::to_string(1000 + i)),
                       {{&text, words}, {&image, std::string(40, 'i') + (i == 17 ? "UNFORGETTABLE" : "")}}});
  }
  ASSERT_TRUE(WriteDataset(*files_, "/data", samples, options).ok());
  rows_ = RowsOf(samples);
  Column none = Text("note");
  none.SetCodec(Codec::kNone);
  AddLayer(none, [](uint64_t i) { return std::optional(i == 17 ? "UNFORGETTABLE" : "note"); });
  EXPECT_NE(FileWith(ReadTree(*files_, "/data"), "UNFORGETTABLE"), "");
  Remove({17});
  const auto report = CompactDataset(*files_, "/data", {.purge = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->shards_rewritten, 1u);
  EXPECT_GT(report->files_deleted, 4u);
  Check();
  const Tree tree = ReadTree(*files_, "/data");
  EXPECT_EQ(FileWith(tree, "UNFORGETTABLE"), "");
  // Nor its hash in a table of the keys, or a piece of it in a dictionary.
  const uint64_t hash = Hash64("key/UNFORGETTABLE");
  EXPECT_EQ(FileWith(tree, {reinterpret_cast<const char*>(&hash), 8}), "");
  EXPECT_EQ(FileWith(tree, "FORGET"), "");
  for (const auto& [name, content] : tree) EXPECT_EQ(name.find("dataset-1"), name.npos) << name;
  // Nothing is left to be done.
  const auto again = CompactDataset(*files_, "/data", {.purge = true});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->files_deleted, 0u);
  EXPECT_EQ(ReadTree(*files_, "/data"), tree);
}

TEST_F(ViewTest, TheGracePeriodCanBeCancelled) {
  Remove({1});
  Cancellation cancellation;
  cancellation.Cancel();
  // Cancelled before it publishes anything.
  const auto cancelled =
      CompactDataset(*files_, "/data", {.purge = true, .grace = std::chrono::hours(1), .cancellation = &cancellation});
  EXPECT_TRUE(absl::IsCancelled(cancelled.status())) << cancelled.status();
  EXPECT_EQ(ReadManifest(*files_, "/data")->generation, 2u);
  Check();
}

TEST_F(ViewTest, WhatDoesNotFitIsRefused) {
  AddLayer(Score(), ScoreOf);
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
  EXPECT_TRUE(absl::IsDataLoss(refused([](Manifest& m) { ++m.view->layers[0].checksum; })));
  EXPECT_TRUE(absl::IsDataLoss(refused([](Manifest& m) { m.removed->samples = 2; })));
  EXPECT_TRUE(absl::IsDataLoss(refused([](Manifest& m) { ++m.removed->table.checksum; })));
  EXPECT_TRUE(absl::IsNotFound(refused([](Manifest& m) { m.view->layers[0].name = "layer-9"; })));
  EXPECT_TRUE(absl::IsNotFound(refused([](Manifest& m) { m.removed->table.name = "dataset-9.removed"; })));
  EXPECT_FALSE(refused([](Manifest& m) { m.view->sources.back()[0].column = "other"; }).ok());
}

TEST_F(ViewTest, EveryChangedByteOfListAndLayerIsNoticed) {
  AddLayer(Score(), ScoreOf);
  Remove({4, 5, 30});
  for (const std::string name : {"dataset-3.removed", "layer-2/dataset.json", "layer-2/dataset.idx"}) {
    const std::string path = "/data/" + name;
    const std::string whole = ReadAll(*files_, path);
    for (size_t i = 0; i <= whole.size(); ++i) {
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
        EXPECT_TRUE(name.ends_with(".idx")) << name << ": " << i;  // what it says follows from the shards
        EXPECT_EQ(ScanRows(**opened), rows_);
      }
    }
    WriteFile(*files_, path, whole);
  }
  Check();
}

TEST_F(ViewTest, LayersWhoseBlocksDoNotFitAreRefused) {
  Manifest manifest = *ReadManifest(*files_, "/data");
  auto writer = DatasetWriter::Create(*files_, "/data/layer-2", MakeSchema({Score()}), SmallShards(14, 7));
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (uint64_t i = 0; i < manifest.samples(); ++i) {
    const std::optional<std::string> bytes = ScoreOf(i);
    std::optional<Value> cell;
    if (bytes) cell.emplace(*bytes);
    ASSERT_TRUE((*writer)->Append({&cell, 1}).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  std::vector<Column> columns = manifest.schema.columns();
  columns.push_back(Score());
  manifest.view.emplace();
  manifest.view->schema = MakeSchema(columns);
  manifest.view->sources.resize(columns.size());
  manifest.view->layers = {{"layer-2", ReadManifestText(*files_, "/data/layer-2")->checksum, 40}};
  manifest.view->sources.back() = {{40, 0, "score"}};
  WriteFile(*files_, "/data/dataset.json", FormatManifest(manifest));
  EXPECT_NE(ValidateText(*files_, "/data").find("within a block"), std::string::npos);
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

}  // namespace
}  // namespace shardkit::test
