#include "gpu/pinned_pool.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "gpu/host_memory.h"

namespace shardkit::gpu {
namespace {

constexpr uint64_t kLeastBudget = uint64_t{1} << 20;
constexpr uint64_t kPage = 4096;

// Budgets of all pools of this process.
std::atomic<uint64_t> all_budgets = 0;

uint64_t Mebibytes(uint64_t bytes) { return bytes >> 20; }

}  // namespace

absl::StatusOr<std::shared_ptr<PinnedPool>> PinnedPool::Create(std::shared_ptr<Backend> backend,
                                                               const PinnedPoolOptions& options) {
  if (options.bytes < kLeastBudget) {
    return InvalidArgument("pinned memory: a budget of ", options.bytes, " bytes; give at least ", kLeastBudget);
  }
  const uint64_t before = all_budgets.fetch_add(options.bytes);
  std::shared_ptr<PinnedPool> pool(new PinnedPool(std::move(backend), options.bytes));
  if (options.most_of_memory == 0) return pool;
  const std::optional<MemoryLimit> limit = FindMemoryLimit();
  if (limit && static_cast<double>(before) + static_cast<double>(options.bytes) >
                   options.most_of_memory * static_cast<double>(limit->bytes)) {
    return ResourceExhausted("pinned memory: ", Mebibytes(options.bytes), " MiB",
                             before == 0 ? "" : StrCat(" on top of ", Mebibytes(before), " MiB"),
                             " would be more than ", options.most_of_memory * 100, " % of the ",
                             Mebibytes(limit->bytes), " MiB that this process may have (", limit->source,
                             "); lower pinned_bytes");
  }
  return pool;
}

PinnedPool::~PinnedPool() {
  FreeKept(UINT64_MAX);
  all_budgets -= budget_;
}

absl::StatusOr<void*> PinnedPool::Allocate(uint64_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  std::lock_guard lock(mutex_);
  auto kept = kept_by_size_.lower_bound(bytes);
  const bool room = used_ + kept_ <= budget_ && bytes <= budget_ - used_ - kept_;
  // A much larger slab is used only when there is no room for a new one.
  if (kept != kept_by_size_.end() && room && kept->first - bytes > bytes / 4) kept = kept_by_size_.end();
  void* memory = nullptr;
  uint64_t size = bytes;
  if (kept != kept_by_size_.end()) {
    std::tie(size, memory) = *kept;
    kept_ -= size;
    kept_by_size_.erase(kept);
  } else {
    FreeKept(bytes);
    if (bytes > budget_ - std::min(budget_, used_ + kept_)) {
      return ResourceExhausted("pinned memory: no room for ", bytes, " bytes; ", used_, " of ", budget_,
                               " are in use; raise pinned_bytes or make batches smaller");
    }
    SHARDKIT_ASSIGN_OR_RETURN(memory, backend_->AllocatePinned(bytes));
    ++allocations_;
  }
  try {
    in_use_.emplace(static_cast<const char*>(memory), size);
  } catch (const std::bad_alloc&) {
    backend_->FreePinned(memory, size);
    throw;
  }
  used_ += size;
  peak_ = std::max(peak_, used_ + kept_);
  return memory;
}

void PinnedPool::Free(void* memory) {
  std::lock_guard lock(mutex_);
  const auto found = in_use_.find(static_cast<const char*>(memory));
  if (found == in_use_.end()) return;
  const uint64_t size = found->second;
  in_use_.erase(found);
  used_ -= size;
  try {
    kept_by_size_.emplace(size, memory);
    kept_ += size;
  } catch (const std::bad_alloc&) {
    backend_->FreePinned(memory, size);
  }
}

// Frees kept slabs, the largest first, until `wanted` bytes have room or none is left.
void PinnedPool::FreeKept(uint64_t wanted) {
  while (!kept_by_size_.empty() && (used_ + kept_ > budget_ || wanted > budget_ - used_ - kept_)) {
    const auto largest = std::prev(kept_by_size_.end());
    backend_->FreePinned(largest->second, largest->first);
    kept_ -= largest->first;
    kept_by_size_.erase(largest);
  }
}

bool PinnedPool::Contains(const void* memory, uint64_t bytes) const {
  const char* const begin = static_cast<const char*>(memory);
  std::lock_guard lock(mutex_);
  auto slab = in_use_.upper_bound(begin);
  if (slab == in_use_.begin()) return false;
  --slab;
  const uint64_t offset = static_cast<uint64_t>(begin - slab->first);
  return offset <= slab->second && bytes <= slab->second - offset;
}

uint64_t PinnedPool::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}
uint64_t PinnedPool::kept() const {
  std::lock_guard lock(mutex_);
  return kept_;
}
uint64_t PinnedPool::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}
uint64_t PinnedPool::allocations() const {
  std::lock_guard lock(mutex_);
  return allocations_;
}

}  // namespace shardkit::gpu
