#include "base/utf8.h"

#include "base/errors.h"
#include "shardkit/schema.h"

namespace shardkit {

absl::Status CheckName(std::string_view name, std::string_view what) {
  if (!ValidUtf8(name)) return InvalidArgument("a ", what, " is not valid UTF-8");
  if (name.find('\0') != name.npos || name.find('\n') != name.npos) {
    return InvalidArgument("a ", what, " has a NUL or a line feed, which names cannot have");
  }
  return absl::OkStatus();
}

absl::Status CheckColumnName(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxColumnNameBytes) return CheckName(name, "column name");
  return InvalidArgument("column name \"", name, "\" has ", name.size(), " bytes; 1 to ", kMaxColumnNameBytes,
                         " are allowed");
}

}  // namespace shardkit
