// Views of some of a block's samples, without copies of their values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardkit/sample.h"

namespace shardkit::dataset {

// Positions in a block, ascending: either all from `first` on, or those listed.
struct SelectedRows {
  uint32_t count = 0;
  uint32_t first = 0;
  std::span<const uint32_t> listed;  // empty: count rows from `first` on

  uint32_t operator[](uint32_t i) const { return listed.empty() ? first + i : first + listed[i]; }
};

// How much memory, in 8 bytes, SelectRows needs for the column.
uint64_t WordsToSelect(const ColumnView& column, const SelectedRows& rows);

// The rows of the column, as a view of `column`'s values and of *memory, which is moved behind the words that were
// used. Values of one size that are not listed one after another are copied there.
ColumnView SelectRows(const ColumnView& column, const SelectedRows& rows, uint64_t** memory);

// A copy of the column in memory of its own, in which its values lie close together.
ColumnView CopyColumn(const ColumnView& column, std::vector<uint64_t>* memory);

}  // namespace shardkit::dataset
