// One rank's loader in virtual time: the engine's planner, block table and policies, without threads and bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "loader/engine/batch_task.h"
#include "loader/engine/block_table.h"
#include "loader/engine/reader_tuner.h"
#include "loader/open_datasets.h"
#include "loader/plan/batch_planner.h"
#include "shardkit/simulate.h"

namespace shardkit::loader {

// Storage, the nodes' links to it, and their caches, in virtual time.
//
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

// A rank's processors in virtual time. What there is to do shares them equally, as threads do.
//
// One thread at a time; `now` must not decrease. Times are seconds.
class SimulatedProcessors {
 public:
  using At = std::function<void(double time, std::function<void()> run)>;  // as SimulatedJob::at

  // `at` must outlive this.
  SimulatedProcessors(int count, const At& at) : count_(count), at_(at) {}

  // Calls `done` when `threads` threads have done what takes one processor so many seconds.
  void Work(double now, double seconds, int threads, std::function<void(double now)> done);

  double seconds() const { return seconds_; }  // of all processors together, given to Work so far

 private:
  struct Task {
    double end = 0;  // in each_
    uint64_t number = 0;
    int threads = 0;
    std::function<void(double)> done;

    bool operator<(const Task& other) const { return std::tie(other.end, other.number) < std::tie(end, number); }
  };

  double Rate() const { return std::min(1.0, static_cast<double>(count_) / threads_); }
  void Advance(double now);
  void AwaitNext();

  const int count_;
  const At& at_;
  std::priority_queue<Task> tasks_;
  uint64_t next_number_ = 0;
  int threads_ = 0;       // of all tasks
  double now_ = 0;        // of the last call
  double each_ = 0;       // seconds that a thread which was always there would have had
  uint64_t awaited_ = 0;  // calls of AwaitNext
  double seconds_ = 0;
};

// What all simulated ranks share.
struct SimulatedJob {
  const SimulationOptions& options;
  const Plan& plan;
  std::span<const BlockPlaces> places;
  std::vector<std::shared_ptr<const EpochOrder>> orders;  // made by the first rank that needs one
  absl::Status failure;                                   // of an order; nothing is planned after it
  std::vector<SimulatedEpoch> epochs;                     // of all simulated ranks
  SimulatedStorage storage;
  uint64_t steps = 0;  // of all epochs
  // Runs the function at that time; those of one time in the order of the calls.
  std::function<void(double time, std::function<void()> run)> at;
};

// One thread at a time. `now` is the time of the call, in seconds.
class SimulatedRank {
 public:
  // `job` must outlive this.
  SimulatedRank(SimulatedJob& job, uint64_t rank, uint64_t world_size, uint64_t node);

  // Opens the dataset: reads its index, or of a dataset in sections what says where its shards are.
  void Open(double now);

  // Asks for the next batch. `take` is called when it is there.
  void Next(double now, std::function<void(double now)> take);

  uint64_t peak_block_memory() const { return blocks_.peak(); }
  double processor_seconds() const { return processors_.seconds(); }

 private:
  struct OpenShard {
    double open = 0;
    std::list<uint64_t>::iterator place;  // in shards_used_
  };

  void ReadInTurn(double now, std::vector<uint64_t> reads, SimulatedEpoch* counts);
  void Advance(double now);
  void Plan(double now);
  void StartReads(double now);
  void EndRead(double now, const std::shared_ptr<BlockEntry>& entry);
  void Decode(double now);
  void Deliver(double now);
  double OpenShardOf(double now, const BlockEntry& entry, SimulatedEpoch* counts);
  void SetReadAhead();
  void ReadSection(double now);
  uint64_t Oldest() const { return tasks_.empty() ? next_sequence_ : tasks_.front()->sequence; }

  SimulatedJob& job_;
  const uint64_t node_;
  const uint64_t sample_bytes_, block_bytes_, window_bytes_;
  const int slow_threads_, read_threads_;
  BatchPlanner planner_;
  BlockTable blocks_;
  ReaderTuner tuner_;
  bool open_ = false;
  uint64_t epoch_ = 0, step_ = 0;            // the next to plan
  std::shared_ptr<const EpochOrder> order_;  // used last
  uint64_t next_sequence_ = 0;
  std::deque<std::unique_ptr<BatchTask>> tasks_;
  std::set<BatchTask*, BySequence> complete_;
  uint64_t planned_samples_ = 0;
  int reading_ = 0;
  bool decoding_ = false, decoded_any_ = false;
  uint64_t ahead_bytes_ = 0;
  double bytes_read_ = 0;
  SimulatedProcessors processors_;
  std::function<void(double)> taker_;
  std::unordered_map<uint64_t, OpenShard> shards_;
  std::list<uint64_t> shards_used_;  // the last used first
};

}  // namespace shardkit::loader
