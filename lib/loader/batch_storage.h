// The memory of a batch, and the batch that a consumer sees.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "loader/value_buffer.h"
#include "shardkit/loader.h"

namespace shardkit::loader {

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
