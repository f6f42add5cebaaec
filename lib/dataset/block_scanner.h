// Reading blocks in order, ahead of the consumer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "dataset/buffer_reserve.h"
#include "dataset/shard_cache.h"
#include "dataset/view/stored_dataset.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::dataset {

// `list` and `shards` must outlive the scanner. `view` is the dataset's. `complete` may be empty.
absl::StatusOr<std::unique_ptr<BlockScanner>> NewBlockScanner(const ShardListReader& list, ShardCache& shards,
                                                              std::shared_ptr<BufferReserve> reserve,
                                                              const ScanOptions& options,
                                                              const std::optional<DatasetView>& view,
                                                              StoredDataset::CompleteBlock complete);

}  // namespace shardkit::dataset
