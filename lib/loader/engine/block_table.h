// The blocks that a loader wants, reads and holds, and the memory they take.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "container/block_buffer.h"
#include "loader/columns/assembly.h"
#include "shardkit/dataset_reader.h"

namespace shardkit::loader {

struct BatchTask;

// A block of one of the datasets.
struct BlockKey {
  uint32_t dataset = 0;
  uint32_t block = 0;  // of the dataset

  bool operator==(const BlockKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const BlockKey& key) {
    return H::combine(std::move(h), key.dataset, key.block);
  }
};

// A window of the order, whose samples are still being planned, needs a block.
struct WindowClaim {
  uint64_t epoch = 0;
  uint64_t window = 0;
  uint64_t uses = kUnknown;  // samples still to be planned; kUnknown when other ranks take some of them

  static constexpr uint64_t kUnknown = UINT64_MAX;
};

// kDraining: batches at work use it as it is; for all others it is to be read again.
enum class BlockState { kWanted, kReading, kReady, kDraining, kReleased };

struct BlockEntry {
  BlockKey key;
  DatasetBlock place;
  uint64_t id = 0;
  BlockState state = BlockState::kWanted;
  std::vector<WindowClaim> claims;
  bool begun = false;  // a batch that needs it was laid out: it is no longer ahead
  bool read_before = false;
  uint64_t kept_since = 0;        // see BlockTable::KeepUpTo; 0 while it is in use
  std::deque<BatchTask*> tasks;   // batches in flight that need it, in plan order
  uint32_t holders = 0;           // delivered batches that point into its memory
  uint64_t charged = 0;           // bytes
  uint64_t page_cache_bytes = 0;  // of values that are in the file only (PageCacheValues)
  bool may_leave = false;         // the block will not stay in memory for later windows
  bool for_first_batch = false;   // of the loader
  bool left_for_first_batch() const { return for_first_batch && !may_leave && page_cache_bytes > 0; }
  uint64_t buffer_before = 0;  // bytes of the buffer when reading began
  uint64_t estimate = 0;       // bytes, while it is wanted

  // Set while reading. Other threads read them when the entry is ready.
  BlockBuffer buffer;
  BlockView view;
  container::PageCacheRead page_cache;
  std::unique_ptr<SalvagedBlock> salvage;
  absl::Status status;

  // For planning: the last batch that planned the block, and the block's index in that batch.
  uint64_t planned_by = UINT64_MAX;
  uint32_t index_in_batch = 0;
};

// Not thread-safe: the engine's mutex guards it.
class BlockTable {
 public:
  // `dataset_bytes`: the blocks of each dataset, as stored.
  BlockTable(uint64_t memory_limit, std::vector<uint64_t> dataset_bytes)
      : share_(memory_limit),
        limit_(memory_limit),
        dataset_bytes_(std::move(dataset_bytes)),
        expansion_(dataset_bytes_.size(), kExpansionUnknown) {}

  // Blocks are read ahead of their first batch up to this sum of bytes, and one block more. Blocks of the next batches
  // (kSoon) are read at once. Until the first call there is no such limit.
  void ReadAhead(uint64_t bytes) { ahead_limit_ = bytes; }

  // When all blocks together take at most so many bytes, blocks that no window claims stay in memory for later windows
  // as long as there is room. Blocks in a memory map are read again: the map may show other bytes by then.
  void KeepUpTo(uint64_t bytes) { keep_limit_ = bytes; }

  // Lends `bytes` of the limit to batches, until called again. Drops blocks that batch `oldest` does not need and that
  // no batch works on. Then batches that had all their blocks may miss some again.
  void Lend(uint64_t bytes, uint64_t oldest);

  // The entry of a block. Makes one when there is none.
  std::shared_ptr<BlockEntry> Get(const BlockKey& key, absl::FunctionRef<DatasetBlock()> place);

  // Adds the batch, which is the last one planned so far, to those that need the entry. Counts its missing blocks.
  void Need(BlockEntry& entry, BatchTask& task);

  // The window is over. The entry is released when no other window and no batch in flight needs it.
  void Retire(BlockEntry& entry, uint64_t epoch, uint64_t window);

  // Returns the next block to read, now in state kReading and with a buffer, or null when there is none, no room, or
  // enough was read ahead.
  // Reads only one block at a time of a shard that is forward_only(), so that they are read in the order of the
  // batches. Batch `oldest` always gets room: other blocks are dropped as in Lend and become wanted again, or the limit
  // is exceeded.
  std::shared_ptr<BlockEntry> BeginRead(uint64_t oldest);

  // Whether blocks were dropped since the last call. Then batches that had all their blocks may miss some.
  bool TakeDropped() { return std::exchange(dropped_, false); }

  // Call when the entry is ready or has failed. Returns the batches that no longer miss any block.
  std::vector<BatchTask*> EndRead(BlockEntry& entry);

  // A batch that needs the entry is laid out.
  void Begin(BlockEntry& entry) {
    if (!std::exchange(entry.begun, true)) ahead_bytes_ -= entry.charged + entry.page_cache_bytes;
  }

  // The batch no longer needs the entry.
  void Done(BlockEntry& entry, const BatchTask& task);

  // The batch was at work and is no more, and has not begun to use its blocks. It may miss some again.
  void PutOff(BatchTask& task);

  // A delivered batch begins (Hold) or ends (Unhold) to point into the entry's memory.
  void Hold(BlockEntry& entry) { ++entry.holders; }
  void Unhold(BlockEntry& entry);

  uint64_t share() const { return share_; }
  // Bytes held, with free buffers and blocks kept. planned() are the bytes of blocks in use and wanted.
  uint64_t held() const { return held_; }
  // Bytes beyond the limit.
  uint64_t over() const { return in_use() > share_ ? in_use() - share_ : 0; }
  uint64_t planned() const { return in_use() + wanted_bytes_; }
  bool anything_wanted() const { return !wanted_.empty(); }
  // Whether a wanted block can be read now, without waiting for its turn in a forward_only() shard.
  bool anything_readable() const { return NextReadable() != wanted_.end(); }
  // The same, when the blocks read ahead of batch `oldest` are not enough yet.
  bool anything_due(uint64_t oldest) const;
  uint64_t peak() const { return peak_; }
  uint64_t read_again() const { return read_again_; }

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // first batch that needs it, id

  static constexpr double kExpansionUnknown = -1;  // no block of the dataset has been read yet

  static constexpr uint64_t kSoon = 4;  // batches

  std::set<Place>::const_iterator NextReadable() const;
  bool Early(uint64_t sequence, uint64_t oldest) const {
    return sequence > oldest + kSoon && ahead_bytes_ >= ahead_limit_;
  }
  uint64_t in_use() const { return held_ - free_bytes_ - kept_bytes_; }
  uint64_t Estimate(const BlockEntry& entry) const;
  void AddWanted(BlockEntry& entry);
  void Charge(BlockEntry& entry, uint64_t bytes);
  void TakeBuffer(BlockEntry& entry);
  void GiveBuffer(BlockEntry& entry);
  void ReleaseIfUnused(BlockEntry& entry);
  void Forget(BlockEntry& entry);
  bool FitsToKeep() const;
  bool WorthKeeping(BlockEntry& entry) const;
  void Unkeep(BlockEntry& entry);
  void DropKept(uint64_t room);
  void BeginDrain(BlockEntry& entry);
  void EndDrain(BlockEntry& entry);
  void LearnExpansion(const BlockEntry& entry);
  void EstimateAgain(uint32_t dataset);
  void DropFreeBuffers();
  void DropKeptMaps();
  bool DropBlock(uint64_t oldest);

  const uint64_t share_;
  uint64_t limit_;  // what is left of share_
  const std::vector<uint64_t> dataset_bytes_;
  std::vector<double> expansion_;  // by dataset: memory of its blocks divided by their bytes in the file
  // Not one of Abseil's tables, which do not survive it when there is no memory for them to grow.
  std::unordered_map<BlockKey, std::shared_ptr<BlockEntry>, absl::Hash<BlockKey>> entries_;
  std::set<Place> wanted_;
  std::set<std::pair<uint32_t, uint32_t>> in_turn_;  // (dataset, shard) of forward_only() shards that are being read
  std::unordered_map<uint64_t, BlockEntry*> by_id_;
  uint64_t wanted_bytes_ = 0;
  uint64_t next_id_ = 0;
  std::vector<BlockBuffer> free_;
  uint64_t free_bytes_ = 0;
  uint64_t keep_limit_ = 0;
  std::map<uint64_t, BlockEntry*> kept_;  // by kept_since: blocks in memory that no window claims
  uint64_t kept_bytes_ = 0;
  uint64_t last_kept_ = 0;
  std::deque<container::MappedRange>
      kept_maps_;  // of released blocks, oldest first: the next epoch need not map them again
  uint64_t kept_map_bytes_ = 0;
  uint64_t ahead_limit_ = UINT64_MAX;
  uint64_t ahead_bytes_ = 0;  // of blocks in memory that no batch has begun to use, and of values that they left
  uint64_t held_ = 0;         // free buffers included
  uint64_t peak_ = 0;
  uint64_t read_again_ = 0;
  bool dropped_ = false;
};

// Whether the first batch, while it is the oldest, comes first: others would share the network and the processors with
// it. They are asked for when half of its blocks have come, so that there is no pause. Where reads do not wait they
// only take processors, so that they rest while the batch is made.
bool FirstBatchFirst(const BatchTask& oldest, bool reads_wait);

}  // namespace shardkit::loader
