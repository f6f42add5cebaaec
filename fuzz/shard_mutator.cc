// Mutates shards and usually repairs their checksums.

#include "support/mutate.h"
#include "support/repair_checksums.h"

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 == 0) return mutated;
  std::string shard(reinterpret_cast<const char*>(data), mutated);
  shardkit::fuzz::RepairShard(&shard);
  return shardkit::fuzz::PutBack(shard, data, max_size);
}
