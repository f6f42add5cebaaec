// Random numbers whose sequence never changes. The standard library does not define the sequences of its distributions.
#pragma once

#include <bit>
#include <cstdint>

namespace shardctl {

// splitmix64 (Steele, Lea, Flood 2014): advances *state and returns the next output.
inline uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// xoshiro256** 1.0 (Blackman and Vigna 2018). Each (seed, stream, index) starts its own sequence, so that the output
// does not depend on how the work is divided among threads.
class SynthRandom {
 public:
  SynthRandom(uint64_t seed, uint64_t stream, uint64_t index) {
    uint64_t mixer = seed;
    mixer = SplitMix64(&mixer) ^ stream;
    mixer = SplitMix64(&mixer) ^ index;
    for (uint64_t& word : state_) word = SplitMix64(&mixer);
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound), to within one part in 2^32; `bound` is 1 to 2^32.
  uint64_t Below(uint64_t bound) { return ((Next() >> 32) * bound) >> 32; }

  // Uniform in [low, high], high - low < 2^32.
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }

  // True in `percent` of a hundred cases.
  bool Chance(int percent) { return Below(100) < static_cast<uint64_t>(percent); }

 private:
  uint64_t state_[4];
};

}  // namespace shardctl
