// The checksums of a block's chunks, compared while its bytes pass by.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "format/block_header.h"
#include "shardkit/schema.h"

namespace shardkit::format {

// Looks at stored bytes alone: nothing is decompressed. One thread at a time.
class ChunkChecker {
 public:
  // `header` passed DecodeBlockHeader with the same schema, or was made by EncodeBlockHeader.
  ChunkChecker(const Schema& schema, const BlockHeader& header);

  // The next bytes of the block; the first call begins behind the block's header.
  void Update(std::string_view bytes);

  // Positions of the columns that have a chunk with a wrong checksum, of the chunks that have passed
  // entirely. Ascending.
  const std::vector<size_t>& damaged_columns() const { return damaged_; }

 private:
  struct Chunk {
    size_t column = 0;
    uint64_t length = 0;  // with its padding
    uint64_t checksum = 0;
  };

  void EndChunks();

  std::vector<Chunk> chunks_;
  size_t next_ = 0;    // chunk that is being read
  uint64_t done_ = 0;  // bytes of it
  StreamingHash64 hash_;
  std::vector<size_t> damaged_;
};

}  // namespace shardkit::format
