#include "dataset/read/block_scanner.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "container/block_buffer.h"
#include "dataset/read/forward_read_queue.h"
#include "dataset/select/block_skipper.h"

namespace shardkit::dataset {
namespace {

// Limits the number of blocks in memory. Their buffers go from the reading threads to the consumer and back. Outlives
// the scanner while the consumer holds blocks.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  SlotPool(int64_t count, std::shared_ptr<BufferPool> reserve) : free_(count), reserve_(std::move(reserve)) {}

  // Null when all are in use. The slot is free again when the buffer is destroyed.
  std::shared_ptr<BlockBuffer> Acquire() {
    {
      std::lock_guard lock(mutex_);
      if (free_ == 0) return nullptr;
      --free_;
    }
    return {new BlockBuffer(reserve_->Take()), [pool = shared_from_this()](BlockBuffer* buffer) {
              pool->Release(std::move(*buffer));
              delete buffer;
            }};
  }

 private:
  void Release(BlockBuffer buffer) {
    reserve_->Give(std::move(buffer));
    std::lock_guard lock(mutex_);
    ++free_;
  }

  std::mutex mutex_;
  int64_t free_;
  const std::shared_ptr<BufferPool> reserve_;
};

class OrderedScanner : public BlockScanner {
 public:
  using Result = absl::StatusOr<std::unique_ptr<ScannedBlock>>;

  OrderedScanner(const ShardListReader& list, ShardCache& shards, std::shared_ptr<BufferPool> reserve,
                 const ScanOptions& options, const ManifestSummary& summary, CompleteBlock complete)
      : list_(list),
        shards_(shards),
        options_(options),
        summary_(summary),
        complete_(std::move(complete)),
        ahead_(std::max({options.blocks_ahead, options.threads, 1})),
        slots_(std::make_shared<SlotPool>(int64_t{ahead_} + std::max(options.most_held, 1), std::move(reserve))),
        threads_(options.threads),
        // Without threads, blocks are read when they are asked for.
        reading_(threads_, "reading blocks", nullptr, options.threads == 0 ? 1 : static_cast<size_t>(ahead_)) {}

  Result Next() override {
    if (!failed_.ok()) return failed_;
    auto result = NextBlock();
    while (result.ok() && *result && complete_ && (*result)->view().sample_count() == 0) result = NextBlock();
    if (!result.ok()) {
      failed_ = result.status();
      reading_.Stop();
    }
    return result;
  }

 private:
  Result NextBlock() {
    while (!reading_.full()) {
      SHARDKIT_ASSIGN_OR_RETURN(const bool more, FindNext());
      if (!more) break;
      std::shared_ptr<BlockBuffer> buffer = slots_->Acquire();
      if (!buffer) {
        if (reading_.empty()) return TooManyHeld();
        break;
      }
      reading_.Add([this, buffer = std::move(buffer), shard = shard_, block = block_, first = shard_first_sample_,
                    turn = ForwardReadQueue::Turn(turns_, shard_, block_)]() mutable {
        return Read(std::move(buffer), shard, block, first, &turn);
      });
      ++block_;
    }
    if (reading_.empty()) return nullptr;
    return reading_.Take().result;
  }

  Result Read(std::shared_ptr<BlockBuffer> buffer, size_t shard, size_t block, uint64_t shard_first_sample,
              ForwardReadQueue::Turn* turn) {
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_.Get(shard));
    buffer->state().Pin(open);
    if (open->reader->forward_only()) turn->Await();
    BlockView view;
    SHARDKIT_RETURN_IF_ERROR(At(open->ReadBlock(block, buffer.get(), &view), {.shard = shard, .block = block}));
    uint64_t first_sample = shard_first_sample + view.first_sample();
    if (complete_) SHARDKIT_RETURN_IF_ERROR(complete_(&first_sample, buffer.get(), &view));
    return std::make_unique<ScannedBlock>(std::move(buffer), std::move(view), first_sample, shard, block);
  }

  absl::Status TooManyHeld() const {
    return FailedPrecondition("block scanner: all ", int64_t{ahead_} + std::max(options_.most_held, 1),
                              " blocks of memory are held; release one before asking for more");
  }

  // Moves shard_ and block_ to the next block to be read; false at the end.
  absl::StatusOr<bool> FindNext() {
    if (!std::exchange(begun_, true)) {
      shard_ = list_.shard_count();
      if (options_.first_sample < std::min(options_.end_sample, list_.sample_count())) {
        SHARDKIT_ASSIGN_OR_RETURN(const ShardListReader::Place place, list_.Locate(options_.first_sample));
        shard_ = place.number;
      }
    }
    for (; shard_ < list_.shard_count(); ++shard_, block_ = 0, entered_ = false) {
      if (!std::exchange(entered_, true)) {
        SHARDKIT_ASSIGN_OR_RETURN(const PlacedShard listed, list_.Get(shard_));
        if (listed.first_sample >= options_.end_sample) {
          shard_ = list_.shard_count();
          break;
        }
        shard_first_sample_ = listed.first_sample;
        next_shard_sample_ = listed.first_sample + listed.shard.samples;
        SHARDKIT_RETURN_IF_ERROR(ChooseBlocks(listed.shard));
      }
      while (block_ < end_block_ && !MayHaveSamples(block_)) ++block_;
      if (block_ < end_block_) return true;
    }
    return false;
  }

  absl::Status ChooseBlocks(const ManifestShard& shard) {
    const uint64_t first = std::max(options_.first_sample, shard_first_sample_);
    const uint64_t end = std::min(options_.end_sample, next_shard_sample_);
    end_block_ = 0;
    if (first >= end) return absl::OkStatus();
    end_block_ = shard.blocks;
    skipper_.reset();
    open_.reset();
    if (options_.samples != nullptr) {
      const auto next = std::ranges::lower_bound(*options_.samples, first);
      if (next == options_.samples->end() || *next >= end) {
        end_block_ = 0;
        return absl::OkStatus();
      }
    }
    if (options_.where || options_.samples != nullptr) {
      // A shard that cannot be opened fails when its first block is read, after the blocks before it.
      const auto open = shards_.Get(shard_);
      if (open.ok()) open_ = std::shared_ptr<const ShardReader>(*open, (*open)->reader.get());
    }
    if (options_.where && open_ != nullptr) {
      auto skipper = BlockSkipper::Create(open_, *options_.where, summary_);
      if (skipper.ok()) skipper_ = *std::move(skipper);
    }
    if (first == shard_first_sample_ && end == next_shard_sample_) return absl::OkStatus();
    SHARDKIT_ASSIGN_OR_RETURN(const auto open, shards_.Get(shard_));
    block_ = open->reader->BlockOfSample(first - shard_first_sample_);
    end_block_ = open->reader->BlockOfSample(end - 1 - shard_first_sample_) + 1;
    return absl::OkStatus();
  }

  // Whether the block of shard_ has a sample that is wanted, as far as that is known without reading it.
  bool MayHaveSamples(size_t block) const {
    if (skipper_ && !skipper_->MayMatch(block)) return false;
    if (options_.samples == nullptr || open_ == nullptr) return true;
    const BlockInfo& info = open_->blocks()[block];
    const uint64_t first = shard_first_sample_ + info.first_sample;
    const auto next = std::ranges::lower_bound(*options_.samples, first);
    return next != options_.samples->end() && *next < first + info.sample_count;
  }

  const ShardListReader& list_;
  ShardCache& shards_;
  const ScanOptions options_;
  const ManifestSummary& summary_;
  const CompleteBlock complete_;
  std::optional<BlockSkipper> skipper_;      // of shard_, when there is a condition
  std::shared_ptr<const ShardReader> open_;  // shard_, when blocks may be left out
  const int ahead_;
  size_t shard_ = 0;
  size_t block_ = 0;
  size_t end_block_ = 0;
  bool begun_ = false;    // whether shard_ is set
  bool entered_ = false;  // whether the range of blocks of shard_ is known
  uint64_t shard_first_sample_ = 0;
  uint64_t next_shard_sample_ = 0;
  absl::Status failed_;
  const std::shared_ptr<SlotPool> slots_;
  ForwardReadQueue turns_;
  ThreadPool threads_;
  OrderedTasks<Result> reading_;  // last: its destructor waits for tasks, which use the other members
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockScanner>> NewBlockScanner(const ShardListReader& list, ShardCache& shards,
                                                              std::shared_ptr<BufferPool> reserve,
                                                              const ScanOptions& options,
                                                              const ManifestSummary& summary, CompleteBlock complete) {
  if (options.threads < 0) return InvalidArgument("scan: ", options.threads, " threads");
  return std::make_unique<OrderedScanner>(list, shards, std::move(reserve), options, summary, std::move(complete));
}

}  // namespace shardkit::dataset
