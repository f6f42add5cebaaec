// The machinery of a loader: a planning thread, reading threads, decoding threads, and the batches between them.
//
//   plan -> blocks wanted -> read, checked, decompressed -> laid out -> filled (decoded) -> delivered in order
//
// One mutex guards everything except the work itself: reading a block and filling samples are done without it. Each
// stage waits for, or is limited by:
//   planning    room for blocks (memory), kMostPlannedSamples
//   reading     a wanted block and room for it
//   laying out  all blocks of a batch, and room for the batch
//   Next        the batch whose turn it is
// The oldest batch in flight always gets room, so that stages never wait for each other in a circle. When it takes more
// than the share of batches or of blocks, the other share gives up what it can, so that the sum stays within the
// budget.
//
// An error of a block or a batch, exceptions included, is delivered when it is the batch's turn. Other exceptions (no
// memory to plan, an observer) end all threads through Stop, and Next returns them from then on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/pinned_pool.h"
#include "loader/engine/batch_maker.h"
#include "loader/engine/batch_pool.h"
#include "loader/engine/batch_task.h"
#include "loader/engine/block_fetcher.h"
#include "loader/engine/block_table.h"
#include "loader/engine/reader_tuner.h"
#include "loader/open_datasets.h"
#include "loader/plan/batch_planner.h"
#include "loader/plan/clumps.h"
#include "loader/trace.h"
#include "shardkit/job.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

class Engine : public Loader {
 public:
  // `options.cursor` fits the plan; `options` passed all checks. `pinned` is the memory of batches, null for ordinary
  // memory.
  Engine(OpenDatasets datasets, std::shared_ptr<const Plan> plan, std::vector<std::unique_ptr<ColumnAssembler>> columns,
         const LoaderOptions& options, std::shared_ptr<gpu::PinnedPool> pinned);
  ~Engine() override;

  // ResourceExhausted when the system does not give enough threads.
  absl::Status Start();

  absl::StatusOr<std::shared_ptr<const Batch>> Next() override;
  bool WaitFor(Clock::duration timeout) override;
  void Cancel() override { Stop(absl::OkStatus()); }
  Cursor cursor() const override { return cursor_; }
  const Plan& plan() const override { return *plan_; }
  uint64_t steps_left() const override { return steps_left_; }
  LoaderReport Report() const override;
  std::string Trace() const override { return trace_.Json(); }
  void AddTraceEvent(const char* name, std::string_view lane, Clock::time_point begin, Clock::time_point end,
                     uint64_t number) override {
    trace_.Add(name, lane, begin, end, number);
  }
  std::string fallback_reason() const override { return datasets_.fallback_reason(); }

 private:
  // Which threads to wake. Waking one takes longer than most of what is done with the lock, so it is done without.
  struct Wakes {
    bool planner = false;
    bool reader = false;
    bool more_readers = false;  // all that were not to work
    bool consumer = false;
    size_t decoders = 0;
  };

  // The engine's lock. Wakes the threads of wakes_ when it is given back.
  class Lock : public std::unique_lock<std::mutex> {
   public:
    explicit Lock(Engine& engine) : unique_lock(engine.mutex_), engine_(engine) {}
    ~Lock() {
      if (owns_lock()) unlock();
    }
    void unlock() {
      const Wakes wakes = std::exchange(engine_.wakes_, {});
      unique_lock::unlock();
      engine_.Wake(wakes);
    }
    // Wakes them before it waits, with the lock: what a thread finds to be so stays so until it waits.
    void Wait(std::condition_variable& condition) {
      engine_.Wake(std::exchange(engine_.wakes_, {}));
      condition.wait(*this);
    }

   private:
    Engine& engine_;
  };

  absl::StatusOr<std::shared_ptr<const Batch>> NextBatch();
  bool AnythingToDeliver() const;
  // Ends all threads. `failure` becomes the reason unless it is OK or there is one already.
  void Stop(const absl::Status& failure);
  void Wake(const Wakes& wakes);
  // Runs a thread, or a call into the loader from another thread. An exception stops the loader.
  template <typename Function>
  void Run(std::string_view what, const Function& function);

  // Planning.
  void RunPlanner();
  bool PlanEpoch(uint64_t epoch, uint64_t position);
  void AdmitFailed(std::unique_ptr<BatchTask> task);
  void Admit(std::unique_ptr<BatchTask> task, const EpochOrder& order);
  bool RoomToPlan(bool much) const;
  void WakePlanner();

  // Reading.
  void RunReader(int number);
  void WakeReaders();
  void SetReadAhead();
  int ReadersNow() const;

  // Decoding.
  void RunDecoder(int number);
  BatchTask* TaskToLayOut();
  void WakeDecoders(size_t most);
  void WakeBlockedDecoders();
  uint64_t BytesOf(const BatchTask& task) const;
  uint64_t Oldest() const { return tasks_.empty() ? next_sequence_ : tasks_.front()->sequence; }
  void PutOff(Lock& lock, BatchTask& task);
  void BalanceMemory();
  void ForgetIncomplete();
  void ReleaseFilled(BatchTask& task, size_t begin, size_t end);
  void StartFilling(Lock& lock, BatchTask& task);
  void Finish(Lock& lock, BatchTask& task);
  void CountDelivery(const BatchTask& task, Clock::time_point begin);
  void TakeBack(const BatchPool::BlockList& held);

  const LoaderOptions options_;
  const OpenDatasets datasets_;
  const std::shared_ptr<const Plan> plan_;
  int decode_threads_ = 1;
  const uint64_t block_bytes_;
  const int slow_threads_;       // reading threads where files are slow, found before the first block; else 0
  int read_threads_ = 1;         // all of them; the tuner says how many work
  const uint64_t window_bytes_;  // of a lane
  const bool watch_clumps_;      // the shuffle buffer does not hold the datasets
  Cancellation stopped_;

  PageCacheValues left_;
  const BlockFetcher fetcher_;
  BatchPlanner planner_;  // for the planning thread

  mutable std::mutex mutex_;
  absl::Status failure_;  // why it was stopped, unless it was cancelled
  std::condition_variable to_plan_, to_read_, to_read_more_, to_decode_, to_deliver_;
  Wakes wakes_;
  BlockTable blocks_;
  ReaderTuner tuner_;
  std::deque<std::unique_ptr<BatchTask>> tasks_;  // in flight, oldest first
  std::set<BatchTask*, BySequence> complete_;     // all blocks are in memory; not laid out yet
  std::set<BatchTask*, BySequence> filling_;      // with samples that no thread has begun
  uint64_t planned_samples_ = 0;                  // of tasks_
  uint64_t next_sequence_ = 0;
  bool all_planned_ = false;
  bool planner_waiting_ = false;
  int readers_waiting_ = 0;
  int decoders_starved_ = 0;
  int decoders_blocked_ = 0;
  bool consumer_waiting_ = false;
  uint64_t sample_estimate_ = 0;  // bytes of a sample of the last batch laid out; 0 before the first
  uint64_t ahead_bytes_ = 0;      // of batches laid out and not delivered
  uint64_t bytes_read_ = 0;
  uint64_t blocks_read_ = 0;
  Clumps clumps_;

  LoaderReport report_;  // the consumer's figures
  std::optional<Clock::time_point> first_next_, first_end_, last_end_;

  // Used by the consumer's thread only.
  Cursor cursor_;
  uint64_t steps_left_ = 0;
  std::optional<Clock::time_point> waits_since_;  // the consumer, in WaitFor()
  absl::Status finished_;

  StageCounter read_counter_, decode_counter_;
  TraceRecorder trace_;
  GuardedObserver observer_;
  const std::shared_ptr<gpu::PinnedPool> pinned_;  // null for ordinary memory
  const std::shared_ptr<BatchPool> pool_;
  BatchMaker maker_;

  std::vector<std::thread> threads_;
};

}  // namespace shardkit::loader
