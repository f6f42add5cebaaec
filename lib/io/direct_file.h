// Files read with O_DIRECT, which bypasses the page cache.
//
// The linked engine decides how many reads are in flight. One of two is linked: direct_file_uring.cc (io_uring), or
// direct_file_stub.cc (no engine: one positioned read after the other).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/direct_pieces.h"
#include "io/posix_file.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

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
