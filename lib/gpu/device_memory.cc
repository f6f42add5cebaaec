#include "gpu/device_memory.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/errors.h"
#include "base/status_macros.h"

namespace shardkit::gpu {
namespace {

constexpr uint64_t kLeastStep = uint64_t{64} << 10;

// Calls of Take in one stretch. The most bytes in use are known for this stretch and the one before.
constexpr uint64_t kStretch = 64;

// Rounds sizes up in steps of an eighth, so that batches that differ a little can use the same blocks.
uint64_t RoundedSize(uint64_t bytes) {
  const uint64_t step = std::max(std::bit_floor(bytes) / 8, kLeastStep);
  return (bytes + step - 1) / step * step;
}

}  // namespace

DeviceBlock::~DeviceBlock() { memory_->Return(*this); }

void DeviceBlock::UsedUntil(EventPool::Handle event) noexcept {
  try {
    uses_.push_back(event);
  } catch (const std::bad_alloc&) {
    (void)memory_->backend_->Synchronize(event.get());
  }
}

DeviceMemory::~DeviceMemory() { Free(std::move(kept_)); }

absl::StatusOr<std::shared_ptr<DeviceBlock>> DeviceMemory::Take(uint64_t bytes, Stream stream) {
  const uint64_t size = RoundedSize(bytes);
  // Made first: on any error from here on, its destructor gives back its piece with the earlier uses.
  std::shared_ptr<DeviceBlock> block(new DeviceBlock(shared_from_this()));
  Pieces surplus;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = FindKept(size); found != kept_.end()) {
      block->piece_.clear();
      block->piece_.splice(block->piece_.end(), kept_, found);
      kept_bytes_ -= block->size();
    } else {
      block->piece_.front().size = size;
    }
    NoteUse(block->size());
    surplus = TakeSurplus(most_);
    peak_ = std::max<uint64_t>(peak_, used_ + kept_bytes_);
  }
  Free(std::move(surplus));
  if (block->data() == nullptr) {
    absl::StatusOr<void*> memory = backend_->AllocateDevice(size);
    if (absl::IsResourceExhausted(memory.status())) {
      Pieces all;
      {
        std::lock_guard lock(mutex_);
        all = TakeSurplus(0);
      }
      if (!all.empty()) {
        Free(std::move(all));
        memory = backend_->AllocateDevice(size);
      }
    }
    if (!memory.ok()) {
      return Annotate(memory.status(), StrCat("device memory: ", size, " bytes beside ", used_ - size,
                                              " in use; lower batch_size or depth"));
    }
    block->piece_.front().data = static_cast<uint8_t*>(*memory);
  }
  for (const EventPool::Handle& use : block->piece_.front().uses) {
    SHARDKIT_RETURN_IF_ERROR(backend_->Wait(stream, use.get()));
  }
  return block;
}

// With the lock held.
void DeviceMemory::NoteUse(uint64_t size) {
  used_ += size;
  if (takes_++ % kStretch == 0) most_used_before_ = std::exchange(most_used_, 0);
  most_used_ = std::max<uint64_t>(most_used_, used_);
}

// The smallest kept piece that is large enough and not much larger; of equal ones the one kept longest. A piece that
// does not fit in `most_` is taken only when it has exactly this size. With the lock held.
DeviceMemory::Pieces::iterator DeviceMemory::FindKept(uint64_t size) {
  auto best = kept_.end();
  for (auto piece = kept_.begin(); piece != kept_.end(); ++piece) {
    if (piece->size < size || piece->size - size > size / 4) continue;
    if (piece->size != size && used_ + piece->size > most_) continue;
    if (best == kept_.end() || piece->size < best->size) best = piece;
  }
  return best;
}

// Takes out kept pieces, those kept longest first, until at most `most` bytes are held. With the lock held.
DeviceMemory::Pieces DeviceMemory::TakeSurplus(uint64_t most) {
  Pieces surplus;
  const uint64_t lately = std::max(most_used_, most_used_before_);
  const auto take = [&](uint64_t limit, bool idle) {
    for (auto piece = kept_.begin(); piece != kept_.end() && used_ + kept_bytes_ > limit;) {
      const auto next = std::next(piece);
      const bool reached = std::ranges::all_of(
          piece->uses, [&](const EventPool::Handle& use) { return backend_->Query(use.get()).value_or(true); });
      if (reached || !idle) {
        kept_bytes_ -= piece->size;
        surplus.splice(surplus.end(), kept_, piece);
      }
      piece = next;
    }
  };
  // The host has to wait for pieces that are still in use. So they are freed only for the limit that was asked for.
  take(std::min(most, lately + std::min(lately, UINT64_MAX - lately)), /*idle=*/true);
  take(most, /*idle=*/false);
  return surplus;
}

void DeviceMemory::Free(Pieces pieces) {
  for (const DeviceBlock::Piece& piece : pieces) {
    // Not every device's FreeDevice waits for the last use of the memory.
    for (const EventPool::Handle& use : piece.uses) (void)backend_->Synchronize(use.get());
    backend_->FreeDevice(piece.data, piece.size);
  }
}

bool DeviceMemory::HasRoom(uint64_t bytes) const {
  const uint64_t used = used_;
  return used <= most_ && RoundedSize(bytes) <= most_ - used;
}

void DeviceMemory::Return(DeviceBlock& block) {
  DeviceBlock::Piece& piece = block.piece_.front();
  // When the block's own uses are over, the earlier ones are too. Without own uses, the earlier ones are the last.
  if (!block.uses_.empty()) piece.uses = std::move(block.uses_);
  const uint64_t size = piece.size;
  std::unique_lock lock(mutex_);
  used_ -= size;
  if (piece.data != nullptr && !closed_) {
    kept_bytes_ += size;
    kept_.splice(kept_.end(), block.piece_);
  }
  if (returned_) returned_();
  lock.unlock();
  if (!block.piece_.empty() && piece.data != nullptr) Free(std::move(block.piece_));
}

void DeviceMemory::Close() {
  Pieces kept;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    returned_ = nullptr;
    kept_bytes_ = 0;
    kept.swap(kept_);
  }
  Free(std::move(kept));
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
