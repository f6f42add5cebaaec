// Values that a block left in the file, because they are in the page cache (ReadMode::kAuto): they are copied from
// there into the batch, and checked there, so that they take no memory before and are copied once. The pages are read
// and not mapped: then a file that is cut gives an error and not a signal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "loader/columns/assembly.h"
#include "loader/engine/block_table.h"
#include "loader/open_datasets.h"

namespace shardkit::loader {

// Thread-safe.
class PageCacheValues {
 public:
  PageCacheValues(const LoaderOptions& options, const OpenDatasets& datasets,
                  std::span<const std::unique_ptr<ColumnAssembler>> columns);

  // Whether the values of the block about to be read are to be left in the file when they are in the page cache.
  bool Worthwhile(const BlockEntry& block);

  // Whether the columns that the block has left are read with Copy. Others need the block as a whole.
  bool Takes(const BlockView& view) const;

  // Copies values of one column to `to`, one after the other: those of sample `begin`, which is in the file, and of the
  // samples up to `end` that follow it there. Returns the first sample that was not copied. Values that cannot be read,
  // or are not what was written, fail as kUnread.
  size_t Copy(Assembly& assembly, size_t column, size_t begin, size_t end, char* to, Buffer& scratch);

  // A value or a block had to be waited for: the next blocks are read whole, and ahead, as a device needs it.
  void CountWait() { blocks_whole_.store(kWholeAfterWait, std::memory_order_relaxed); }

  // Bytes copied so far.
  uint64_t bytes() const { return bytes_; }

 private:
  void CopyOne(Assembly& assembly, size_t column, size_t sample, char* to);
  bool Matches(const char* value, size_t length, uint64_t checksum) const;

  static constexpr uint32_t kWholeAfterWait = 8;

  const bool verify_;
  const bool neighbours_;    // the samples of a batch lie one after the other
  std::vector<bool> taken_;  // by column
  bool on_ = false;
  std::atomic<uint32_t> blocks_whole_ = 0;  // still to be read whole
  std::atomic<uint64_t> bytes_ = 0;
};

}  // namespace shardkit::loader
