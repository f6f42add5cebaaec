// Compiled with AVX2 enabled. Called only after checking that the processor has it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash_kernels.h"

namespace shardkit::internal {

uint64_t Hash64Avx2(const void* data, size_t length) { return XXH3_64bits(data, length); }

void UpdateAvx2(void* state, const void* data, size_t length) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, length);
}

}  // namespace shardkit::internal
