// How the chunks of a shard are laid out and compressed.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "codec/zstd.h"
#include "container/write/block_builder.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::container {

// How the columns of a shard are stored. Immutable; shared by the threads that encode.
struct BlockEncoding {
  Schema schema;
  bool provisional = false;      // the storages in the schema are guessed: encoded blocks may have to be encoded again
  std::vector<int> zstd_levels;  // per column
  std::vector<std::shared_ptr<const codec::ZstdDictionary>> dictionaries;  // per column, null for none
};

// Checks the options against the schema. No dictionaries yet, and the storages are those of the schema.
absl::StatusOr<BlockEncoding> MakeBlockEncoding(const Schema& schema, const ShardOptions& options);

// If a column has a dictionary, this many blocks are held back for training before a shard's first block is encoded.
inline constexpr size_t kTrainingBlocks = 8;

// Whether ChooseStorages may find another storage than the schema has, for one first block or another.
bool StoragesAreOpen(const ShardOptions& options, const Schema& schema);

// Whether the schemas differ at most in the storages, which each shard chooses for itself.
bool EqualButStorages(const Schema& a, const Schema& b);

// Chooses the storage of the columns that have a values chunk, for a shard whose first block is `first` (null: the
// shard has no block): that of `options`, else pages where the values present in the block have less than
// kSmallValueBytes on average, else blobs. No other column changes.
absl::StatusOr<Schema> ChooseStorages(const ShardOptions& options, const Schema& schema, const RawBlock* first);

// A blob value costs about 24 bytes beside its own: 2 % of so many.
inline constexpr uint64_t kSmallValueBytes = 1024;

// Trains the dictionaries that `options` ask for on the values of the first blocks of a shard. A column whose values
// gain nothing stays without one.
absl::Status TrainDictionaries(const ShardOptions& options, std::span<const RawBlock> blocks, BlockEncoding* plan);

}  // namespace shardkit::container
