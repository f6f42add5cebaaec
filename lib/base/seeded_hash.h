// XXH3-64 with a seed, for choices that others must be able to repeat: XXH3_64bits_withSeed of the xxHash library.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardkit {

uint64_t SeededHash64(std::string_view bytes, uint64_t seed);

}  // namespace shardkit
