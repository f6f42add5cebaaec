// Samples and their values, one by one and in blocks.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"

namespace shardkit {

// A sample on its way into a shard.

// One value: bytes in memory, or, for values too large for memory, a whole file that is read when the value is written.
// The bytes are encoded for the column's type as in format-spec/spec.md, "Values". Borrowed: the maker of the value
// documents how long the bytes live.
struct Value {
  std::string_view bytes;
  std::shared_ptr<const RandomAccessFile> file;  // when set, the value is the size() bytes of this file

  Value() = default;
  Value(std::string_view b) : bytes(b) {}  // NOLINT: a value is a byte string in nearly every use
  uint64_t length() const { return file ? file->size() : bytes.size(); }
};

// A value and its column. The maker of the field owns the column.
struct Field {
  const Column* column = nullptr;
  Value value;
};

// Key and fields of one sample. Columns without a field are absent. Each column at most once.
struct Sample {
  std::string_view key;
  std::vector<Field> fields;
};

// Memory with stable addresses for the values of a batch of samples. One thread at a time.
class ByteArena {
 public:
  // Uninitialised bytes, valid until Clear().
  std::span<char> Allocate(size_t length);
  std::string_view Copy(std::string_view bytes);

  // Returns the last `length` bytes of the most recent Allocate to the arena.
  void Shrink(size_t length) { used_ -= length; }

  // Bytes of all allocations since Clear, including unused gaps between them.
  uint64_t allocated() const;

  // Forgets all allocations but keeps up to 8 MiB of memory for reuse.
  void Clear();

 private:
  struct Chunk {
    std::unique_ptr<char[]> memory;
    size_t size = 0;
  };
  std::vector<Chunk> chunks_;
  size_t current_ = 0;
  size_t used_ = 0;
};

// A block in memory: consecutive samples, column by column, as views without copies.

namespace container {
class BlockAssembler;
}

// The values of one column of a block. Borrows the block's memory. Its reader has checked that every offset lies within
// the chunk. Thread-safe.
class ColumnView {
 public:
  ColumnView() = default;
  // `presence` is null unless the column is nullable; `ends` is null for fixed-size values; `tail` bytes follow each
  // present value and are not part of it. Empty memory may have a null address, so a null `values` does not mean that
  // the column was not loaded.
  ColumnView(uint32_t sample_count, const char* presence, const char* ends, const char* values, uint64_t fixed_size,
             uint64_t tail)
      : presence_(presence),
        ends_(ends),
        values_(values != nullptr ? values : ""),
        fixed_size_(fixed_size),
        tail_(tail),
        count_(sample_count) {}

  // A column that the shard lacks.
  static ColumnView Missing(uint32_t sample_count) {
    ColumnView view;
    view.count_ = sample_count;
    return view;
  }

  // Values at any places: value i is bytes [begins[i], ends[i]) from `values` on. Both are native 64-bit numbers. For
  // shards of other containers, which store sample after sample.
  static ColumnView Scattered(uint32_t sample_count, const char* presence, const char* begins, const char* ends,
                              const char* values) {
    ColumnView view(sample_count, presence, ends, values, 0, 0);
    view.begins_ = begins;
    return view;
  }

  // The same column without its values: the record of value i is in the file at record(i), counted from `offset`.
  // value(i) then has the right length, but no bytes.
  ColumnView InFile(uint64_t offset) const {
    ColumnView view = *this;
    view.file_offset_ = offset;
    return view;
  }
  bool in_file() const { return file_offset_ != kInMemory; }

  // Begin and end of the record of value i in the file: the value, and its checksum in the last 8 bytes. Only for
  // in_file().
  std::pair<uint64_t, uint64_t> record(uint32_t i) const { return {file_offset_ + begin(i), file_offset_ + end(i)}; }

  // Other values of the same column: their records are at [begins[i], ends[i]) from its values on.
  ColumnView At(uint32_t sample_count, const char* presence, const char* begins, const char* ends) const {
    ColumnView view = *this;
    view.count_ = sample_count;
    view.presence_ = presence;
    view.begins_ = begins;
    view.ends_ = ends;
    return view;
  }

  // False for a column that was not requested or that the shard lacks. All its values are absent.
  bool loaded() const { return values_ != nullptr; }

  uint32_t size() const { return count_; }

  bool present(uint32_t i) const {
    if (values_ == nullptr) return false;
    return presence_ == nullptr || ((static_cast<uint8_t>(presence_[i / 8]) >> (i % 8)) & 1) != 0;
  }

  // Bytes of value i (i < size()), encoded as its type says; empty when absent.
  std::optional<std::string_view> value(uint32_t i) const {
    if (!present(i)) return std::nullopt;
    return bytes(i);
  }

  // Like value(), but without a check for presence: an absent value has no bytes, or zeros if fixed-size. Only for
  // loaded columns.
  std::string_view bytes(uint32_t i) const {
    if (ends_ == nullptr) return {values_ + i * fixed_size_, fixed_size_};
    const uint64_t from = begin(i);
    const uint64_t length = end(i) - from;
    return {values_ + from, length < tail_ ? 0 : length - tail_};
  }

  // Whether all values have fixed_size() bytes and follow one another.
  bool fixed() const { return ends_ == nullptr; }
  uint64_t fixed_size() const { return fixed_size_; }

  // Null if no value of a loaded column is absent; else a bit for each sample.
  const char* presence() const { return presence_; }
  bool may_be_absent() const { return presence_ != nullptr; }

  // Begin and end of the record of value i, from the start of the values. Not for fixed-size columns.
  uint64_t begin(uint32_t i) const { return begins_ != nullptr ? Number(begins_, i) : i == 0 ? 0 : end(i - 1); }
  uint64_t end(uint32_t i) const { return Number(ends_, i); }

 private:
  static constexpr uint64_t kInMemory = UINT64_MAX;

  static uint64_t Number(const char* numbers, uint32_t i) {
    uint64_t value;
    std::memcpy(&value, numbers + 8 * uint64_t{i}, 8);
    return value;
  }

  const char* presence_ = nullptr;
  const char* begins_ = nullptr;
  const char* ends_ = nullptr;
  const char* values_ = nullptr;  // null: not loaded
  uint64_t fixed_size_ = 0;
  uint64_t tail_ = 0;
  uint64_t file_offset_ = kInMemory;
  uint32_t count_ = 0;
};

// Borrows the reader's schema and the buffer (or the memory map) that the block was read into.
class BlockView {
 public:
  uint64_t first_sample() const { return first_sample_; }  // ordinal in the shard
  uint32_t sample_count() const { return sample_count_; }
  const ColumnView& column(size_t i) const { return columns_[i]; }  // by position in the schema used for reading
  size_t column_count() const { return columns_.size(); }

  // Inserts a column at position `i` whose values are all absent.
  void InsertMissing(size_t i) {
    columns_.insert(columns_.begin() + static_cast<std::ptrdiff_t>(i), ColumnView::Missing(sample_count_));
  }

 private:
  friend class container::BlockAssembler;
  uint64_t first_sample_ = 0;
  uint32_t sample_count_ = 0;
  std::vector<ColumnView> columns_;
};

}  // namespace shardkit
