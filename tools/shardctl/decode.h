// Values as text that people and other programs read.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "shardkit/schema.h"
#include "shardkit/shard_reader.h"

namespace shardctl {

// Hands a stored value of `column` to `sink`, decoded, in pieces: masks as a list of COCO's {"size",
// "counts"} objects with compressed counts, arrays as {"dtype", "shape", "data"} with the elements flat,
// scalars as a line of text, byte strings as they are. DataLoss when the value is damaged.
absl::Status DecodeValue(const shardkit::Column& column, std::string_view value, const shardkit::ByteSink& sink);

}  // namespace shardctl
