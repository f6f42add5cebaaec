// Opening datasets and choosing samples, shared by several commands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "command_line.h"
#include "json.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/schema.h"

namespace shardctl {

// --io buffered|mmap|direct
class IoOption {
 public:
  void AddTo(CommandLine* line);
  shardkit::ReadMode mode() const;

 private:
  size_t index_ = 0;
};

// --max-decompression SIZE
class DecompressionOption {
 public:
  void AddTo(CommandLine* line);
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = shardkit::kDefaultMaxDecompression;
};

// --no-verify-hashes
class HashOption {
 public:
  void AddTo(CommandLine* line);
  bool verify() const { return !off_; }

 private:
  bool off_ = false;
};

// --at GENERATION
class AtOption {
 public:
  void AddTo(CommandLine* line);
  uint64_t generation() const { return generation_; }  // 0: the newest

 private:
  uint64_t generation_ = 0;
};

// That read one dataset or file after another. Each waits for one request at a time, so URLs want several.
int ReadingThreads(std::span<const std::string> paths);

// -j, --jobs; the default is the number of processors, and no less than ReadingThreads.
class JobsOption {
 public:
  void AddTo(CommandLine* line, const std::string& description);
  int jobs(std::span<const std::string> inputs) const;

 private:
  std::optional<uint64_t> jobs_;
};

// --sample N or --key K
struct SampleOption {
  std::optional<uint64_t> sample;
  std::optional<std::string> key;

  void AddTo(CommandLine* line);
  bool given() const { return sample.has_value() || key.has_value(); }

  // The ordinal. OutOfRange when there is no such sample.
  absl::StatusOr<uint64_t> Find(const shardkit::DatasetReader& dataset) const;
};

absl::StatusOr<std::unique_ptr<shardkit::DatasetReader>> OpenDataset(const std::string& path,
                                                                     const shardkit::ReadOptions& read = {},
                                                                     const std::vector<std::string>& columns = {},
                                                                     uint64_t generation = 0);

// InvalidArgument when `output` lies within an input directory, because the output would become part of the input.
absl::Status CheckApart(const std::string& output, const std::vector<std::string>& inputs);

// Whether `path` is a directory, or a file that can be opened. For commands that write: an unusable input is then not
// reported as the output of another job (FailWriting).
absl::Status CheckReadable(const std::string& path);

// Prints a note, at most once per process, when files are not read in the requested mode.
void NoteFallback(const shardkit::DatasetReader& dataset);

// Position of the key column among the dataset's columns.
std::optional<size_t> KeyColumn(const shardkit::DatasetReader& dataset);

// "ndarray f32[3, 224]", "jpeg", "ndarray f32[...]" when each value has its own shape.
std::string TypeText(const shardkit::Column& column);

// "[3, 224]"
std::string ShapeText(const std::vector<uint64_t>& shape);

// The members are those of dataset.json: name, type, dtype and shape (of arrays only), codec, nullable, key.
Json ColumnJson(const shardkit::Column& column);

}  // namespace shardctl
