#include "remote/url_filesystem.h"

#include <algorithm>
#include <condition_variable>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "shardkit/forwarding_filesystem.h"
#include "shardkit/remote.h"

namespace shardkit {
namespace remote {
namespace {

// AWS advises ranges of 8 to 16 MB. Skipping a megabyte saves less time than the first byte of a request takes.
constexpr ReadHints kHints = {
    .preferred_bytes = uint64_t{8} << 20, .bridge_gap_bytes = uint64_t{1} << 20, .requests_in_flight = 32};

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
    return ReadBatch({&request, 1}, kHints.requests_in_flight);
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests, int depth) const override {
    std::vector<ReadRequest> pieces;
    for (const ReadRequest& request : requests) {
      if (!RangeWithin(request.offset, request.buffer.size(), size_)) {
        return OutOfRange(Describe(url_), ": cannot read ", request.buffer.size(), " bytes at ", request.offset,
                          ": it has ", size_);
      }
      for (size_t begin = 0; begin < request.buffer.size(); begin += kHints.preferred_bytes) {
        pieces.push_back(
            {request.offset + begin,
             request.buffer.subspan(begin, std::min<size_t>(kHints.preferred_bytes, request.buffer.size() - begin))});
      }
    }
    // The client has a deadline for each request, so all of them end.
    std::mutex mutex;
    std::condition_variable changed;
    int in_flight = 0;
    absl::Status error;
    for (const ReadRequest& piece : pieces) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return in_flight < std::max(depth, 1); });
        if (!error.ok()) break;
        ++in_flight;
      }
      store_.StartRead(url_, {size_, etag()}, piece.offset, piece.buffer,
                       [&](const absl::StatusOr<ObjectVersion>& version) {
                         const absl::Status status = version.ok() ? Learn(version->etag) : version.status();
                         std::lock_guard lock(mutex);
                         if (error.ok()) error = status;
                         --in_flight;
                         changed.notify_one();
                       });
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return in_flight == 0; });
    return error;
  }

 private:
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
  mutable std::mutex mutex_;  // guards etag_
  mutable std::string etag_;
};

class UrlFileSystem : public ForwardingFileSystem {
 public:
  UrlFileSystem(FileSystem& local, const ObjectStore::Options& options)
      : ForwardingFileSystem(local), options_(options) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override {
    if (!IsRemotePath(path)) return ForwardingFileSystem::OpenForReading(path, mode, size);
    SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(path));
    SHARDKIT_ASSIGN_OR_RETURN(ObjectStore* const store, Store());
    ObjectVersion version = {size.value_or(0), {}};
    if (!size) {
      SHARDKIT_ASSIGN_OR_RETURN(version, store->Stat(url));
    }
    return std::make_unique<UrlFile>(*store, path, url, version);
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    if (!IsRemotePath(path)) return ForwardingFileSystem::Stat(path, follow);
    SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(path));
    SHARDKIT_ASSIGN_OR_RETURN(ObjectStore* const store, Store());
    const bool listed = url.scheme == Scheme::kS3 || url.scheme == Scheme::kGoogle;
    absl::Status missing = NotFound(Describe(url), ": there is no such object");
    if (!listed || (!url.key.empty() && !url.key.ends_with('/'))) {
      const absl::StatusOr<ObjectVersion> version = store->Stat(url);
      if (version.ok()) return FileInfo{FileType::kRegular, version->size};
      missing = version.status();
      if (!absl::IsNotFound(missing)) return missing;
    }
    if (!listed) {
      for (const char* manifest : {"dataset.json", "index.json"}) {
        ObjectUrl inside = url;
        inside.key = JoinPath(url.key, manifest);
        if (store->Stat(inside).ok()) return FileInfo{FileType::kDirectory};
      }
      return missing;
    }
    // A folder is what has something in it.
    const absl::Status found =
        store->List(url, false, [](const ListedObject&) { return absl::AlreadyExistsError(""); });
    if (absl::IsAlreadyExists(found)) return FileInfo{FileType::kDirectory};
    return found.ok() ? missing : found;
  }

  absl::StatusOr<std::vector<DirectoryEntry>> List(const std::string& path) override {
    if (!IsRemotePath(path)) return ForwardingFileSystem::List(path);
    SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ParseObjectUrl(path));
    SHARDKIT_ASSIGN_OR_RETURN(ObjectStore* const store, Store());
    std::vector<DirectoryEntry> entries;
    SHARDKIT_RETURN_IF_ERROR(store->List(url, false, [&entries](const ListedObject& object) {
      entries.push_back({object.name, object.folder ? FileType::kDirectory : FileType::kRegular});
      return absl::OkStatus();
    }));
    return entries;
  }

  absl::Status ForEachEntry(const std::string& path,
                            const std::function<absl::Status(std::string_view name, FileType type)>& take) override {
    return IsRemotePath(path) ? FileSystem::ForEachEntry(path, take) : base().ForEachEntry(path, take);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return ForwardingFileSystem::Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return base().CreateForStreaming(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return ForwardingFileSystem::OpenForAppending(path);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return ForwardingFileSystem::CreateDirectory(path);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    SHARDKIT_RETURN_IF_ERROR(CheckLocal(path));
    return ForwardingFileSystem::Lock(path);
  }

 private:
  static absl::Status CheckLocal(const std::string& path) {
    if (!IsRemotePath(path)) return absl::OkStatus();
    return Unimplemented(WithoutSecrets(path), ": URLs can only be read; write to a local folder and copy it");
  }

  absl::StatusOr<ObjectStore*> Store() {
    std::lock_guard lock(mutex_);
    if (!store_) {
      SHARDKIT_ASSIGN_OR_RETURN(store_, ObjectStore::Create(options_));
    }
    return store_.get();
  }

  const ObjectStore::Options options_;
  std::mutex mutex_;  // guards store_ until it is set
  std::unique_ptr<ObjectStore> store_;
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
