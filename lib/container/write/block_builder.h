// Collecting the values of a block, column by column.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/buffer.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::container {

// One column of a block before encoding.
struct RawColumn {
  std::vector<uint8_t> presence;  // one byte per sample; only for nullable columns
  Buffer ends;                    // u64 per sample, as stored in a blob or compressed column; not for fixed-size ones
  // The values. In a column with a values chunk each present one is a record: 8 bytes follow it, for its checksum.
  Buffer values;

  // A value too large for memory: it is this file, `values` is empty, and the block has only this sample. Several
  // columns may have such values.
  std::shared_ptr<const RandomAccessFile> file;
};

struct RawBlock {
  uint32_t sample_count = 0;
  std::vector<RawColumn> columns;
};

// InvalidArgument, naming the column, when a sample's value does not fit its column.
absl::Status CheckValues(const Schema& schema, std::span<const std::optional<Value>> values);

// One thread at a time.
class BlockBuilder {
 public:
  // `schema` must outlive the builder.
  BlockBuilder(const Schema& schema, uint64_t block_size, uint32_t max_samples);

  // True when the sample needs a block of its own and the current block is not empty.
  bool MustFlushBefore(std::span<const std::optional<Value>> values) const;

  // Adds a sample that passed CheckValues.
  void Add(std::span<const std::optional<Value>> values);

  bool empty() const { return block_.sample_count == 0; }
  bool full() const { return bytes_ >= block_size_ || block_.sample_count >= max_samples_; }
  uint64_t bytes() const { return bytes_; }

  // Returns the block so far and empties the builder.
  RawBlock Take();

  // Takes back the memory of a block that has been written, for a later one.
  void Recycle(RawBlock block);

 private:
  void Reset();

  const Schema& schema_;
  const uint64_t block_size_;
  const uint32_t max_samples_;
  uint64_t bytes_ = 0;
  RawBlock block_;
  std::vector<size_t> before_;    // bytes of each column in the block before
  std::vector<RawBlock> spares_;  // empty; their memory is used again
};

}  // namespace shardkit::container
