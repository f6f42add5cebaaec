// The bytes of an MDS shard, version 2 (format-spec/interop.md): a table of offsets, a header in JSON, the samples.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "format/foreign/mds_encoding.h"

namespace shardkit::format {

// Enough of the file's beginning for MdsTableLength.
inline constexpr uint64_t kMdsCountBytes = 4;

// Bytes from the file's beginning to the end of its table of offsets. `head` has at least kMdsCountBytes unless the
// file is shorter. DataLoss when the table does not fit in the file.
absl::StatusOr<uint64_t> MdsTableLength(std::string_view head, uint64_t file_length);

// Where each sample begins, and where the last ends: absolute, never descending, within the file. `table` has the
// MdsTableLength bytes. The header in JSON lies between the table and the first of them.
absl::StatusOr<std::vector<uint32_t>> DecodeMdsOffsets(std::string_view table, uint64_t file_length);

// Bytes of lengths that a sample begins with.
uint64_t MdsHeadLength(std::span<const MdsColumn> columns);

// Where the values of a sample of `length` bytes lie in it: value i from places[i] to places[i + 1]. `head` has the
// first MdsHeadLength bytes, or all when there are fewer. `places` has one entry more than there are columns. DataLoss,
// naming the column, unless the values fill the sample exactly.
absl::Status SplitMdsSample(std::span<const MdsColumn> columns, std::string_view head, uint64_t length,
                            std::span<uint64_t> places);

}  // namespace shardkit::format
