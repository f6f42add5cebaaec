#include "gpu/staging_ring.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/errors.h"

namespace shardkit::gpu {
namespace {

constexpr uint64_t kLeastSlot = uint64_t{64} << 10;

}  // namespace

StagingSlot::~StagingSlot() { ring_->Return(data_); }

std::shared_ptr<StagingRing> StagingRing::Create(std::shared_ptr<PinnedPool> pool) {
  return std::shared_ptr<StagingRing>(new StagingRing(std::move(pool)));
}

absl::StatusOr<std::shared_ptr<StagingSlot>> StagingRing::Acquire(uint64_t bytes, const Cancellation* cancellation) {
  if (bytes > pool_->budget()) {
    return ResourceExhausted("staging ring: a slot of ", bytes, " bytes; the ring has ", pool_->budget(),
                             ", raise pinned_bytes");
  }
  // Uses few sizes, so that later slots can use the same memory.
  const uint64_t rounded = std::min(std::bit_ceil(std::max(bytes, kLeastSlot)), pool_->budget());
  std::unique_lock lock(mutex_);
  while (true) {
    if (cancelled_ || (cancellation != nullptr && cancellation->cancelled())) {
      return Cancelled("cancelled while waiting for a staging slot");
    }
    const absl::StatusOr<void*> memory = pool_->Allocate(rounded);
    if (memory.ok()) {
      ++slots_out_;
      lock.unlock();  // Return takes the lock
      uint8_t* const data = static_cast<uint8_t*>(*memory);
      StagingSlot* slot = nullptr;
      try {
        slot = new StagingSlot(shared_from_this(), data, bytes);
      } catch (const std::bad_alloc&) {
        Return(data);
        throw;
      }
      return std::shared_ptr<StagingSlot>(slot);
    }
    if (slots_out_ == 0) return memory.status();  // nothing will come back
    returned_.wait(lock);
  }
}

void StagingRing::Return(uint8_t* data) {
  std::lock_guard lock(mutex_);
  pool_->Free(data);
  --slots_out_;
  returned_.notify_all();
}

void StagingRing::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  returned_.notify_all();
}

void StagingRing::Wake() {
  std::lock_guard lock(mutex_);
  returned_.notify_all();
}

}  // namespace shardkit::gpu
