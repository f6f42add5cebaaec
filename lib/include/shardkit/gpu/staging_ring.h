// Page-locked memory that things pass through on their way to a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/cancellation.h"
#include "shardkit/gpu/pinned_pool.h"

namespace shardkit::gpu {

class StagingRing;

// A piece of page-locked memory. Whoever hands it to a device keeps it until the event of that use has been reached
// (Uploader does): when it is destroyed, its memory is another's.
class StagingSlot {
 public:
  ~StagingSlot();
  StagingSlot(const StagingSlot&) = delete;
  StagingSlot& operator=(const StagingSlot&) = delete;

  uint8_t* data() const { return data_; }  // aligned to 4096 bytes
  uint64_t size() const { return size_; }  // bytes

 private:
  friend class StagingRing;
  StagingSlot(std::shared_ptr<StagingRing> ring, uint8_t* data, uint64_t size)
      : ring_(std::move(ring)), data_(data), size_(size) {}

  const std::shared_ptr<StagingRing> ring_;
  uint8_t* const data_;
  const uint64_t size_;
};

// Thread-safe. Lives as long as any of its slots.
class StagingRing : public std::enable_shared_from_this<StagingRing> {
 public:
  // Slots come from the pool, all of whose budget they may fill; the pool is for this ring alone.
  static std::shared_ptr<StagingRing> Create(std::shared_ptr<PinnedPool> pool);

  // A slot of `bytes` > 0, for which it takes the next power of two of its budget, 64 KiB at least. Waits while the
  // ring is full, until Cancel or `cancellation` says Cancelled ("waiting for a staging slot"); who cancels by the
  // latter calls Wake. Slots that nobody gives back are waited for, those of the caller too. ResourceExhausted for more
  // bytes than the ring has, or when the device has no page-locked memory.
  absl::StatusOr<std::shared_ptr<StagingSlot>> Acquire(uint64_t bytes, const Cancellation* cancellation = nullptr);

  // Makes waiting and later calls of Acquire return Cancelled.
  void Cancel();
  void Wake();

  uint64_t bytes() const { return pool_->budget(); }

 private:
  friend class StagingSlot;
  explicit StagingRing(std::shared_ptr<PinnedPool> pool) : pool_(std::move(pool)) {}
  void Return(uint8_t* data, uint64_t size);

  const std::shared_ptr<PinnedPool> pool_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int slots_out_ = 0;
  bool cancelled_ = false;
};

}  // namespace shardkit::gpu
