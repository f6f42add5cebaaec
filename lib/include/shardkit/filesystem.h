// The one interface through which Shardkit touches files. Implementations: the operating system (with
// positioned reads, memory maps, or O_DIRECT through io_uring), memory, and decorators for tests.
//
// Thread-safety: a FileSystem and a RandomAccessFile may be used from any number of threads; a
// WritableFile from one thread at a time. Errors: NotFound (missing), ResourceExhausted (no space, quota,
// too many open files), PermissionDenied, AlreadyExists, InvalidArgument (misuse), OutOfRange (a read past
// the end of the file), Unavailable or Internal for other I/O errors; each message begins with the path
// and names the operation that failed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit {

// How a file is read.
//
// A file must not change while it is open. One that is cut while it is mapped shows zeros where its bytes were, and
// what reads it reports DataLoss. For that the first map of a process, which may be that of a dataset's offset index in
// any mode, installs a handler of SIGBUS. It calls the handler that was there before for every SIGBUS that is not of a
// page of such a map; one that is installed later has to call it in turn, and threads that read must not block SIGBUS.
enum class ReadMode {
  kBuffered,  // positioned reads through the page cache, with read-ahead hints (the default)
  kMapped,    // memory map: Mapped() is set and views need no copy
  kDirect,    // O_DIRECT through io_uring: bypasses the page cache, many reads in flight
};

struct ReadRequest {
  uint64_t offset = 0;     // bytes from the start of the file
  std::span<char> buffer;  // filled entirely
};

class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  virtual const std::string& path() const = 0;

  // Bytes in the file when it was opened.
  virtual uint64_t size() const = 0;

  // Fills `buffer` entirely from `offset`. OutOfRange when the file ends before that. In kDirect mode
  // any offset and buffer are accepted; those aligned to alignment() avoid a copy.
  virtual absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const = 0;

  // Reads all requests with up to `depth` in flight (at least 1); the order is unspecified. The default
  // calls ReadAt in turn. Returns the first error after all have ended.
  virtual absl::Status ReadBatch(std::span<const ReadRequest> requests, int depth) const;

  // Offsets, lengths and buffers that are multiples of this take the fastest path: 1 or 4096 bytes.
  virtual uint64_t alignment() const { return 1; }

  // The whole file, in kMapped mode; valid while this object lives. Empty optional otherwise.
  virtual std::optional<std::string_view> Mapped() const { return std::nullopt; }

  // Whether what Mapped() has shown until now were the file's bytes: to be asked after they were used. DataLoss when
  // the file was cut since it was opened, Internal when its device did not deliver them; then they may have been zeros.
  // OK in other modes.
  virtual absl::Status CheckMapped() const;

  // Says that a range is wanted soon (posix_fadvise, madvise); never fails and may do nothing.
  virtual void WillNeed(uint64_t offset, uint64_t length) const;

  // Says that a range of Mapped() is not wanted any more: its pages need not count as this process's memory. It stays
  // valid. Never fails and may do nothing.
  virtual void WontNeed(uint64_t offset, uint64_t length) const;

  // Why another mode than the one asked for is in use ("O_DIRECT refused by tmpfs: buffered reads"), or
  // empty. The library never prints it; a tool says it once.
  virtual std::string fallback_reason() const { return {}; }
};

class WritableFile {
 public:
  // Closes without reporting errors; call Close() to learn of them.
  virtual ~WritableFile() = default;

  virtual const std::string& path() const = 0;

  // Writes all bytes at the end.
  virtual absl::Status Append(std::string_view bytes) = 0;

  // Appends the pieces in order, as one request where the system can.
  virtual absl::Status AppendPieces(std::span<const std::string_view> pieces);

  // Overwrites bytes before the current end, or writes a gap that reads as zero.
  virtual absl::Status WriteAt(uint64_t offset, std::string_view bytes) = 0;

  // Bytes from the start to the furthest byte written.
  virtual uint64_t size() const = 0;

  // Asks the system to begin writing dirty pages to the device, without waiting.
  virtual void StartWriteback() {}

  // Returns when all bytes have reached stable storage.
  virtual absl::Status Sync() = 0;

  // Idempotent.
  virtual absl::Status Close() = 0;
};

enum class FileType { kRegular, kDirectory, kSymbolicLink, kOther };

struct FileInfo {
  FileType type = FileType::kOther;
  uint64_t size = 0;    // bytes
  uint64_t device = 0;  // device and inode tell whether two paths are one file; 0 where unknown
  uint64_t inode = 0;
};

struct DirectoryEntry {
  std::string name;  // without the directory
  FileType type = FileType::kOther;
};

// Held while alive; released on destruction or when the process ends however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path,
                                                                           ReadMode mode = ReadMode::kBuffered) = 0;

  // A new empty file; AlreadyExists when there is one.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;

  // As Create, for a large file that is written once from front to back: it may bypass the page cache, which the pages
  // of a shard would only push other data out of. The default is Create.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) {
    return Create(path);
  }

  // An existing file, or a new one, positioned at its end.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) = 0;

  // Atomically replaces `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;

  // Hard link; Unimplemented or FailedPrecondition where the two are on different file systems.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;

  virtual absl::Status RemoveFile(const std::string& path) = 0;
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;  // empty ones only

  // Creates the directory; OK when it exists already. The parent must exist.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;

  // Makes renames, creations and removals in `path` durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;

  // Follows symbolic links unless `follow` is false.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow = true) = 0;

  // Entries of a directory, unsorted, without "." and "..".
  virtual absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) = 0;

  // Calls `take` for each entry that List would return, one at a time, so that a directory of millions of entries need
  // not stand in memory. `name` is valid during the call. Stops at the first error of `take` and returns it. The
  // default goes through List.
  virtual absl::Status ForEachEntry(const std::string& path,
                                    const std::function<absl::Status(std::string_view name, FileType type)>& take);

  // Whole file into memory, for small files; ResourceExhausted above `limit` bytes.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit);

  // Exclusive advisory lock on a file (created when missing); FailedPrecondition when another process or
  // another caller holds it.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
};

// The operating system's files. Never deleted.
FileSystem* PosixFileSystem();

// An empty file system in memory with a root directory "/"; for tests and for building shards in memory.
std::unique_ptr<FileSystem> NewMemoryFileSystem();

// Creates `path` and its missing parents.
absl::Status CreateDirectories(FileSystem& file_system, const std::string& path);

// Removes a directory and everything below it, not following symbolic links; OK when it is missing.
absl::Status RemoveTree(FileSystem& file_system, const std::string& path);

// Joins with exactly one '/' between.
std::string JoinPath(std::string_view directory, std::string_view name);

}  // namespace shardkit
