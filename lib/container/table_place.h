// Where a table of checked pages lies. For what writes tables, too, which knows no reader.
#pragma once

#include <cstdint>

namespace shardkit::container {

struct TablePlace {
  uint64_t offset = 0;  // in the file
  uint64_t length = 0;
  uint64_t root = 0;  // bytes of root and tail when known, so that one read brings them; else 0
};

}  // namespace shardkit::container
