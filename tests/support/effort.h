// The amount of work of exhaustive and random tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace shardkit::test {

// These tests take one of SHARDKIT_TEST_STEP cases; the default of 1 takes all cases. tests/run sets a larger step, for
// builds with a sanitizer a yet larger one, because there a case takes several times as long. tests/nightly takes all.
inline uint64_t TestStep() {
  const char* const step = std::getenv("SHARDKIT_TEST_STEP");
  return step != nullptr ? std::max<uint64_t>(std::strtoull(step, nullptr, 10), 1) : 1;
}

// The number of rounds to do, out of `rounds`.
inline int Thinned(int rounds) {
  return static_cast<int>(std::max<uint64_t>(static_cast<uint64_t>(rounds) / TestStep(), 1));
}

}  // namespace shardkit::test
