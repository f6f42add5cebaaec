// Shared by the tests of conversion between containers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/dataset_support.h"
#include "shardkit/copy.h"
#include "support/effort.h"
#include "synth/random.h"

namespace shardkit::test {

// A sample by column, without the absent values. The key is one of the values.
using Samples = std::vector<Row>;

// The bytes of one number, and of an array that carries its shape.
template <typename T>
std::string Bytes(T number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
}
std::string ArrayValue(Type dtype, const std::vector<uint64_t>& shape, std::string_view elements);
// One mask of height x width pixels, of which the first `ones` are set.
std::string MaskValue(uint32_t height, uint32_t width, uint32_t ones);

Column MakeColumn(std::string name, Type type, bool nullable = false);
Column MakeArrayColumn(std::string name, Type dtype, std::optional<std::vector<uint64_t>> shape = std::nullopt);

// Writes a Shardkit dataset. The test fails when that does not work.
void WriteShards(FileSystem& files, const std::string& directory, const std::vector<Column>& columns,
                 const Samples& samples, const DatasetWriterOptions& options = {});

// Appends the samples to any writer and finishes it.
absl::StatusOr<DatasetSummary> WriteSamples(absl::StatusOr<std::unique_ptr<DatasetWriter>> writer,
                                            const Samples& samples);

// Small shards of few samples in each container.
ConvertOptions SmallOptions(Container to, uint64_t shard_samples = 4);

absl::Status ConvertTo(FileSystem& files, const std::string& input, const std::string& output,
                       const ConvertOptions& options);
absl::Status ConvertTo(FileSystem& files, const std::string& input, const std::string& output, Container to);

std::vector<Column> ColumnsOf(FileSystem& files, const std::string& path);
// "name type" of each column, with "?" after nullable columns and "*" after the key, separated by commas.
std::string ColumnText(FileSystem& files, const std::string& path);

// Three samples "s0", "s1", "s2" with a text column and the given columns.
void WriteThree(FileSystem& files, const std::string& directory, std::vector<Column> columns,
                const std::vector<std::vector<std::string>>& values);

// Datasets of random columns, values and options.
class DatasetGenerator {
 public:
  explicit DatasetGenerator(uint64_t seed) : random_(seed, 7, 0) {}

  // The container that the samples must go to without loss, which excludes some types and values.
  struct Target {
    bool mds = false;
    bool tar = false;
  };
  void Make(Target target);

  const std::vector<Column>& columns() const { return columns_; }
  const Samples& samples() const { return samples_; }
  DatasetWriterOptions Options();

  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  bool Chance(int percent) { return random_.Chance(percent); }

 private:
  Column MakeRandomColumn(std::string name, Target target);
  std::string MakeRandomValue(const Column& column, Target target);
  std::string RandomBytes(uint64_t count);

  shardctl::SynthRandom random_;
  std::vector<Column> columns_;
  Samples samples_;
};

}  // namespace shardkit::test
