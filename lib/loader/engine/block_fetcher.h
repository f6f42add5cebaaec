// Reads blocks from the datasets: checked, decompressed, and with what is left of a damaged one.
#pragma once

#include "absl/status/status.h"
#include "loader/engine/block_table.h"
#include "loader/engine/page_cache_values.h"
#include "loader/open_datasets.h"
#include "shardkit/job.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// Thread-safe. Borrows its arguments.
class BlockFetcher {
 public:
  BlockFetcher(const OpenDatasets& datasets, BadSamples bad_samples, PageCacheValues& left, const Cancellation& stopped)
      : datasets_(datasets), bad_samples_(bad_samples), left_(left), stopped_(stopped) {}

  // Reads the block into the entry's buffer. Sets its view, or `salvage` for a damaged block, or `status`. The entry is
  // in state kReading, so no other thread looks at these.
  void Fetch(BlockEntry& entry) const;

 private:
  void ReadOrSalvage(BlockEntry& entry) const;
  void Salvage(BlockEntry& entry) const;
  absl::Status SalvageColumn(const BlockEntry& entry, size_t column, SalvagedBlock& samples) const;

  const OpenDatasets& datasets_;
  const BadSamples bad_samples_;
  PageCacheValues& left_;
  const Cancellation& stopped_;
};

}  // namespace shardkit::loader
