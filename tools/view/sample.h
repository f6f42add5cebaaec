// Everything about one sample.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "view/http.h"
#include "view/viewed_dataset.h"
#include "view/workspace.h"

namespace shardctl {

// Its place, and for each column what the value is. A value that cannot be read has an error in its place. OutOfRange
// past the end.
absl::StatusOr<Json> DescribeSample(const Snapshot& snapshot, uint64_t ordinal, WorkspacePool& pool);

// The bytes of a value, for a browser to show, or to store when `download` is true. NotFound for an absent one.
absl::StatusOr<Reply> GiveValue(std::shared_ptr<const Snapshot> snapshot, uint64_t ordinal, size_t column,
                                bool download, WorkspacePool& pool);

// The elements of an array, at most 65,536, with their extremes and mean. InvalidArgument for another column.
absl::StatusOr<Json> GiveArray(const Snapshot& snapshot, uint64_t ordinal, size_t column, WorkspacePool& pool);

// The runs of the masks, in words of 32 bits, little-endian: how many masks there are; height, width and number of runs
// of each; then the runs of one after another.
absl::StatusOr<std::string> GiveMasks(const Snapshot& snapshot, uint64_t ordinal, size_t column, WorkspacePool& pool);

}  // namespace shardctl
