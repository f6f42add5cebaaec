// Writing a shard of a dataset anew.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "dataset/view/removed_samples.h"
#include "dataset/view/stored_dataset.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardkit::dataset {

// Thread-safe.
class ShardRewriter {
 public:
  // `stored` is the dataset, opened with all of its stored columns, and `removed` its samples that readers do not see.
  // With `seen`, which may be null, the shards get the columns that it shows. All must outlive the rewriter.
  // `cancellation` may be null; `progress`, which may be empty, gets the samples that a block had.
  ShardRewriter(FileSystem& file_system, const StoredDataset& stored, const RemovedList& removed,
                const DatasetReader* seen, const Cancellation* cancellation, std::function<void(uint64_t)> progress)
      : file_system_(file_system),
        stored_(stored),
        removed_(removed),
        seen_(seen),
        cancellation_(cancellation),
        progress_(std::move(progress)) {}

  // Writes the samples of shard `number` that were not removed to the new shard `name` in the dataset's directory: a
  // block for each of its blocks that still has samples. Without samples no shard is written, and the entry says so.
  absl::StatusOr<ManifestShard> Rewrite(size_t number, const std::string& name) const;

 private:
  FileSystem& file_system_;
  const StoredDataset& stored_;
  const RemovedList& removed_;
  const DatasetReader* const seen_;
  const Cancellation* const cancellation_;
  const std::function<void(uint64_t)> progress_;
};

}  // namespace shardkit::dataset
