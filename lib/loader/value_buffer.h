// The memory of a column's values: from the system, or from LoaderOptions::batch_memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "base/buffer.h"
#include "base/exceptions.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// A user's memory for batches. Keeps an exception that its Free throws, because nobody can handle it there.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::shared_ptr<BatchMemory> memory) : memory_(std::move(memory)) {}

  void* Allocate(size_t bytes) { return memory_->Allocate(bytes); }
  void Free(void* memory, size_t bytes) noexcept {
    try {
      memory_->Free(memory, bytes);
    } catch (...) {
      std::lock_guard lock(mutex_);
      failure_.Update(StatusOfException("loader: giving memory back to batch_memory"));
    }
  }
  // The first exception of Free.
  absl::Status failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  const std::shared_ptr<BatchMemory> memory_;
  mutable std::mutex mutex_;
  absl::Status failure_;
};

// Aligned to 4096 bytes, not cleared.
class ValueBuffer {
 public:
  ValueBuffer() = default;
  explicit ValueBuffer(std::shared_ptr<GuardedMemory> source) : source_(std::move(source)) {}
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
    if (source_ != nullptr && rounded % Buffer::kAlignment == 0) lent_ = static_cast<char*>(source_->Allocate(rounded));
    if (lent_ != nullptr) {
      lent_capacity_ = rounded;
    } else {
      own_.resize_discard(rounded);
    }
  }

  // Gives the memory back.
  void Release() {
    if (lent_ != nullptr) source_->Free(lent_, lent_capacity_);
    lent_ = nullptr;
    lent_capacity_ = 0;
    own_ = Buffer();
  }

 private:
  std::shared_ptr<GuardedMemory> source_;
  Buffer own_;
  char* lent_ = nullptr;
  size_t lent_capacity_ = 0;
  size_t size_ = 0;
};

}  // namespace shardkit::loader
