// How far the loader plans and reads ahead, and with how many threads. Pure: the engine and its simulation ask here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardkit/plan.h"

namespace shardkit::loader {

// The most reading threads that auto may come to: fast disks need that many requests in flight.
inline constexpr int kMostReadThreads = 16;

// Reading threads where even the quickest request takes so long, as behind a network; 0 where none does. Reading then
// begins with as many as it takes to have 128 MiB on their way: 2.5 GB/s with 50 ms. Finding that out thread by thread
// would take seconds.
inline int SlowReadThreads(double least_seconds, uint64_t block_bytes) {
  constexpr double kSlowSeconds = 0.001;
  constexpr uint64_t kInFlightBytes = uint64_t{128} << 20;
  constexpr uint64_t kMost = 64;
  if (least_seconds < kSlowSeconds) return 0;
  return static_cast<int>(std::clamp<uint64_t>(kInFlightBytes / block_bytes, 1, kMost));
}

// Stored bytes of each dataset.
inline std::vector<uint64_t> StoredBytes(const Plan& plan) {
  std::vector<uint64_t> bytes;
  for (const PlanDataset& dataset : plan.datasets()) bytes.push_back(dataset.bytes());
  return bytes;
}

// Of a block, on average.
inline uint64_t BlockBytes(const Plan& plan) {
  uint64_t blocks = 0, bytes = 0;
  for (const PlanDataset& dataset : plan.datasets()) {
    blocks += dataset.block_count();
    bytes += dataset.bytes();
  }
  return blocks == 0 ? 1 : bytes / blocks + 1;
}

// Of a lane.
inline uint64_t WindowBytes(const Plan& plan) {
  const PlanOptions& options = plan.options();
  return options.order == SampleOrder::kSequential ? 0 : options.shuffle_buffer_bytes / plan.lanes();
}

// The share of a loader's memory that blocks have; batches have the rest.
inline uint64_t BlockMemory(uint64_t memory_bytes) { return memory_bytes / 8 * 5; }

// What is read ahead of the batches hides the time of a read, so that it follows the number of reads at once, which
// grows with latency: while one set of blocks is used, the next is being read. In a shuffled order it also is a lane's
// window, because all its blocks are needed at the same time. At least few enough bytes that they are still in the
// processor's cache when a batch is made of them: memory used again costs less than memory touched for the first time.
inline uint64_t ReadAheadBytes(uint64_t window_bytes, int threads, uint64_t block_bytes) {
  constexpr uint64_t kLeast = uint64_t{8} << 20;
  constexpr uint64_t kReadsAhead = 2;
  return window_bytes + std::max(kLeast, static_cast<uint64_t>(threads) * kReadsAhead * block_bytes);
}

// What datasets may take that stay in memory: all that there is, when reads wait for a device.
inline uint64_t KeptBytes(bool from_device, uint64_t block_memory, uint64_t shuffled_bytes) {
  constexpr uint64_t kKept = uint64_t{64} << 20;
  return from_device ? block_memory : std::max(kKept, shuffled_bytes);
}

// Until a batch can be laid out, the decoding threads have nothing to do, and as many more threads may read as have
// room for blocks of which it is not known yet what they take.
inline int FirstReadThreads(int threads, int decode_threads, int most, uint64_t block_memory, uint64_t block_bytes) {
  constexpr uint64_t kUnknownBlocks = 8;  // the first ones are taken for so many, with twice that room
  const uint64_t room = block_memory / (kUnknownBlocks * block_bytes);
  return std::max(threads, static_cast<int>(std::min(room, static_cast<uint64_t>(std::min(decode_threads, most)))));
}

// Whether one more batch may be planned: `planned_bytes` of blocks are in use or wanted. Enough samples to ask early
// for blocks of thousands of tiny ones, few enough to bound memory. With `much`, whether many may.
inline bool RoomToPlan(uint64_t planned_bytes, uint64_t memory_bytes, uint64_t samples, size_t batches, bool much) {
  constexpr uint64_t kMostSamples = 1 << 16;
  constexpr size_t kMostBatches = 4096;
  const uint64_t eighths = much ? 7 : 8;
  return batches == 0 || (planned_bytes < memory_bytes / 16 * eighths && samples < kMostSamples / 8 * eighths &&
                          batches < kMostBatches / 8 * eighths);
}

// Bytes of batches made ready before their turn: enough to balance the work, and few enough that small batches are
// still in the processor's cache when they are read.
inline uint64_t BatchesAheadBytes(uint64_t batch_bytes) {
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  constexpr uint64_t kBatches = 4;
  return std::max(kBytes, kBatches * batch_bytes);
}

}  // namespace shardkit::loader
