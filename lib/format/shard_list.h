// Lists of shards (format-spec/dataset.md, section 9.2): what a manifest says of each shard of a segment, in checked
// pages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/shard.h"

namespace shardkit::format {

// Every page but the last has so many.
inline constexpr uint64_t kShardsOfPage = 256;
inline constexpr uint64_t kShardEntryBytes = 56;
inline constexpr uint64_t kMaxShardNameBytes = 4096;

// Each block has a sample (dataset.md, section 9.1).
constexpr bool CountsAllowed(uint64_t samples, uint64_t blocks) {
  return blocks <= samples && (blocks == 0) == (samples == 0);
}

struct ShardEntry {
  uint64_t first_sample = 0;  // in the segment
  uint64_t samples = 0;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  ContentHash content_hash{};
  std::optional<Sha256> sha256;
  std::string_view name;
};

// `shards` are 1 to kShardsOfPage, and each begins with the sample after the one before. Their names have 1 to
// kMaxShardNameBytes bytes.
std::string EncodeShardPage(std::span<const ShardEntry> shards);

// DataLoss unless the page is one that EncodeShardPage makes. The names are views of the page. Does not say whether
// they may be names of files.
absl::StatusOr<std::vector<ShardEntry>> DecodeShardPage(std::string_view page);

// What the root holds besides the fences: sums over the segment's shards.
struct ShardListTotals {
  uint64_t shards = 0;
  uint64_t samples = 0;
  uint64_t blocks = 0;
  uint64_t bytes = 0;

  bool operator==(const ShardListTotals&) const = default;
};

std::string EncodeShardListTotals(const ShardListTotals& totals);
// DataLoss for a payload of another length.
absl::StatusOr<ShardListTotals> DecodeShardListTotals(std::string_view payload);

}  // namespace shardkit::format
