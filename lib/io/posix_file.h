// Files of the operating system through positioned reads and writes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardkit/filesystem.h"

namespace shardkit::io {

// Owns one descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number);
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

  // Closes now and returns 0 or the error number. The descriptor is invalid afterwards in both cases.
  int Close();

 private:
  int number_ = -1;
};

// open(2) with O_CLOEXEC, repeated when a signal interrupts it, and after spare files were closed when there are too
// many open. Does not wait for the other end of a pipe. On failure the descriptor is invalid and errno is set.
FileDescriptor OpenDescriptor(const std::string& path, int flags);

// InvalidArgument for a URL, and for a path with a NUL byte, where the system would silently cut it.
absl::Status CheckPath(const std::string& path, std::string_view operation);

// A regular file opened for reading, and its size. `extra_flags` may have O_DIRECT; when the system answers EINVAL, the
// error is InvalidArgument.
struct OpenedFile {
  FileDescriptor descriptor;
  uint64_t size = 0;
  std::string identity;  // as of RandomAccessFile
};
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path, int extra_flags);

// The OutOfRange error for a file that has become shorter since it was opened.
absl::Status ReadOfShrunkFile(int descriptor, const std::string& path, uint64_t length, uint64_t offset);

// Fills `buffer` from `offset`; OutOfRange when the file is too short.
absl::Status ReadFully(int descriptor, const std::string& path, uint64_t offset, std::span<char> buffer);

// Lets `to` have, at `position`, the bytes of `from` from `offset` on, which both share then. False where the file
// system cannot, whatever the reason: writing the bytes will tell.
bool ShareRange(int to, uint64_t position, int from, uint64_t offset, uint64_t length);

// A file for kBuffered. RandomAccessFile::fallback_reason() returns `fallback_reason`.
std::unique_ptr<RandomAccessFile> NewPosixRandomAccessFile(std::string path, OpenedFile file,
                                                           std::string fallback_reason);

// Takes ownership of a descriptor open for writing; the file has `size` bytes.
std::unique_ptr<WritableFile> NewPosixWritableFile(std::string path, FileDescriptor descriptor, uint64_t size);

}  // namespace shardkit::io
