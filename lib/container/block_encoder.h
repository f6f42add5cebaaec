// Turns the values of a block into the bytes of its chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "codec/zstd.h"
#include "container/block_builder.h"
#include "container/encoding_plan.h"
#include "format/block_header.h"
#include "shardkit/shard_info.h"

namespace shardkit {

// A block that is ready to be written, except for the fields that depend on the blocks before it.
struct EncodedBlock {
  format::BlockHeader header;  // lengths and checksums; first_sample and previous are not set yet
  Buffer heads;                // the head chunks with their padding
  std::vector<Buffer> values;  // per blob column: its values chunk with padding, or empty when `file` is set
  std::vector<Buffer> ends;    // per blob column: its ends, for the offset index
  std::vector<ColumnStatistics> statistics;  // per column
  std::vector<uint64_t> key_hashes;          // per sample, when the schema has a key column

  // The value that is too large for memory, if there is one, and the position of its blob column in the schema.
  // header.columns[file_column] has its values_length. Its checksum is computed while it is written.
  std::shared_ptr<const RandomAccessFile> file;
  size_t file_column = 0;

  uint64_t length() const { return header.block_length; }
};

// One thread at a time; keeps compression contexts between blocks.
class BlockEncoder {
 public:
  // The result depends only on plan and block.
  absl::StatusOr<EncodedBlock> Encode(const EncodingPlan& plan, RawBlock block);

 private:
  ZstdCompressor compressor_;
  Buffer chunk_;
  std::string compressed_;
};

}  // namespace shardkit
