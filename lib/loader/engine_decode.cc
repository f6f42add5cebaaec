// The decoding threads: which batch is laid out, filled and finished next, and by how many threads.
#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "loader/engine.h"
#include "loader/reading_policy.h"

namespace shardkit::loader {
void Engine::RunDecoder(int number) {
  const std::string name = StrCat("decode ", number);
  std::optional<WorkerScratch> scratch;
  absl::Status filled;
  Lock lock(mutex_);
  while (!stopped_.cancelled()) {
    const auto begin = Clock::now();
    if (!filling_.empty()) {
      BatchTask& task = **filling_.begin();
      const size_t first = task.next_sample;
      const size_t end = std::min(first + task.portion, task.kept.size());
      task.next_sample = end;
      if (end == task.kept.size()) filling_.erase(filling_.begin());
      lock.unlock();
      {
        const StageScope scope(trace_, observer_, "fill", name, task.sequence);
        filled = maker_.Fill(task, first, end, scratch);
      }
      lock.lock();
      task.status.Update(filled);
      if (task.blocks_done_early) ReleaseFilled(task, first, end);
      task.samples_filling -= end - first;
      if (task.samples_filling == 0) Finish(lock, task);
      decode_counter_.AddBusy(Clock::now() - begin);
    } else if (BatchTask* const task = TaskToLayOut()) {
      lock.unlock();
      {
        const StageScope scope(trace_, observer_, "lay out", name, task->sequence);
        maker_.LayOut(*task);
      }
      lock.lock();
      sample_estimate_ = task->used / std::max<size_t>(task->references.size(), 1) + 1;
      if (task != tasks_.front().get() && task->samples_filling > 0 && pool_->over() > 0) {
        PutOff(lock, *task);
      } else {
        ahead_bytes_ += task->charged;
        BalanceMemory();
        if (task->samples_filling > 0 && task->samples_filling <= task->portion) {
          // Small enough for one thread.
          lock.unlock();
          {
            const StageScope scope(trace_, observer_, "fill", name, task->sequence);
            filled = maker_.Fill(*task, 0, task->samples_filling, scratch);
          }
          task->samples_filling = 0;
          lock.lock();
          task->status.Update(filled);
        }
        StartFilling(lock, *task);
      }
      decode_counter_.AddBusy(Clock::now() - begin);
    } else {
      const Wait kind = complete_.empty() ? Wait::kStarved : Wait::kBlocked;
      int& waiting = kind == Wait::kStarved ? decoders_starved_ : decoders_blocked_;
      const auto wait = decode_counter_.BeginWait(kind);
      ++waiting;
      to_decode_.wait(lock);
      --waiting;
      decode_counter_.EndWait(kind, wait);
    }
  }
}

void Engine::WakeDecoders(size_t most) {
  const size_t waiting = static_cast<size_t>(decoders_starved_ + decoders_blocked_);
  for (size_t i = std::min(most, waiting); i > 0; --i) to_decode_.notify_one();
}

// Wakes decoders that had no room, once there is room for more than one batch, or when the next batch is the oldest.
void Engine::WakeBlockedDecoders() {
  if (decoders_blocked_ == 0 || complete_.empty()) return;
  const BatchTask& next = **complete_.begin();
  if (&next == tasks_.front().get() || ahead_bytes_ <= BatchesAheadBytes(BytesOf(next)) / 2) {
    WakeDecoders(static_cast<size_t>(decoders_blocked_));
  }
}

// What a batch will take. By the sample: the last batch of an epoch may be a small one, and is not to take the memory
// of a large one, which would then be made anew.
uint64_t Engine::BytesOf(const BatchTask& task) const {
  return task.needed != 0 ? task.needed : sample_estimate_ * task.references.size();
}

// Divides a batch that was laid out among the threads, or finishes it when nothing is left to fill.
void Engine::StartFilling(Lock& lock, BatchTask& task) {
  if (task.samples_filling == 0) return Finish(lock, task);
  filling_.insert(&task);
  WakeDecoders((task.samples_filling + task.portion - 1) / task.portion);
}

BatchTask* Engine::TaskToLayOut() {
  if (complete_.empty()) return nullptr;
  BatchTask* const task = *complete_.begin();
  const uint64_t bytes = BytesOf(*task);
  if (task != tasks_.front().get()) {
    if (ahead_bytes_ + bytes > BatchesAheadBytes(bytes)) return nullptr;
    if (!pool_->HasRoom(bytes)) return nullptr;
  }
  complete_.erase(complete_.begin());
  pool_->Reserve(task->charged = bytes);
  task->at_work = true;
  for (const auto& block : task->blocks) blocks_.Begin(*block);
  WakeReaders();
  return task;
}

// The batch is larger than the room there is, and nothing was written to its memory yet. It is laid out again when
// there is room, or when it is the oldest. The lock is held before and after the call.
void Engine::PutOff(Lock& lock, BatchTask& task) {
  task.needed = std::exchange(task.charged, 0);
  task.at_work = false;
  std::unique_ptr<BatchStorage> storage = std::move(task.storage);
  complete_.insert(&task);
  lock.unlock();  // from here on another thread may take the batch and deliver it
  pool_->Give(std::move(storage));
  lock.lock();
}

// The oldest batch, its blocks, and the batches that the consumer holds may take more than the share of batches or of
// blocks. Then the other share gives up what it does not need.
void Engine::BalanceMemory() {
  if (pool_->Lend(blocks_.over())) to_decode_.notify_all();
  blocks_.Lend(pool_->over(), Oldest());
  ForgetIncomplete();
}

// Removes batches from complete_ that miss a block again, because the block was dropped.
void Engine::ForgetIncomplete() {
  if (blocks_.TakeDropped()) std::erase_if(complete_, [](const BatchTask* task) { return task->missing > 0; });
}

// These samples are copied. Releases blocks that no other sample of the batch needs, before the batch is complete.
void Engine::ReleaseFilled(BatchTask& task, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const uint32_t index = task.references[task.kept[i]].block;
    if (--task.block_unfilled[index] > 0) continue;
    blocks_.Done(*task.blocks[index], task);
    task.blocks[index].reset();
    WakeReaders();
  }
}

// All samples are filled, or the batch has failed. The lock is held before and after the call.
void Engine::Finish(Lock& lock, BatchTask& task) {
  lock.unlock();
  if (task.status.ok() && !maker_.LeaveOut(task, task.assembly.TakeFailures()) && task.status.ok()) {
    const uint64_t before = task.charged;
    maker_.LayOut(task);
    lock.lock();
    ahead_bytes_ += task.charged - before;
    return StartFilling(lock, task);
  }
  if (task.status.ok() && !stopped_.cancelled()) task.status = maker_.Complete(task);
  lock.lock();
  const bool hold = maker_.holds_blocks() && task.storage != nullptr;  // no storage when there was no memory for it
  for (size_t i = 0; i < task.blocks.size(); ++i) {
    if (task.blocks[i] == nullptr) continue;
    if (hold) blocks_.Hold(*task.blocks[i]);
    blocks_.Done(*task.blocks[i], task);
  }
  if (hold) task.storage->held_ = std::move(task.blocks);
  task.blocks.clear();
  task.done = true;
  planned_samples_ -= task.references.size();
  WakePlanner();
  WakeReaders();
  if (&task == tasks_.front().get()) to_deliver_.notify_all();
}

}  // namespace shardkit::loader
