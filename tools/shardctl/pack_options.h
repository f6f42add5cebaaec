// What shardctl pack is asked to do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/shard_reader.h"
#include "shardkit/source.h"

namespace shardctl {

struct PackArguments {
  std::string source = "auto";
  std::optional<shardkit::GroupBy> group_by;
  std::vector<std::string> inputs;
  std::optional<std::string> output;            // set unless dry_run
  shardkit::DatasetWriterOptions dataset;       // sizes, codecs, levels and dictionaries
  std::map<std::string, shardkit::Type> types;  // by column
  int jobs = 1;
  uint64_t max_decompression = shardkit::kDefaultMaxDecompression;  // of tars, and datasets of other containers
  bool verify_listed_hashes = true;                                 // of these datasets
  bool skip_errors = false;
  bool resume = false;
  bool allow_empty = false;
  bool dry_run = false;
  bool json = false;
};

// Adds "COLUMN=none" or "COLUMN=zstd[:LEVEL]" to the options.
absl::Status ParseCodec(const std::string& text, shardkit::DatasetWriterOptions* options);

// What tells the inputs of a job from those of others, however their paths are written and wherever it is run.
std::string InputText(const std::vector<std::string>& inputs);

// As CommandLine::Parse.
std::optional<int> ParsePackArguments(int argc, char** argv, PackArguments* arguments);

}  // namespace shardctl
