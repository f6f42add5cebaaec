// A block of a shard, to be copied into another.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "format/block_header.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardkit::container {

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
