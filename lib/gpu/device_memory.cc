#include "gpu/device_memory.h"

#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::gpu {
namespace {

constexpr uint64_t kLeastStep = uint64_t{64} << 10;

// Sizes in steps of an eighth, so that batches that differ a little use each other's blocks.
uint64_t RoundedSize(uint64_t bytes) {
  const uint64_t step = std::max(std::bit_floor(bytes) / 8, kLeastStep);
  return (bytes + step - 1) / step * step;
}

}  // namespace

DeviceBlock::~DeviceBlock() { memory_->Return(*this); }

DeviceMemory::~DeviceMemory() { FreeKept(UINT64_MAX); }

absl::StatusOr<std::shared_ptr<DeviceBlock>> DeviceMemory::Take(uint64_t bytes, Stream stream) {
  const uint64_t size = RoundedSize(bytes);
  std::vector<EventPool::Handle> uses;
  uint8_t* data = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(size); found != kept_.end()) {
      data = found->second.data;
      uses = std::move(found->second.uses);
      kept_.erase(found);
      kept_bytes_ -= size;
    } else {
      FreeKept(size);
      absl::StatusOr<void*> memory = backend_->AllocateDevice(size);
      if (absl::IsResourceExhausted(memory.status()) && !kept_.empty()) {
        FreeKept(UINT64_MAX);
        memory = backend_->AllocateDevice(size);
      }
      if (!memory.ok()) {
        return Annotate(memory.status(), StrCat("device memory: ", size, " bytes beside ", used_.load(),
                                                " in use; lower batch_size or depth"));
      }
      data = static_cast<uint8_t*>(*memory);
    }
    used_ += size;
    peak_ = std::max<uint64_t>(peak_, used_ + kept_bytes_);
  }
  // Made first, so that the memory comes back when a wait fails.
  std::shared_ptr<DeviceBlock> block(new DeviceBlock(shared_from_this(), data, size));
  for (const EventPool::Handle& use : uses) {
    if (const absl::Status status = backend_->Wait(stream, use.get()); !status.ok()) {
      block->uses_ = std::move(uses);
      return status;
    }
  }
  return block;
}

bool DeviceMemory::HasRoom(uint64_t bytes) const {
  const uint64_t used = used_;
  return used <= most_ && RoundedSize(bytes) <= most_ - used;
}

void DeviceMemory::Return(DeviceBlock& block) {
  std::lock_guard lock(mutex_);
  used_ -= block.size_;
  kept_bytes_ += block.size_;
  kept_.emplace(block.size_, Kept{block.data_, std::move(block.uses_)});
  FreeKept(0);
  if (returned_) returned_();
}

void DeviceMemory::Close() {
  std::lock_guard lock(mutex_);
  returned_ = nullptr;
}

// Frees kept blocks, the largest first, until `wanted` bytes fit in `most_` or none is left. With the lock held.
void DeviceMemory::FreeKept(uint64_t wanted) {
  while (!kept_.empty() && (used_ + kept_bytes_ > most_ || wanted > most_ - used_ - kept_bytes_)) {
    const auto largest = std::prev(kept_.end());
    // Not every device waits for the memory's last use by itself.
    for (const EventPool::Handle& use : largest->second.uses) (void)backend_->Synchronize(use.get());
    backend_->FreeDevice(largest->second.data, largest->first);
    kept_bytes_ -= largest->first;
    kept_.erase(largest);
  }
}

uint64_t DeviceMemory::held() const {
  std::lock_guard lock(mutex_);
  return used_ + kept_bytes_;
}
uint64_t DeviceMemory::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace shardkit::gpu
