#include "base/hash.h"

// xxHash's functions, of which it chooses those for this processor. Elsewhere than on x86 it has nothing to choose
// from.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <immintrin.h>
#include <xxh_x86dispatch.h>
#define SHARDKIT_HASH_DISPATCH
#else
#include <xxhash.h>
#endif

#include <cstring>
#include <new>

namespace shardkit {
namespace {

Hash128Bytes ToBytes(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Hash128Bytes out;
  static_assert(sizeof(canonical.digest) == sizeof(out));
  std::memcpy(out.data(), canonical.digest, out.size());
  return out;
}

// While it lives, xxHash may use wide registers. Its functions for AVX-512 (0.8.1) leave their upper halves set, and
// until those are cleared all SSE code runs slower: a random value of 4 KiB took a tenth longer.
class WideRegisters {
 public:
#ifdef SHARDKIT_HASH_DISPATCH
  ~WideRegisters() {
    static const bool has_avx = __builtin_cpu_supports("avx") != 0;
    if (has_avx) Clear();
  }

 private:
  __attribute__((target("avx"))) static void Clear() { _mm256_zeroupper(); }
#else
  ~WideRegisters() {}  // not trivial, so that no compiler calls the object unused
#endif
};

}  // namespace

uint64_t SeededHash64(std::string_view bytes, uint64_t seed) {
  const WideRegisters wide;
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t Hash64(const void* data, size_t length) {
  const WideRegisters wide;
  return XXH3_64bits(data, length);
}

Hash128Bytes Hash128(std::string_view bytes) {
  const WideRegisters wide;
  return ToBytes(XXH3_128bits(bytes.data(), bytes.size()));
}

// xxHash has one state for both digests; its functions of 128 bits that reset and update are those of 64 bits.
struct StreamingHash::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
};

StreamingHash::StreamingHash() : state_(std::make_unique<State>()) {}
StreamingHash::~StreamingHash() = default;
StreamingHash::StreamingHash(StreamingHash&&) noexcept = default;
StreamingHash& StreamingHash::operator=(StreamingHash&&) noexcept = default;
void StreamingHash::Update(std::string_view bytes) {
  const WideRegisters wide;
  XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size());
}
uint64_t StreamingHash::Digest() const { return XXH3_64bits_digest(state_->xxh); }
Hash128Bytes StreamingHash::Digest128() const { return ToBytes(XXH3_128bits_digest(state_->xxh)); }
void StreamingHash::Reset() { XXH3_64bits_reset(state_->xxh); }

}  // namespace shardkit
