// The options of shardctl pack.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "command_line.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/pack.h"
#include "shardkit/shard.h"
#include "shardkit/source.h"

namespace shardctl {

struct PackArguments {
  std::string source = "auto";
  std::optional<shardkit::GroupBy> group_by;
  std::optional<shardkit::FolderOrder> order;
  std::vector<std::string> inputs;
  std::optional<std::string> output;            // set unless dry_run
  shardkit::DatasetWriterOptions dataset;       // sizes, codecs, levels, dictionaries and storages
  std::map<std::string, shardkit::Type> types;  // by column
  int jobs = 1;
  uint64_t max_decompression = shardkit::kDefaultMaxDecompression;  // for tars and datasets of other containers
  bool verify_listed_hashes = true;                                 // of datasets of other containers
  bool skip_errors = false;
  bool resume = false;
  std::string key;                            // of lines of JSON and tables
  std::string names;                          // encoding of names of files
  std::vector<std::string> file;              // COLUMN or COLUMN=NAME
  std::string root;                           // of the files that these name
  std::vector<std::string> include, exclude;  // patterns
  std::optional<std::vector<std::string>> files;
  uint64_t limit = UINT64_MAX;
  bool allow_empty = false;
  bool keep_hidden = false;
  bool no_follow = false;
  bool dry_run = false;
  bool json = false;

  // plan-pack, pack --task and pack --finish. A task and finishing have no inputs and few of the options.
  uint64_t tasks = 0;
  std::optional<std::pair<uint64_t, uint64_t>> task;
  bool finish = false;
};

// Adds "COLUMN=none" or "COLUMN=zstd[:LEVEL]" to the options.
absl::Status ParseCodec(const std::string& text, shardkit::DatasetWriterOptions* options);

// Adds "COLUMN=inline" or "COLUMN=blob" to the options.
absl::Status ParseStorage(const std::string& text, shardkit::DatasetWriterOptions* options);

// Identifies the inputs of a job. The text does not depend on how the paths are written or on the working directory.
std::string InputText(const std::vector<std::string>& inputs);

// --append and --existing-keys, of pack and of convert.
class AppendOption {
 public:
  void AddTo(CommandLine* line, shardkit::DatasetWriterOptions* options);
  // Call after parsing. Returns the exit code of a usage error.
  std::optional<int> Apply(CommandLine& line);

 private:
  shardkit::DatasetWriterOptions* options_ = nullptr;
  size_t existing_keys_ = SIZE_MAX;
};

// --no-sync, of commands that write datasets.
class SyncOption {
 public:
  void AddTo(CommandLine* line) {
    line->Flag("--no-sync", &none_,
               "do not wait until the dataset is on the device: quicker, but a power cut soon after may damage it");
  }
  bool sync() const { return !none_; }

 private:
  bool none_ = false;
};

// What the arguments say about reading the inputs, and about the dataset.
shardkit::SourceOptions SourceOptionsOf(const PackArguments& arguments);
shardkit::PackOptions PackOptionsOf(const PackArguments& arguments);

// Returns the same as CommandLine::Parse. `plan`: of plan-pack, not of pack.
std::optional<int> ParsePackArguments(int argc, char** argv, bool plan, PackArguments* arguments);

}  // namespace shardctl
