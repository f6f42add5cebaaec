// Files read with O_DIRECT, past the page cache.
//
// What is in flight at once depends on the engine, of which one of two is linked: direct_file_uring.cc
// (io_uring) and direct_file_stub.cc (none: one positioned read after the other).
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

namespace shardkit {

// Opens `path` for direct reading. Where the file system refuses O_DIRECT the reads are buffered, and where
// the kernel refuses io_uring they are single; fallback_reason() says so.
absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenDirectFile(const std::string& path);

// A descriptor opened with O_DIRECT. Thread-safe.
class DirectDescriptor {
 public:
  DirectDescriptor(std::string path, OpenedFile file, std::string fallback_reason)
      : path_(std::move(path)), file_(std::move(file)), fallback_reason_(std::move(fallback_reason)) {}

  const std::string& path() const { return path_; }
  uint64_t size() const { return file_.size; }
  int descriptor() const { return file_.descriptor.get(); }
  std::string fallback_reason() const;

  // Ends a piece of which an attempt into `memory` gave `result`: the number of bytes read (0 when not
  // tried yet), or a negated errno. Reads what is missing, waiting for it, and copies to the request's
  // buffer where `memory` is a bounce buffer.
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

  // Reads all requests, which lie within the file, with up to `depth` of them in flight.
  virtual absl::Status Read(const DirectDescriptor& file, std::span<const ReadRequest> requests, int depth) = 0;
};

// The engine of this process, shared by all files that are open; nullptr where there is none, with `reason`
// set to why. The last file that holds it takes it away.
std::shared_ptr<DirectEngine> AcquireDirectEngine(std::string* reason);

}  // namespace shardkit
