// Turns the values of a block into the bytes of its chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "codec/zstd.h"
#include "container/write/block_builder.h"
#include "container/write/block_encoding.h"
#include "format/block_header.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::container {

// A block that is ready to be written, except for the fields that depend on the blocks before it.
struct EncodedBlock {
  format::BlockHeader header;                // lengths and checksums; first_sample and previous are not set yet
  Buffer heads;                              // the head chunks with their padding
  std::vector<std::string_view> values;      // per column with a values chunk: that with padding; empty for a file
  std::vector<ColumnStatistics> statistics;  // per column
  std::vector<uint64_t> key_hashes;          // per sample, when the schema has a key column

  // The block as it was before, of which `values` shows the records: encoding it again needs nothing else. Of the other
  // columns it is kept only where the plan is provisional. No columns when the block was copied. Of a value that is a
  // file the header has the values_length; the checksum is computed while it is written: in both storages the values
  // chunk is the value and its checksum.
  RawBlock raw;
  std::vector<Buffer> pages;  // of each paged column: its values chunk, which `values` shows

  uint64_t length() const { return header.block_length; }
};

// One thread at a time; keeps compression contexts between blocks.
class BlockEncoder {
 public:
  // The result depends only on plan and block.
  absl::StatusOr<EncodedBlock> Encode(const BlockEncoding& plan, RawBlock block);

 private:
  codec::ZstdCompressor compressor_;
  Buffer chunk_;
  std::string compressed_;
};

// A block of a shard, to be copied into another.
struct StoredBlock {
  format::BlockHeader header;  // as in the other shard; ShardFileWriter::Copy sets first_sample and shard_id
  const RandomAccessFile* source = nullptr;
  uint64_t offset = 0;  // of the block in `source`, bytes
  std::vector<ColumnStatistics> statistics;
  std::vector<uint64_t> key_hashes;

  // For a copy from memory: the bytes behind the header, whose checksums were compared, and the places of the records,
  // as ShardIndexPart has them, but counted from the block's first byte.
  std::string_view chunks;
  std::vector<uint64_t> places;

  // Of the other shard. Where a block is offered to a writer, which takes it if it is as its own blocks are.
  const Schema* schema = nullptr;
  uint32_t alignment = 0;

  std::shared_ptr<void> memory;  // keeps what the pointers and the view point to
};

}  // namespace shardkit::container
