// Samples as cells of a grid.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardctl/json.h"
#include "view/http.h"
#include "view/viewed_dataset.h"
#include "view/workspace.h"

namespace shardctl {

// What the cells show, from the parameters `captions`, one for each column, and `image`.
struct RowOptions {
  std::vector<std::string> captions;  // names of columns
  std::string image;                  // name of a column, or empty
};
RowOptions RowOptionsOf(const Request& request);

// `count` different samples, or all where there are fewer, as they are drawn. The same seed draws the same ones.
std::vector<uint64_t> DrawSamples(uint64_t samples, uint64_t count, uint64_t seed);

// A JSON array with an object for each sample: ordinal, key, captions, image, error. Values of neighbours are read
// together where they lie in one block. A value that cannot be read is an error of its sample alone. OutOfRange, with a
// list of the columns, when there is no such column.
absl::StatusOr<Json> ReadRows(const Snapshot& snapshot, std::span<const uint64_t> ordinals, const RowOptions& options,
                              WorkspacePool& pool);

}  // namespace shardctl
