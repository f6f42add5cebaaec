// Recovers the whole samples of a damaged block.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/block_encoder.h"
#include "container/native_shard_reader.h"
#include "shardkit/job.h"

namespace shardkit::dataset {

struct SalvagedBlock {
  std::optional<container::EncodedBlock> block;  // empty when no sample is whole
  // Ranges [begin, end) of samples within the block, ascending.
  std::vector<std::pair<uint32_t, uint32_t>> lost;
  std::vector<size_t> damaged_columns;
};

// Reads block `index` value by value, and encodes again the samples whose values all have the right checksum. DataLoss
// or OutOfRange when the head chunks are not whole or the block is too large.
absl::StatusOr<SalvagedBlock> SalvageBlock(const container::NativeShardReader& shard, size_t index,
                                           const Cancellation* cancellation);

}  // namespace shardkit::dataset
