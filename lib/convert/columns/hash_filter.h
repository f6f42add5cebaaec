// Tells most keys that no row has.
#pragma once

#include <cstdint>
#include <vector>

namespace shardkit::convert {

// May take a hash for one that was added: one in forty with ten million of them, more with more. Takes 16 MiB.
class HashFilter {
 public:
  void Add(uint64_t hash) { words_[Word(hash)] |= Bits(hash); }
  bool MayHave(uint64_t hash) const { return (words_[Word(hash)] & Bits(hash)) == Bits(hash); }

 private:
  static constexpr size_t kWords = size_t{1} << 21;

  static size_t Word(uint64_t hash) { return hash % kWords; }
  static uint64_t Bits(uint64_t hash) { return uint64_t{1} << (hash >> 58) | uint64_t{1} << (hash >> 52 & 63); }

  std::vector<uint64_t> words_ = std::vector<uint64_t>(kWords);
};

}  // namespace shardkit::convert
