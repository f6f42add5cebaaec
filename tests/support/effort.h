// How much an exhaustive or random test does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace shardkit::test {

// Such a test takes every so many of its cases: SHARDKIT_TEST_STEP, or 1, all of them. tests/run sets it for the builds
// with a sanitizer, in which a case takes several times as long; that all cases are right is the other builds' matter.
inline uint64_t TestStep() {
  const char* const step = std::getenv("SHARDKIT_TEST_STEP");
  return step != nullptr ? std::max<uint64_t>(std::strtoull(step, nullptr, 10), 1) : 1;
}

// Of so many rounds, those to do.
inline int Thinned(int rounds) {
  return static_cast<int>(std::max<uint64_t>(static_cast<uint64_t>(rounds) / TestStep(), 1));
}

}  // namespace shardkit::test
