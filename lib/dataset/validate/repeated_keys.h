// Keys that stand more than once in a dataset, found by the shards' key indexes in bounded memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {

// The key index of a shard, which has been checked.
struct KeyIndexPlace {
  size_t shard = 0;  // of the dataset
  std::string path;
  uint64_t offset = 0;  // of the section in the file
  uint64_t samples = 0;
  uint64_t first_sample = 0;  // of the shard in the dataset
};

struct RepeatedKeys {
  uint64_t count = 0;                 // samples whose key an earlier one has
  std::vector<std::string> examples;  // "key "K" stands in N samples, first in A and B"
};

// Merges the sorted hashes of all shards. Some 16 MiB of memory, and 4 KiB for each shard beyond 4096. Equal hashes of
// the first thousand keys are compared by the keys themselves; where more are equal, few are by chance.
absl::StatusOr<RepeatedKeys> FindRepeatedKeys(FileSystem& file_system, const DatasetReader& dataset,
                                              std::span<const KeyIndexPlace> places, const Cancellation* cancellation);

}  // namespace shardkit
