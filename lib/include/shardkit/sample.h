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

// One value: bytes in memory, or, for values too large to hold, a whole file to be read when it is
// written. Bytes are as format-spec/spec.md, "Values", says for the column's type. Borrowed: the bytes
// live as long as whoever made the value says.
struct Value {
  std::string_view bytes;
  std::shared_ptr<const RandomAccessFile> file;  // when set, the value is this file's size() bytes

  Value() = default;
  Value(std::string_view b) : bytes(b) {}  // NOLINT: a value is a byte string in nearly every use
  uint64_t length() const { return file ? file->size() : bytes.size(); }
};

// A value and the column it belongs to. The column is owned by whoever made the field.
struct Field {
  const Column* column = nullptr;
  Value value;
};

// Fields of one sample, the key apart; a column that is not named is absent. No column twice.
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

  // Gives back the last `length` bytes of the most recent Allocate.
  void Shrink(size_t length) { used_ -= length; }

  // Bytes of all allocations since Clear, with what could not be used between them.
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
