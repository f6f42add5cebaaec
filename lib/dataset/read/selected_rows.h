// Views of some of a block's samples, without copies of their values.
#pragma once

#include <cstdint>
#include <span>

#include "shardkit/sample.h"

namespace shardkit::dataset {

// Rows are positions in the block, ascending.

// How much memory, in 8 bytes, SelectRows needs for the column.
uint64_t WordsToSelect(const ColumnView& column, std::span<const uint32_t> rows);

// The rows of the column, as a view of `column`'s values and of *memory, which is moved behind the words that were
// used. Values of one size are copied there.
ColumnView SelectRows(const ColumnView& column, std::span<const uint32_t> rows, uint64_t** memory);

}  // namespace shardkit::dataset
