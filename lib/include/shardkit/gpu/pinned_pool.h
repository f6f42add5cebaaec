// Page-locked memory for what travels to a device, within a budget and used again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "shardkit/batch.h"
#include "shardkit/gpu/backend.h"

namespace shardkit::gpu {

struct PinnedPoolOptions {
  // Bytes that the pool holds at most, in use and kept for use.
  uint64_t bytes = uint64_t{512} << 20;
  // Refuse budgets by which this process would lock more than this share of the memory it may have (the least of the
  // machine's memory and its control groups' limits, version 1 and 2), all its pools together: locked memory cannot be
  // taken back, and the kernel then ends processes instead. 0 does not ask.
  double most_of_memory = 0.5;
};

// Slabs of page-locked memory on the NUMA node of the device, where that is known. Locking pages takes about as long as
// copying them, so slabs that come back are kept and given out again, to requests of about their size or, when the
// budget is used up, of a smaller one; failing that, kept ones are freed to make room. Thread-safe. Must outlive its
// slabs (a loader's batches keep it).
class PinnedPool : public BatchMemory {
 public:
  // ResourceExhausted, with the figures, for a budget that most_of_memory refuses; InvalidArgument for one below 1 MiB.
  static absl::StatusOr<std::shared_ptr<PinnedPool>> Create(std::shared_ptr<Backend> backend,
                                                            const PinnedPoolOptions& options);
  ~PinnedPool() override;

  // `bytes` > 0. ResourceExhausted when the budget has no room at present, or the device no memory.
  absl::StatusOr<void*> TryAllocate(uint64_t bytes);
  // The same; null instead of the error.
  void* Allocate(size_t bytes) override;
  void Free(void* memory, size_t bytes) override;
  uint64_t limit() const override { return budget_; }

  // Whether these bytes lie in a slab that is in use.
  bool Contains(const void* memory, uint64_t bytes) const;

  uint64_t budget() const { return budget_; }
  uint64_t used() const;         // bytes of slabs in use
  uint64_t kept() const;         // bytes of slabs waiting for use
  uint64_t peak() const;         // of both
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
