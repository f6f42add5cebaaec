// What shardctl pack is asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/dataset_writer.h"
#include "shardkit/shard_reader.h"

namespace shardctl {

struct PackArguments {
  std::string source = "auto";
  std::vector<std::string> inputs;
  std::optional<std::string> output;       // set unless dry_run
  shardkit::DatasetWriterOptions dataset;  // sizes, codecs, levels and dictionaries
  int jobs = 1;
  uint64_t partition = 0;
  uint64_t partition_count = 1;
  uint64_t max_decompression = shardkit::kDefaultMaxDecompression;  // of tars, and datasets of other containers
  bool verify_listed_hashes = true;                                 // of these datasets
  bool skip_errors = false;
  bool resume = false;
  bool dry_run = false;
  bool json = false;
};

// Adds "COLUMN=none" or "COLUMN=zstd[:LEVEL]" to the options.
absl::Status ParseCodec(const std::string& text, shardkit::DatasetWriterOptions* options);

// As CommandLine::Parse.
std::optional<int> ParsePackArguments(int argc, char** argv, PackArguments* arguments);

}  // namespace shardctl
