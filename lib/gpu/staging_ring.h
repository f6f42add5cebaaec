// Page-locked memory for data on its way to a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu/pinned_pool.h"
#include "shardkit/job.h"

namespace shardkit::gpu {

class StagingRing;

// A piece of page-locked memory. Whoever passes it to a device must keep it until the event of that use has been
// reached (Uploader does this): destroying a slot frees its memory for other slots.
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

// Thread-safe. Its slots keep it alive.
class StagingRing : public std::enable_shared_from_this<StagingRing> {
 public:
  // Slots come from the pool and may use its whole budget. The pool must be used by this ring only.
  static std::shared_ptr<StagingRing> Create(std::shared_ptr<PinnedPool> pool);

  // A slot of `bytes` > 0. It takes the next power of two of the budget, at least 64 KiB. Waits while the ring is full.
  // Cancelled ("waiting for a staging slot") after Cancel, or when `cancellation` is cancelled; call Wake after
  // cancelling the latter. Also waits for slots that nobody returns, even the caller's own. ResourceExhausted for more
  // bytes than the ring has, or when the device has no page-locked memory.
  absl::StatusOr<std::shared_ptr<StagingSlot>> Acquire(uint64_t bytes, const Cancellation* cancellation = nullptr);

  // Makes waiting and later calls of Acquire return Cancelled.
  void Cancel();
  void Wake();

  uint64_t bytes() const { return pool_->budget(); }

 private:
  friend class StagingSlot;
  explicit StagingRing(std::shared_ptr<PinnedPool> pool) : pool_(std::move(pool)) {}
  void Return(uint8_t* data);

  const std::shared_ptr<PinnedPool> pool_;
  std::mutex mutex_;
  std::condition_variable returned_;
  int slots_out_ = 0;
  bool cancelled_ = false;
};

}  // namespace shardkit::gpu
