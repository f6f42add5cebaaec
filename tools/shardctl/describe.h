// One-line descriptions of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "json.h"
#include "shardkit/history.h"
#include "shardkit/schema.h"

namespace shardctl {

struct Description {
  std::string text;  // "1500x2250, 3 components, baseline"
  Json json;         // the same as members of an object
};

// The number of bytes of a byte string that DescribeValue needs. It is enough for the markers of any sensible JPEG
// file.
inline constexpr uint64_t kFrontBytes = uint64_t{16} << 20;

// At most `limit` bytes of text, without cutting a character of UTF-8.
std::string_view TextFront(std::string_view text, size_t limit);

// What a generation did: "append (samples 40; shards 2)", "columns (add caption)". Names are as they are.
std::string DescribeOperation(const shardkit::DatasetOperation& operation);

// Describes a stored value of `column` that has `length` bytes. For a byte string, `value` may hold only the first
// kFrontBytes. A value that does not fit its type is not an error: the description says so.
Description DescribeValue(const shardkit::Column& column, std::string_view value, uint64_t length);

}  // namespace shardctl
