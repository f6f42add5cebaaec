#include "loader/engine/block_table.h"

#include <algorithm>

#include "base/buffer.h"
#include "base/checked.h"
#include "loader/engine/batch_task.h"

namespace shardkit::loader {
namespace {

// A buffer that is much larger than its block would waste memory.
constexpr uint64_t kLargeBuffer = uint64_t{8} << 20;
constexpr size_t kMostFree = 256;
bool FitsWell(uint64_t buffer, uint64_t wanted) { return buffer <= kLargeBuffer || buffer / 4 <= wanted; }

// How fast the expected expansion falls to that of the blocks read. It rises at once.
constexpr double kExpansionDecay = 0.05;

// The most memory that the first blocks of a dataset are expected to take beyond their bytes in the file: zstd often
// makes text four times smaller.
constexpr uint64_t kMostUnknown = uint64_t{16} << 20;

// Memory that a block takes besides its bytes: parts of pages, a decompressor. Blocks smaller than this tell little
// about larger ones.
constexpr uint64_t kBesideBytes = uint64_t{128} << 10;

// The memory of a buffer for `length` bytes.
uint64_t InBuffer(uint64_t length) { return RoundUp(length, Buffer::kAlignment); }

}  // namespace

// What a block not read yet will take. Not all of its columns may be read, and they may grow when decompressed.
uint64_t BlockTable::Estimate(const BlockEntry& entry) const {
  const double expansion = expansion_[entry.key.dataset];
  const uint64_t length = InBuffer(entry.place.length);
  if (expansion == kExpansionUnknown) return length + std::min(3 * length, kMostUnknown);
  return static_cast<uint64_t>(static_cast<double>(length) * expansion);
}

std::shared_ptr<BlockEntry> BlockTable::Get(const BlockKey& key, absl::FunctionRef<DatasetBlock()> place) {
  std::shared_ptr<BlockEntry>& entry = entries_[key];
  if (entry == nullptr) {
    entry = std::make_shared<BlockEntry>();
    entry->key = key;
    entry->place = place();
    entry->id = next_id_++;
    by_id_[entry->id] = entry.get();
  }
  return entry;
}

void BlockTable::Need(BlockEntry& entry, BatchTask& task) {
  entry.tasks.push_back(&task);
  Unkeep(entry);
  if (entry.state != BlockState::kReady) ++task.missing;
  // This is the block's first batch. With more batches the block is in wanted_ already.
  if (entry.state == BlockState::kWanted && entry.tasks.size() == 1) AddWanted(entry);
}

void BlockTable::AddWanted(BlockEntry& entry) {
  wanted_.emplace(entry.tasks.front()->sequence, entry.id);
  wanted_bytes_ += entry.estimate = Estimate(entry);
}

void BlockTable::Charge(BlockEntry& entry, uint64_t bytes) {
  held_ = held_ - entry.charged + bytes;
  if (!entry.begun) ahead_bytes_ = ahead_bytes_ - entry.charged + bytes;
  entry.charged = bytes;
  DropKeptMaps();
  peak_ = std::max(peak_, held_ + kept_map_bytes_);
}

void BlockTable::TakeBuffer(BlockEntry& entry) {
  const uint64_t wanted = Estimate(entry);
  // Takes the smallest free buffer that is large enough, otherwise the largest. Of equal ones it takes the one used
  // last, which may still be in the processor's cache.
  size_t best = free_.size();
  for (size_t i = free_.size(); i-- > 0;) {
    const uint64_t memory = free_[i].memory();
    if (!FitsWell(memory, wanted) || held_ - free_bytes_ + memory > limit_) continue;
    if (best == free_.size()) {
      best = i;
      continue;
    }
    const uint64_t other = free_[best].memory();
    if (memory >= wanted ? other < wanted || memory < other : other < wanted && memory > other) best = i;
  }
  uint64_t memory = 0;
  if (best != free_.size()) {
    entry.buffer = std::move(free_[best]);
    free_.erase(free_.begin() + static_cast<ptrdiff_t>(best));
    memory = entry.buffer.memory();
    free_bytes_ -= memory;
    held_ -= memory;
  } else {
    entry.buffer = BlockBuffer();
  }
  entry.buffer_before = memory;
  Charge(entry, std::max(memory, wanted));
}

void BlockTable::GiveBuffer(BlockEntry& entry) {
  if (!entry.begun) ahead_bytes_ -= entry.page_cache_bytes;
  entry.page_cache_bytes = 0;
  container::MappedRange map = container::ForgetBlock(entry.buffer);
  const uint64_t memory = entry.buffer.memory();
  Charge(entry, 0);
  if (map.length != 0) {
    kept_map_bytes_ += map.length;
    kept_maps_.push_back(std::move(map));
    DropKeptMaps();
  }
  entry.view = BlockView();
  entry.salvage.reset();
  if (held_ + memory > limit_ || free_.size() >= kMostFree) {
    entry.buffer = BlockBuffer();
    return;
  }
  free_.push_back(std::move(entry.buffer));
  free_bytes_ += memory;
  held_ += memory;
}

void BlockTable::Lend(uint64_t bytes, uint64_t oldest) {
  limit_ = share_ - std::min(share_, bytes);
  if (bytes == 0) return;
  while (in_use() > limit_ && DropBlock(oldest)) {
  }
  DropKept(0);
  DropFreeBuffers();
  DropKeptMaps();
}

void BlockTable::DropFreeBuffers() {
  while (!free_.empty() && held_ > limit_) {
    const uint64_t memory = free_.back().memory();
    free_.pop_back();
    free_bytes_ -= memory;
    held_ -= memory;
  }
}

void BlockTable::DropKeptMaps() {
  while (!kept_maps_.empty() && held_ + kept_map_bytes_ > limit_) {
    kept_maps_.front().LetGo();
    kept_map_bytes_ -= kept_maps_.front().length;
    kept_maps_.pop_front();
  }
}

// Drops the block in memory that is needed last. Never drops a block that batch `oldest` needs.
bool BlockTable::DropBlock(uint64_t oldest) {
  BlockEntry* victim = nullptr;
  const auto next_need = [](const BlockEntry& entry) {
    return entry.tasks.empty() ? UINT64_MAX : entry.tasks.front()->sequence;
  };
  for (const auto& [key, entry] : entries_) {
    if (entry->state != BlockState::kReady || next_need(*entry) <= oldest || entry->charged == 0) continue;
    if (entry->holders > 0 || entry->kept_since != 0) continue;
    if (std::ranges::any_of(entry->tasks, [](const BatchTask* task) { return task->at_work; })) continue;
    if (victim == nullptr || std::pair(next_need(*entry), entry->id) > std::pair(next_need(*victim), victim->id)) {
      victim = entry.get();
    }
  }
  if (victim == nullptr) return false;
  victim->read_before = true;
  BeginDrain(*victim);
  EndDrain(*victim);
  return true;
}

void BlockTable::BeginDrain(BlockEntry& entry) {
  entry.state = BlockState::kDraining;
  dropped_ = true;
  for (BatchTask* const task : entry.tasks) task->missing += task->at_work ? 0 : 1;
}

void BlockTable::EndDrain(BlockEntry& entry) {
  if (entry.state != BlockState::kDraining) return;
  if (std::ranges::any_of(entry.tasks, [](const BatchTask* task) { return task->at_work; })) return;
  GiveBuffer(entry);
  entry.state = BlockState::kWanted;
  if (!entry.tasks.empty()) AddWanted(entry);
}

void BlockTable::PutOff(BatchTask& task) {
  for (const std::shared_ptr<BlockEntry>& entry : task.blocks) {
    if (entry == nullptr || entry->state != BlockState::kDraining) continue;
    ++task.missing;
    EndDrain(*entry);
  }
}

std::set<BlockTable::Place>::const_iterator BlockTable::NextReadable() const {
  auto next = wanted_.begin();
  if (in_turn_.empty()) return next;
  for (; next != wanted_.end(); ++next) {
    const BlockEntry& entry = *by_id_.at(next->second);
    if (!entry.place.forward_only || !in_turn_.contains({entry.key.dataset, entry.place.shard})) break;
  }
  return next;
}

bool BlockTable::anything_due(uint64_t oldest) const {
  const auto next = NextReadable();
  return next != wanted_.end() && !Early(next->first, oldest);
}

std::shared_ptr<BlockEntry> BlockTable::BeginRead(uint64_t oldest) {
  const auto next = NextReadable();
  if (next == wanted_.end() || Early(next->first, oldest)) return nullptr;
  const auto [sequence, id] = *next;
  BlockEntry& entry = *by_id_.at(id);
  const uint64_t bytes = Estimate(entry);
  const auto fits = [&] { return in_use() + bytes <= limit_; };
  if (!fits()) {
    if (sequence > oldest) return nullptr;
    // The size of the first blocks is a guess, so no other block is dropped for them.
    const bool known = expansion_[entry.key.dataset] != kExpansionUnknown;
    while (known && !fits() && DropBlock(oldest)) {
    }
  }
  wanted_.erase(next);
  wanted_bytes_ -= entry.estimate;
  if (entry.place.forward_only) in_turn_.emplace(entry.key.dataset, entry.place.shard);
  DropKept(bytes);
  TakeBuffer(entry);
  DropFreeBuffers();
  entry.state = BlockState::kReading;
  entry.may_leave = !FitsToKeep();
  entry.for_first_batch = sequence == 0;
  if (entry.read_before) ++read_again_;
  return entries_.at(entry.key);
}

std::vector<BatchTask*> BlockTable::EndRead(BlockEntry& entry) {
  entry.state = BlockState::kReady;
  if (entry.place.forward_only) in_turn_.erase({entry.key.dataset, entry.place.shard});
  uint64_t memory = entry.buffer.memory();
  if (entry.salvage) {
    for (const SalvagedSample& sample : *entry.salvage) {
      for (const auto& value : sample.values) memory += value ? value->size() : 0;
    }
  }
  Charge(entry, memory);
  entry.page_cache_bytes = entry.page_cache.left_bytes;
  if (!entry.begun) ahead_bytes_ += entry.page_cache_bytes;
  LearnExpansion(entry);
  std::vector<BatchTask*> complete;
  for (BatchTask* const task : entry.tasks) {
    if (--task->missing == 0) complete.push_back(task);
  }
  return complete;
}

void BlockTable::LearnExpansion(const BlockEntry& entry) {
  if (!entry.status.ok() || entry.salvage || entry.place.length < kBesideBytes) return;
  double& expansion = expansion_[entry.key.dataset];
  // The next block may not leave its values. How much of a buffer from before this one needed is not known.
  const uint64_t whole = entry.page_cache_bytes == 0
                             ? entry.charged
                             : entry.page_cache_bytes + entry.charged - std::min(entry.charged, entry.buffer_before);
  const double seen =
      static_cast<double>(whole - std::min(whole, kBesideBytes)) / static_cast<double>(InBuffer(entry.place.length));
  if (expansion == kExpansionUnknown) {
    expansion = seen;
    EstimateAgain(entry.key.dataset);
  } else if (seen <= expansion) {
    expansion += kExpansionDecay * (seen - expansion);
  } else if (whole > entry.buffer_before + kBesideBytes) {  // else its buffer was larger than it needs
    expansion = seen;
    EstimateAgain(entry.key.dataset);
  }
}

// Until the first block was read, others counted with all that they might take, and little was planned. The first may
// also have been a small one, which takes little for its bytes.
void BlockTable::EstimateAgain(uint32_t dataset) {
  for (const auto& [key, entry] : entries_) {
    if (key.dataset != dataset) continue;
    if (entry->state == BlockState::kReading) {
      Charge(*entry, std::max(entry->buffer_before, Estimate(*entry)));
    } else if (wanted_.contains({entry->tasks.empty() ? 0 : entry->tasks.front()->sequence, entry->id})) {
      wanted_bytes_ -= entry->estimate;
      wanted_bytes_ += entry->estimate = Estimate(*entry);
    }
  }
}

void BlockTable::Done(BlockEntry& entry, const BatchTask& task) {
  entry.tasks.erase(std::ranges::find(entry.tasks, &task));  // most often the first of many
  // Values were left in the file only so that the first batch need not wait for all of the block. Later batches, and
  // epochs, take them from memory.
  if (entry.left_for_first_batch() && entry.state == BlockState::kReady && entry.holders == 0) BeginDrain(entry);
  EndDrain(entry);
  ReleaseIfUnused(entry);
}

void BlockTable::Unhold(BlockEntry& entry) {
  --entry.holders;
  ReleaseIfUnused(entry);
}

void BlockTable::Retire(BlockEntry& entry, uint64_t epoch, uint64_t window) {
  std::erase_if(entry.claims, [&](const WindowClaim& claim) { return claim.epoch == epoch && claim.window == window; });
  ReleaseIfUnused(entry);
}

void BlockTable::ReleaseIfUnused(BlockEntry& entry) {
  if (!entry.tasks.empty() || entry.holders > 0 || !entry.claims.empty()) return;
  if (entry.state == BlockState::kReleased || entry.kept_since != 0) return;
  if (!WorthKeeping(entry)) return Forget(entry);
  kept_[entry.kept_since = ++last_kept_] = &entry;
  kept_bytes_ += entry.charged;
}

bool BlockTable::WorthKeeping(BlockEntry& entry) const {
  if (entry.state != BlockState::kReady || !entry.status.ok() || entry.salvage != nullptr) return false;
  return entry.buffer.state().mapped == nullptr && entry.page_cache_bytes == 0 && FitsToKeep();
}

// Whether all blocks together take little enough that those in memory stay there.
bool BlockTable::FitsToKeep() const {
  double bytes = 0;
  for (size_t i = 0; i < expansion_.size(); ++i) {
    bytes += static_cast<double>(dataset_bytes_[i]) * (expansion_[i] == kExpansionUnknown ? 1 : expansion_[i]);
  }
  return bytes <= static_cast<double>(std::min(keep_limit_, share_));
}

void BlockTable::Unkeep(BlockEntry& entry) {
  if (entry.kept_since == 0) return;
  kept_.erase(std::exchange(entry.kept_since, 0));
  kept_bytes_ -= entry.charged;
}

// Forgets the blocks kept longest until `room` bytes are left.
void BlockTable::DropKept(uint64_t room) {
  while (!kept_.empty() && held_ - free_bytes_ + room > limit_) Forget(*kept_.begin()->second);
}

void BlockTable::Forget(BlockEntry& entry) {
  Unkeep(entry);
  if (entry.state == BlockState::kReady || entry.state == BlockState::kDraining) GiveBuffer(entry);
  entry.state = BlockState::kReleased;
  by_id_.erase(entry.id);
  const BlockKey key = entry.key;
  entries_.erase(key);  // may destroy the entry
}

bool FirstBatchFirst(const BatchTask& oldest, bool reads_wait) {
  const auto& blocks = oldest.blocks;
  if (oldest.sequence > 0 || oldest.done || blocks.size() < 2) return false;
  if (oldest.missing == 0) return !reads_wait;
  return 2 * oldest.missing > blocks.size() &&
         std::ranges::none_of(blocks, [](const auto& block) { return block->state == BlockState::kWanted; });
}

}  // namespace shardkit::loader
