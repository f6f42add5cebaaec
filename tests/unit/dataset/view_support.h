// A dataset with removed samples and changed columns, and what readers have to see of it.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dataset/change/column_file_writer.h"
#include "dataset/dataset_support.h"
#include "dataset/read/any_dataset_reader.h"
#include "dataset/stored_columns.h"
#include "shardkit/change.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/manifest.h"
#include "support/read_in_parts.h"

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

  // Adds a column file, or several, with one column that `value` tells of stored samples. It takes the place of the
  // column, if there is one.
  void AddColumn(Column column, const std::function<std::optional<std::string>(uint64_t)>& value) {
    Manifest manifest = *ReadManifest(*files_, "/data");
    manifest.BeginGeneration({.name = "columns", .arguments = {{"add", {column.name}}}});
    column.nullable = true;
    std::set<std::string> used = dataset::UsedStoredNames(manifest);
    Column stored = column;
    stored.name = dataset::NewStoredName(column.name, manifest.generation, &used);
    dataset::ColumnFileWriter writer(*files_, "/data", manifest.generation, MakeSchema({stored}), 2, nullptr,
                                     file_bytes_);
    const auto dataset = dataset::OpenWithRemoved(*files_, "/data");
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    std::vector<std::optional<std::string>> values;
    const absl::Status appended = (*dataset)->ForEachBlock([&](const DatasetBlock& block) -> absl::Status {
      for (uint32_t i = 0; i < block.sample_count; ++i) {
        values.push_back(value(values.size()));
        std::optional<Value> cell;
        if (values.back()) cell.emplace(*values.back());
        if (absl::Status status = writer.Append({&cell, 1}); !status.ok()) return status;
      }
      return writer.EndBlock(block.first_sample);
    });
    ASSERT_TRUE(appended.ok()) << appended;
    auto files = writer.Finish();
    ASSERT_TRUE(files.ok()) << files.status();
    dataset::ColumnEdit edit(manifest);
    auto* const old = edit.Find(column.name);
    (old == nullptr ? edit.columns.emplace_back() : *old) = {column, stored.name};
    ASSERT_TRUE(std::move(edit).Apply(&manifest).ok());
    manifest.column_files.insert(manifest.column_files.end(), files->begin(), files->end());
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
    manifest.schema =
        (*DatasetReader::Open(*files_, manifest.PathOf("/data", manifest.shards[0].name)))->summary().schema;
    for (const ManifestShard& shard : manifest.shards) {
      const Schema schema = (*DatasetReader::Open(*files_, manifest.PathOf("/data", shard.name)))->summary().schema;
      manifest.schema = *MergeSchemas(manifest.schema, schema);
    }
    manifest.stored_names.clear();
    manifest.dropped.clear();
    manifest.column_files.clear();
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

  void Check(const DatasetOptions& options = {}, const std::string& path = "/data") {
    EXPECT_EQ(ValidateText(*files_, path), "");
    const auto opened = DatasetReader::Open(*files_, path, options);
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
        const auto parts = ReadInParts(dataset.OpenValue(i, column));
        ASSERT_TRUE(parts.ok()) << parts.status();
        EXPECT_EQ(*parts, *value);
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
  uint64_t file_bytes_ = 4000;  // of a column file
};

}  // namespace shardkit::test
