#include "loader/engine.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "loader/reading_policy.h"
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
  Lock lock(mutex_);
  failure_.Update(failure);
  stopped_.Cancel();
  datasets_.file_system->CancelReads();
  for (std::condition_variable* waited : {&to_plan_, &to_read_, &to_read_more_, &to_decode_, &to_deliver_})
    waited->notify_all();
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
  Lock lock(mutex_);
  consumer_waiting_ = true;
  const bool ready = to_deliver_.wait_for(lock, timeout, [&] { return AnythingToDeliver(); });
  consumer_waiting_ = false;
  return ready;
}

absl::StatusOr<std::shared_ptr<const Batch>> Engine::NextBatch() {
  const auto begin = std::exchange(waits_since_, std::nullopt).value_or(Clock::now());
  std::unique_ptr<BatchTask> task;
  {
    Lock lock(mutex_);
    consumer_waiting_ = true;
    to_deliver_.wait(lock, [&] { return AnythingToDeliver(); });
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
    Lock lock(mutex_);
    for (const auto& block : held) blocks_.Unhold(*block);
    WakeBlockedDecoders();
    WakePlanner();
    WakeReaders();
  });
}

LoaderReport Engine::Report() const {
  const uint64_t batch_memory = pool_->memory(), peak_batch_memory = pool_->peak();
  Lock lock(mutex_);
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

}  // namespace shardkit::loader
