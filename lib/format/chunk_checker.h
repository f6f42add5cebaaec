// Checks the chunk checksums of a block while its bytes are read in order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "format/block_header.h"
#include "shardkit/schema.h"

namespace shardkit::format {

// Uses the stored bytes only and decompresses nothing. One thread at a time.
class ChunkChecker {
 public:
  // `header` passed DecodeBlockHeader with the same schema, or was made by EncodeBlockHeader.
  ChunkChecker(const Schema& schema, const BlockHeader& header);

  // Takes the next bytes of the block. The first call starts right after the block's header.
  void Update(std::string_view bytes);

  // Columns that have a chunk with a wrong checksum, ascending. Counts only chunks whose bytes have all been given to
  // Update.
  const std::vector<size_t>& damaged_columns() const { return damaged_; }

 private:
  struct Chunk {
    size_t column = 0;
    uint64_t length = 0;  // with its padding
    uint64_t checksum = 0;
  };

  void EndChunks();

  std::vector<Chunk> chunks_;
  size_t next_ = 0;    // position of the current chunk in chunks_
  uint64_t done_ = 0;  // bytes of the current chunk so far
  StreamingHash hash_;
  std::vector<size_t> damaged_;
};

}  // namespace shardkit::format
