// A dataset with removed samples and layers, and what readers have to see of it.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset_support.h"
#include "dataset/manifest_text.h"
#include "shardkit/change.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/manifest.h"

namespace shardkit::test {

class ViewTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteDataset(*files_, "/data", Samples(0, 40), SmallShards(9, 4)).ok());
    rows_ = RowsOf(Samples(0, 40));
  }

  static std::vector<OwnedSample> Samples(size_t begin, size_t end) {
    static const std::vector<OwnedSample> all = MakeSamples(1000);
    return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  // Begins again with a dataset of many samples, whose blocks pass what one byte or one page counts.
  void UseLargeBlocks(size_t count, uint64_t shard_samples, uint32_t block_samples) {
    ASSERT_TRUE(RemoveTree(*files_, "/data").ok());
    ASSERT_TRUE(WriteDataset(*files_, "/data", Samples(0, count), SmallShards(shard_samples, block_samples)).ok());
    rows_ = RowsOf(Samples(0, count));
    layer_blocks_ = shard_samples;
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

  // Adds a layer whose blocks have the samples of a shard each, with one column that `value` tells of stored samples.
  // It takes the place of the column, if there is one.
  void AddLayer(Column column, const std::function<std::optional<std::string>(uint64_t)>& value) {
    Manifest manifest = *ReadManifest(*files_, "/data");
    const std::string name = "layer-" + std::to_string(manifest.generation + 1);
    column.nullable = true;
    auto writer = DatasetWriter::Create(*files_, "/data/" + name, MakeSchema({column}),
                                        SmallShards(3 * layer_blocks_, static_cast<uint32_t>(layer_blocks_)));
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::vector<std::optional<std::string>> values;
    for (uint64_t i = 0; i < manifest.sample_count; ++i) {
      values.push_back(value(i));
      std::optional<Value> cell;
      if (values.back()) cell.emplace(*values.back());
      ASSERT_TRUE((*writer)->Append({&cell, 1}).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    const auto text = dataset::ReadManifestText(*files_, "/data/" + name);
    ASSERT_TRUE(text.ok()) << text.status();
    if (!manifest.view) {
      manifest.view.emplace();
      manifest.view->schema = manifest.schema;
      manifest.view->sources.resize(manifest.schema.size());
    }
    DatasetView& view = *manifest.view;
    view.layers.push_back({name, text->checksum, manifest.sample_count});
    std::vector<Column> columns = view.schema.columns();
    auto place = static_cast<size_t>(std::ranges::find(columns, column.name, &Column::name) - columns.begin());
    if (place == columns.size()) {
      columns.push_back(text->schema[0]);
      view.sources.emplace_back();
    } else {
      columns[place] = text->schema[0];
    }
    view.schema = MakeSchema(columns);
    view.sources[place] = {{manifest.sample_count, view.layers.size() - 1, column.name}};
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
  uint64_t layer_blocks_ = 9;  // samples
};

}  // namespace shardkit::test
