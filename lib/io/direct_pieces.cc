#include "io/direct_pieces.h"

#include <algorithm>

#include "base/checked.h"

namespace shardkit::io {

char* AlignedBuffer::Reserve(size_t length) {
  if (length > capacity_) {
    Release();
    const size_t capacity = RoundUp(length, kDirectAlignment);
    memory_.reset(static_cast<char*>(std::aligned_alloc(kDirectAlignment, capacity)));
    capacity_ = memory_ != nullptr ? capacity : 0;
  }
  return memory_.get();
}

void AlignedBuffer::Release() {
  memory_.reset();
  capacity_ = 0;
}

PieceSource::PieceSource(std::span<const ReadRequest> requests, size_t direct_length)
    : requests_(requests), direct_length_(direct_length) {
  SkipFinished();
}

void PieceSource::SkipFinished() {
  while (request_ < requests_.size() && position_ == requests_[request_].buffer.size()) {
    ++request_;
    position_ = 0;
  }
}

DirectPiece PieceSource::Next() {
  const ReadRequest& request = requests_[request_];
  const uint64_t offset = request.offset + position_;
  char* const destination = request.buffer.data() + position_;
  const size_t left = request.buffer.size() - position_;
  const size_t skip = offset % kDirectAlignment;
  // Whether file offset and memory address become aligned at the same byte; then the middle needs no copy.
  const bool congruent = reinterpret_cast<uintptr_t>(destination) % kDirectAlignment == skip;

  DirectPiece piece{.offset = offset - skip, .request = request_};
  size_t taken;
  if (congruent && skip == 0 && (left % kDirectAlignment == 0 || left > kBounceLength)) {
    taken = std::min(left / kDirectAlignment * kDirectAlignment, direct_length_);
    piece.target = destination;
  } else {
    // A short read goes completely through the bounce buffer, because one read and a small copy cost less than three
    // reads. In a long read only the ends do.
    const bool end_only = congruent && left > kBounceLength;
    taken = std::min(left, (end_only ? kDirectAlignment : kBounceLength) - skip);
    piece.skip = skip;
    piece.copy_to = destination;
  }
  piece.needed = skip + taken;
  piece.length = RoundUp(piece.needed, kDirectAlignment);
  position_ += taken;
  SkipFinished();
  return piece;
}

}  // namespace shardkit::io
