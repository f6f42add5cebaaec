// The samples of a dataset in other shards, or in another order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"
#include "shardkit/pack.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

struct ReshardOptions {
  // As for Convert to Shardkit's own container. With `shuffle`, shard_size counts the bytes of values. skip_errors and
  // dataset.append must be false.
  PackOptions pack;

  // As ConvertOptions::keep_blocks. With `shuffle` all blocks are made anew.
  std::optional<bool> keep_blocks;

  // Stores the samples in random order: ascending by the XXH3-64, with this seed, of their ordinals as 8 bytes,
  // little-endian.
  std::optional<uint64_t> shuffle;

  // What shuffling may hold in memory, bytes, beside the blocks that are read and written. The result does not depend
  // on it. Values of more bytes are first spread over temporary files, each of which takes a part of the order.
  uint64_t shuffle_memory = uint64_t{1} << 30;

  // The directory of those files, which take no more than the values before compression, and shrink while the shards
  // grow. It must exist. Empty: `output`, unless that is a URL, which is InvalidArgument then.
  std::string scratch;

  // Called with numbers of samples while they are spread, on the calling thread; pack.progress counts them when they
  // are stored.
  std::function<void(uint64_t done, uint64_t total)> spreading;

  // As ReadOptions, for the input.
  uint64_t max_decompression = kDefaultMaxDecompression;
  bool verify_listed_hashes = true;
};

// Writes all samples of the dataset at `input` as a new dataset at `output`. The result does not depend on the number
// of threads. A run that is resumed spreads the samples again that are not stored yet. Otherwise as Convert; also
// InvalidArgument for `scratch` without `shuffle` and for `keep_blocks` with it, NotFound where there is no `scratch`.
absl::StatusOr<PackReport> Reshard(FileSystem& file_system, const std::string& input, const std::string& output,
                                   const ReshardOptions& options = {});

}  // namespace shardkit
