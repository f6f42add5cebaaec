// All keys of a dataset in one pass: whether the key tables of its segments are those of its shards, and which keys
// occur more than once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/read/key_table_reader.h"
#include "dataset/read/removed_samples.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/job.h"

namespace shardkit::dataset {

// The key table of a shard. It has been checked.
struct KeyIndexPlace {
  std::string path;
  uint64_t offset = 0;  // of the table in the file
  uint64_t samples = 0;
  uint64_t first_sample = 0;  // of the shard in the dataset
};

// What a segment's key table was found to be.
struct SegmentKeys {
  uint64_t first_sample = 0;                         // of the segment in the dataset
  std::shared_ptr<const container::KeyTable> table;  // null where there is none to compare
  absl::Status difference;                           // DataLoss: the first entry that is not what the shards have
};

struct DuplicateKeyReport {
  uint64_t count = 0;                 // samples whose key an earlier one has
  std::vector<std::string> examples;  // "key "K" stands in N samples, first in A and B"
};

// Merges the tables of all shards, compares them with `segments`, and sets `difference` of these. Keys of removed
// samples occur to nobody, and examples count the samples that are seen. Uses about 16 MiB of
// memory, and 4 KiB for each shard beyond 4096. For the first 1000 hashes that occur more than once, the keys
// themselves are compared. All further equal hashes count as equal keys: few are equal by chance.
absl::StatusOr<DuplicateKeyReport> CheckKeys(ReadableFileSystem& file_system, const DatasetReader& dataset,
                                             const RemovedList& removed, std::span<const KeyIndexPlace> places,
                                             std::span<SegmentKeys> segments, const Cancellation* cancellation);

}  // namespace shardkit::dataset
