// Options that commands share which copy samples into new shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "dataset_access.h"
#include "json.h"
#include "pack_options.h"
#include "shardkit/copy.h"
#include "shardkit/select.h"

namespace shardctl {

// How the input is read, and what the new dataset is like.
class CopyArguments {
 public:
  void AddTo(CommandLine* line);

  // After parsing. Returns an exit code when the values make no sense.
  std::optional<int> Take(const CommandLine& line, const std::vector<std::string>& inputs,
                          shardkit::CopyOptions* options) const;

 private:
  uint64_t shard_size_ = shardkit::DatasetWriterOptions().shard_size;
  std::optional<std::string> block_size_;
  bool resume_ = false;
  SyncOption sync_;
  JobsOption jobs_;
  DecompressionOption decompression_;
  HashOption hashes_;
};

// --by-reference, of commands that make a dataset of the samples of others.
void AddByReference(CommandLine* line, bool* by_reference);

// Says of a new dataset's bases that are out of its reach that who opens it has to allow them.
void NoteBases(const shardkit::Manifest& manifest);

// "selected 12 of 40 samples; looked into 2 of 8 blocks, which leaves out 6 by their ranges"
std::string SelectionText(const shardkit::SelectionReport& report);

// Sets the members that describe a selection.
void SetSelection(const shardkit::SelectionReport& report, Json* document);

}  // namespace shardctl
