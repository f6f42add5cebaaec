// Pages and root of the offset index (format-spec/dataset.md, section 9.2): a table of checked pages for the shards of
// one segment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit::format {

inline constexpr uint64_t kIndexPageHeadBytes = 8;
inline constexpr uint64_t kIndexBlockBytes = 64;

struct IndexBlock {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t front_length = 0;
  uint64_t first_sample = 0;  // in the segment
  uint32_t sample_count = 0;
  uint32_t shard = 0;  // in the segment
  uint64_t header_checksum = 0;
  uint32_t layout = 0;        // which of the root's lists names the shard's blob columns
  uint32_t reserved = 0;      // damage when it is not zero
  uint64_t places_begin = 0;  // offset in the page; 0 without blob columns

  bool operator==(const IndexBlock&) const = default;
};

// What the root holds besides the fences.
struct IndexRoot {
  uint64_t shard_count = 0;
  uint64_t block_count = 0;
  uint64_t sample_count = 0;
  uint64_t dataset_hash = 0;  // of the segment's shards
  // The different lists of a shard's blob columns. The names borrow what the root was decoded from.
  std::vector<std::vector<std::string_view>> layouts;
};

std::string EncodeIndexRoot(const IndexRoot& root);
// Borrows the payload. DataLoss unless it is one as writers make it. Does not say whether each list is used, and once.
absl::StatusOr<IndexRoot> DecodeIndexRoot(std::string_view payload);

// A page while it is filled.
class IndexPageBuilder {
 public:
  bool empty() const { return blocks_.empty(); }
  // Bytes that the page has, with one more block of so many places.
  uint64_t SizeWith(uint64_t place_count) const { return Size(blocks_.size() + 1, places_.size() + place_count); }
  // Sets block.places_begin.
  void Add(const IndexBlock& block, std::span<const uint64_t> places);
  uint64_t first_sample() const { return blocks_.front().first_sample; }
  // Empties the builder.
  std::string Take();

 private:
  static uint64_t Size(uint64_t blocks, uint64_t places) {
    return kIndexPageHeadBytes + kIndexBlockBytes * blocks + 8 * places;
  }
  std::vector<IndexBlock> blocks_;  // places_begin counts from the first of places_
  std::vector<uint64_t> places_;
};

// Number of blocks in a page, at least 1. DataLoss when their entries do not fit in it.
absl::StatusOr<uint32_t> DecodeIndexPageHead(std::string_view page);
// `i` is below DecodeIndexPageHead.
IndexBlock LoadIndexBlock(std::string_view page, uint32_t i);

}  // namespace shardkit::format
