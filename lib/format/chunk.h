// Inside a chunk: presence bitmap, ends, values (format-spec/spec.md, sections 3.1 and 3.2); and chunks' checksums.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/hash.h"
#include "format/block_header.h"
#include "format/pages.h"
#include "shardkit/sample.h"
#include "shardkit/schema.h"

namespace shardkit::format {

// Where the parts of a decompressed head chunk begin.
struct HeadLayout {
  HeadLayout(const Column& column, uint32_t sample_count);

  uint64_t presence_bytes = 0;  // 0 unless nullable
  uint64_t ends_bytes = 0;      // 0 when fixed-size or paged
  // Where inline values begin, or the page table of a paged column; for a blob column, the length of the head.
  uint64_t values_offset = 0;
};

// Bytes of a decompressed head chunk that say which values are present and where they lie.
uint64_t StructureLength(const Column& column, uint32_t sample_count, uint64_t raw_length);

// Parses a head chunk of a column that is not paged. Its block header must have been checked. `values` is the values
// chunk of a blob column without its padding; it is ignored for an inline column. With a null `values`, the view of a
// blob column gives ends but no bytes. Checks that ends never descend and stay within the values, that absent values
// have no bytes, and that presence bits after the last sample are zero. DataLoss naming the sample.
//
// `structure` is a copy of the presence and the ends, for a head whose memory may change after the check. The view then
// reads presence and ends from the copy.
absl::StatusOr<ColumnView> ParseColumn(const Column& column, uint32_t sample_count, std::string_view head,
                                       std::string_view values, uint64_t values_length,
                                       const char* structure = nullptr);

// Parses the head chunk of a paged column, whose block header must have been checked. The table borrows `head`.
// DataLoss when presence bits after the last sample are not zero, and as PageTable::Parse.
absl::StatusOr<PageTable> ParsePagedHead(const Column& column, uint32_t sample_count, std::string_view head,
                                         uint64_t values_length);

// Compares the checksum after each present value of a blob column, or after one value. DataLoss naming the sample
// (within the block).
absl::Status CheckRecords(const ColumnView& view);
absl::Status CheckRecord(const ColumnView& view, uint32_t i);

// Checks the record of one value: bytes, then their checksum. Returns the bytes.
absl::StatusOr<std::string_view> OpenRecord(std::string_view record);

// Checks that the slots of absent values of a fixed-size column are zero. Only validation asks for this. DataLoss
// naming the sample.
absl::Status CheckAbsentSlots(const ColumnView& view);

// Unimplemented, saying how to leave the column out, when its codec is not known: its values cannot be read.
absl::Status CheckCodec(const Column& column);

bool AllZero(std::string_view bytes);

// Checks the chunk checksums of a block while its bytes are read in order. Uses the stored bytes only and decompresses
// nothing. One thread at a time.
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
