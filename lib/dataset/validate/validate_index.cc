#include "dataset/validate/validate_index.h"

#include <algorithm>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit {
namespace {

constexpr size_t kMissing = SIZE_MAX;

}  // namespace

absl::Status ShardIndexCheck::Problem(std::string_view what) {
  problem_ = StrCat("index: ", what, " of shard ", number_, "; run shardctl index to make it anew");
  return absl::OkStatus();
}

absl::Status ShardIndexCheck::Begin(const NativeShardReader& shard) {
  shard_ = &shard;
  SHARDKIT_ASSIGN_OR_RETURN(const format::IndexShard entry, index_.Shard(number_));
  SHARDKIT_ASSIGN_OR_RETURN(const std::string_view name, index_.ShardName(entry));
  if (!std::string_view(shard.path()).ends_with(name) || entry.first_block != first_block_ ||
      entry.block_count != shard.blocks().size() || entry.file_length != shard.file_length()) {
    return Problem("wrong entry");
  }
  const auto& blobs = shard.schema().indexed_columns();
  for (const size_t column : schema_.indexed_columns()) {
    const auto same_name = [&](size_t blob) { return shard.schema()[blob].name == schema_[column].name; };
    const auto found = std::ranges::find_if(blobs, same_name);
    positions_.push_back(found == blobs.end() ? kMissing : static_cast<size_t>(found - blobs.begin()));
  }
  return absl::OkStatus();
}

absl::Status ShardIndexCheck::Add(size_t block, std::span<const uint64_t> ends) {
  if (!problem_.empty()) return absl::OkStatus();
  const BlockInfo& info = shard_->blocks()[block];
  SHARDKIT_ASSIGN_OR_RETURN(const format::IndexBlock indexed, index_.Block(first_block_ + block));
  if (indexed.offset != info.offset || indexed.length != info.length || indexed.front_length != info.front_length ||
      indexed.sample_count != info.sample_count || indexed.header_checksum != info.header_checksum ||
      indexed.shard != number_) {
    return Problem(StrCat("wrong entry for block ", block));
  }
  indexed_ends_.resize(info.sample_count);
  for (size_t k = 0; k < positions_.size(); ++k) {
    SHARDKIT_RETURN_IF_ERROR(index_.Ends(indexed.ends_begin + k * info.sample_count, indexed_ends_));
    std::span<const uint64_t> expected;
    if (positions_[k] == kMissing) {
      absent_ends_.assign(info.sample_count, info.offset + info.front_length);
      expected = absent_ends_;
    } else {
      expected = ends.subspan(positions_[k] * info.sample_count, info.sample_count);
    }
    if (!std::ranges::equal(indexed_ends_, expected)) return Problem(StrCat("wrong ends for block ", block));
  }
  return absl::OkStatus();
}

}  // namespace shardkit
