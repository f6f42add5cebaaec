// Writing a shard of a dataset anew.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataset/read/removed_samples.h"
#include "shardkit/dataset_reader.h"
#include "shardkit/filesystem.h"
#include "shardkit/job.h"

namespace shardkit::dataset {

// Thread-safe.
class ShardRewriter {
 public:
  // `dataset` is the dataset with all of its columns, of `manifest`, and `removed` its samples that readers do not see.
  // With `fold`, the shards get all columns that it shows, by the names that readers see; otherwise the columns that
  // have values there, by their stored names. All must outlive the rewriter. `cancellation` may be null; `progress`,
  // which may be empty, gets the samples that a block had.
  ShardRewriter(FileSystem& file_system, const DatasetReader& dataset, const Manifest& manifest,
                const RemovedList& removed, bool fold, const Cancellation* cancellation,
                std::function<void(uint64_t)> progress);

  // Writes the samples of shard `number` that were not removed to the new shard `name` in the dataset's directory: a
  // block for each of its blocks that still has samples. Without samples no shard is written, and the entry says so.
  absl::StatusOr<ManifestShard> Rewrite(size_t number, const std::string& name) const;

 private:
  // The columns of the new shard, and the positions of their values in the columns of the dataset.
  struct Columns {
    Schema schema;
    std::vector<size_t> positions;
  };
  absl::StatusOr<Columns> ColumnsOf(const Schema& shard, size_t number) const;

  FileSystem& file_system_;
  const DatasetReader& dataset_;
  const Manifest& manifest_;
  const RemovedList& removed_;
  const bool fold_;
  const Cancellation* const cancellation_;
  const std::function<void(uint64_t)> progress_;
  std::vector<uint64_t> first_samples_;  // stored samples, of the shards
};

}  // namespace shardkit::dataset
