// What a BlockBuffer holds.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/hash.h"
#include "codec/zstd.h"
#include "format/block_header.h"
#include "format/pages.h"
#include "shardkit/sample.h"
#include "shardkit/shard.h"

namespace shardkit::container {

// Fills in a BlockView, which has no setters of its own.
class BlockAssembler {
 public:
  static void Reset(BlockView* view, uint64_t first_sample, uint32_t sample_count, size_t columns) {
    view->first_sample_ = first_sample;
    view->sample_count_ = sample_count;
    view->columns_.assign(columns, ColumnView());
  }
  static void Set(BlockView* view, size_t column, const ColumnView& part) { view->columns_[column] = part; }
};

// A read of a block by a caller that copies blobs from the page cache itself. Readers of other containers, and reads of
// single values, do not look at it.
struct PageCacheRead {
  // Leave the blobs in the file (ColumnView::in_file) if the block is in the page cache. The reader clears it where
  // that is not so, or not possible.
  bool leave = false;
  bool cached = false;      // the block was in the page cache
  uint64_t left_bytes = 0;  // of blobs
};

// A paged column of the block in a buffer.
struct PagedColumn {
  format::PageTable table;
  std::string_view values;  // the values chunk without its padding; empty when only the head was wanted
};

}  // namespace shardkit::container

namespace shardkit {

struct BlockBuffer::State {
  Buffer stored;                   // the block, or its wanted parts, each at its offset in the block
  Buffer raw;                      // decompressed chunks
  Buffer record;                   // single values
  Buffer page;                     // the last page that a single value was read from, if the file is not mapped
  std::vector<uint64_t> places;    // of scattered values: for each column all begins, then all ends
  std::string converted;           // values that were converted from another form
  std::vector<uint64_t> selected;  // of views of some of the block's samples: SelectRows writes there
  std::string gathered;            // values of one column that came from several places of a dataset
  std::deque<BlockBuffer> batch;   // one per shard, for values of several shards at once
  codec::ZstdDecompressor decompressor;
  StreamingHash hash;
  uint64_t file_offset = 0;  // where the block in `stored` begins in the file
  uint64_t read_length = 0;  // bytes of the block that have been read
  format::BlockHeader header;
  const RandomAccessFile* mapped = nullptr;   // the file, when the block lies in its memory map
  const RandomAccessFile* shown = nullptr;    // the file last read through this buffer; values may lie in its map
  std::vector<uint8_t> wanted;                // per column: scratch
  std::vector<container::PagedColumn> paged;  // per column: of those wanted
  BlockView view;

  // Of the caller, while a block is read; null for others. `shown` is then the file that blobs were left in.
  container::PageCacheRead* page_cache = nullptr;
  // Keeps a shard open whose memory map holds a value: the dataset's cache may drop the shard at any time.
  std::shared_ptr<const void> pinned;

  void Pin(std::shared_ptr<const void> shard) {
    if (pinned != shard) mapped = nullptr;
    pinned = std::move(shard);
    shown = nullptr;  // its file may have been closed with the shard pinned before
  }

  // The blocks of column files of which `view` shows columns.
  std::deque<BlockBuffer> parts;

  // Keeps what a view shows of the index of a tar: keys.
  std::shared_ptr<const void> listed;

  // Which reader (0 for none) and which block `view` belongs to: further values of that block are read from memory.
  uint64_t owner = 0;
  size_t block = 0;

  // Which reader (0 for none) has checked the page at which byte of its file: its other values need no read. If the
  // file is not mapped, the page is in `page`. Of MDS, whose samples lie whole one behind another, this is a sample.
  uint64_t page_owner = 0;
  uint64_t page_begin = 0;
};

}  // namespace shardkit

namespace shardkit::container {

// A number above 0, different for every reader of the program. An address would not do: a buffer can outlive a reader,
// and a new reader can get the address of an old one. Thread-safe.
uint64_t NewReaderIdentity();

// The pages of a memory map that a block lay in. They count as memory of the process until LetGo.
struct MappedRange {
  std::shared_ptr<const void> pinned;  // keeps the file open
  const RandomAccessFile* file = nullptr;
  uint64_t offset = 0;
  uint64_t length = 0;

  // The bytes stay valid for other users.
  void LetGo() const {
    if (file != nullptr) file->WontNeed(offset, length);
  }
};

// Makes the buffer forget its block, which a DatasetReader has read. Keeps the memory for later blocks. The range is
// empty unless the block lies in a memory map.
MappedRange ForgetBlock(BlockBuffer& buffer);

}  // namespace shardkit::container
