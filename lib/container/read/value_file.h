// A value of a shard as a file of its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/checked.h"
#include "base/errors.h"
#include "container/read/record_reader.h"
#include "shardkit/filesystem.h"

namespace shardkit::container {

// A part of the shard's file, or bytes in memory. Thread-safe.
class ValueFile final : public RandomAccessFile {
 public:
  // Bytes [begin, begin + size) of `shard`, which has them.
  ValueFile(std::shared_ptr<const RandomAccessFile> shard, uint64_t begin, uint64_t size)
      : ValueFile(shard, shard->path(), begin, size) {}
  // The same under another name.
  ValueFile(std::shared_ptr<const RandomAccessFile> file, std::string path, uint64_t begin, uint64_t size)
      : shard_(std::move(file)), path_(std::move(path)), begin_(begin), size_(size) {}

  ValueFile(std::string path, std::string bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)), size_(bytes_.size()) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), size_)) {
      return OutOfRange(path_, ": a read of ", buffer.size(), " bytes at ", offset, " passes the end of the value at ",
                        size_);
    }
    if (buffer.empty()) return absl::OkStatus();
    if (shard_ != nullptr) return ReadOfListed(shard_->ReadAt(begin_ + offset, buffer));
    std::memcpy(buffer.data(), bytes_.data() + offset, buffer.size());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const RandomAccessFile> shard_;  // null where the value is in memory
  const std::string path_;
  const std::string bytes_;
  const uint64_t begin_ = 0;
  const uint64_t size_;
};

}  // namespace shardkit::container
