// Memory of a device, used again without the host waiting for its last use.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/event_pool.h"
#include "shardkit/gpu/backend.h"

namespace shardkit::gpu {

class DeviceMemory;

// Goes back when it is destroyed. One thread at a time.
class DeviceBlock {
 public:
  ~DeviceBlock();
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  uint8_t* data() const { return data_; }  // aligned to 256 bytes
  uint64_t size() const { return size_; }

  // Whoever has the memory next waits for this event.
  void UsedUntil(EventPool::Handle event) { uses_.push_back(std::move(event)); }

 private:
  friend class DeviceMemory;
  DeviceBlock(std::shared_ptr<DeviceMemory> memory, uint8_t* data, uint64_t size)
      : memory_(std::move(memory)), data_(data), size_(size) {}

  const std::shared_ptr<DeviceMemory> memory_;
  uint8_t* const data_;
  const uint64_t size_;
  std::vector<EventPool::Handle> uses_;
};

// Thread-safe. Lives as long as any of its blocks.
class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  // Blocks are kept for use as long as `most` bytes are not passed. `returned` is called, on whatever thread and with
  // the memory's lock held, after one has come back, until Close.
  DeviceMemory(std::shared_ptr<Backend> backend, uint64_t most, std::function<void()> returned)
      : backend_(std::move(backend)), most_(most), returned_(std::move(returned)) {}
  ~DeviceMemory();

  // A block for work in `stream`, which waits for the block's last uses. `bytes` > 0. ResourceExhausted when the device
  // has no more; `most` is for the caller to look at.
  absl::StatusOr<std::shared_ptr<DeviceBlock>> Take(uint64_t bytes, Stream stream);

  // Whether a block of this size fits in `most` beside those in use. Takes no lock.
  bool HasRoom(uint64_t bytes) const;

  void Close();

  uint64_t held() const;  // used or kept
  uint64_t peak() const;

 private:
  friend class DeviceBlock;
  struct Kept {
    uint8_t* data = nullptr;
    std::vector<EventPool::Handle> uses;
  };

  void Return(DeviceBlock& block);
  void FreeKept(uint64_t wanted);

  const std::shared_ptr<Backend> backend_;
  const uint64_t most_;
  mutable std::mutex mutex_;
  std::function<void()> returned_;
  std::multimap<uint64_t, Kept> kept_;  // by size, the longest kept of a size first
  std::atomic<uint64_t> used_ = 0;
  uint64_t kept_bytes_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace shardkit::gpu
