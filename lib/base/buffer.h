// Growing memory that is not cleared first, aligned for direct I/O.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace shardkit {

// Like std::string, without the zero fill. Aligned to 4096 bytes.
class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;
  static constexpr size_t kHugePage = size_t{2} << 20;

  Buffer() = default;
  ~Buffer() { std::free(data_); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  std::string_view view() const { return {data_, size_}; }
  void clear() { size_ = 0; }

  // Bytes up to the new size are kept; new ones are uninitialised.
  void resize(size_t size) {
    if (size > capacity_) Grow(size, size_);
    size_ = size;
  }

  // The same, but the old bytes need not survive.
  void resize_discard(size_t size) {
    if (size > capacity_) Grow(size, 0);
    size_ = size;
  }

  // Uninitialised bytes at the end.
  char* Extend(size_t length) {
    const size_t begin = size_;
    if (size_ + length > capacity_) Grow(size_ + length, size_);
    size_ += length;
    return data_ + begin;
  }

  void Append(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }

  void AppendZeros(size_t length) {
    if (length != 0) std::memset(Extend(length), 0, length);
  }

 private:
  void Grow(size_t wanted, size_t keep) {
    size_t capacity = capacity_ + capacity_ / 2;
    if (capacity < wanted) capacity = wanted;
    const size_t alignment = capacity < kHugePage ? kAlignment : kHugePage;
    capacity = (capacity + alignment - 1) / alignment * alignment;
    char* const grown = static_cast<char*>(std::aligned_alloc(alignment, capacity));
    if (grown == nullptr) throw std::bad_alloc();
#ifdef __linux__
    // The first touch of a block's memory is a fault per page: with small pages that takes longer than hashing the block.
    if (alignment == kHugePage) (void)madvise(grown, capacity, MADV_HUGEPAGE);
#endif
    if (keep != 0) std::memcpy(grown, data_, keep);
    std::free(data_);
    data_ = grown;
    capacity_ = capacity;
  }

  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace shardkit
