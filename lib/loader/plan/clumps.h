// Whether equal values of columns stand together as a dataset is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::loader {

// Counts the blocks of integer columns that have one value alone. One thread at a time.
class Clumps {
 public:
  // Of a block with fewer values, they are often equal by chance.
  static constexpr uint32_t kFewestValues = 3;

  explicit Clumps(size_t columns) : columns_(columns) {}

  // A block with at least kFewestValues values of the column, `one` of them if they are all equal.
  void Add(size_t column, bool all_equal, uint64_t one);

  // The columns of which most blocks have one value, and not nearly all the same: that would be the value of nearly all
  // samples. Ascending.
  std::vector<size_t> Found() const;

 private:
  struct Column {
    uint64_t blocks = 0;
    uint64_t of_one_value = 0;
    absl::flat_hash_map<uint64_t, uint64_t> values;  // of these, how many have each value
  };
  std::vector<Column> columns_;
};

// What Clumps::Add takes, of a block that was read.
struct BlockValues {
  size_t column = 0;
  bool all_equal = false;
  uint64_t one = 0;
};
std::vector<BlockValues> ValuesOf(const BlockView& view, const std::vector<Column>& columns);

}  // namespace shardkit::loader
