// Memory of a device, which is reused without making the host wait for its last use.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/backend.h"
#include "gpu/event_pool.h"

namespace shardkit::gpu {

class DeviceMemory;

// Goes back to DeviceMemory when destroyed. Before Close, that neither waits nor calls the device. One thread at a
// time.
class DeviceBlock {
 public:
  ~DeviceBlock();
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  uint8_t* data() const { return piece_.front().data; }  // aligned to 256 bytes
  uint64_t size() const { return piece_.front().size; }

  // The next user of the memory waits for this event. The event comes after the work that Take was called for.
  void UsedUntil(EventPool::Handle event) noexcept;

 private:
  friend class DeviceMemory;
  struct Piece {
    uint8_t* data = nullptr;  // null until there is memory
    uint64_t size = 0;
    std::vector<EventPool::Handle> uses;  // by earlier blocks, while a block has the piece
  };

  explicit DeviceBlock(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)), piece_(1) {}

  const std::shared_ptr<DeviceMemory> memory_;
  std::list<Piece> piece_;  // one piece, which moves between lists, because giving it back must not throw
  std::vector<EventPool::Handle> uses_;
};

// Thread-safe. Lives as long as any of its blocks.
//
// Blocks that came back are kept for later ones, within `most` bytes and within twice the most bytes in use lately, so
// that batches of many sizes do not leave a block of every size. Take frees what is kept beyond that, without the lock:
// on the thread that asks for memory, and not on the thread that gives it back.
class DeviceMemory : public std::enable_shared_from_this<DeviceMemory> {
 public:
  // `returned` is called after a block has come back, on any thread and with this object's lock held, until Close.
  DeviceMemory(std::shared_ptr<Backend> backend, uint64_t most, std::function<void()> returned)
      : backend_(std::move(backend)), most_(most), returned_(std::move(returned)) {}
  ~DeviceMemory();

  // A block for work in `stream`, which waits for the block's last uses. `bytes` > 0. ResourceExhausted when the device
  // has no more memory. Does not check `most`: callers do (HasRoom).
  absl::StatusOr<std::shared_ptr<DeviceBlock>> Take(uint64_t bytes, Stream stream);

  // Whether a block of this size fits in `most` beside those in use. Takes no lock.
  bool HasRoom(uint64_t bytes) const;

  // No more blocks will be taken: frees those that are kept.
  void Close();

  uint64_t held() const;  // used or kept
  uint64_t peak() const;

 private:
  friend class DeviceBlock;
  using Pieces = std::list<DeviceBlock::Piece>;

  void NoteUse(uint64_t size);
  Pieces::iterator FindKept(uint64_t size);
  Pieces TakeSurplus(uint64_t wanted);
  void Free(Pieces pieces);
  void Return(DeviceBlock& block);

  const std::shared_ptr<Backend> backend_;
  const uint64_t most_;
  mutable std::mutex mutex_;
  std::function<void()> returned_;
  bool closed_ = false;
  Pieces kept_;  // in the order of their return
  std::atomic<uint64_t> used_ = 0;
  uint64_t kept_bytes_ = 0;
  uint64_t peak_ = 0;
  // The most bytes in use in this stretch of takes, and in the one before.
  uint64_t takes_ = 0, most_used_ = 0, most_used_before_ = 0;
};

}  // namespace shardkit::gpu
