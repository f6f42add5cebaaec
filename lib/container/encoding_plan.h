// How the chunks of a shard are compressed.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "codec/zstd.h"
#include "container/block_builder.h"
#include "shardkit/schema.h"
#include "shardkit/shard_writer.h"

namespace shardkit {

// How the columns of a shard are compressed. Immutable; shared by the threads that encode.
struct EncodingPlan {
  Schema schema;
  std::vector<int> zstd_levels;                                     // per column
  std::vector<std::shared_ptr<const ZstdDictionary>> dictionaries;  // per column, null for none
};

// Checks the options against the schema. No dictionaries yet.
absl::StatusOr<EncodingPlan> MakeEncodingPlan(const Schema& schema, const ShardOptions& options);

// If a column has a dictionary, this many blocks are held back for training before a shard's first block is encoded.
inline constexpr size_t kTrainingBlocks = 8;

// Trains the dictionaries that `options` ask for on the values of the first blocks of a shard. A column whose values
// gain nothing stays without one.
absl::Status TrainDictionaries(const ShardOptions& options, std::span<const RawBlock> blocks, EncodingPlan* plan);

}  // namespace shardkit
