// The only interface through which Shardkit accesses files: a half for reading, and one that also writes.
// Implementations: the operating system (with positioned reads, memory maps, or O_DIRECT through io_uring), memory,
// object stores (shardkit/remote.h), and decorators.
//
// Thread-safety: any number of threads may use a file system or a RandomAccessFile at once; a WritableFile is for one
// thread at a time. Errors: NotFound (missing), ResourceExhausted (no space, quota, too many open files),
// PermissionDenied, AlreadyExists, InvalidArgument (misuse), OutOfRange (a read past the end of the file), Unavailable
// or Internal for other I/O errors. Each message begins with the path and names the operation that failed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardkit {

// How a file is read.
//
// A file must not change while it is open. If a file is cut while it is mapped, the lost bytes read as zeros and the
// reader reports DataLoss. For this, the first map of a process installs a handler of SIGBUS; in any mode, the map of a
// dataset's offset index may be that first map. The handler passes every SIGBUS that is not from such a map to the
// handler that was installed before. A handler that is installed later has to call this one, and threads that read must
// not block SIGBUS.
enum class ReadMode {
  kAuto,      // as kBuffered; but a loader leaves in the page cache what is there, and copies it once (the default)
  kBuffered,  // positioned reads through the page cache, with read-ahead hints
  kMapped,    // memory map: Mapped() is set and views need no copy
  kDirect,    // O_DIRECT through io_uring: bypasses the page cache, many reads in flight
};

struct ReadRequest {
  uint64_t offset = 0;     // bytes from the start of the file
  std::span<char> buffer;  // filled entirely

  // How many of these bytes are read only because leaving them out would cost a request more. For statistics.
  uint64_t bridged_bytes = 0;
};

// What makes reading a file fast. The defaults are those of a local disk read through the page cache.
struct ReadHints {
  // Bytes of one request. Smaller requests waste the time that each takes to begin; from larger ones on, the pieces of
  // a long range are better read one after the other, because they are processed while in the processor's cache.
  uint64_t preferred_bytes = uint64_t{128} << 10;

  // Two ranges with at most this many bytes between them are cheaper as one request that reads the gap, too.
  uint64_t bridge_gap_bytes = uint64_t{16} << 10;

  // Requests that the file can serve at once; more do not make it faster. At least 1.
  int requests_in_flight = 16;

  // Whether bytes that are not what was written may be right when they are read again, because they came a long way.
  // Then they are read once more before they are called damaged.
  bool worth_reading_again = false;
};

class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  virtual const std::string& path() const = 0;

  // Bytes in the file when it was opened.
  virtual uint64_t size() const = 0;

  // Names this content: in one process, files with the same identity have the same bytes, as far as the system can tell
  // (device, inode, length, and the times of the last changes; of an object its URL and ETag). Empty where it cannot.
  virtual std::string identity() const { return {}; }

  // Fills `buffer` entirely from `offset`. OutOfRange when the file is too short. In kDirect mode any offset and buffer
  // are accepted; those aligned to alignment() avoid a copy.
  virtual absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const = 0;

  // Reads all requests, in no specified order, with as many in flight as hints() says. The default calls ReadAt in
  // turn. Waits for all requests and then returns the first error.
  virtual absl::Status ReadBatch(std::span<const ReadRequest> requests) const;

  // Starts what ReadBatch does and returns without waiting for it, where the file can do so; the default reads before
  // it returns. `done` is called once, on any thread and perhaps before this returns, when nothing is read any more. It
  // must not wait, nor close the file. Until it returns the buffers and this file must live.
  virtual void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const;

  // Ends reads that are under way, and all later ones, with Cancelled, where they may take long. The default does
  // nothing: reads of a local disk end by themselves.
  virtual void CancelReads() const {}

  // Fills `buffers` one after the other from `offset`, provided that all of it is in the system's page cache, so that
  // nothing has to be waited for. False when it is not, or when this cannot be known: the buffers may then hold
  // anything, and ReadAt says more. The default is false.
  virtual bool ReadCached(uint64_t offset, std::span<const std::span<char>> buffers) const;

  virtual ReadHints hints() const { return {}; }

  // Offsets, lengths and buffers that are multiples of this need no copy: 1 or 4096 bytes.
  virtual uint64_t alignment() const { return 1; }

  // The whole file in kMapped mode, valid while this object lives; else empty.
  virtual std::optional<std::string_view> Mapped() const { return std::nullopt; }

  // Whether the bytes read from Mapped() so far were the file's bytes; call it after using them. DataLoss when the file
  // was cut since it was opened, Internal when its device could not deliver them; the bytes may then have been zeros.
  // OK in other modes.
  virtual absl::Status CheckMapped() const;

  // Hints that a range is needed soon (posix_fadvise, madvise). Never fails and may do nothing.
  virtual void WillNeed(uint64_t offset, uint64_t length) const;

  // Hints that a range of Mapped() is no longer needed, so that its pages need not count as this process's memory. The
  // range stays valid. Never fails and may do nothing.
  virtual void WontNeed(uint64_t offset, uint64_t length) const;

  // The reason when the mode differs from the requested one ("O_DIRECT refused by tmpfs: buffered reads"); else empty.
  // The library never prints it; a tool prints it once.
  virtual std::string fallback_reason() const { return {}; }
};

class WritableFile {
 public:
  // Closes without reporting errors. Close() reports them.
  virtual ~WritableFile() = default;

  virtual const std::string& path() const = 0;

  // Writes all bytes at the end.
  virtual absl::Status Append(std::string_view bytes) = 0;

  // Appends the pieces in order, in one request where the system can.
  virtual absl::Status AppendPieces(std::span<const std::string_view> pieces);

  // Bytes written.
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
  uint64_t device = 0;  // two paths are one file when device and inode are equal; 0 where unknown
  uint64_t inode = 0;
};

// An entry as a listing shows it. `name` is valid during the call that shows it.
struct ListedEntry {
  std::string_view name;  // without the directory
  FileType type = FileType::kOther;
  std::optional<uint64_t> size;  // bytes, where a listing tells them, as those of object stores do
};
using TakeEntry = std::function<absl::Status(const ListedEntry& entry)>;

struct DirectoryEntry {
  std::string name;  // without the directory
  FileType type = FileType::kOther;
};

// The lock is held until this is destroyed, or until the process ends in any way.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class ReadableFileSystem {
 public:
  virtual ~ReadableFileSystem() = default;

  // `size`: the bytes in the file, where the caller knows them. A file system that would have to send a request to
  // learn them believes the caller; the others return a file with its real size().
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path, ReadMode mode = ReadMode::kBuffered, std::optional<uint64_t> size = std::nullopt) = 0;

  // Follows symbolic links unless `follow` is false.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow = true) = 0;

  // Calls `take` for each entry of a directory but "." and "..", in no specified order, page by page, so that a
  // directory of millions of entries need not be in memory. Stops at the first error of `take` and returns it.
  virtual absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) = 0;

  // All of them, in the order of their names' bytes.
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path);

  // Reads a whole small file into memory; ResourceExhausted above `limit` bytes.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit);
};

class FileSystem : public ReadableFileSystem {
 public:
  // A new empty file; AlreadyExists when the path exists.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;

  // Like Create, for a large file that is written once from front to back. It may bypass the page cache, because the
  // pages of a shard would only push other data out of it. The default is Create.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) {
    return Create(path);
  }

  // Atomically replaces `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;

  // Like Rename, but AlreadyExists when `to` exists. The default looks first, for callers that hold a lock; object
  // stores decide it atomically.
  virtual absl::Status RenameIfAbsent(const std::string& from, const std::string& to);

  // Hard link, or a copy where a store makes it by itself. Unimplemented or FailedPrecondition when the two paths are
  // on different file systems.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;

  virtual absl::Status RemoveFile(const std::string& path) = 0;
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;  // the directory must be empty

  // Creates the directory; OK when it exists already. The parent must exist.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;

  // Makes renames, creations and removals inside `path` durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;

  // Takes an exclusive advisory lock on a file and creates the file when missing. FailedPrecondition when another
  // process or another caller holds the lock.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
};

// The operating system's files. Never deleted.
FileSystem* PosixFileSystem();

// An empty file system in memory with a root directory "/", for tests and for building shards in memory.
std::unique_ptr<FileSystem> NewMemoryFileSystem();

// Creates `path` and its missing parents.
absl::Status CreateDirectories(FileSystem& file_system, const std::string& path);

// Removes a directory and everything below it, without following symbolic links; OK when it is missing.
absl::Status RemoveTree(FileSystem& file_system, const std::string& path);

// Whether a path is that of an object or of a web server: it begins with a scheme, as "s3://bucket/name" does.
bool IsUrl(std::string_view path);

// Joins the two with exactly one '/' between them.
std::string JoinPath(std::string_view directory, std::string_view name);

// File systems and files that pass all calls on, to derive decorators from.

// Owns the file that it passes all calls on to, except ReadCached and StartRead. Thread-safe if that is. Derived
// classes that change what is read override ReadAt, ReadBatch and Mapped.
class ForwardingFile : public RandomAccessFile {
 public:
  explicit ForwardingFile(std::unique_ptr<RandomAccessFile> base) : base_(std::move(base)) {}

  const std::string& path() const override { return base_->path(); }
  uint64_t size() const override { return base_->size(); }
  std::string identity() const override { return base_->identity(); }
  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override { return base_->ReadAt(offset, buffer); }
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override { return base_->ReadBatch(requests); }
  void CancelReads() const override { base_->CancelReads(); }
  ReadHints hints() const override { return base_->hints(); }
  uint64_t alignment() const override { return base_->alignment(); }
  std::optional<std::string_view> Mapped() const override { return base_->Mapped(); }
  absl::Status CheckMapped() const override { return base_->CheckMapped(); }
  void WillNeed(uint64_t offset, uint64_t length) const override { base_->WillNeed(offset, length); }
  void WontNeed(uint64_t offset, uint64_t length) const override { base_->WontNeed(offset, length); }
  std::string fallback_reason() const override { return base_->fallback_reason(); }

 protected:
  const RandomAccessFile& base() const { return *base_; }

 private:
  const std::unique_ptr<RandomAccessFile> base_;
};

// What reads, of ForwardingReadableFileSystem and of ForwardingFileSystem, which see.
template <typename Interface>
class ForwardingReads : public Interface {
 public:
  explicit ForwardingReads(Interface& base) : base_(base) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    return base_.OpenForReading(BasePath(path), mode, size);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    return base_.Stat(BasePath(path), follow);
  }
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    return base_.ForEachEntry(BasePath(path), take);
  }

 protected:
  // The name that `path` has in `base`.
  virtual std::string BasePath(const std::string& path) const { return path; }

  Interface& base() const { return base_; }

 private:
  Interface& base_;
};

// These pass all calls on to `base`, which must outlive them. Thread-safe if `base` is.
//
// CreateForStreaming and ReadFile are the interfaces' own, which call Create and OpenForReading of this object: a
// derived class that overrides those sees every file.
using ForwardingReadableFileSystem = ForwardingReads<ReadableFileSystem>;

class ForwardingFileSystem : public ForwardingReads<FileSystem> {
 public:
  using ForwardingReads::ForwardingReads;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return base().Create(BasePath(path));
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base().Rename(BasePath(from), BasePath(to));
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    return base().Link(BasePath(from), BasePath(to));
  }
  absl::Status RemoveFile(const std::string& path) override { return base().RemoveFile(BasePath(path)); }
  absl::Status RemoveDirectory(const std::string& path) override { return base().RemoveDirectory(BasePath(path)); }
  absl::Status CreateDirectory(const std::string& path) override { return base().CreateDirectory(BasePath(path)); }
  absl::Status SyncDirectory(const std::string& path) override { return base().SyncDirectory(BasePath(path)); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    return base().Lock(BasePath(path));
  }
};

}  // namespace shardkit
