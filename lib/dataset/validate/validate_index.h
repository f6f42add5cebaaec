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

namespace shardkit::dataset {

// Not thread-safe. A status other than OK means that the comparison could not be made.
class ShardIndexCheck {
 public:
  // `index` has passed CheckAll; it must outlive the object. `number` is the shard's position in the manifest,
  // `first_sample` its first sample's in the dataset.
  ShardIndexCheck(const IndexReader& index, size_t number, uint64_t first_sample)
      : index_(index), number_(number), first_sample_(first_sample) {}

  // Call first. `shard` must outlive the calls of Add.
  void Begin(const container::NativeShardReader& shard);

  // Compares the index with block `block` and its `places`, which are as in ShardIndexPart. Blocks may be left out.
  absl::Status Add(size_t block, std::span<const uint64_t> places);

  // The first difference found, as "PATH: index: WHAT of shard K; ..."; empty when there was none.
  const std::string& problem() const { return problem_; }
  // Of the index that it was found in.
  const std::string& path() const { return path_; }

 private:
  const IndexReader& index_;
  const size_t number_;
  const uint64_t first_sample_;
  const container::NativeShardReader* shard_ = nullptr;
  std::vector<std::string> columns_;  // IndexedColumns of the shard
  std::string path_;
  std::string problem_;
};

}  // namespace shardkit::dataset
