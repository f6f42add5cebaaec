// Reading every value of a dataset once, in order.
#pragma once

#include <cstdint>

#include "shardkit/dataset_reader.h"
#include "timing.h"

namespace shardkit::bench {

// Sum of the lengths of all values. Exits on an error.
inline uint64_t ScanAll(const DatasetReader& dataset, int threads) {
  ScanOptions options;
  options.threads = threads;
  options.blocks_ahead = threads + 1;
  const auto scanner = Must(dataset.Scan(options));
  uint64_t bytes = 0;
  for (;;) {
    const auto block = Must(scanner->Next());
    if (!block) break;
    for (size_t column = 0; column < block->view().column_count(); ++column) {
      const ColumnView& view = block->view().column(column);
      for (uint32_t i = 0; i < view.size(); ++i) bytes += view.bytes(i).size();
    }
  }
  return bytes;
}

}  // namespace shardkit::bench
