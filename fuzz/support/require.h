// Checks of the fuzz targets.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"

namespace shardkit::fuzz {

// Aborts when the condition is false, because the fuzzer reports only crashes as findings.
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
