// Random plans for tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "shardkit/plan.h"

namespace shardkit {

// Blocks of 1 to `most` samples, some empty ones among them, of random bytes.
inline PlanDataset RandomDataset(std::mt19937_64& random, uint64_t samples, uint32_t most) {
  PlanDataset dataset;
  for (uint64_t next = 0; next < samples;) {
    const uint32_t count = static_cast<uint32_t>(std::min<uint64_t>(random() % (most + 1), samples - next));
    dataset.blocks.push_back({next, count, 100 + random() % 5000});
    next += count;
  }
  return dataset;
}

inline PlanDataset EqualBlocks(uint64_t blocks, uint32_t samples, uint64_t bytes) {
  PlanDataset dataset;
  for (uint64_t i = 0; i < blocks; ++i) dataset.blocks.push_back({i * samples, samples, bytes});
  return dataset;
}

}  // namespace shardkit
