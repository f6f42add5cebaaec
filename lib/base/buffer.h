// Growing memory without zero fill, aligned for direct I/O.
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

// Whole files are read, hashed and copied in pieces of this size.
inline constexpr uint64_t kCopyPiece = uint64_t{4} << 20;

// Like std::string, without the zero fill. Aligned to 4096 bytes.
class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;

  Buffer() = default;
  ~Buffer() { Free(data_, capacity_); }
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

  // Keeps the bytes up to the new size; new bytes are uninitialised.
  void resize(size_t size) {
    if (size > capacity_) Grow(size, size_);
    size_ = size;
  }

  // Room for so many bytes in all.
  void reserve(size_t size) {
    if (size > capacity_) Reallocate(size, size_);
  }

  // The same as resize, but may discard the old bytes.
  void resize_discard(size_t size) {
    if (size > capacity_) Reallocate(size, 0);
    size_ = size;
  }

  // Adds uninitialised bytes at the end.
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
  // For buffers that grow in small steps.
  void Grow(size_t wanted, size_t keep) {
    const size_t capacity = capacity_ + capacity_ / 2;
    Reallocate(capacity < wanted ? wanted : capacity, keep);
  }

  void Reallocate(size_t capacity, size_t keep) {
    capacity = (capacity + kAlignment - 1) / kAlignment * kAlignment;
    char* grown = keep != 0 ? Extended(capacity) : nullptr;
    if (grown == nullptr) {
      grown = Allocate(capacity);
      if (grown == nullptr) throw std::bad_alloc();
      if (keep != 0) std::memcpy(grown, data_, keep);
      Free(data_, capacity_);
    }
    data_ = grown;
    capacity_ = capacity;
  }

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
  // Large memory comes directly from the system and is returned to it. After a few large blocks were freed, malloc
  // would keep later ones in its arenas. With buffers of mixed sizes and several threads, a process then holds a
  // multiple of the memory that it uses. Huge pages are not asked for: buffers are used again and again, which leaves
  // them nothing to gain, and where the system has to make them first they cost a multiple of small ones.
  static bool FromSystem(size_t capacity) { return capacity >= size_t{2} << 20; }

  static char* Allocate(size_t capacity) {
    if (!FromSystem(capacity)) return static_cast<char*>(std::aligned_alloc(kAlignment, capacity));
    void* const address = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return address == MAP_FAILED ? nullptr : static_cast<char*>(address);
  }

  // The memory with its bytes, longer: the system moves pages where it would copy bytes to new ones. Null where it
  // must.
  char* Extended(size_t capacity) {
    if (!FromSystem(capacity_)) return nullptr;
    void* const address = mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
    return address == MAP_FAILED ? nullptr : static_cast<char*>(address);
  }

  static void Free(char* data, size_t capacity) {
    if (FromSystem(capacity)) {
      (void)munmap(data, capacity);
    } else {
      std::free(data);
    }
  }
#else
  static char* Allocate(size_t capacity) { return static_cast<char*>(std::aligned_alloc(kAlignment, capacity)); }
  static char* Extended(size_t /*capacity*/) { return nullptr; }
  static void Free(char* data, size_t) { std::free(data); }
#endif

  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace shardkit
