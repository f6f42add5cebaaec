
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "absl/strings/numbers.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "remote/object_filesystem.h"
#include "shardkit/filesystem.h"
#include "shardkit/remote.h"

namespace shardkit {
namespace remote {
namespace {

// URLs in object stores, and everything else in a local file system.
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
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->OpenForReading(path, mode, size);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->ReadFile(path, limit);
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->Stat(path, follow);
  }
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->ForEachEntry(path, take);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->Create(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->CreateForStreaming(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, OfBoth(from, to));
    return files->Rename(from, to);
  }
  absl::Status RenameIfAbsent(const std::string& from, const std::string& to) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, OfBoth(from, to));
    return files->RenameIfAbsent(from, to);
  }
  absl::Status Link(const std::string& from, const std::string& to) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, OfBoth(from, to));
    return files->Link(from, to);
  }
  absl::Status RemoveFile(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->RemoveFile(path);
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->RemoveDirectory(path);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->CreateDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->SyncDirectory(path);
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(FileSystem* const files, Of(path));
    return files->Lock(path);
  }

  // The store's, for what no file system has.
  absl::StatusOr<ObjectFileSystem*> Objects() {
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
    SHARDKIT_ASSIGN_OR_RETURN(const CacheOptions wanted, Wanted());
    if (wanted != process->cache) {
      std::shared_ptr<DiskCache> cache;
      if (!wanted.directory.empty()) {
        SHARDKIT_ASSIGN_OR_RETURN(cache, DiskCache::Open(wanted.directory, wanted.limit_bytes));
      }
      process->objects->UseCache(std::move(cache));
      process->cache = wanted;
    }
    return process->objects.get();
  }

  CacheTraffic ReadTraffic() const {
    Process* const process = process_.load();
    if (process == nullptr || process->id != getpid()) return {};
    const std::lock_guard lock(process->mutex);
    const auto cache = process->objects == nullptr ? nullptr : process->objects->cache();
    return cache == nullptr ? CacheTraffic{} : CacheTraffic{cache->bytes_found, cache->bytes_fetched};
  }

  absl::Status UseCache(const CacheOptions& options) {
    // Never deleted: another thread may be reading it.
    const CacheOptions* const before = wanted_.exchange(new CacheOptions(options));
    const absl::Status status = Objects().status();
    if (!status.ok()) wanted_ = before;
    return status;
  }

 private:
  // Of one process: the client's thread does not live on in a fork, and a lock may have been held when it was made.
  struct Process {
    const pid_t id = getpid();
    std::mutex mutex;  // guards objects until it is set
    std::unique_ptr<ObjectFileSystem> objects;
    CacheOptions cache;  // that objects uses
  };

  // What UseCache was given, else what the environment says.
  absl::StatusOr<CacheOptions> Wanted() const {
    if (const CacheOptions* const wanted = wanted_.load()) return *wanted;
    CacheOptions options{.directory = options_.environment("SHARDKIT_CACHE").value_or("")};
    const std::string limit = options_.environment("SHARDKIT_CACHE_LIMIT").value_or("");
    if (!limit.empty() && !absl::SimpleAtoi(limit, &options.limit_bytes)) {
      return InvalidArgument("SHARDKIT_CACHE_LIMIT: '", limit, "' is not a number of bytes");
    }
    return options;
  }

  absl::StatusOr<FileSystem*> Of(const std::string& path) {
    if (!IsRemotePath(path)) return &base();
    return Objects();
  }

  absl::StatusOr<FileSystem*> OfBoth(const std::string& from, const std::string& to) {
    if (IsRemotePath(from) == IsRemotePath(to)) return Of(from);
    return FailedPrecondition(WithoutSecrets(from), ": and ", WithoutSecrets(to), " are on different file systems");
  }

  const ObjectStore::Options options_;
  std::atomic<Process*> process_ = nullptr;
  std::atomic<const CacheOptions*> wanted_ = nullptr;  // no lock, because a child of a fork could find it held
};

}  // namespace

std::unique_ptr<FileSystem> NewUrlFileSystem(FileSystem& local, const ObjectStore::Options& options) {
  return std::make_unique<UrlFileSystem>(local, options);
}

}  // namespace remote

namespace {

// Never deleted: threads may still read when the process ends.
remote::UrlFileSystem* SharedFileSystem() {
  static auto* const file_system = new remote::UrlFileSystem(*PosixFileSystem(), {});
  return file_system;
}

}  // namespace

FileSystem* DefaultFileSystem() { return SharedFileSystem(); }

absl::Status UseCache(const CacheOptions& options) { return SharedFileSystem()->UseCache(options); }

CacheTraffic ReadCacheTraffic() { return SharedFileSystem()->ReadTraffic(); }

absl::StatusOr<std::vector<Leftover>> ListLeftovers(const std::string& url) {
  SHARDKIT_ASSIGN_OR_RETURN(remote::ObjectFileSystem* const objects, SharedFileSystem()->Objects());
  return objects->ListLeftovers(url);
}

absl::Status RemoveLeftover(const Leftover& leftover) {
  SHARDKIT_ASSIGN_OR_RETURN(remote::ObjectFileSystem* const objects, SharedFileSystem()->Objects());
  return objects->RemoveLeftover(leftover);
}

}  // namespace shardkit
