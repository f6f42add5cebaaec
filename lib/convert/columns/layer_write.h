// Writing a layer.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "convert/columns/row_match.h"
#include "shardkit/change.h"
#include "shardkit/manifest.h"

namespace shardkit::convert {

// Writes the rows as the layer `name` of the dataset in input.directory, with these columns, the value of stored sample
// i being sample i of it; samples without a row have none. Its blocks end where blocks of the shards end. Sets `shards`
// and `bytes` of *report.
absl::StatusOr<Layer> WriteLayer(const MatchInput& input, const std::string& name, const Schema& schema,
                                 PlacedRows& rows, AddColumnsReport* report);

}  // namespace shardkit::convert
