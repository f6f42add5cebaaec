// Storage, the nodes' links to it, and their caches, in virtual time.
#pragma once

#include <cstdint>
#include <list>
#include <random>
#include <unordered_map>
#include <vector>

#include "absl/hash/hash.h"
#include "loader/block_table.h"
#include "shardkit/simulate.h"

namespace shardkit::loader {

// One thread at a time; `now` must not decrease. Times are seconds.
class SimulatedStorage {
 public:
  // `share`: of all nodes, those that are simulated; they have that share of the limits of all.
  SimulatedStorage(const SimulationOptions& options, uint64_t nodes, double share);

  // Sends the requests for `bytes` bytes of a block and returns when the last byte is there.
  double ReadBlock(double now, uint64_t node, const BlockKey& block, uint64_t bytes, SimulatedEpoch* counts);

  // One request for something that is not cached.
  double Read(double now, uint64_t node, uint64_t bytes, SimulatedEpoch* counts);

  // Seconds that each was busy so far: the link of the node that was busy longest, the storage, and its requests.
  double node_busy() const;
  double link_busy() const { return link_.busy; }
  double requests_busy() const { return requests_busy_; }

 private:
  // Serves one after another.
  struct Link {
    double rate = 0;  // bytes per second
    double free = 0;  // when all promised so far is through
    double busy = 0;

    double Pass(double begin, double bytes);
  };
  struct CachedBlock {
    double there = 0;
    uint64_t bytes = 0;
    std::list<BlockKey>::iterator place;  // in `used`
  };
  struct Node {
    Link link;
    std::unordered_map<BlockKey, CachedBlock, absl::Hash<BlockKey>> cached;
    std::list<BlockKey> used;  // the last used first
    uint64_t cached_bytes = 0;
  };

  double Request(double now, Node& node, uint64_t bytes, SimulatedEpoch* counts);
  double Fetch(double now, Node& node, uint64_t bytes, SimulatedEpoch* counts);

  const StorageModel model_;
  const uint64_t cache_bytes_;
  const double request_seconds_;  // between two that begin; 0: no limit
  std::mt19937_64 random_;
  std::vector<Node> nodes_;
  Link link_;
  double next_request_ = 0;
  double requests_busy_ = 0;
};

}  // namespace shardkit::loader
