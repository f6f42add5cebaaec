#include "io/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/posix_error.h"

namespace shardkit::io {
namespace {

// Length of a read when no other read is in flight. It is long, so that the kernel can split it among the device's
// queues.
constexpr size_t kSingleReadLength = size_t{8} << 20;

class DirectFile final : public RandomAccessFile {
 public:
  DirectFile(std::string path, OpenedFile file, std::shared_ptr<DirectEngine> engine, std::string fallback_reason)
      : file_(std::move(path), std::move(file), std::move(fallback_reason)), engine_(std::move(engine)) {}

  const std::string& path() const override { return file_.path(); }
  uint64_t size() const override { return file_.size(); }
  std::string identity() const override { return file_.identity(); }
  // A long read is split here, and its parts are in flight together.
  ReadHints hints() const override { return {.preferred_bytes = uint64_t{64} << 20, .requests_in_flight = 32}; }
  uint64_t alignment() const override { return kDirectAlignment; }
  std::string fallback_reason() const override { return file_.fallback_reason(); }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const ReadRequest request{offset, buffer};
    return ReadBatch({&request, 1});
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    for (const ReadRequest& request : requests) {
      if (!RangeWithin(request.offset, request.buffer.size(), file_.size())) {
        return ReadPastEnd(path(), file_.size(), request.buffer.size(), request.offset);
      }
    }
    // A single short read is not faster through a queue.
    const bool single = requests.size() == 1 && requests[0].buffer.size() <= kBounceLength;
    if (engine_ == nullptr || single) {
      return file_.ReadOneByOne(PieceSource(requests, kSingleReadLength));
    }
    return engine_->Read(file_, requests, hints().requests_in_flight);
  }

 private:
  const DirectDescriptor file_;
  const std::shared_ptr<DirectEngine> engine_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDirectFile(const std::string& path) {
  absl::StatusOr<OpenedFile> file = OpenRegularFile(path, O_DIRECT);
  if (!file.ok()) {
    if (!absl::IsInvalidArgument(file.status())) return file.status();
    // InvalidArgument stands for EINVAL, whose cause may be O_DIRECT or the path. The second attempt distinguishes the
    // two.
    SHARDKIT_ASSIGN_OR_RETURN(OpenedFile buffered, OpenRegularFile(path, /*extra_flags=*/0));
    return NewPosixRandomAccessFile(
        path, std::move(buffered),
        StrCat("O_DIRECT refused by the file system (", ErrorText(EINVAL), "): buffered reads"));
  }
  std::string reason;
  std::shared_ptr<DirectEngine> engine = AcquireDirectEngine(&reason);
  return std::make_unique<DirectFile>(path, *std::move(file), std::move(engine), std::move(reason));
}

std::string DirectDescriptor::fallback_reason() const {
  std::lock_guard lock(mutex_);
  return fallback_reason_;
}

absl::Status DirectDescriptor::Finish(const DirectPiece& piece, char* memory, int64_t result) const {
  if (result < 0) {
    // These errors say nothing about the file: the queue was full, a signal came, the requesting thread is ending, or
    // this kernel or file system does not support this form of request. Try a plain read.
    const bool try_again =
        result == -EAGAIN || result == -EINTR || result == -ECANCELED || result == -EINVAL || result == -EOPNOTSUPP;
    if (!try_again) {
      return PosixError(path_, StrCat("read at offset ", piece.offset), static_cast<int>(-result));
    }
    result = 0;
  }
  size_t done = static_cast<size_t>(result);
  while (done < piece.needed) {
    const size_t from = done / kDirectAlignment * kDirectAlignment;  // O_DIRECT can continue only at an aligned offset
    const ssize_t got =
        pread(descriptor(), memory + from, piece.length - from, static_cast<off_t>(piece.offset + from));
    if (got < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error == EINVAL && !buffered_.load()) {
        SwitchToBuffered(error);
        continue;
      }
      return PosixError(path_, StrCat("read at offset ", piece.offset + from), error);
    }
    if (from + static_cast<size_t>(got) <= done) {
      return ReadOfShrunkFile(descriptor(), path_, piece.needed - piece.skip, piece.offset + piece.skip);
    }
    done = from + static_cast<size_t>(got);
  }
  if (piece.target == nullptr) std::memcpy(piece.copy_to, memory + piece.skip, piece.needed - piece.skip);
  return absl::OkStatus();
}

absl::Status DirectDescriptor::ReadOneByOne(PieceSource source) const {
  AlignedBuffer bounce;
  while (!source.done()) {
    const DirectPiece piece = source.Next();
    char* const memory = piece.target != nullptr ? piece.target : bounce.Reserve(piece.length);
    if (memory == nullptr) return PosixError(path_, "read", ENOMEM);
    SHARDKIT_RETURN_IF_ERROR(Finish(piece, memory, 0));
  }
  return absl::OkStatus();
}

// Some file systems accept O_DIRECT when opening but refuse it when reading. Some devices have blocks larger than our
// alignment.
void DirectDescriptor::SwitchToBuffered(int error_number) const {
  std::lock_guard lock(mutex_);
  if (buffered_.load()) return;
  const int flags = fcntl(descriptor(), F_GETFL);
  if (flags >= 0) (void)fcntl(descriptor(), F_SETFL, flags & ~O_DIRECT);
  fallback_reason_ = StrCat("O_DIRECT reads refused (", ErrorText(error_number), "): buffered reads");
  buffered_.store(true);
}

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
