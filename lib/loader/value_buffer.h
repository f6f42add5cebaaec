// The memory of a column's values: from the system, or page-locked.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/buffer.h"
#include "gpu/pinned_pool.h"

namespace shardkit::loader {

// Aligned to 4096 bytes, not cleared.
class ValueBuffer {
 public:
  ValueBuffer() = default;
  explicit ValueBuffer(std::shared_ptr<gpu::PinnedPool> source) : source_(std::move(source)) {}
  ~ValueBuffer() { Release(); }
  ValueBuffer(ValueBuffer&& other) noexcept
      : source_(other.source_),
        own_(std::move(other.own_)),
        lent_(std::exchange(other.lent_, nullptr)),
        lent_capacity_(std::exchange(other.lent_capacity_, 0)),
        size_(std::exchange(other.size_, 0)) {}
  ValueBuffer& operator=(ValueBuffer&& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(own_, other.own_);
    std::swap(lent_, other.lent_);
    std::swap(lent_capacity_, other.lent_capacity_);
    std::swap(size_, other.size_);
    return *this;
  }

  char* data() { return lent_ != nullptr ? lent_ : own_.data(); }
  size_t size() const { return size_; }
  size_t capacity() const { return lent_capacity_ + own_.capacity(); }
  void clear() { size_ = 0; }

  // The bytes from before may be lost.
  void resize_discard(size_t size) {
    size_ = size;
    if (size <= capacity()) return;
    Release();
    // Batches differ a little in size. Sizes are rounded up in steps of an eighth, so that the next batch can use the
    // same memory.
    const size_t step = std::max(std::bit_floor(size) / 8, Buffer::kAlignment);
    const size_t rounded = size > SIZE_MAX - step ? size : (size + step - 1) / step * step;
    if (source_ != nullptr && rounded % Buffer::kAlignment == 0) {
      lent_ = static_cast<char*>(source_->Allocate(rounded).value_or(nullptr));
    }
    if (lent_ != nullptr) {
      lent_capacity_ = rounded;
    } else {
      own_.resize_discard(rounded);
    }
  }

  // Gives the memory back.
  void Release() {
    if (lent_ != nullptr) source_->Free(lent_);
    lent_ = nullptr;
    lent_capacity_ = 0;
    own_ = Buffer();
  }

 private:
  std::shared_ptr<gpu::PinnedPool> source_;
  Buffer own_;
  char* lent_ = nullptr;
  size_t lent_capacity_ = 0;
  size_t size_ = 0;
};

}  // namespace shardkit::loader
