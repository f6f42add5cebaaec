// Oracles of the fuzz targets.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"

namespace shardkit::fuzz {

// A finding: the fuzzer reports an abort, a wrong result would pass unseen.
inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: not so: %s\n", what);
  std::abort();
}

inline void RequireOk(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "fuzz: %s: %s\n", what, status.ToString().c_str());
  std::abort();
}

}  // namespace shardkit::fuzz
