// What a value is, in a line.
#pragma once

#include <string>
#include <string_view>

#include "json.h"
#include "shardkit/schema.h"

namespace shardctl {

struct Description {
  std::string text;  // "1500x2250, 3 components, baseline"
  Json json;         // the same as members of an object
};

// A stored value of `column`. A value that is not what its type says is described as such, never an error.
Description DescribeValue(const shardkit::Column& column, std::string_view value);

}  // namespace shardctl
