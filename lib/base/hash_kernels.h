// Entry points of the builds of XXH3 for one instruction set; hash.cc chooses among them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardkit::internal {

uint64_t Hash64Avx2(const void* data, size_t length);

// `state` is an XXH3_state_t. The headers and the linked library are of the same xxHash release, so its layout is the
// same.
void UpdateAvx2(void* state, const void* data, size_t length);

}  // namespace shardkit::internal
