// The bytes of an MDS shard, version 2 (format-spec/interop.md): a table of offsets, a JSON header, the samples.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "foreign/mds/mds_encoding.h"

namespace shardkit::foreign {

// How many bytes from the start of the file MdsTableLength needs.
inline constexpr uint64_t kMdsCountBytes = 4;

// Bytes from the file's beginning to the end of its table of offsets. `head` has at least kMdsCountBytes unless the
// file is shorter. DataLoss when the table does not fit in the file.
absl::StatusOr<uint64_t> MdsTableLength(std::string_view head, uint64_t file_length);

// Returns where each sample begins, and where the last one ends: offsets in the file, never descending, not past its
// end. `table` is the first MdsTableLength bytes of the file. The JSON header lies between the table and the first
// sample.
absl::StatusOr<std::vector<uint32_t>> DecodeMdsOffsets(std::string_view table, uint64_t file_length);

// Bytes of the value lengths at the start of a sample.
uint64_t MdsHeadLength(std::span<const MdsColumn> columns);

// Finds the values in a sample of `length` bytes: value i lies from places[i] to places[i + 1]. `head` is the first
// MdsHeadLength bytes of the sample, or the whole sample when it is shorter. `places` has one entry more than
// `columns`. DataLoss, naming the column, unless the values fill the sample exactly.
absl::Status SplitMdsSample(std::span<const MdsColumn> columns, std::string_view head, uint64_t length,
                            std::span<uint64_t> places);

}  // namespace shardkit::foreign
