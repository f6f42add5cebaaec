// Keys that occur more than once in a dataset, found with the shards' key indexes in bounded memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/dataset_reader.h"

namespace shardkit {

// The key index of a shard. It has been checked.
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

// Merges the sorted hashes of all shards. Uses about 16 MiB of memory, and 4 KiB for each shard beyond 4096. For the
// first 1000 hashes that occur more than once, the keys themselves are compared. All further equal hashes count as
// equal keys: few are equal by chance.
absl::StatusOr<RepeatedKeys> FindRepeatedKeys(FileSystem& file_system, const DatasetReader& dataset,
                                              std::span<const KeyIndexPlace> places, const Cancellation* cancellation);

}  // namespace shardkit
