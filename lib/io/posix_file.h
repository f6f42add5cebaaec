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

namespace shardkit {

// Owns one descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

  // Closes now; 0 or the error number. The descriptor is gone either way.
  int Close();

 private:
  int number_ = -1;
};

// open(2) with O_CLOEXEC, repeated when a signal interrupts it. Never waits for the other end of a pipe.
// On failure the descriptor is invalid and errno says why.
FileDescriptor OpenDescriptor(const std::string& path, int flags);

// InvalidArgument for a path that the system would silently cut at a NUL byte.
absl::Status CheckPath(const std::string& path, std::string_view operation);

// A regular file opened for reading and its size. `extra_flags` may hold O_DIRECT; when the system answers
// EINVAL to it, the error has the code InvalidArgument.
struct OpenedFile {
  FileDescriptor descriptor;
  uint64_t size = 0;
};
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path, int extra_flags);

// The OutOfRange error of a read that found the file shorter than it was when opened.
absl::Status ReadOfShrunkFile(int descriptor, const std::string& path, uint64_t length, uint64_t offset);

// Fills `buffer` from `offset`; OutOfRange when the file ends before that.
absl::Status ReadFully(int descriptor, const std::string& path, uint64_t offset, std::span<char> buffer);

// kBuffered. `fallback_reason` is what RandomAccessFile::fallback_reason() returns.
std::unique_ptr<RandomAccessFile> NewPosixRandomAccessFile(std::string path, OpenedFile file,
                                                           std::string fallback_reason);

// Takes over a descriptor open for writing, of a file that has `size` bytes.
std::unique_ptr<WritableFile> NewPosixWritableFile(std::string path, FileDescriptor descriptor, uint64_t size);

}  // namespace shardkit
