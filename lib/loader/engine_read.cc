// The reading threads: wanted blocks are read, checked and decompressed.
#ifdef __linux__
#include <sys/resource.h>
#endif

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "loader/engine.h"

namespace shardkit::loader {
namespace {

// How often this thread has given up the processor to wait. While reading it waits for a device.
int64_t VoluntaryWaits() {
#ifdef RUSAGE_THREAD
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_nvcsw;
#endif
  static std::atomic<int64_t> unknown = 0;
  return ++unknown;
}

}  // namespace

void Engine::RunReader(int number) {
  const std::string name = StrCat("read ", number);
  Lock lock(mutex_);
  while (!stopped_.cancelled()) {
    if (number >= tuner_.threads()) {
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
    const int64_t waits = VoluntaryWaits();
    {
      const StageScope scope(trace_, observer_, "read block", name, entry->key.block);
      ReadBlock(*entry);
    }
    const bool device_wait = VoluntaryWaits() != waits;
    const auto end = Clock::now();
    read_counter_.AddBusy(end - begin);
    lock.lock();
    bytes_read_ += entry->place.length;
    ++blocks_read_;
    const std::vector<BatchTask*> complete = blocks_.EndRead(*entry);
    complete_.insert(complete.begin(), complete.end());
    WakeDecoders(complete.size());
    const bool waited_for = blocks_.anything_due(Oldest()) && (decoders_starved_ > 0 || consumer_waiting_);
    const bool more = tuner_.Update(std::chrono::duration<double>(end.time_since_epoch()).count(), bytes_read_,
                                    waited_for, std::chrono::duration<double>(end - begin).count(), device_wait);
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

void Engine::ReadBlock(BlockEntry& entry) {
  try {
    ReadOrSalvage(entry);
  } catch (...) {
    entry.buffer = BlockBuffer();
    entry.status = StatusOfException(StrCat(datasets_.readers[entry.key.dataset]->path(), ": shard ", entry.place.shard,
                                            ", block ", entry.place.block, ": reading it"));
  }
}

void Engine::ReadOrSalvage(BlockEntry& entry) {
  const DatasetReader& reader = *datasets_.readers[entry.key.dataset];
  entry.status = reader.ReadBlock(entry.place.shard, entry.place.block, &entry.buffer, &entry.view);
  if (entry.status.ok()) return;
  // A failed block holds no memory, so that it is never dropped and read again, and its error stays.
  entry.buffer = BlockBuffer();
  if (absl::IsDataLoss(entry.status)) Salvage(entry);
}

// Reads the values of a damaged block one by one, because perhaps only one is bad. So both policies for bad samples
// know which samples are bad. Sets entry.status for an error that is not damage of single values.
void Engine::Salvage(BlockEntry& entry) {
  const absl::Status damage = std::exchange(entry.status, absl::OkStatus());
  auto samples = std::make_unique<SalvagedBlock>(entry.place.sample_count);
  for (SalvagedSample& sample : *samples) sample.values.resize(datasets_.columns.size());
  for (size_t column = 0; column < datasets_.columns.size() && entry.status.ok(); ++column) {
    entry.status = SalvageColumn(entry, column, *samples);
  }
  const bool found = std::ranges::any_of(*samples, [](const SalvagedSample& sample) { return !sample.status.ok(); });
  // When no value is bad, the damage is in bytes that no value needs, such as padding. Then kSkip has nothing to skip.
  if (entry.status.ok() && !found && options_.bad_samples == BadSamples::kFail) entry.status = damage;
  if (entry.status.ok()) entry.salvage = std::move(samples);
}

absl::Status Engine::SalvageColumn(const BlockEntry& entry, size_t column, SalvagedBlock& samples) const {
  const DatasetReader& reader = *datasets_.readers[entry.key.dataset];
  BlockBuffer buffer;
  absl::Status all;  // the error of all values, in a column that is stored as a whole
  for (uint32_t i = 0; i < entry.place.sample_count; ++i) {
    SHARDKIT_RETURN_IF_ERROR(stopped_.Check("reading a damaged block"));
    SalvagedSample& sample = samples[i];
    if (!sample.status.ok()) continue;
    sample.status = all;
    if (!all.ok()) continue;
    auto value = reader.ReadValue(entry.place.first_sample + i, column, &buffer);
    if (value.ok()) {
      if (*value) sample.values[column] = std::string(**value);
      continue;
    }
    if (!absl::IsDataLoss(value.status())) return value.status();
    sample.status = value.status();
    if (!datasets_.columns[column].has_values_chunk()) all = sample.status;
  }
  return absl::OkStatus();
}

}  // namespace shardkit::loader
