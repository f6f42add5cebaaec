#include "dataset/validate/validate_index.h"

#include <algorithm>

#include "base/errors.h"
#include "base/status_macros.h"
#include "container/shard_index_part.h"

namespace shardkit::dataset {

void ShardIndexCheck::Begin(const container::NativeShardReader& shard) {
  shard_ = &shard;
  for (const size_t column : container::IndexedColumns(shard.schema())) columns_.push_back(shard.schema()[column].name);
}

absl::Status ShardIndexCheck::Add(size_t block, std::span<const uint64_t> places) {
  if (!problem_.empty()) return absl::OkStatus();
  const BlockInfo& info = shard_->blocks()[block];
  SHARDKIT_ASSIGN_OR_RETURN(const IndexedBlock indexed, index_.BlockOfSample(first_sample_ + info.first_sample));
  const auto problem = [&](std::string_view what) {
    path_ = index_.path(indexed);
    problem_ = StrCat(path_, ": index: wrong ", what, " for block ", block, " of shard ", number_,
                      "; run shardctl index to make it anew");
    return absl::OkStatus();
  };
  const format::IndexBlock& entry = indexed.entry;
  if (entry.offset != info.offset || entry.length != info.length || entry.front_length != info.front_length ||
      entry.first_sample != first_sample_ + info.first_sample || entry.sample_count != info.sample_count ||
      entry.header_checksum != info.header_checksum || indexed.shard != number_) {
    return problem("entry");
  }
  if (index_.BlobColumns(indexed) != columns_) return problem("columns");
  SHARDKIT_ASSIGN_OR_RETURN(const std::vector<uint64_t> indexed_places, index_.Places(indexed));
  return std::ranges::equal(indexed_places, places) ? absl::OkStatus() : problem("places");
}

}  // namespace shardkit::dataset
