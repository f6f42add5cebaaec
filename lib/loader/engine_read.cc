// The reading threads, and how far they read ahead.
#ifdef __linux__
#include <sys/resource.h>
#endif

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "loader/engine.h"
#include "loader/reading_policy.h"

namespace shardkit::loader {
namespace {

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
  Lock lock(mutex_);
  while (!stopped_.cancelled()) {
    if (number >= ReadersNow()) {
      WakeReaders();  // this thread may have been woken in place of another
      to_read_more_.wait(lock);
      continue;
    }
    BalanceMemory();
    const std::shared_ptr<BlockEntry> entry = blocks_.BeginRead(Oldest());
    ForgetIncomplete();
    if (entry == nullptr) {
      // Starved when the plan has ended, or when blocks must wait for their turn in a shard that another thread reads.
      // Blocked when the stages after this one are slower.
      const bool nothing = all_planned_ || blocks_.anything_wanted();
      const Wait kind = nothing && !blocks_.anything_readable() ? Wait::kStarved : Wait::kBlocked;
      const auto begin = read_counter_.BeginWait(kind);
      ++readers_waiting_;
      to_read_.wait(lock);
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
    const bool device_wait = !entry->buffer.state().cached && wait.Seen();
    if (device_wait && entry->buffer.state().left_bytes == 0) left_.CountWait();
    std::vector<BlockValues> values;
    if (watch_clumps_ && entry->status.ok() && !entry->salvage) values = ValuesOf(entry->view, datasets_.columns);
    const auto end = Clock::now();
    read_counter_.AddBusy(end - begin);
    lock.lock();
    for (const BlockValues& block : values) clumps_.Add(block.column, block.all_equal, block.one);
    bytes_read_ += entry->place.length;
    ++blocks_read_;
    const std::vector<BatchTask*> complete = blocks_.EndRead(*entry);
    complete_.insert(complete.begin(), complete.end());
    WakeDecoders(complete.size());
    const bool waited_for = blocks_.anything_due(Oldest()) && (decoders_starved_ > 0 || consumer_waiting_);
    const bool more =
        tuner_.Update(StageCounter::Seconds(end.time_since_epoch().count()), bytes_read_, waited_for, device_wait);
    SetReadAhead();
    if (more) {
      to_read_more_.notify_all();
    }
  }
}

// Wakes one more reader when there may be a block for it. That reader wakes the next one.
void Engine::WakeReaders() {
  if (readers_waiting_ > 0 && blocks_.anything_due(Oldest())) to_read_.notify_one();
}

}  // namespace shardkit::loader
