// Keys for samples that have none.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace shardkit::dataset {

// The key of a sample of a dataset without a key column: its ordinal, in twelve digits at least.
inline std::string NumberAsKey(uint64_t ordinal) {
  char text[24];
  std::snprintf(text, sizeof(text), "%012llu", static_cast<unsigned long long>(ordinal));
  return text;
}

}  // namespace shardkit::dataset
