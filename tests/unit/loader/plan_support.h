// Random plans for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
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

// The same blocks, those with samples, as shards of up to `most` blocks, some empty ones among them, whose blocks are
// read when they are needed.
inline PlanDataset InShards(std::mt19937_64& random, PlanDataset dataset, uint32_t most) {
  std::erase_if(dataset.blocks, [](const PlanBlock& block) { return block.sample_count == 0; });
  const std::vector<PlanBlock> blocks = std::exchange(dataset.blocks, {});
  uint64_t sample = 0;
  for (uint32_t block = 0; block < blocks.size();) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(random() % (most + 1), blocks.size() - block));
    PlanShard shard{sample, 0, 0, block, count};
    for (; block < shard.first_block + count; ++block) {
      shard.sample_count += blocks[block].sample_count;
      shard.bytes += blocks[block].bytes;
    }
    sample += shard.sample_count;
    dataset.shards.push_back(shard);
  }
  dataset.read_blocks = [blocks](std::span<const PlanShard> shards) {
    std::vector<PlanBlock> read;
    for (const PlanShard& shard : shards) {
      read.insert(read.end(), blocks.begin() + shard.first_block,
                  blocks.begin() + shard.first_block + shard.block_count);
    }
    return read;
  };
  return dataset;
}

// All blocks, however the dataset holds them.
inline std::vector<PlanBlock> AllBlocks(const PlanDataset& dataset) {
  return dataset.shards.empty() ? dataset.blocks : *dataset.read_blocks(dataset.shards);
}

}  // namespace shardkit
