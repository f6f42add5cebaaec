#include <algorithm>
#include <cstring>

#include "shardkit/sample.h"

namespace shardkit {
namespace {

// Large enough that a batch of small values needs few chunks, small enough that an idle batch costs little.
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kKeptBytes = size_t{8} << 20;
constexpr size_t kAlignment = 8;  // so that stored arrays of 8-byte elements can be viewed in place

}  // namespace

std::span<char> ByteArena::Allocate(size_t length) {
  if (!chunks_.empty()) {
    const size_t begin = (used_ + kAlignment - 1) & ~(kAlignment - 1);
    if (begin <= chunks_[current_].size && length <= chunks_[current_].size - begin) {
      used_ = begin + length;
      return {chunks_[current_].memory.get() + begin, length};
    }
    ++current_;
  }
  current_ = std::min(current_, chunks_.size());  // an arena that was moved from has lost its chunks
  // Uses the next kept chunk when it is large enough. Otherwise inserts a new chunk before it.
  if (current_ == chunks_.size() || chunks_[current_].size < length) {
    const size_t size = std::max(length, kChunkBytes);
    Chunk chunk{std::make_unique_for_overwrite<char[]>(size), size};
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(current_), std::move(chunk));
  }
  used_ = length;
  return {chunks_[current_].memory.get(), length};
}

std::string_view ByteArena::Copy(std::string_view bytes) {
  const std::span<char> memory = Allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(memory.data(), bytes.data(), bytes.size());
  return {memory.data(), memory.size()};
}

uint64_t ByteArena::allocated() const {
  uint64_t bytes = used_;
  for (size_t i = 0; i < current_; ++i) bytes += chunks_[i].size;
  return bytes;
}

void ByteArena::Clear() {
  size_t kept = 0;
  std::erase_if(chunks_, [&kept](const Chunk& chunk) {
    if (chunk.size > kKeptBytes - kept) return true;
    kept += chunk.size;
    return false;
  });
  current_ = 0;
  used_ = 0;
}

}  // namespace shardkit
