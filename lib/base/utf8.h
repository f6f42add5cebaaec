#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace shardkit {

// Whether the bytes are well-formed UTF-8 (Unicode 15, table 3-7).
bool ValidUtf8(std::string_view bytes);

// InvalidArgument, calling it `what`, when a name of a column or of metadata is not valid UTF-8, or has a NUL or a line
// feed: those would break the lines of listings.
absl::Status CheckName(std::string_view name, std::string_view what);

// The same for the name of a column, which has 1 to kMaxColumnNameBytes bytes.
absl::Status CheckColumnName(std::string_view name);

}  // namespace shardkit
