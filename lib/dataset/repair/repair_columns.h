// What a repaired dataset keeps of changed columns and removed samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/repair.h"

namespace shardkit::dataset {

// A shard of the repaired dataset.
struct KeptShard {
  std::string path;
  uint64_t first_sample = 0;      // in the repaired dataset
  bool whole = false;             // it has all blocks of a shard of the damaged dataset
  std::vector<SampleRange> from;  // the stored samples that its samples were, in their order; empty: not known
};

// Writes to `output`, the directory of the repaired dataset, the values that the column files of `before` in
// `directory` have for the samples of `shards`, and the list of those that were removed. Files whose samples were all
// kept are linked. Returns `before` with columns, column files and removed samples of the repaired dataset; adds to
// *notes what could not be read. DataLoss when the list of removed samples cannot be read, since nobody knows then
// which samples readers may see.
absl::StatusOr<ManifestSummary> RepairColumns(FileSystem& file_system, const std::string& directory,
                                              const std::string& output, const Manifest& before,
                                              std::span<const KeptShard> shards, const RepairOptions& options,
                                              std::vector<std::string>* notes);

}  // namespace shardkit::dataset
