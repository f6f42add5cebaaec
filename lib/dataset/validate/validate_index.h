// Comparing what the offset index says about one shard with the shard.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "container/native_shard_reader.h"
#include "dataset/index_reader.h"

namespace shardkit {

// Not thread-safe. A status other than OK means that the comparison could not be made.
class ShardIndexCheck {
 public:
  // `index` has passed CheckAll and has the manifest's counts. `schema` is the manifest's. `number` is the shard's
  // position in the manifest, `first_block` the number of blocks in the shards before it. The references must outlive
  // the object.
  ShardIndexCheck(const IndexReader& index, const Schema& schema, size_t number, uint64_t first_block)
      : index_(index), schema_(schema), number_(number), first_block_(first_block) {}

  // Call first. `shard` must outlive the calls of Add.
  absl::Status Begin(const NativeShardReader& shard);

  // Compares the index with block `block` and its `ends`, which are as in ShardIndexPart. Blocks may be left out.
  absl::Status Add(size_t block, std::span<const uint64_t> ends);

  // The first difference found, as "index: WHAT of shard K; ..."; empty when there was none.
  const std::string& problem() const { return problem_; }

 private:
  absl::Status Problem(std::string_view what);

  const IndexReader& index_;
  const Schema& schema_;
  const size_t number_;
  const uint64_t first_block_;
  const NativeShardReader* shard_ = nullptr;
  std::vector<size_t> positions_;  // for each blob column of the dataset, its place among the shard's
  std::vector<uint64_t> indexed_ends_;
  std::vector<uint64_t> absent_ends_;
  std::string problem_;
};

}  // namespace shardkit
