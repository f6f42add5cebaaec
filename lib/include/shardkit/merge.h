// Many datasets made one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/manifest.h"
#include "shardkit/pack.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

struct MergeOptions {
  // Takes samples of one key, and equal shards, from several inputs; by its key the first sample is found. Otherwise
  // they are InvalidArgument, naming some of the keys and saying how many samples there are. Keys that stand several
  // times in one input are no concern of merging.
  bool keep_repeated_keys = false;

  // Stores the samples in new shards, as Convert to Shardkit's own container does. The inputs may then be of any
  // container, and have columns of one name with other codecs: they get that of the first input which has the column.
  // Otherwise the shards are linked, or copied where links do not work, and no value is read.
  bool copy = false;

  // As for Convert, for `copy`. Its cancellation and its progress are for both; progress counts samples. skip_errors
  // and dataset.append must be false.
  PackOptions pack;

  // As ConvertOptions::keep_blocks, for `copy`.
  std::optional<bool> keep_blocks;

  // As ReadOptions, for `copy`.
  uint64_t max_decompression = kDefaultMaxDecompression;
  bool verify_listed_hashes = true;
};

// Makes `output` a dataset of the samples of `inputs`, in that order. Its columns are those of all: a column that an
// input lacks has absent values there. Of the metadata those stay that all inputs have.
//
// Shards that are linked keep the SHA-256 that their dataset lists. Index and keys are made from those of the inputs,
// and from the shards only where these are missing or damaged. Of MDS datasets that lie below `output`, an index.json
// is written there; shards are compared only where their index has hashes, and keys not at all.
//
// InvalidArgument when the columns do not fit together, and without options.keep_repeated_keys; DataLoss when a shard
// is not the one that its dataset lists. A failure leaves nothing behind, except with pack.keep_on_cancel. The result
// does not depend on the number of threads.
absl::StatusOr<Manifest> MergeDatasets(FileSystem& file_system, const std::vector<std::string>& inputs,
                                       const std::string& output, const MergeOptions& options = {});

}  // namespace shardkit
