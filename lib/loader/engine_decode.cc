// The decoding threads: batches whose blocks are in memory are laid out, filled and finished.
#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "loader/engine.h"

namespace shardkit::loader {
namespace {

constexpr uint64_t kPortionBytes = 1 << 20;  // copied by one thread at once
constexpr size_t kMostHeavySamples = 8;      // decoded by one thread at once

// Batches made ready before their turn: enough to balance the work, and few enough that small batches are still in the
// processor's cache when they are read.
constexpr uint64_t kAheadBytes = 8 << 20;
constexpr uint64_t kAheadBatches = 4;

// A few bytes of a file can stand for any number of pixels.
absl::Status NoMemoryFor(const BatchTask& task) {
  return Guarded("loader: laying out a batch", [&] {
    return ResourceExhausted("loader: there is no memory for a batch of ", task.assembly.samples.size(),
                             " samples; lower batch_size, or choose a geometry of fixed size");
  });
}

}  // namespace

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
        filled = Fill(task, first, end, scratch);
      }
      lock.lock();
      task.status.Update(filled);
      if (!fill_may_fail_ && !holds_blocks_) ReleaseFilled(task, first, end);
      task.samples_filling -= end - first;
      if (task.samples_filling == 0) Finish(lock, task);
      decode_counter_.AddBusy(Clock::now() - begin);
    } else if (BatchTask* const task = TaskToLayOut()) {
      lock.unlock();
      {
        const StageScope scope(trace_, observer_, "lay out", name, task->sequence);
        LayOut(*task);
      }
      lock.lock();
      batch_estimate_ = task->charged;
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
            filled = Fill(*task, 0, task->samples_filling, scratch);
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

uint64_t Engine::AheadLimit(uint64_t batch_bytes) const { return std::max(kAheadBytes, kAheadBatches * batch_bytes); }

// Wakes decoders that had no room, once there is room for more than one batch, or when the next batch is the oldest.
void Engine::WakeBlockedDecoders() {
  if (decoders_blocked_ == 0) return;
  const bool turn = !complete_.empty() && *complete_.begin() == tasks_.front().get();
  if (turn || ahead_bytes_ <= AheadLimit(batch_estimate_) / 2) WakeDecoders(static_cast<size_t>(decoders_blocked_));
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
  const uint64_t bytes = task->needed != 0 ? task->needed : batch_estimate_;
  if (task != tasks_.front().get()) {
    if (ahead_bytes_ + bytes > AheadLimit(bytes)) return nullptr;
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

// Gives the columns the samples of the batch that are good so far.
void Engine::ChooseSamples(BatchTask& task) {
  Assembly& assembly = task.assembly;
  assembly.seed = options_.plan.seed;
  assembly.epoch = task.epoch;
  assembly.samples.clear();
  for (const uint32_t index : task.kept) {
    const SampleReference& reference = task.references[index];
    const BlockEntry& block = *task.blocks[reference.block];
    assembly.samples.push_back(
        {&block.view, block.salvage.get(), reference.in_block, block.place.block, reference.identity});
  }
}

void Engine::CopyKeys(BatchTask& task) const {
  BatchStorage& storage = *task.storage;
  storage.keys_.clear();
  storage.key_ends_.clear();
  if (!datasets_.key_column) return;
  for (const AssemblySample& sample : task.assembly.samples) {
    storage.keys_.Append(sample.Value(*datasets_.key_column).value_or(std::string_view()));
    storage.key_ends_.push_back(storage.keys_.size());
  }
}

void Engine::LayOut(BatchTask& task) {
  try {
    LayOutColumns(task);
  } catch (const std::length_error&) {
    task.status = NoMemoryFor(task);
  } catch (const std::bad_alloc&) {
    task.status = NoMemoryFor(task);
  } catch (...) {
    task.status = StatusOfException(StrCat("loader: laying out the batch of epoch ", task.epoch, ", step ", task.step));
  }
  if (!task.status.ok()) task.samples_filling = 0;
}

void Engine::LayOutColumns(BatchTask& task) {
  if (batch_memory_ != nullptr) task.status.Update(batch_memory_->failure());
  if (task.storage == nullptr) task.storage = pool_->Take(task.charged);
  if (!std::exchange(task.begun, true)) {
    for (uint32_t i = 0; i < task.references.size(); ++i) task.kept.push_back(i);
  }
  BatchStorage& storage = *task.storage;
  while (storage.columns_.size() < columns_.size()) {
    storage.columns_.emplace_back().values = ValueBuffer(batch_memory_);
  }
  task.samples_filling = 0;
  while (task.status.ok() && !stopped_.cancelled()) {
    for (const SampleReference& reference : task.references) {
      if (!task.blocks[reference.block]->status.ok()) task.status = task.blocks[reference.block]->status;
      if (!task.status.ok()) break;
    }
    if (!task.status.ok()) break;
    ChooseSamples(task);
    Assembly& assembly = task.assembly;
    for (size_t i = 0; i < assembly.samples.size(); ++i) {
      const AssemblySample& sample = assembly.samples[i];
      if (sample.salvage != nullptr && !(*sample.salvage)[sample.in_block].status.ok()) {
        assembly.Fail(i, (*sample.salvage)[sample.in_block].status);
      }
    }
    std::vector<AssemblyFailure> failures = assembly.TakeFailures();
    if (failures.empty()) {
      for (size_t i = 0; i < columns_.size(); ++i) columns_[i]->Layout(assembly, &storage.columns_[i]);
      failures = assembly.TakeFailures();
      if (!failures.empty()) task.status = CheckMaps(task, 0, task.kept.size());
      if (!task.status.ok()) break;
    }
    if (!LeaveOut(task, failures)) continue;
    CopyKeys(task);
    task.samples_filling = task.kept.size();
    break;
  }
  task.next_sample = 0;
  uint64_t bytes = 0;
  for (ColumnMemory& column : storage.columns_) {
    column.ShrinkIfMuchTooLarge();
    bytes += column.values.size();
  }
  const size_t n = std::max<size_t>(task.kept.size(), 1);
  task.portion = heavy_ ? std::clamp<size_t>(n / (4 * static_cast<size_t>(decode_threads_)), 1, kMostHeavySamples)
                        : static_cast<size_t>(std::max<uint64_t>(1, n * kPortionBytes / std::max<uint64_t>(bytes, 1)));
  task.block_unfilled.assign(task.blocks.size(), 0);
  for (const uint32_t index : task.kept) ++task.block_unfilled[task.references[index].block];
  const uint64_t memory = storage.memory();
  task.charged = memory;
  pool_->Charge(storage, memory);
}

// Takes failed samples out of the batch, or fails the batch. True when there was none.
bool Engine::LeaveOut(BatchTask& task, const std::vector<AssemblyFailure>& failures) {
  if (failures.empty()) return true;
  const auto thrown = std::ranges::find_if(failures, &AssemblyFailure::thrown);
  if (options_.bad_samples == BadSamples::kFail || thrown != failures.end()) {
    const AssemblyFailure& failure = options_.bad_samples == BadSamples::kFail ? failures[0] : *thrown;
    const AssemblySample& bad = task.assembly.samples[failure.sample];
    const absl::Status& status = failure.status;
    task.status = absl::Status(
        status.code(),
        ToAbsl(StrCat(datasets_.readers[bad.identity.dataset]->path(), ": sample ", bad.identity.ordinal, " (shard ",
                      bad.identity.shard, ", block ", bad.block, "): ", ToStd(status.message()))));
    return false;
  }
  for (const AssemblyFailure& failure : failures) {
    const AssemblySample& bad = task.assembly.samples[failure.sample];
    task.skipped.push_back({task.epoch, bad.identity, bad.block, failure.status});
    task.kept[failure.sample] = UINT32_MAX;
  }
  std::erase(task.kept, UINT32_MAX);
  return false;
}

absl::Status Engine::Fill(BatchTask& task, size_t begin, size_t end, std::optional<WorkerScratch>& scratch) {
  try {
    if (!scratch) scratch.emplace();
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!heavy_) {
        columns_[i]->Fill(task.assembly, begin, end, *scratch, &task.storage->columns_[i]);
        continue;
      }
      // One by one, so that a loader that is destroyed need not wait for a whole portion, and so that an exception,
      // most likely from a user's function, is reported for its sample.
      for (size_t sample = begin; sample < end && !stopped_.cancelled(); ++sample) {
        try {
          columns_[i]->Fill(task.assembly, sample, sample + 1, *scratch, &task.storage->columns_[i]);
        } catch (...) {
          task.assembly.Fail(sample, columns_[i]->Describe(StatusOfException("decoding")), /*thrown=*/true);
          scratch.emplace();  // the decoders may be in any state
        }
      }
    }
    return CheckMaps(task, begin, end);
  } catch (...) {
    scratch.reset();
    return StatusOfException(StrCat("loader: filling the batch of epoch ", task.epoch, ", step ", task.step));
  }
}

// Checks that the memory maps under these samples' blocks have shown the files' bytes until now.
absl::Status Engine::CheckMaps(const BatchTask& task, size_t begin, size_t end) const {
  if (options_.read.mode != ReadMode::kMapped) return absl::OkStatus();
  std::vector<const BlockEntry*> blocks;
  for (size_t i = begin; i < end; ++i) blocks.push_back(task.blocks[task.references[task.kept[i]].block].get());
  std::ranges::sort(blocks);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  for (const BlockEntry* const block : blocks) SHARDKIT_RETURN_IF_ERROR(block->buffer.CheckMapped());
  return absl::OkStatus();
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
  if (task.status.ok() && !LeaveOut(task, task.assembly.TakeFailures()) && task.status.ok()) {
    const uint64_t before = task.charged;
    LayOut(task);
    lock.lock();
    ahead_bytes_ += task.charged - before;
    return StartFilling(lock, task);
  }
  if (task.status.ok() && !stopped_.cancelled()) task.status = Complete(task);
  lock.lock();
  const bool hold = holds_blocks_ && task.storage != nullptr;  // no storage when there was no memory for it
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

// Sets what the consumer sees of the batch, then calls the user's batch_function.
absl::Status Engine::Complete(BatchTask& task) {
  BatchStorage& storage = *task.storage;
  storage.epoch_ = task.epoch;
  storage.step_ = task.step;
  storage.samples_.clear();
  for (const AssemblySample& sample : task.assembly.samples) storage.samples_.push_back(sample.identity);
  std::ranges::sort(task.skipped, {}, [](const BadSample& bad) { return bad.sample.position; });
  storage.skipped_ = task.skipped;
  for (ColumnMemory& column : storage.columns_) column.Expose();
  if (!options_.batch_function) return absl::OkStatus();
  try {
    return options_.batch_function(storage);
  } catch (...) {
    return StatusOfException(StrCat("loader: batch_function on the batch of epoch ", task.epoch, ", step ", task.step));
  }
}

}  // namespace shardkit::loader
