// Files read with O_DIRECT, which bypasses the page cache.
//
// The linked engine decides how many reads are in flight. One of two is linked: direct_file_uring.cc (io_uring), or
// direct_file_stub.cc (no engine: one positioned read after the other).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/posix_file.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// Pieces: reads of any offset, length and buffer become reads that O_DIRECT accepts.

// Offsets, lengths and addresses of direct reads are multiples of this. Every device accepts it, for its own blocks
// count, and not the processor's pages, which may have 64 KiB. Older kernels cannot report the real requirement (512 or
// 4096).
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

// Opens `path` for direct reading. Where the file system refuses O_DIRECT, reads are buffered. Where the kernel refuses
// io_uring, reads are done one at a time. fallback_reason() reports both.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDirectFile(const std::string& path);

// A descriptor opened with O_DIRECT. Thread-safe.
class DirectDescriptor {
 public:
  DirectDescriptor(std::string path, OpenedFile file, std::string fallback_reason)
      : path_(std::move(path)), file_(std::move(file)), fallback_reason_(std::move(fallback_reason)) {}

  const std::string& path() const { return path_; }
  uint64_t size() const { return file_.size; }
  const std::string& identity() const { return file_.identity; }
  int descriptor() const { return file_.descriptor.get(); }
  std::string fallback_reason() const;

  // Completes a piece after a read into `memory`. `result` is the number of bytes read (0 when not tried yet), or a
  // negated errno. Reads the missing bytes and waits for them. When `memory` is a bounce buffer, copies to the
  // request's buffer.
  absl::Status Finish(const DirectPiece& piece, char* memory, int64_t result) const;

  // Reads all pieces of `source` one after the other.
  absl::Status ReadOneByOne(PieceSource source) const;

 private:
  void SwitchToBuffered(int error_number) const;

  const std::string path_;
  const OpenedFile file_;
  mutable std::atomic<bool> buffered_ = false;
  mutable std::mutex mutex_;
  mutable std::string fallback_reason_;  // guarded by mutex_
};

// Reads many pieces at once. Thread-safe.
class DirectEngine {
 public:
  virtual ~DirectEngine() = default;

  // Reads all requests with up to `depth` in flight. They must lie within the file.
  virtual absl::Status Read(const DirectDescriptor& file, std::span<const ReadRequest> requests, int depth) = 0;
};

// The engine of this process, shared by all open files; nullptr with *reason set where there is none. It is destroyed
// with the last file that holds it.
std::shared_ptr<DirectEngine> AcquireDirectEngine(std::string* reason);

}  // namespace shardkit::io
