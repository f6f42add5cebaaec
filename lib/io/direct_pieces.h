// Splits reads of any offset, length and buffer into reads that O_DIRECT accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "shardkit/filesystem.h"

namespace shardkit::io {

// Offsets, lengths and addresses of direct reads are multiples of this, the page size. Every device accepts it. Older
// kernels cannot report the real requirement (512 or 4096).
constexpr size_t kDirectAlignment = 4096;

// Most bytes of one read through a bounce buffer.
constexpr size_t kBounceLength = size_t{256} << 10;

// One aligned read.
struct DirectPiece {
  uint64_t offset = 0;      // in the file
  size_t length = 0;        // bytes to request; may reach past the end of the file
  size_t needed = 0;        // bytes that must arrive, from the start of the piece
  char* target = nullptr;   // destination of a direct read; nullptr: read into a bounce buffer,
  size_t skip = 0;          // then copy its bytes from `skip` to `needed`
  char* copy_to = nullptr;  // to here
  size_t request = 0;       // index of the request that this is a part of
};

// Memory that O_DIRECT accepts.
class AlignedBuffer {
 public:
  // Makes room for `length` bytes and discards the old contents. nullptr when there is no memory.
  char* Reserve(size_t length);
  void Release();
  size_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char, Free> memory_;
  size_t capacity_ = 0;
};

// Cuts requests into pieces, in order. The requests must outlive it.
class PieceSource {
 public:
  // Pieces that need no bounce buffer have at most `direct_length` bytes (a multiple of the alignment).
  PieceSource(std::span<const ReadRequest> requests, size_t direct_length);

  bool done() const { return request_ == requests_.size(); }

  // The request that the next piece belongs to. REQUIRES: !done()
  size_t next_request() const { return request_; }

  // REQUIRES: !done()
  DirectPiece Next();

 private:
  void SkipFinished();

  const std::span<const ReadRequest> requests_;
  const size_t direct_length_;
  size_t request_ = 0;
  size_t position_ = 0;  // bytes of the current request already cut
};

}  // namespace shardkit::io
