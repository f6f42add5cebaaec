// Reading blocks in order, ahead of the consumer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "dataset/read/shard_cache.h"
#include "dataset/read/shard_list_reader.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {

// Changes a block, whose first sample in the dataset is *first_sample, after it was read, on the thread that has read
// it. The scanner leaves out blocks without samples then.
using CompleteBlock = std::function<absl::Status(uint64_t* first_sample, BlockBuffer* buffer, BlockView* view)>;

// `list`, `shards` and `summary` are those of the dataset, and must outlive the scanner. `complete` may be empty.
absl::StatusOr<std::unique_ptr<BlockScanner>> NewBlockScanner(const ShardListReader& list, ShardCache& shards,
                                                              std::shared_ptr<BufferPool> reserve,
                                                              const ScanOptions& options,
                                                              const ManifestSummary& summary, CompleteBlock complete);

}  // namespace shardkit::dataset
