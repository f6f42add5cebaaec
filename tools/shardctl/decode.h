// Values as text that people and other programs read.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "shardkit/schema.h"
#include "shardkit/shard.h"

namespace shardctl {

// Decodes a stored value of `column` and passes the result to `sink` in pieces. Masks become a list of COCO's {"size",
// "counts"} objects with compressed counts. Arrays become {"dtype", "shape", "data"} with a flat list of elements.
// Scalars become a line of text. Byte strings stay as they are. DataLoss when the value is damaged.
absl::Status DecodeValue(const shardkit::Column& column, std::string_view value, const shardkit::ByteSink& sink);

}  // namespace shardctl
