// The whole samples of a damaged block.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "container/block_encoder.h"
#include "container/native_shard_reader.h"
#include "shardkit/cancellation.h"

namespace shardkit {

struct SalvagedBlock {
  std::optional<EncodedBlock> block;  // empty when no sample is whole
  // Within the block, [begin, end) each, ascending.
  std::vector<std::pair<uint32_t, uint32_t>> lost;
  std::vector<size_t> damaged_columns;
};

// Reads block `index`, whose head chunks must be whole, value by value, and encodes anew the samples whose
// values all have the right checksum. An error of damage means that the head chunks are not whole.
absl::StatusOr<SalvagedBlock> SalvageBlock(const NativeShardReader& shard, size_t index,
                                           const Cancellation* cancellation);

}  // namespace shardkit
