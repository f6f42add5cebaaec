// Random numbers and permutations that depend only on a key. They are the same on every machine and never change,
// because plans and cursors depend on each bit of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace shardkit::loader {

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
constexpr uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Makes a new key from a key, one for each purpose.
constexpr uint64_t Derive(uint64_t key, uint64_t purpose) { return Mix(key + 0x9e3779b97f4a7c15 * (purpose + 1)); }

// A number below `size` from a random word: the high word of their product, with a bias below size / 2^64.
constexpr uint64_t RandomBelow(uint64_t random, uint64_t size) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(random) * size >> 64);
}

// A bijection of [0, size) chosen by a key, evaluated at one point in constant time and memory. Up to 16 elements: any
// of the size! orders, equally often (Fisher, Yates), held in one word. Above: a Feistel network over the next power of
// two, repeated until the value is below size (Black, Rogaway: Ciphers with Arbitrary Finite Domains, 2002); on average
// it is repeated at most twice.
class Permutation {
 public:
  Permutation() = default;
  // `size` from 1 to 2^62.
  Permutation(uint64_t size, uint64_t key) : size_(size), key_(size <= kPacked ? PackedOrder(size, key) : key) {
    const int bits = std::bit_width(size - 1);
    low_bits_ = bits / 2;
    low_mask_ = (uint64_t{1} << low_bits_) - 1;
    high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
    rounds_ = bits > kFewBits ? 6 : 12;
  }

  uint64_t operator()(uint64_t index) const {
    if (size_ <= kPacked) return key_ >> 4 * index & 15;
    do {
      uint64_t low = index & low_mask_;
      uint64_t high = index >> low_bits_;
      for (uint64_t round = 0; round < rounds_; round += 2) {
        high ^= Scramble(low, round) & high_mask_;
        low ^= Scramble(high, round + 1) & low_mask_;
      }
      index = high << low_bits_ | low;
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr uint64_t kPacked = 16;
  // So few bits need more rounds: with 6, neighbours of 17 to 64 elements are uneven (chi-square per degree of freedom
  // 5 over 5 million keys).
  static constexpr int kFewBits = 8;

  static constexpr uint64_t PackedOrder(uint64_t size, uint64_t key) {
    uint64_t order = 0xfedcba9876543210;
    for (uint64_t i = size; i > 1; --i) {
      const uint64_t a = 4 * (i - 1), b = 4 * RandomBelow(Derive(key, i), i);
      const uint64_t difference = (order >> a ^ order >> b) & 15;
      order ^= difference << a;
      order ^= difference << b;
    }
    return order;
  }

  uint64_t Scramble(uint64_t half, uint64_t round) const {
    const uint64_t value = (half + key_ + round * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    const uint64_t mixed = (value ^ (value >> 32)) * 0x94d049bb133111eb;
    return mixed >> 32 ^ mixed >> 7;
  }

  uint64_t size_ = 0;
  uint64_t key_ = 0;  // up to kPacked elements: the order, four bits for each
  uint64_t low_mask_ = 0;
  uint64_t high_mask_ = 0;
  int low_bits_ = 0;
  uint32_t rounds_ = 0;
};

// 0 … size - 1 in random order (Fisher, Yates).
inline std::vector<uint32_t> ShuffledIndexes(uint32_t size, uint64_t key) {
  std::vector<uint32_t> indexes(size);
  std::iota(indexes.begin(), indexes.end(), 0u);
  for (uint32_t i = size; i > 1; --i) {
    std::swap(indexes[i - 1], indexes[static_cast<uint32_t>(RandomBelow(Derive(key, i), i))]);
  }
  return indexes;
}

}  // namespace shardkit::loader
