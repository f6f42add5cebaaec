#include "loader/engine/engine.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/strings.h"
#include "loader/engine/reading_policy.h"
#include "shardkit/job.h"

namespace shardkit::loader {
namespace {

bool IsShuffledInParts(const Plan& plan) {
  uint64_t bytes = 0;
  for (const PlanDataset& dataset : plan.datasets()) bytes += dataset.bytes();
  return plan.options().order == SampleOrder::kShuffled && bytes > plan.options().shuffle_buffer_bytes;
}

}  // namespace

Engine::Engine(OpenDatasets datasets, std::shared_ptr<const Plan> plan,
               std::vector<std::unique_ptr<ColumnAssembler>> columns, const LoaderOptions& options,
               std::shared_ptr<gpu::PinnedPool> pinned)
    : options_(options),
      datasets_(std::move(datasets)),
      plan_(std::move(plan)),
      decode_threads_(options.decode_threads > 0 ? options.decode_threads : AvailableProcessors()),
      block_bytes_(BlockBytes(*plan_)),
      slow_threads_(SlowReadThreads(datasets_.file_system->least_seconds(), block_bytes_)),
      read_threads_(options.read_threads > 0 ? options.read_threads : std::max(kMostReadThreads, slow_threads_)),
      window_bytes_(WindowBytes(*plan_)),
      watch_clumps_(IsShuffledInParts(*plan_)),
      left_(options_, datasets_, columns),
      fetcher_(datasets_, options_.bad_samples, left_, stopped_),
      planner_(options_.rank, options_.world_size, datasets_.places, datasets_.rows, *plan_),
      blocks_(BlockMemory(options.memory_bytes), StoredBytes(*plan_)),
      tuner_(options.read_threads == 0 && slow_threads_ == 0,
             options.read_threads > 0 ? options.read_threads : std::max(slow_threads_, 1), AvailableProcessors(),
             read_threads_),
      clumps_(datasets_.columns.size()),
      cursor_(*options.cursor),
      steps_left_(plan_->StepsFrom(cursor_.position)),
      trace_(options.trace),
      observer_(options.observer, [this](const absl::Status& failure) { Stop(failure); }),
      pinned_(std::move(pinned)),
      pool_(std::make_shared<BatchPool>(
          std::min(options.memory_bytes / 8 * 3, pinned_ != nullptr ? pinned_->budget() : UINT64_MAX),
          [this](const BatchPool::BlockList& held) { TakeBack(held); })),
      maker_(options_, datasets_, std::move(columns), left_, decode_threads_, stopped_, *pool_, pinned_) {
  if (options.epochs != 0 && cursor_.epoch >= options.epochs) steps_left_ = 0;
  SetReadAhead();
}

absl::Status Engine::Start() {
  try {
    threads_.emplace_back([this] { Run("loader: planning", [this] { RunPlanner(); }); });
    for (int i = 0; i < read_threads_; ++i) {
      threads_.emplace_back([this, i] { Run("loader: reading blocks", [this, i] { RunReader(i); }); });
    }
    for (int i = 0; i < decode_threads_; ++i) {
      threads_.emplace_back([this, i] { Run("loader: making batches", [this, i] { RunDecoder(i); }); });
    }
  } catch (const std::system_error& error) {
    return OfSystem(
        ResourceExhausted("loader: the system starts no more than ", threads_.size(), " of ",
                          1 + read_threads_ + decode_threads_, " threads; lower read_threads and decode_threads"),
        error.code().value());
  }
  return absl::OkStatus();
}

Engine::~Engine() {
  Cancel();
  for (std::thread& thread : threads_) thread.join();
  pool_->Close();
}

template <typename Function>
void Engine::Run(std::string_view what, const Function& function) {
  try {
    function();
  } catch (...) {
    Stop(StatusOfException(what));
  }
}

void Engine::Stop(const absl::Status& failure) {
  Lock lock(*this);
  failure_.Update(failure);
  stopped_.Cancel();
  datasets_.file_system->CancelReads();
  for (std::condition_variable* waited : {&to_plan_, &to_read_, &to_read_more_, &to_decode_, &to_deliver_})
    waited->notify_all();
}

void Engine::Wake(const Wakes& wakes) {
  if (wakes.planner) to_plan_.notify_one();
  if (wakes.reader) to_read_.notify_one();
  if (wakes.more_readers) to_read_more_.notify_all();
  for (size_t i = wakes.decoders; i > 0; --i) to_decode_.notify_one();
  if (wakes.consumer) to_deliver_.notify_all();
}

absl::StatusOr<std::shared_ptr<const Batch>> Engine::Next() {
  if (!finished_.ok()) return finished_;
  auto batch = Guarded("loader: delivering a batch", [this] { return NextBatch(); });
  if (!batch.ok()) {
    finished_ = batch.status();
    Cancel();
  }
  return batch;
}

// A batch, the end, or an error. Called with the lock held.
bool Engine::AnythingToDeliver() const {
  return stopped_.cancelled() || (tasks_.empty() ? all_planned_ : tasks_.front()->done);
}

bool Engine::WaitFor(Clock::duration timeout) {
  if (!waits_since_) waits_since_ = Clock::now();
  Lock lock(*this);
  consumer_waiting_ = true;
  const bool ready = to_deliver_.wait_for(lock, timeout, [&] { return AnythingToDeliver(); });
  consumer_waiting_ = false;
  return ready;
}

absl::StatusOr<std::shared_ptr<const Batch>> Engine::NextBatch() {
  const auto begin = std::exchange(waits_since_, std::nullopt).value_or(Clock::now());
  std::unique_ptr<BatchTask> task;
  {
    Lock lock(*this);
    consumer_waiting_ = true;
    while (!AnythingToDeliver()) lock.Wait(to_deliver_);
    consumer_waiting_ = false;
    if (!failure_.ok()) return failure_;
    if (stopped_.cancelled()) return stopped_.Check("waiting for a batch");
    if (!tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
      ahead_bytes_ -= task->charged;
      CountDelivery(*task, begin);
    }
    WakePlanner();
    WakeReaders();
    WakeBlockedDecoders();
  }
  trace_.Add("wait", "consumer", begin, Clock::now(), task ? task->sequence : 0);
  if (task == nullptr) return nullptr;
  if (!task->status.ok()) {
    if (task->storage) pool_->Give(std::move(task->storage));
    return task->status;
  }
  cursor_ = task->cursor_after;
  steps_left_ = task->steps_left_after != 0                               ? task->steps_left_after
                : options_.epochs == 0 || cursor_.epoch < options_.epochs ? plan_->StepsFrom(0)
                                                                          : 0;
  return std::shared_ptr<const Batch>(task->storage.release(), [pool = pool_](BatchStorage* storage) {
    pool->Give(std::unique_ptr<BatchStorage>(storage));
  });
}

// Adds a batch to the report when it is its turn. The consumer has waited for it since `begin`. Called with the lock
// held.
void Engine::CountDelivery(const BatchTask& task, Clock::time_point begin) {
  const auto end = Clock::now();
  const double seconds = std::chrono::duration<double>(end - begin).count();
  if (!first_next_) {
    first_next_ = begin;
    first_end_ = end;
    report_.first_batch_seconds = seconds;
  } else {
    report_.consumer_wait_seconds += seconds;
  }
  last_end_ = end;
  if (!task.status.ok()) return;
  ++report_.batches;
  report_.samples += task.storage->size();
  report_.skipped += task.skipped.size();
  report_.warned_images += task.assembly.warned_images;
  for (const BadSample& skipped : task.skipped) {
    if (report_.first_skipped.size() < kMostSkippedListed) report_.first_skipped.push_back(skipped);
  }
  for (const ColumnMemory& memory : task.storage->columns_) {
    report_.bytes += memory.values.size();
    if (memory.column.layout != BatchLayout::kTokens) continue;
    report_.token_positions += memory.column.shape[0] * memory.column.shape[1];
    for (size_t i = 2; i < memory.shapes.size(); i += 4) report_.tokens += memory.shapes[i];
  }
}

// The consumer is done with a batch.
void Engine::TakeBack(const BatchPool::BlockList& held) {
  Run("loader: taking back a batch", [&] {
    Lock lock(*this);
    for (const auto& block : held) blocks_.Unhold(*block);
    WakeBlockedDecoders();
    WakePlanner();
    WakeReaders();
  });
}

LoaderReport Engine::Report() const {
  const uint64_t batch_memory = pool_->memory(), peak_batch_memory = pool_->peak();
  std::lock_guard lock(mutex_);
  LoaderReport report = report_;
  if (first_next_) {
    report.seconds = std::chrono::duration<double>(Clock::now() - *first_next_).count();
    report.step_seconds = std::chrono::duration<double>(*last_end_ - *first_end_).count();
  }
  report.batch_memory = batch_memory;
  report.peak_batch_memory = peak_batch_memory;
  if (pinned_ != nullptr) {
    report.pinned_memory = pinned_->used() + pinned_->kept();
    report.peak_pinned_memory = pinned_->peak();
  }
  report.file_seconds = datasets_.file_system->read_seconds();
  report.requests = datasets_.file_system->requests().requests();
  report.bytes_requested = datasets_.file_system->requests().bytes();
  report.bytes_bridged = datasets_.file_system->bridged_bytes();
  report.round_trips = datasets_.file_system->requests().round_trips();
  report.read = read_counter_.times(tuner_.threads());
  report.decode = decode_counter_.times(decode_threads_);
  report.bytes_read = bytes_read_;
  report.bytes_from_cache = left_.bytes();
  report.blocks_read = blocks_read_;
  report.blocks_read_again = blocks_.read_again();
  report.block_memory = blocks_.held();
  report.peak_block_memory = blocks_.peak();
  for (const size_t column : clumps_.Found()) report.clumped_columns.push_back(datasets_.columns[column].name);
  report.balance_notes = datasets_.balance_notes;
  report.remote = std::ranges::any_of(datasets_.readers, [](const auto& reader) { return IsUrl(reader->path()); });
  report.auto_threads = options_.read_threads == 0 || options_.decode_threads == 0;
  if (report.auto_threads) {
    report.threads_note =
        StrCat(options_.decode_threads == 0 ? StrCat(decode_threads_, " decoding threads, one per processor") : "",
               options_.decode_threads == 0 && options_.read_threads == 0 ? "; " : "",
               options_.read_threads == 0 ? StrCat(tuner_.threads(), " reading threads, ",
                                                   slow_threads_ > 0 ? "because requests take long" : "found by trying")
                                          : "");
  }
  return report;
}

// The planning thread: turns steps of the plan into batches in flight, and asks for their blocks.

void Engine::RunPlanner() {
  uint64_t position = cursor_.position;
  for (uint64_t epoch = cursor_.epoch; options_.epochs == 0 || epoch < options_.epochs; ++epoch) {
    if (!PlanEpoch(epoch, std::exchange(position, 0))) return;
  }
  Lock lock(*this);
  all_planned_ = true;
  wakes_.consumer = true;
}

bool Engine::RoomToPlan(bool much) const {
  return loader::RoomToPlan(blocks_.planned(), options_.memory_bytes, planned_samples_, tasks_.size(), much);
}

// Wakes the planner only when there is room for many batches, because waking a thread costs more than planning a batch.
void Engine::WakePlanner() {
  if (planner_waiting_ && RoomToPlan(true)) wakes_.planner = true;
}

// False when the loader has been stopped, or the epoch's blocks cannot be read.
bool Engine::PlanEpoch(uint64_t epoch, uint64_t position) {
  auto order = plan_->Epoch(epoch);
  const uint64_t steps = plan_->StepsFrom(position);
  for (uint64_t step = 0; step < steps; ++step) {
    {
      Lock lock(*this);
      planner_waiting_ = true;
      while (!stopped_.cancelled() && !RoomToPlan(false)) lock.Wait(to_plan_);
      planner_waiting_ = false;
    }
    if (stopped_.cancelled()) return false;
    const Step range = plan_->StepAt(position, step);
    auto covering = order->Covering(range);
    if (!covering.ok()) {
      auto failed = std::make_unique<BatchTask>();
      failed->status = Annotate(covering.status(), "loader: planning");
      failed->done = true;
      AdmitFailed(std::move(failed));
      return false;
    }
    order = *std::move(covering);
    auto task = planner_.PlanStep(*order, range, epoch);
    task->step = step;
    task->steps_left_after = steps - step - 1;
    task->cursor_after =
        step + 1 < steps ? plan_->At(epoch, std::min(range.end, order->size())) : plan_->Begin(epoch + 1);
    Admit(std::move(task), *order);
  }
  return true;
}

// Delivered when it is its turn, as the errors of blocks are. Nothing is planned after it.
void Engine::AdmitFailed(std::unique_ptr<BatchTask> task) {
  Lock lock(*this);
  task->sequence = next_sequence_++;
  tasks_.push_back(std::move(task));
  wakes_.consumer = true;
}

void Engine::Admit(std::unique_ptr<BatchTask> task, const EpochOrder& order) {
  Lock lock(*this);
  task->sequence = next_sequence_;
  task->missing = 1;  // keeps the batch incomplete until the end of this function
  BatchTask* const admitted = task.get();
  tasks_.push_back(std::move(task));  // first: blocks will point to it
  ++next_sequence_;
  planner_.Claim(*admitted, order, blocks_);
  planned_samples_ += admitted->references.size();
  WakeReaders();
  lock.unlock();
  planner_.PointToBlocks(*admitted);
  lock.lock();
  if (--admitted->missing == 0) {
    complete_.insert(admitted);
    WakeDecoders(1);
  }
}

namespace {

// The reading threads, and how far they read ahead.

// Tells whether this thread has waited for a device since it was made: it gave up the processor, which was not taken
// from it. Where that is not known, every read has waited.
class DeviceWait {
 public:
  bool Seen() const {
#ifdef RUSAGE_THREAD
    const auto [given_up, taken] = Switches();
    return given_up != before_.first && taken == before_.second;
#else
    return true;
#endif
  }

 private:
#ifdef RUSAGE_THREAD
  static std::pair<long, long> Switches() {
    rusage usage{};
    (void)getrusage(RUSAGE_THREAD, &usage);
    return {usage.ru_nvcsw, usage.ru_nivcsw};
  }

  const std::pair<long, long> before_ = Switches();
#endif
};

}  // namespace

void Engine::SetReadAhead() {
  blocks_.ReadAhead(ReadAheadBytes(window_bytes_, tuner_.threads(), block_bytes_));
  blocks_.KeepUpTo(
      KeptBytes(slow_threads_ > 0 || tuner_.from_device(), blocks_.share(), window_bytes_ * plan_->lanes()));
}

int Engine::ReadersNow() const {
  if (options_.read_threads > 0 || sample_estimate_ > 0) return tuner_.threads();
  return FirstReadThreads(tuner_.threads(), decode_threads_, read_threads_, blocks_.share(), block_bytes_);
}

void Engine::RunReader(int number) {
  const std::string name = StrCat("read ", number);
  Lock lock(*this);
  while (!stopped_.cancelled()) {
    if (number >= ReadersNow()) {
      WakeReaders();  // this thread may have been woken in place of another
      lock.Wait(to_read_more_);
      continue;
    }
    BalanceMemory();
    const bool first_first =
        !tasks_.empty() && FirstBatchFirst(*tasks_.front(), slow_threads_ > 0 || tuner_.from_device());
    const std::shared_ptr<BlockEntry> entry = first_first ? nullptr : blocks_.BeginRead(Oldest());
    ForgetIncomplete();
    if (entry == nullptr) {
      // Starved when the plan has ended, or when blocks must wait for their turn in a shard that another thread reads.
      // Blocked when the stages after this one are slower.
      const bool nothing = all_planned_ || blocks_.anything_wanted();
      const Wait kind = nothing && !blocks_.anything_readable() ? Wait::kStarved : Wait::kBlocked;
      const auto begin = read_counter_.BeginWait(kind);
      ++readers_waiting_;
      lock.Wait(to_read_);
      --readers_waiting_;
      read_counter_.EndWait(kind, begin);
      continue;
    }
    WakeReaders();
    lock.unlock();
    const auto begin = Clock::now();
    const DeviceWait wait;
    {
      const StageScope scope(trace_, observer_, "read block", name, entry->key.block);
      fetcher_.Fetch(*entry);
    }
    // Memory that is new, and locks, make a thread give up the processor, too.
    const bool device_wait = !entry->page_cache.cached && wait.Seen();
    if (device_wait && entry->page_cache.left_bytes == 0) left_.CountWait();
    std::vector<BlockValues> values;
    if (watch_clumps_ && entry->status.ok() && !entry->salvage) values = ValuesOf(entry->view, datasets_.columns);
    const auto end = Clock::now();
    read_counter_.AddBusy(end - begin);
    lock.lock();
    for (const BlockValues& block : values) clumps_.Add(block.column, block.all_equal, block.one);
    const std::vector<BatchTask*> complete = blocks_.EndRead(*entry);
    if (!entry->left_for_first_batch()) {  // else it is read whole later
      bytes_read_ += entry->place.length;
      ++blocks_read_;
    }
    complete_.insert(complete.begin(), complete.end());
    WakeDecoders(complete.size());
    WakePlanner();  // a block may take less than it counted before
    const bool waited_for = blocks_.anything_due(Oldest()) && (decoders_starved_ > 0 || consumer_waiting_);
    const bool more =
        tuner_.Update(StageCounter::Seconds(end.time_since_epoch().count()), bytes_read_, waited_for, device_wait);
    SetReadAhead();
    if (more) wakes_.more_readers = true;
  }
}

// Wakes one more reader when there may be a block for it. That reader wakes the next one.
void Engine::WakeReaders() {
  if (readers_waiting_ > 0 && blocks_.anything_due(Oldest())) wakes_.reader = true;
}

// The decoding threads: which batch is laid out, filled and finished next, and by how many threads.

void Engine::RunDecoder(int number) {
  const std::string name = StrCat("decode ", number);
  std::optional<WorkerScratch> scratch;
  absl::Status filled;
  Lock lock(*this);
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
      lock.Wait(to_decode_);
      --waiting;
      decode_counter_.EndWait(kind, wait);
    }
  }
}

void Engine::WakeDecoders(size_t most) {
  const size_t waiting = static_cast<size_t>(decoders_starved_ + decoders_blocked_);
  wakes_.decoders = std::min(wakes_.decoders + most, waiting);
}

// Wakes decoders that had no room, once there is room for more than one batch, or when the next batch is the oldest:
// one for each batch that can be laid out. Where a batch is more than one thread's work, StartFilling wakes others.
void Engine::WakeBlockedDecoders() {
  if (decoders_blocked_ == 0 || complete_.empty()) return;
  const BatchTask& next = **complete_.begin();
  const uint64_t bytes = BytesOf(next), most = BatchesAheadBytes(bytes);
  if (&next != tasks_.front().get() && ahead_bytes_ > most / 2) return;
  const uint64_t room = (most - std::min(most, ahead_bytes_)) / std::max<uint64_t>(bytes, 1);
  WakeDecoders(
      std::clamp<uint64_t>(room, 1, std::min<uint64_t>(complete_.size(), static_cast<uint64_t>(decoders_blocked_))));
}

// What a batch will take. By the sample: the last batch of an epoch may be a small one, and is not to take the memory
// of a large one, which would then be made again.
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
  blocks_.PutOff(task);
  WakeReaders();
  std::unique_ptr<BatchStorage> storage = std::move(task.storage);
  if (task.missing == 0) complete_.insert(&task);
  lock.unlock();  // from here on another thread may take the batch and deliver it
  pool_->Give(std::move(storage));
  lock.lock();
}

// The oldest batch, its blocks, and the batches that the consumer holds may take more than the share of batches or of
// blocks. Then the other share gives up what it does not need.
void Engine::BalanceMemory() {
  if (pool_->Lend(blocks_.over())) WakeDecoders(static_cast<size_t>(decode_threads_));
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
  ForgetIncomplete();
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
  ForgetIncomplete();
  std::vector<std::shared_ptr<BlockEntry>> blocks = std::move(task.blocks);
  if (hold) task.storage->held_ = std::move(blocks);
  task.done = true;
  planned_samples_ -= task.references.size();
  WakePlanner();
  WakeReaders();
  if (&task == tasks_.front().get()) wakes_.consumer = true;
  lock.unlock();
  blocks.clear();  // without the lock: these counts are shared by all threads, and the last one frees a block
  lock.lock();
}

}  // namespace shardkit::loader
