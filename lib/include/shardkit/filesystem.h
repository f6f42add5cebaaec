// The interface through which Shardkit accesses all files: one class for reading, and one that also writes.
// Implementations: the operating system (positioned reads, memory maps, or O_DIRECT through io_uring), memory, object
// stores (shardkit/remote.h), and decorators.
//
// Thread-safety: any number of threads may use a file system or a RandomAccessFile at once; a WritableFile is for one
// thread at a time. Errors: NotFound (missing), ResourceExhausted (no space, quota, too many open files),
// PermissionDenied, AlreadyExists, InvalidArgument (misuse), OutOfRange (a read past the end of the file), Unavailable
// or Internal for other I/O errors. Each message begins with the path and names the failed operation.
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
// A file must not change while it is open. If a mapped file is truncated, the lost bytes read as zeros and the reader
// reports DataLoss. For this, the first map of a process installs a SIGBUS handler; in any mode, the map of a dataset's
// offset index may be that first map. The handler passes every other SIGBUS to the previous handler. A handler that is
// installed later must call this handler, and reading threads must not block SIGBUS.
enum class ReadMode {
  kAuto,      // as kBuffered, but a loader copies cached values only once, from the page cache (the default)
  kBuffered,  // positioned reads through the page cache, with read-ahead hints
  kMapped,    // memory map: Mapped() is set, and views need no copy
  kDirect,    // O_DIRECT through io_uring: bypasses the page cache, many reads in flight
};

struct ReadRequest {
  uint64_t offset = 0;     // bytes from the start of the file
  std::span<char> buffer;  // filled entirely

  // The part of these bytes that is read only to save a request. For statistics.
  uint64_t bridged_bytes = 0;
};

// Hints for fast reading of a file. The defaults are for a local disk read through the page cache.
struct ReadHints {
  // Bytes of one request. Smaller requests waste their start-up time. Larger ranges are better read in pieces, one
  // after another, because each piece is then processed while in the processor's cache.
  uint64_t preferred_bytes = uint64_t{128} << 10;

  // Two ranges with a gap of at most this many bytes are cheaper as one request that includes the gap.
  uint64_t bridge_gap_bytes = uint64_t{16} << 10;

  // Requests that the file can serve at once; more requests do not make it faster. At least 1.
  int requests_in_flight = 16;

  // Whether wrong bytes may be right on a second read, because the path to the storage is long. Wrong bytes are then
  // read once more before they are reported as damaged.
  bool worth_reading_again = false;
};

class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  virtual const std::string& path() const = 0;

  // Bytes in the file when it was opened.
  virtual uint64_t size() const = 0;

  // Identifies the content: in one process, files with the same identity have the same bytes, as far as the system can
  // tell (device, inode, length, and times of the last changes; for an object its URL and ETag). Empty if unknown.
  virtual std::string identity() const { return {}; }

  // Fills `buffer` entirely from `offset`. OutOfRange if the file is too short. In kDirect mode any offset and buffer
  // are accepted; an offset and buffer aligned to alignment() avoid a copy.
  virtual absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const = 0;

  // Performs all requests, in no specified order, with as many in flight as hints() says. Waits for all requests, then
  // returns the first error. The default calls ReadAt in turn.
  virtual absl::Status ReadBatch(std::span<const ReadRequest> requests) const;

  // Like ReadBatch, but returns without waiting if the file can do so; the default reads before it returns. `done` is
  // called once, on any thread and perhaps before this returns, when no read is running any more. It must not wait, nor
  // close the file. The buffers and this file must live until it returns.
  virtual void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const;

  // Ends running reads and all later ones with Cancelled, if reads may take long. The default does nothing: reads of a
  // local disk end by themselves.
  virtual void CancelReads() const {}

  // Fills `buffers` one after another from `offset` if all of it is in the system's page cache, so that there is no
  // wait. False if it is not, or if this is unknown: the buffers may then hold anything, and ReadAt reports errors. The
  // default is false.
  virtual bool ReadCached(uint64_t offset, std::span<const std::span<char>> buffers) const;

  virtual ReadHints hints() const { return {}; }

  // Offsets, lengths and buffers that are multiples of this avoid a copy: 1 or 4096 bytes.
  virtual uint64_t alignment() const { return 1; }

  // The whole file in kMapped mode, valid while this object lives; else empty.
  virtual std::optional<std::string_view> Mapped() const { return std::nullopt; }

  // Whether the bytes read from Mapped() so far were the file's bytes. Call it after using them. OK in other modes.
  // Otherwise the bytes may have been zeros:
  // - DataLoss: the file was truncated since it was opened.
  // - Internal: its device could not deliver them.
  virtual absl::Status CheckMapped() const;

  // Hints that a range is needed soon (posix_fadvise, madvise). Never fails and may do nothing.
  virtual void WillNeed(uint64_t offset, uint64_t length) const;

  // Hints that a range of Mapped() is no longer needed, so that its pages do not count as this process's memory. The
  // range stays valid. Never fails and may do nothing.
  virtual void WontNeed(uint64_t offset, uint64_t length) const;

  // The reason if the mode differs from the requested one ("O_DIRECT refused by tmpfs: buffered reads"); else empty.
  // The library never prints it; a tool prints it once.
  virtual std::string fallback_reason() const { return {}; }

  // The descriptor of a file of the operating system, for WritableFile::AppendShared; -1 for other files.
  virtual int descriptor() const { return -1; }
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

  // Appends `length` bytes of `source` from `offset` on by letting both files share them on the device (reflinks, as
  // XFS and Btrfs have). False, and nothing is appended, if the file system cannot do so, which is the default. Where
  // it can, size(), `offset` and `length` must be multiples of its blocks, most often of 4096 bytes.
  virtual absl::StatusOr<bool> AppendShared(const RandomAccessFile& source, uint64_t offset, uint64_t length);

  // Bytes written.
  virtual uint64_t size() const = 0;

  // Asks the system to start writing dirty pages to the device, without waiting.
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
  uint64_t device = 0;  // equal device and inode: the same file; 0 if unknown
  uint64_t inode = 0;
};

// An entry of a listing. `name` is valid during the call.
struct ListedEntry {
  std::string_view name;  // without the directory
  FileType type = FileType::kOther;
  std::optional<uint64_t> size;  // bytes, if the listing has them, as in object stores
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

  // `size`: the bytes in the file, if the caller knows them. A file system trusts it if it would need a request to
  // learn the size; otherwise the file has its real size().
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path, ReadMode mode = ReadMode::kBuffered, std::optional<uint64_t> size = std::nullopt) = 0;

  // Follows symbolic links unless `follow` is false.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow = true) = 0;

  // Calls `take` for each entry of a directory except "." and "..", in no specified order, page by page: millions of
  // entries need not be in memory. Stops at the first error of `take` and returns it.
  virtual absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) = 0;

  // All entries, in the order of their names' bytes.
  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path);

  // Reads a whole small file into memory; ResourceExhausted above `limit` bytes.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit);
};

class FileSystem : public ReadableFileSystem {
 public:
  // Creates an empty file; AlreadyExists if the path exists.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;

  // Like Create, for a large file that is written once from front to back. It may bypass the page cache, because the
  // pages of a shard would only push other data out of it. The default is Create.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) {
    return Create(path);
  }

  // Atomically replaces `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;

  // Like Rename, but AlreadyExists if `to` exists. Atomic in object stores. The default looks first, for callers that
  // hold a lock.
  virtual absl::Status RenameIfAbsent(const std::string& from, const std::string& to);

  // Makes a hard link, or a copy inside a store. Unimplemented or FailedPrecondition if the two paths are on different
  // file systems.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;

  virtual absl::Status RemoveFile(const std::string& path) = 0;
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;  // the directory must be empty

  // Creates the directory; OK when it exists already. The parent must exist.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;

  // Makes renames, creations and removals inside `path` durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;

  // Takes an exclusive advisory lock on a file, which is created if missing. FailedPrecondition if another process or
  // caller holds the lock.
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

// Whether a path is an object or on a web server: it begins with a scheme, as "s3://bucket/name" does.
bool IsUrl(std::string_view path);

// Joins the two with exactly one '/' between them.
std::string JoinPath(std::string_view directory, std::string_view name);

// Bases for decorators of file systems and files.

// Passes all calls except ReadCached and StartRead on to a file that it owns. Thread-safe if that file is. Derived
// classes that change the data override ReadAt, ReadBatch and Mapped.
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

// The reading part of the two classes below.
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
// Except CreateForStreaming and ReadFile: their defaults call Create and OpenForReading of this object, so a derived
// class that overrides those sees every file.
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
