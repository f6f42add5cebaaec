// Objects as files: folders are what keys have before their slashes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "remote/cache/disk_cache.h"
#include "remote/object_store.h"
#include "remote/object_writes.h"
#include "shardkit/filesystem.h"
#include "shardkit/remote.h"

namespace shardkit::remote {

// A local file without a name, for what is written in any order, or read again, before it becomes an object.
//
// One thread at a time. It lies in TMPDIR, or /tmp, and is gone with this object or with the process, however that
// ends. Errors begin with `path`, the name of what is written, and name the directory.
class Spool {
 public:
  static absl::StatusOr<std::unique_ptr<Spool>> Create(const std::string& path);

  WritableFile& file() { return *file_; }

  // It is an object now, and takes nothing more.
  void SetPublished() { published_ = true; }
  bool published() const { return published_; }

  // What has been written so far. The file may outlive this.
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading() const;

 private:
  Spool(int descriptor, std::unique_ptr<WritableFile> file) : descriptor_(descriptor), file_(std::move(file)) {}

  const int descriptor_;  // file_ owns it
  const std::unique_ptr<WritableFile> file_;
  bool published_ = false;
};

// All paths are URLs. Only s3:// and gs:// can be written to and listed.
//
// An object appears whole or not at all, so a file that is written is no object yet:
// - A temporary file (X.tmp) becomes an object with Rename. From CreateForStreaming it is an upload to X, which can
//   neither be read nor be given another name; from Create it lies on the local disk until then.
// - Any other file becomes an object when it is flushed or closed. Such files are small.
// A file that is an object takes nothing more.
// Directories need not be made, and nothing needs to be flushed.
//
// A file that was opened for reading while its folder is locked is replaced by Rename only as long as it is still the
// object that was opened last: Aborted otherwise.
//
// A lock guards the folder that it lies in, and where the name of that folder begins with a dot, the folder around it.
// It is an object that only one process can make, and that goes with the lock: a process that is killed leaves it
// behind. Lock is Unimplemented where the store does not honour the condition.
class ObjectFileSystem : public FileSystem {
 public:
  explicit ObjectFileSystem(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}

  ObjectStore& store() { return *store_; }

  // What is opened for reading from now on is read through it. ReadFile is not: what changes is small.
  void UseCache(std::shared_ptr<DiskCache> cache);
  std::shared_ptr<DiskCache> cache() const;

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  // One request up to 1 MiB, else two or more.
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status RenameIfAbsent(const std::string& from, const std::string& to) override;
  // A copy inside the store.
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;

  // As in shardkit/remote.h.
  absl::StatusOr<std::vector<Leftover>> ListLeftovers(const std::string& url);
  absl::Status RemoveLeftover(const Leftover& leftover);

 private:
  class StreamedFile;
  class SpooledFile;
  class ObjectLock;

  // A temporary file.
  struct Written {
    std::shared_ptr<Upload> upload;  // one of the two
    std::shared_ptr<Spool> spool;
  };

  // The written file of that name; empty when there is none.
  Written Find(const std::string& path) const;
  // Of an object that was opened: in a locked folder, what Rename may replace.
  void Remember(const std::string& path, const ObjectUrl& url, const ObjectVersion& version);
  absl::Status Add(const std::string& path, Written written);
  absl::Status Publish(const std::string& from, const std::string& to, bool must_be_new);
  absl::Status PutSpool(const Spool& spool, const ObjectUrl& url, const PutCondition& condition);

  const std::unique_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;                     // guards all below
  std::shared_ptr<DiskCache> cache_;             // null: none
  std::map<std::string, Written> written_;       // those with temporary names
  std::set<std::string> locks_;                  // that are held
  std::map<std::string, ObjectVersion> opened_;  // in their folders
};

// Reads URLs, and passes all other paths on to `local`, which must outlive it. The store is opened at the first use of
// a URL. Thread-safe.
std::unique_ptr<FileSystem> NewUrlFileSystem(FileSystem& local, const ObjectStore::Options& options);

}  // namespace shardkit::remote
