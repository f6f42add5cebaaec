// The memory of a batch, and the batch that a consumer sees.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "gpu/pinned_pool.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

// The memory of a column's values: from the system, or page-locked.
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

// A column while it is assembled. Expose makes `column` show the other members.
struct ColumnMemory {
  BatchColumn column;
  std::string name;  // the batch may outlive the loader
  ValueBuffer values;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> item_offsets;
  std::vector<uint64_t> shapes;
  std::vector<uint8_t> present;
  std::vector<std::string_view> views;
  std::vector<Geometry> geometries;

  // Frees memory that is left from a much larger batch. A small batch would hold it and be charged for it.
  void ShrinkIfMuchTooLarge() {
    constexpr uint64_t kLarge = uint64_t{8} << 20;
    if (values.capacity() <= kLarge || values.capacity() / 4 <= values.size()) return;
    const size_t size = values.size();
    values.Release();
    values.resize_discard(size);
  }

  void Expose() {
    column.name = name;
    column.values = {reinterpret_cast<uint8_t*>(values.data()), values.size()};
    column.offsets = offsets;
    column.item_offsets = item_offsets;
    column.shapes = shapes;
    column.present = present;
    column.views = views;
    column.geometries = geometries;
  }

  uint64_t memory() const {
    return values.capacity() + 8 * (offsets.capacity() + item_offsets.capacity() + shapes.capacity()) +
           present.capacity() + views.capacity() * sizeof(std::string_view) + geometries.capacity() * sizeof(Geometry);
  }
};

struct BlockEntry;

class BatchStorage : public Batch {
 public:
  uint64_t epoch() const override { return epoch_; }
  uint64_t step() const override { return step_; }
  size_t size() const override { return samples_.size(); }
  std::span<const BatchSample> samples() const override { return samples_; }
  std::string_view key(size_t i) const override {
    if (key_ends_.empty()) return {};
    const size_t begin = i == 0 ? 0 : key_ends_[i - 1];
    return keys_.view().substr(begin, key_ends_[i] - begin);
  }
  std::span<const BadSample> skipped() const override { return skipped_; }
  size_t column_count() const override { return columns_.size(); }
  const BatchColumn& column(size_t i) const override { return columns_[i].column; }
  uint64_t memory() const override {
    uint64_t bytes =
        keys_.capacity() + samples_.capacity() * sizeof(BatchSample) + key_ends_.capacity() * sizeof(size_t);
    for (const ColumnMemory& column : columns_) bytes += column.memory();
    return bytes;
  }

  uint64_t epoch_ = 0;
  uint64_t step_ = 0;
  std::vector<BatchSample> samples_;
  Buffer keys_;
  std::vector<size_t> key_ends_;
  std::vector<BadSample> skipped_;
  std::vector<ColumnMemory> columns_;
  std::vector<std::shared_ptr<BlockEntry>> held_;  // the blocks that views point into
  uint64_t charged_ = 0;                           // bytes that the pool has charged
};

}  // namespace shardkit::loader
