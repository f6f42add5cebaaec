// A sample on its way into a shard.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "shardkit/filesystem.h"
#include "shardkit/schema.h"

namespace shardkit {

// One value: bytes in memory, or, for values too large for memory, a whole file that is read when the value is written.
// The bytes are as format-spec/spec.md, "Values", says for the column's type. Borrowed: whoever makes the value says
// how long the bytes live.
struct Value {
  std::string_view bytes;
  std::shared_ptr<const RandomAccessFile> file;  // when set, the value is the size() bytes of this file

  Value() = default;
  Value(std::string_view b) : bytes(b) {}  // NOLINT: a value is a byte string in nearly every use
  uint64_t length() const { return file ? file->size() : bytes.size(); }
};

// A value and its column. Whoever makes the field owns the column.
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

}  // namespace shardkit
