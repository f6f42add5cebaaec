// Datasets whose columns are changed, and rows made up in a test.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset_support.h"
#include "shardkit/change.h"

namespace shardkit::test {

// Rows from memory. With `counted` their number is known before.
class GivenRows final : public ColumnRows {
 public:
  using Values = std::vector<std::optional<std::string>>;

  GivenRows(std::vector<Column> columns, std::vector<Values> rows, bool counted = true)
      : schema_(MakeSchema(std::move(columns))), rows_(std::move(rows)), counted_(counted) {}

  const Schema& schema() const override { return schema_; }
  std::optional<uint64_t> count() const override { return counted_ ? std::optional(rows_.size()) : std::nullopt; }
  absl::StatusOr<bool> Next(std::span<std::optional<std::string_view>> row) override {
    if (next_ == rows_.size()) return false;
    for (size_t i = 0; i < row.size(); ++i) {
      row[i].reset();
      if (rows_[next_][i]) row[i] = *rows_[next_][i];
    }
    ++next_;
    return true;
  }

 private:
  const Schema schema_;
  const std::vector<Values> rows_;
  const bool counted_;
  size_t next_ = 0;
};

inline Column Scored(const std::string& name = "score") {
  return {.name = name, .type = Type::kF32, .codec = Codec::kZstd};
}
inline Column Noted(const std::string& name = "note") {
  return {.name = name, .type = Type::kUtf8, .codec = Codec::kZstd, .nullable = true};
}

// The bytes of the f32.
inline std::string Score(size_t i) {
  const float value = 0.25F * static_cast<float>(i);
  return {reinterpret_cast<const char*>(&value), 4};
}

// A dataset of MakeSamples(count) at /d, in many small blocks and several shards.
inline std::unique_ptr<FileSystem> NewDataset(size_t count = 40) {
  auto files = NewMemoryFileSystem();
  EXPECT_TRUE(WriteDataset(*files, "/d", MakeSamples(count), SmallShards(15, 4)).ok());
  return files;
}

// The files of the shards, for comparing.
inline Tree ShardsOf(FileSystem& files, const std::string& directory) {
  Tree tree = ReadTree(files, directory);
  std::erase_if(tree, [](const auto& file) { return !file.first.ends_with(".shard"); });
  return tree;
}

// Names and types of the columns that readers see.
inline std::string SeenColumns(FileSystem& files, const std::string& path) {
  const auto dataset = DatasetReader::Open(files, path);
  if (!dataset.ok()) return Message(dataset.status());
  std::string text;
  for (const Column& column : (*dataset)->columns()) {
    text += (text.empty() ? "" : " ") + column.name + ":" + TypeName(column.type) + (column.nullable ? "?" : "");
  }
  return text;
}

}  // namespace shardkit::test
