// What a value is, in a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "json.h"
#include "shardkit/schema.h"

namespace shardctl {

struct Description {
  std::string text;  // "1500x2250, 3 components, baseline"
  Json json;         // the same as members of an object
};

// How much of a byte string DescribeValue wants to see: enough for the markers of any sensible JPEG file.
inline constexpr uint64_t kFrontBytes = uint64_t{16} << 20;

// A stored value of `column` of `length` bytes; of a byte string the first kFrontBytes are enough. A value
// that is not what its type says is described as such, never an error.
Description DescribeValue(const shardkit::Column& column, std::string_view value, uint64_t length);

}  // namespace shardctl
