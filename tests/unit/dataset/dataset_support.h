// Shared by the tests of datasets, of faults and of whole conversions.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/dataset_reader.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/pack.h"
#include "shardkit/validate.h"

namespace shardkit::test {

// Relative path to bytes; a directory is "NAME/" with empty bytes.
using Tree = std::map<std::string, std::string>;

void WriteFile(FileSystem& file_system, const std::string& path, std::string_view bytes);
std::string ReadAll(FileSystem& file_system, const std::string& path);

// Creates the files and their directories.
void WriteTree(FileSystem& file_system, const std::string& directory, const Tree& tree);

// Everything below a directory; empty when it is missing.
Tree ReadTree(FileSystem& file_system, const std::string& directory);

// The same without the record of the job that made it. The result is equal for equal samples and options.
Tree ReadDataset(FileSystem& file_system, const std::string& directory);

// Names and sizes, for messages.
std::string Describe(const Tree& tree);

// "columns add=a,b drop=c".
std::string DescribeOperation(const DatasetOperation& operation);

bool Exists(FileSystem& file_system, const std::string& path);

std::string Message(const absl::Status& status);

// A sample that owns its bytes. The columns must outlive it.
struct OwnedSample {
  std::string key;
  std::vector<std::pair<const Column*, std::string>> fields;

  Sample View() const;
};

// Columns that the tests use again and again.
const Column& KeyColumn();
const Column& ImageColumn();  // "image", jpeg, nullable
const Column& LabelColumn();  // "label", i32, nullable
const Column& TextColumn();   // "text", utf8, zstd, nullable
Schema MakeSchema(std::vector<Column> columns);

// `count` samples with an image, most with a text, some with a label; all different.
std::vector<OwnedSample> MakeSamples(size_t count);

// Writes the samples; the i-th has next_position i + 1.
absl::StatusOr<DatasetSummary> WriteDataset(FileSystem& file_system, const std::string& directory,
                                            const std::vector<OwnedSample>& samples,
                                            const DatasetWriterOptions& options = {});

// The values of a sample by column, without the absent ones. The key is one of them.
using Row = std::map<std::string, std::string>;
Row RowOf(const OwnedSample& sample);
std::vector<Row> RowsOf(const std::vector<OwnedSample>& samples);

// Scans a range; checks that ordinals follow one another. `first` receives the ordinal of the first row.
std::vector<Row> ScanRows(const DatasetReader& dataset, const ScanOptions& options = {}, uint64_t* first = nullptr);
std::vector<Row> ScanRows(FileSystem& file_system, const std::string& path);

// ForEachBlockOf gives the blocks of some shards as `all` has them.
void ExpectBlocksOfShards(const DatasetReader& dataset, const std::vector<DatasetBlock>& all);

// Small blocks of few samples, so that a few samples make many blocks.
DatasetWriterOptions SmallShards(uint64_t shard_samples, uint32_t block_samples);

// Makes the shards of a dataset stand in lists, however few they are.
void ListShardsApart(FileSystem& file_system, const std::string& directory);

// Packs a directory (or several) as "files".
absl::StatusOr<PackReport> PackFiles(FileSystem& file_system, const std::vector<std::string>& inputs,
                                     const std::string& output, const PackOptions& options);

// "" when the dataset is valid, otherwise the first problem or the error.
std::string ValidateText(FileSystem& file_system, const std::string& path, bool deep = false);

}  // namespace shardkit::test
