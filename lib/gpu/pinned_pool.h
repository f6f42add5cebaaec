// Page-locked memory for data that travels to a device. It is limited by a budget and reused.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/backend.h"

namespace shardkit::gpu {

struct PinnedPoolOptions {
  // The most bytes that the pool holds, in use and kept for reuse.
  uint64_t bytes = uint64_t{512} << 20;
  // Refuse a budget when all pools of this process together would lock more than this share of the memory it may have
  // (the least of the machine's memory and its control groups' limits, version 1 and 2). The kernel cannot reclaim
  // locked memory and kills processes instead. 0 does not check.
  double most_of_memory = 0.5;
};

// Slabs of page-locked memory on the NUMA node of the device, where that is known. Locking pages takes about as long as
// copying them, so returned slabs are kept and reused for requests of about their size. When the budget is used up, a
// smaller request may also get a larger slab; if no slab fits, kept slabs are freed to make room. Thread-safe. Must
// outlive its slabs (a loader's batches keep it).
class PinnedPool {
 public:
  // ResourceExhausted, with the figures, for a budget that most_of_memory refuses; InvalidArgument for one below 1 MiB.
  static absl::StatusOr<std::shared_ptr<PinnedPool>> Create(std::shared_ptr<Backend> backend,
                                                            const PinnedPoolOptions& options);
  ~PinnedPool();

  // `bytes` > 0. ResourceExhausted when the budget currently has no room, or the device has no memory.
  absl::StatusOr<void*> Allocate(uint64_t bytes);
  void Free(void* memory);

  // Whether these bytes are in a slab in use.
  bool Contains(const void* memory, uint64_t bytes) const;

  uint64_t budget() const { return budget_; }
  uint64_t used() const;         // bytes of slabs in use
  uint64_t kept() const;         // bytes of slabs kept for reuse
  uint64_t peak() const;         // most bytes of both together
  uint64_t allocations() const;  // slabs taken from the device so far

 private:
  PinnedPool(std::shared_ptr<Backend> backend, uint64_t budget) : backend_(std::move(backend)), budget_(budget) {}
  void FreeKept(uint64_t wanted);

  const std::shared_ptr<Backend> backend_;
  const uint64_t budget_;
  mutable std::mutex mutex_;
  std::map<const char*, uint64_t> in_use_;  // by address
  std::multimap<uint64_t, void*> kept_by_size_;
  uint64_t used_ = 0;
  uint64_t kept_ = 0;
  uint64_t peak_ = 0;
  uint64_t allocations_ = 0;
};

}  // namespace shardkit::gpu
