// SplitMix64 of Steele, Lea and Flood, keyed by seed, epoch and sample. The header specifies its numbers, so they must
// never change.
#include "shardkit/image.h"

namespace shardkit {
namespace {

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;

constexpr uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

AugmentationRandom::AugmentationRandom(uint64_t seed, uint64_t epoch, uint64_t sample)
    : state_(Mix(Mix(Mix(seed + kGamma) + epoch + kGamma) + sample + kGamma)) {}

uint64_t AugmentationRandom::Next() { return Mix(state_ += kGamma); }

double AugmentationRandom::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double AugmentationRandom::Uniform(double low, double high) { return low + (high - low) * Uniform(); }

uint64_t AugmentationRandom::Below(uint64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{Next()} * count) >> 64);
}

}  // namespace shardkit
