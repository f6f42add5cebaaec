// Entry points of the per-instruction-set builds of XXH3; see hash.cc for the choice among them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardkit::internal {

uint64_t Hash64Avx2(const void* data, size_t length);

// `state` is an XXH3_state_t of the same xxHash release: the headers are those of the library linked.
void UpdateAvx2(void* state, const void* data, size_t length);

}  // namespace shardkit::internal
