#include "remote/url_filesystem.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "io/started_read.h"
#include "shardkit/forwarding_filesystem.h"
#include "shardkit/remote.h"

namespace shardkit {
namespace remote {
namespace {

// AWS advises ranges of 8 to 16 MB. Skipping a megabyte saves less time than the first byte of a request takes.
constexpr ReadHints kHints = {.preferred_bytes = uint64_t{8} << 20,
                              .bridge_gap_bytes = uint64_t{1} << 20,
                              .requests_in_flight = 32,
                              .worth_reading_again = true};

class UrlFile : public RandomAccessFile {
 public:
  UrlFile(ObjectStore& store, std::string path, ObjectUrl url, ObjectVersion version)
      : store_(store),
        path_(std::move(path)),
        url_(std::move(url)),
        size_(version.size),
        etag_(std::move(version.etag)) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  ReadHints hints() const override { return kHints; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    const ReadRequest request = {offset, buffer};
    return ReadBatch({&request, 1});
  }

  // The client has a deadline for each request, so the read ends.
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    return StartedRead(*this, requests).Wait();
  }

  void StartRead(std::span<const ReadRequest> requests, std::function<void(absl::Status)> done) const override {
    std::vector<ReadRequest> pieces;
    for (const ReadRequest& request : requests) {
      if (!RangeWithin(request.offset, request.buffer.size(), size_)) {
        return done(OutOfRange(Describe(url_), ": cannot read ", request.buffer.size(), " bytes at ", request.offset,
                               ": it has ", size_));
      }
      for (size_t begin = 0; begin < request.buffer.size(); begin += kHints.preferred_bytes) {
        pieces.push_back(
            {request.offset + begin,
             request.buffer.subspan(begin, std::min<size_t>(kHints.preferred_bytes, request.buffer.size() - begin))});
      }
    }
    if (pieces.empty()) return done(absl::OkStatus());
    const auto read = std::make_shared<Read>();
    read->left = pieces.size();
    read->done = std::move(done);
    {
      const std::lock_guard lock(mutex_);
      reads_.insert(read);
    }
    for (const ReadRequest& piece : pieces) {
      const ObjectStore::Id id =
          store_.StartRead(url_, {size_, etag()}, piece.offset, piece.buffer,
                           [this, read](absl::StatusOr<ObjectVersion> version) { End(read, std::move(version)); });
      const std::lock_guard lock(mutex_);
      read->requests.push_back(id);
      if (cancelled_) store_.Cancel(id);
    }
  }

  void CancelReads() const override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const auto& read : reads_) {
      for (const ObjectStore::Id id : read->requests) store_.Cancel(id);
    }
  }

 private:
  // Of StartRead. Guarded by mutex_.
  struct Read {
    size_t left = 0;  // pieces
    std::vector<ObjectStore::Id> requests;
    absl::Status error;
    std::function<void(absl::Status)> done;
  };

  void End(const std::shared_ptr<Read>& read, absl::StatusOr<ObjectVersion> version) const {
    absl::Status status = version.ok() ? Learn(version->etag) : std::move(version).status();
    {
      const std::lock_guard lock(mutex_);
      read->error.Update(std::move(status));
      if (--read->left > 0) return;
      reads_.erase(read);
    }
    read->done(std::move(read->error));
  }

  std::string etag() const {
    std::lock_guard lock(mutex_);
    return etag_;
  }

  // The first answer decides which version this is, where opening has sent no request.
  absl::Status Learn(const std::string& etag) const {
    std::lock_guard lock(mutex_);
    if (etag_.empty()) etag_ = etag;
    if (etag_ == etag) return absl::OkStatus();
    return FailedPrecondition(Describe(url_), ": the object has changed since it was opened; open the dataset again");
  }

  ObjectStore& store_;
  const std::string path_;
  const ObjectUrl url_;
  const uint64_t size_;
  mutable std::mutex mutex_;  // guards all below
  mutable std::string etag_;
  mutable std::set<std::shared_ptr<Read>> reads_;  // under way
  mutable bool cancelled_ = false;
};

class ObjectFileSystem : public ReadableFileSystem {
 public:
  explicit ObjectFileSystem(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode /*mode*/,
                                                                   std::optional<uint64_t> size) override {
    SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(path));
    ObjectVersion version = {size.value_or(0), {}};
    if (!size) {
      SHARDKIT_ASSIGN_OR_RETURN(version, store_->Stat(url));
    }
    return std::make_unique<UrlFile>(*store_, path, url, version);
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path, bool /*follow*/) override {
    SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(path));
    const bool listed = url.scheme == Scheme::kS3 || url.scheme == Scheme::kGoogle;
    absl::Status missing = NotFound(Describe(url), ": there is no such object");
    if (!listed || (!url.key.empty() && !url.key.ends_with('/'))) {
      const absl::StatusOr<ObjectVersion> version = store_->Stat(url);
      if (version.ok()) return FileInfo{FileType::kRegular, version->size};
      missing = version.status();
      // Of a folder that they do not list, web servers also say that it is forbidden.
      const bool perhaps_folder = absl::IsNotFound(missing) || (!listed && absl::IsPermissionDenied(missing));
      if (!perhaps_folder) return missing;
    }
    if (!listed) {
      for (const char* manifest : {"dataset.json", "index.json"}) {
        ObjectUrl inside = url;
        inside.key = JoinPath(url.key, manifest);
        if (store_->Stat(inside).ok()) return FileInfo{FileType::kDirectory};
      }
      return missing;
    }
    // A folder is what has something in it.
    const absl::Status found =
        store_->List(url, false, [](const ListedObject&) { return absl::AlreadyExistsError(""); });
    if (absl::IsAlreadyExists(found)) return FileInfo{FileType::kDirectory};
    return found.ok() ? missing : found;
  }

  absl::Status ForEachEntry(const std::string& path,
                            const std::function<absl::Status(std::string_view name, FileType type)>& take) override {
    SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(path));
    return store_->List(url, false, [&take](const ListedObject& object) {
      return take(object.name, object.folder ? FileType::kDirectory : FileType::kRegular);
    });
  }

 private:
  const std::unique_ptr<ObjectStore> store_;
};

// Reads URLs from object stores, and everything else from a local file system.
class UrlFileSystem : public ForwardingFileSystem {
 public:
  UrlFileSystem(FileSystem& local, const ObjectStore::Options& options)
      : ForwardingFileSystem(local), options_(options) {}

  ~UrlFileSystem() override {
    const Process* const process = process_.load();
    if (process != nullptr && process->id == getpid()) delete process;
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    SHARDKIT_ASSIGN_OR_RETURN(ReadableFileSystem* const source, SourceOf(path));
    return source->OpenForReading(path, mode, size);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    SHARDKIT_ASSIGN_OR_RETURN(ReadableFileSystem* const source, SourceOf(path));
    return source->Stat(path, follow);
  }
  absl::Status ForEachEntry(const std::string& path,
                            const std::function<absl::Status(std::string_view name, FileType type)>& take) override {
    SHARDKIT_ASSIGN_OR_RETURN(ReadableFileSystem* const source, SourceOf(path));
    return source->ForEachEntry(path, take);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return base().Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return base().CreateForStreaming(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return base().OpenForAppending(path);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return base().CreateDirectory(path);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return base().Lock(path);
  }

 private:
  // Of one process: the client's thread does not live on in a fork, and a lock may have been held when it was made.
  struct Process {
    const pid_t id = getpid();
    std::mutex mutex;  // guards objects until it is set
    std::unique_ptr<ObjectFileSystem> objects;
  };

  static absl::Status CheckLocal(const std::string& path) {
    if (!IsRemotePath(path)) return absl::OkStatus();
    return Unimplemented(WithoutSecrets(path), ": URLs can only be read; write to a local folder and copy it");
  }

  absl::StatusOr<ReadableFileSystem*> SourceOf(const std::string& path) {
    if (!IsRemotePath(path)) return &base();
    Process* process = process_.load();
    while (process == nullptr || process->id != getpid()) {
      auto fresh = std::make_unique<Process>();
      // The parent's, of which nothing can be used or freed here, is left alone.
      if (process_.compare_exchange_strong(process, fresh.get())) process = fresh.release();
    }
    const std::lock_guard lock(process->mutex);
    if (!process->objects) {
      SHARDKIT_ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> store, ObjectStore::Create(options_));
      process->objects = std::make_unique<ObjectFileSystem>(std::move(store));
    }
    return process->objects.get();
  }

  const ObjectStore::Options options_;
  std::atomic<Process*> process_ = nullptr;
};

}  // namespace

std::unique_ptr<FileSystem> NewUrlFileSystem(FileSystem& local, const ObjectStore::Options& options) {
  return std::make_unique<UrlFileSystem>(local, options);
}

}  // namespace remote

FileSystem* DefaultFileSystem() {
  // Never deleted: threads may still read when the process ends.
  static FileSystem* const file_system = remote::NewUrlFileSystem(*PosixFileSystem(), {}).release();
  return file_system;
}

}  // namespace shardkit
