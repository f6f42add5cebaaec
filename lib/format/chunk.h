// Inside a chunk: presence bitmap, ends, values (format-spec/spec.md, sections 3.1 and 3.2).
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

}  // namespace shardkit::format
