// What a BlockBuffer holds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/hash.h"
#include "codec/zstd.h"
#include "format/block_header.h"
#include "shardkit/block.h"
#include "shardkit/shard_reader.h"

namespace shardkit {

// Gives a BlockView its parts; the only way to make one.
class BlockAssembler {
 public:
  static void Reset(BlockView* view, uint64_t first_sample, uint32_t sample_count, size_t columns) {
    view->first_sample_ = first_sample;
    view->sample_count_ = sample_count;
    view->columns_.assign(columns, ColumnView());
  }
  static void Set(BlockView* view, size_t column, const ColumnView& part) { view->columns_[column] = part; }
};

struct BlockBuffer::State {
  Buffer stored;                   // the block, or the wanted parts of it at their offsets
  Buffer raw;                      // decompressed chunks
  Buffer record;                   // single values
  std::vector<uint64_t> places;    // of values that lie scattered: begins, then ends, column by column
  std::string converted;           // values that had another form in the file
  std::vector<BlockBuffer> batch;  // one per shard, for values of several shards at once
  ZstdDecompressor decompressor;
  StreamingHash64 hash;
  uint64_t file_offset = 0;  // of the block in `stored`,
  uint64_t read_length = 0;  // of which so many bytes are there
  format::BlockHeader header;
  const RandomAccessFile* mapped = nullptr;  // where the block lies in a memory map: its file
  const RandomAccessFile* shown = nullptr;   // the file last read through this buffer, whose map it may show
  std::vector<uint8_t> wanted;               // per column: scratch
  BlockView view;

  // The shard whose memory map a value of a dataset lies in, which the dataset's cache may drop at any time.
  std::shared_ptr<const void> pinned;

  void Pin(std::shared_ptr<const void> shard) {
    if (pinned != shard) mapped = nullptr;
    pinned = std::move(shard);
    shown = nullptr;  // files may have gone with the shard pinned before
  }

  // What `view` holds, so that values of one block are read from memory: of which reader, 0 for none, and
  // which block.
  uint64_t owner = 0;
  size_t block = 0;
};

// Above 0, and another for every reader of the program. An address would not do: a buffer outlives readers,
// and a new one may stand where another stood. Thread-safe.
uint64_t NewReaderIdentity();

// Pages of a memory map that a block lay in. They count as the process's memory until they are let go.
struct MappedRange {
  std::shared_ptr<const void> pinned;  // keeps the file open
  const RandomAccessFile* file = nullptr;
  uint64_t offset = 0;
  uint64_t length = 0;

  // The bytes stay valid for others who use them.
  void LetGo() const {
    if (file != nullptr) file->WontNeed(offset, length);
  }
};

// Makes the buffer forget its block, which a DatasetReader has read; room for later blocks is kept. The range is empty
// unless the block lies in a memory map.
MappedRange ForgetBlock(BlockBuffer& buffer);

}  // namespace shardkit
