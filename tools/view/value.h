// What a value is, to a person and to a browser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardctl/json.h"
#include "shardkit/schema.h"

namespace shardctl {

// "image", "masks", "text", "json", "number", "boolean", "time", "array" or "bytes": how a page shows values of the
// column.
std::string ValueKind(const shardkit::Column& column);

// The same for a value of a column of bytes, which its first bytes tell: "image" and "text", or "bytes". Of other
// columns as above.
std::string ValueKind(const shardkit::Column& column, std::string_view front);

// The media type of a value, from the column's metadata and the first bytes. Only of those that a browser shows without
// running anything in them; else application/octet-stream. SVG and HTML are among the others.
std::string MediaType(const shardkit::Column& column, std::string_view front);

// The names of a column's classes (format-spec/registry.md), at most 65,536 of them. Empty where there are none, or
// where they are damaged or take more than 4 MiB.
std::vector<std::string> ShownClasses(const shardkit::Column& column);

// Metadata as an object. A value of more than 64 KiB is cut, and ends with "…".
Json ShownMetadata(const shardkit::Metadata& metadata);

// The class that a number means, or null.
Json ClassMeaning(const std::vector<std::string>& names, const Json& number);

// One line of at most 200 bytes. Of a text its beginning, of a number with classes the name as well.
std::string CaptionText(const shardkit::Column& column, const std::vector<std::string>& classes,
                        std::string_view value);

}  // namespace shardctl
