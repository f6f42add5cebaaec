// Checking one shard: its blocks one by one, and what the rest of the file says about them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/hash.h"
#include "container/read/native_shard_reader.h"
#include "dataset/check/deep_check.h"
#include "shardkit/job.h"
#include "shardkit/shard.h"
#include "shardkit/validate.h"

namespace shardkit::dataset {

// The run of `shards` shards that options.task checks.
struct ShardRun {
  size_t begin = 0;
  size_t end = 0;
};
ShardRun ShardsOfTask(const ValidateOptions& options, size_t shards);

using ProblemSink = std::function<void(const absl::Status&)>;

// What a block was found to hold, and what is wrong with it.
struct BlockFindings {
  std::vector<absl::Status> problems;
  // As in ShardIndexPart. Also set for a block of which only values are damaged.
  std::optional<std::vector<uint64_t>> places;
  bool readable = false;  // then the rest is set
  std::vector<ColumnStatistics> statistics;
  std::vector<uint64_t> key_hashes;
  uint64_t undecoded_images = 0;  // as in ValidateReport
  WarnedImages warned_images;
  std::string header_bytes;  // as stored
};

// Checks checksums, padding and records of a block, and with options.deep every value. Also uses options.cancellation
// and options.max_image_memory, and no other option. Thread-safe; each thread brings its own buffer. Needs tens of MiB
// of memory plus the block's inline columns, however large its blobs are. A status other than OK means that the check
// could not be done.
//
// `pairs`, which may be null, are compared as well, in a block of at most 64 MiB.
absl::StatusOr<BlockFindings> CheckBlock(const container::NativeShardReader& shard, size_t index,
                                         const ValidateOptions& options, const MaskPairs* pairs, BlockBuffer* buffer);

// Compares what header, footer and trailer of the shard say with its blocks.
class ShardAccount {
 public:
  explicit ShardAccount(const container::NativeShardReader& shard);

  // Blocks must be added in order.
  void Add(size_t index, BlockFindings findings, const ProblemSink& report);

  // Call after the last block.
  absl::Status Finish(const ProblemSink& report);

 private:
  // DataLoss at the first difference.
  absl::Status CheckKeyIndex();
  // Empty when the shard lacks the section, and when it is damaged, which is then reported.
  absl::StatusOr<std::optional<std::string>> ReadOptionalSection(format::SectionKind kind, const ProblemSink& report);
  absl::Status CheckBlockHeaders(const ProblemSink& report);
  // `statistics` are those stored, or null when they are damaged.
  absl::Status CheckBlockRanges(const std::vector<ColumnStatistics>* statistics, const ProblemSink& report);

  const container::NativeShardReader& shard_;
  StreamingHash content_hash_;
  std::string header_bytes_;   // as stored
  std::string first_entries_;  // the column entries of block 0
  bool complete_ = true;
  std::vector<ColumnStatistics> statistics_;
  std::vector<uint64_t> key_hashes_;
  // What the sections of these names should hold, with zero bytes for blocks that cannot be read.
  std::string block_headers_;
  std::string block_ranges_;
  std::vector<bool> readable_;  // per block
};

}  // namespace shardkit::dataset
