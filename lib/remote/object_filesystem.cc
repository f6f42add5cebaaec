#include "remote/object_filesystem.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <utility>

#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/posix_error.h"
#include "io/posix_file.h"
#include "io/publish_file.h"
#include "remote/object_file.h"
#include "remote/object_writes.h"

namespace shardkit::remote {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr uint64_t kPiece = uint64_t{4} << 20;

// Of a file that is read as a whole: more than a manifest of ten thousand shards has.
constexpr uint64_t kFirstBytes = uint64_t{1} << 20;

bool IsListed(const ObjectUrl& url) { return url.scheme == Scheme::kS3 || url.scheme == Scheme::kGoogle; }

// A bucket, or a repository of the hub, is no object: its store need not be asked.
absl::StatusOr<ObjectUrl> ResolveReadable(ObjectStore& store, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(ObjectUrl url, store.Resolve(path));
  if (url.key.empty() && url.scheme != Scheme::kHttp) return NotFound(Describe(url), ": there is no such object");
  return url;
}

absl::StatusOr<ObjectUrl> ResolveWritable(ObjectStore& store, const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(ObjectUrl url, store.Resolve(path));
  if (!IsListed(url)) {
    return Unimplemented(Describe(url),
                         ": web servers and the hub can only be read; write to s3://, gs:// or a local folder");
  }
  return url;
}

// How the object of a lock begins.
constexpr std::string_view kLock = "shardkit lock";
constexpr uint64_t kLongestLock = 100;

// The folder that a lock guards: where it lies, or around that if its name begins with a dot.
std::string GuardedFolder(const std::string& lock) {
  const std::string folder = io::ParentDirectory(lock);
  return io::BaseName(folder).starts_with('.') ? io::ParentDirectory(folder) : folder;
}

bool Guards(const std::string& lock, const std::string& path) {
  const std::string folder = io::ParentDirectory(path);
  return folder == GuardedFolder(lock) || folder == io::ParentDirectory(lock);
}

// Tells one holder of a lock from all others.
std::string NewToken() {
  std::random_device random;
  std::string token(kLock);
  for (int i = 0; i < 4; ++i) token += StrCat(" ", random());
  return token;
}

}  // namespace

// An upload that is under way.
class ObjectFileSystem::StreamedFile : public WritableFile {
 public:
  StreamedFile(std::string path, std::shared_ptr<Upload> upload) : path_(std::move(path)), upload_(std::move(upload)) {}

  const std::string& path() const override { return path_; }
  absl::Status Append(std::string_view bytes) override { return upload_->Append(bytes); }
  uint64_t size() const override { return upload_->size(); }
  absl::Status Sync() override { return absl::OkStatus(); }  // the store does when the object appears
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  const std::string path_;
  const std::shared_ptr<Upload> upload_;
};

class ObjectFileSystem::SpooledFile : public WritableFile {
 public:
  SpooledFile(ObjectFileSystem& owner, std::string path, std::shared_ptr<Spool> spool, std::optional<ObjectUrl> target)
      : owner_(owner), path_(std::move(path)), spool_(std::move(spool)), target_(std::move(target)) {}

  ~SpooledFile() override {
    (void)Guarded("closing", [this] { return Close(); });
  }

  const std::string& path() const override { return path_; }
  absl::Status Append(std::string_view bytes) override {
    if (spool_->published()) return FailedPrecondition(path_, ": is an object already, and takes nothing more");
    return spool_->file().Append(bytes);
  }
  uint64_t size() const override { return spool_->file().size(); }

  absl::Status Sync() override {
    if (!target_ || spool_->published()) return absl::OkStatus();
    // A file that has its own name from the beginning must not replace another's.
    SHARDKIT_RETURN_IF_ERROR(owner_.PutSpool(*spool_, *target_, {.absent = true}));
    spool_->SetPublished();
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (std::exchange(closed_, true)) return absl::OkStatus();
    return Sync();
  }

 private:
  ObjectFileSystem& owner_;
  const std::string path_;
  const std::shared_ptr<Spool> spool_;
  const std::optional<ObjectUrl> target_;  // empty for a temporary file
  bool closed_ = false;
};

class ObjectFileSystem::ObjectLock : public FileLock {
 public:
  ObjectLock(ObjectFileSystem& owner, std::string path, ObjectUrl url, std::string token)
      : owner_(owner), path_(std::move(path)), url_(std::move(url)), token_(std::move(token)) {}

  // Removes the object, unless somebody has removed it and another has taken the lock since.
  ~ObjectLock() override {
    (void)Guarded("unlocking", [this]() -> absl::Status {
      {
        const std::lock_guard lock(owner_.mutex_);
        owner_.locks_.erase(path_);
        std::erase_if(owner_.opened_, [this](const auto& opened) { return Guards(path_, opened.first); });
      }
      std::string present(token_.size(), '\0');
      SHARDKIT_RETURN_IF_ERROR(owner_.store().Read(url_, {}, 0, present).status());
      return present == token_ ? RemoveObject(owner_.store(), url_) : absl::OkStatus();
    });
  }

 private:
  ObjectFileSystem& owner_;
  const std::string path_;
  const ObjectUrl url_;
  const std::string token_;
};

ObjectFileSystem::Written ObjectFileSystem::Find(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = written_.find(path);
  return found == written_.end() ? Written() : found->second;
}

absl::Status ObjectFileSystem::Add(const std::string& path, Written written) {
  const std::lock_guard lock(mutex_);
  if (written_.emplace(path, std::move(written)).second) return absl::OkStatus();
  return absl::AlreadyExistsError(ToAbsl(StrCat(path, ": cannot create: it is being written already")));
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> ObjectFileSystem::OpenForReading(const std::string& path,
                                                                                   ReadMode /*mode*/,
                                                                                   std::optional<uint64_t> size) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveReadable(*store_, path));
  if (const Written written = Find(path); written.spool) return written.spool->OpenForReading();
  ObjectVersion version = {size.value_or(0), {}};
  if (!size) {
    SHARDKIT_ASSIGN_OR_RETURN(version, store_->Stat(url));
    Remember(path, url, version);
  }
  auto file = NewObjectFile(*store_, path, url, version);
  const std::lock_guard lock(mutex_);
  return cache_ == nullptr ? std::move(file) : NewCachedFile(std::move(file), Describe(url), cache_);
}

void ObjectFileSystem::UseCache(std::shared_ptr<DiskCache> cache) {
  const std::lock_guard lock(mutex_);
  cache_ = std::move(cache);
}

std::shared_ptr<DiskCache> ObjectFileSystem::cache() const {
  const std::lock_guard lock(mutex_);
  return cache_;
}

void ObjectFileSystem::Remember(const std::string& path, const ObjectUrl& url, const ObjectVersion& version) {
  const std::lock_guard lock(mutex_);
  const auto same_folder = [&path](const std::string& held) { return Guards(held, path); };
  const std::string& known = url.scheme == Scheme::kGoogle ? version.generation : version.etag;
  if (!known.empty() && std::ranges::any_of(locks_, same_folder)) opened_[path] = version;
}

absl::StatusOr<std::string> ObjectFileSystem::ReadFile(const std::string& path, uint64_t limit) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveReadable(*store_, path));
  std::string bytes(std::min(limit, kFirstBytes), '\0');
  if (bytes.empty() || Find(path).spool) return FileSystem::ReadFile(path, limit);
  const absl::StatusOr<ObjectVersion> version = store_->Read(url, {}, 0, bytes);
  if (absl::IsOutOfRange(version.status())) return std::string();  // it is empty
  SHARDKIT_RETURN_IF_ERROR(version.status());
  Remember(path, url, *version);
  if (version->size > limit) {
    return ResourceExhausted(Describe(url), ": cannot read as a whole: it has ", version->size,
                             " bytes, more than the ", limit, " expected here");
  }
  const size_t first = bytes.size();
  bytes.resize(version->size);
  if (version->size > first) {
    const auto file = NewObjectFile(*store_, path, url, *version);
    SHARDKIT_RETURN_IF_ERROR(file->ReadAt(first, std::span(bytes).subspan(first)));
  }
  return bytes;
}

absl::StatusOr<FileInfo> ObjectFileSystem::Stat(const std::string& path, bool /*follow*/) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, store_->Resolve(path));
  if (const Written written = Find(path); written.spool)
    return FileInfo{FileType::kRegular, written.spool->file().size()};
  const bool listed = IsListed(url);
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
      SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl inside, store_->Resolve(JoinPath(path, manifest)));
      if (store_->Stat(inside).ok()) return FileInfo{FileType::kDirectory};
    }
    return missing;
  }
  // A folder is what has something in it, or a bucket.
  const absl::Status found = store_->List(url, false, [](const ListedObject&) { return absl::AlreadyExistsError(""); });
  if (absl::IsAlreadyExists(found) || (found.ok() && url.key.empty())) return FileInfo{FileType::kDirectory};
  return found.ok() ? missing : found;
}

absl::Status ObjectFileSystem::ForEachEntry(const std::string& path, const TakeEntry& take) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, store_->Resolve(path));
  return store_->List(url, false, [&take](const ListedObject& object) {
    if (object.folder) return take({object.name, FileType::kDirectory, std::nullopt});
    return take({object.name, FileType::kRegular, object.size});
  });
}

absl::StatusOr<std::unique_ptr<WritableFile>> ObjectFileSystem::Create(const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveWritable(*store_, path));
  SHARDKIT_ASSIGN_OR_RETURN(std::shared_ptr<Spool> spool, Spool::Create(path));
  if (!path.ends_with(kTemporarySuffix)) return std::make_unique<SpooledFile>(*this, path, std::move(spool), url);
  SHARDKIT_RETURN_IF_ERROR(Add(path, {nullptr, spool}));
  return std::make_unique<SpooledFile>(*this, path, std::move(spool), std::nullopt);
}

absl::StatusOr<std::unique_ptr<WritableFile>> ObjectFileSystem::CreateForStreaming(const std::string& path) {
  const std::string_view target = io::TargetOfTemporary(path);
  if (target.empty()) return Create(path);
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveWritable(*store_, std::string(target)));
  const auto upload = std::make_shared<Upload>(*store_, url);
  SHARDKIT_RETURN_IF_ERROR(Add(path, {upload, nullptr}));
  return std::make_unique<StreamedFile>(path, upload);
}

absl::Status ObjectFileSystem::PutSpool(const Spool& spool, const ObjectUrl& url, const PutCondition& condition) {
  SHARDKIT_ASSIGN_OR_RETURN(const auto file, spool.OpenForReading());
  std::string piece;
  if (condition.absent || condition.unchanged) {
    // In one request, for only those have conditions in all stores.
    piece.resize(file->size());
    SHARDKIT_RETURN_IF_ERROR(file->ReadAt(0, piece));
    if (store_->conditional()) return PutObject(*store_, url, piece, condition);
    if (condition.absent && store_->Stat(url).ok()) {
      return absl::AlreadyExistsError(ToAbsl(StrCat(Describe(url), ": there is an object already")));
    }
    return PutObject(*store_, url, piece);
  }
  Upload upload(*store_, url);
  for (uint64_t done = 0; done < file->size(); done += piece.size()) {
    piece.resize(std::min(kPiece, file->size() - done));
    SHARDKIT_RETURN_IF_ERROR(file->ReadAt(done, piece));
    SHARDKIT_RETURN_IF_ERROR(upload.Append(piece));
  }
  return upload.Finish();
}

absl::Status ObjectFileSystem::Publish(const std::string& from, const std::string& to, bool must_be_new) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveWritable(*store_, to));
  const Written written = Find(from);
  if (written.upload) {
    if (must_be_new || Describe(written.upload->url()) != Describe(url)) {
      return Unimplemented(from, ": cannot rename to ", Describe(url),
                           ": an upload keeps the name that it was begun with");
    }
    SHARDKIT_RETURN_IF_ERROR(written.upload->Finish());
  } else if (written.spool) {
    PutCondition condition = {.absent = must_be_new};
    if (!must_be_new) {
      const std::lock_guard lock(mutex_);
      if (const auto opened = opened_.find(to); opened != opened_.end()) condition.unchanged = opened->second;
    }
    SHARDKIT_RETURN_IF_ERROR(PutSpool(*written.spool, url, condition));
    written.spool->SetPublished();
  } else {
    SHARDKIT_RETURN_IF_ERROR(Link(from, to));
    return RemoveFile(from);
  }
  const std::lock_guard lock(mutex_);
  written_.erase(from);
  opened_.erase(to);
  return absl::OkStatus();
}

absl::Status ObjectFileSystem::Rename(const std::string& from, const std::string& to) {
  return Publish(from, to, /*must_be_new=*/false);
}

absl::Status ObjectFileSystem::RenameIfAbsent(const std::string& from, const std::string& to) {
  return Publish(from, to, /*must_be_new=*/true);
}

absl::Status ObjectFileSystem::Link(const std::string& from, const std::string& to) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl source, store_->Resolve(from));
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl target, ResolveWritable(*store_, to));
  return CopyObject(*store_, source, target);
}

absl::Status ObjectFileSystem::RemoveFile(const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveWritable(*store_, path));
  Written written;
  {
    const std::lock_guard lock(mutex_);
    if (locks_.contains(path)) return absl::OkStatus();  // the lock removes it, if it is still its own
    if (const auto found = written_.find(path); found != written_.end()) {
      written = std::move(found->second);
      written_.erase(found);
    }
  }
  if (written.upload) return written.upload->Abort();
  if (written.spool) return absl::OkStatus();
  // A store is content with the removal of nothing, but callers want to know.
  SHARDKIT_RETURN_IF_ERROR(store_->Stat(url).status());
  return RemoveObject(*store_, url);
}

absl::Status ObjectFileSystem::RemoveDirectory(const std::string& /*path*/) { return absl::OkStatus(); }

absl::Status ObjectFileSystem::CreateDirectory(const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(ObjectUrl url, ResolveWritable(*store_, path));
  url.key.clear();
  const absl::Status bucket =
      store_->List(url, false, [](const ListedObject&) { return absl::AlreadyExistsError(""); });
  // Not NotFound, after which the caller would make the parent.
  if (absl::IsNotFound(bucket)) return FailedPrecondition(ToStd(bucket.message()), "; make the bucket first");
  return bucket.ok() || absl::IsAlreadyExists(bucket) ? absl::OkStatus() : bucket;
}

absl::Status ObjectFileSystem::SyncDirectory(const std::string& /*path*/) { return absl::OkStatus(); }

absl::StatusOr<std::unique_ptr<FileLock>> ObjectFileSystem::Lock(const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveWritable(*store_, path));
  if (!store_->conditional()) return std::make_unique<FileLock>();
  const std::string token = NewToken();
  const std::string folder = GuardedFolder(path);
  absl::Status status = PutObject(*store_, url, token, {.absent = true});
  if (absl::IsAlreadyExists(status)) {
    return Unavailable(
        folder, ": another run is writing there; wait until it ends. If it was killed, run: shardctl uploads abort ",
        folder);
  }
  if (status.ok()) {
    // A server that ignores the condition lets a second one in.
    status = PutObject(*store_, url, NewToken(), {.absent = true});
    if (absl::IsAlreadyExists(status)) {
      const std::lock_guard lock(mutex_);
      locks_.insert(path);
      return std::make_unique<ObjectLock>(*this, path, url, token);
    }
    (void)RemoveObject(*store_, url);
    if (status.ok()) status = Unimplemented("the server ignores the condition");
  }
  if (!absl::IsUnimplemented(status)) return status;
  return Unimplemented(
      folder,
      ": the server does not honour If-None-Match, so two writers could overwrite each other; if there "
      "is only one, write with --no-conditional (SHARDKIT_NO_CONDITIONAL=1)");
}

absl::StatusOr<std::vector<Leftover>> ObjectFileSystem::ListLeftovers(const std::string& url) {
  SHARDKIT_ASSIGN_OR_RETURN(ObjectUrl folder, ResolveWritable(*store_, url));
  std::vector<Leftover> leftovers;
  SHARDKIT_RETURN_IF_ERROR(ForEachUpload(*store_, folder, [&](const StartedUpload& upload) {
    ObjectUrl object = folder;
    object.key = upload.key;
    leftovers.push_back({Describe(object), upload.id, upload.started});
    return absl::OkStatus();
  }));
  std::vector<std::string> folders = {Describe(folder)}, candidates;
  for (size_t i = 0; i < folders.size(); ++i) {
    SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl listed, ResolveWritable(*store_, folders[i]));
    SHARDKIT_RETURN_IF_ERROR(store_->List(listed, false, [&](const ListedObject& object) {
      const bool lock = object.size <= kLongestLock && (object.name == "lock" || object.name.ends_with(".lock"));
      std::string path = JoinPath(folders[i], object.name);
      if (object.folder && i == 0 && object.name.starts_with('.')) {
        folders.push_back(std::move(path));
      } else if (!object.folder && lock) {
        candidates.push_back(std::move(path));
      }
      return absl::OkStatus();
    }));
  }
  for (std::string& candidate : candidates) {
    const absl::StatusOr<std::string> text = ReadFile(candidate, kLongestLock);
    if (text.ok() && text->starts_with(kLock)) leftovers.push_back({std::move(candidate), "", ""});
  }
  return leftovers;
}

absl::Status ObjectFileSystem::RemoveLeftover(const Leftover& leftover) {
  SHARDKIT_ASSIGN_OR_RETURN(const ObjectUrl url, ResolveWritable(*store_, leftover.url));
  if (!leftover.upload_id.empty()) return AbortUpload(*store_, url, leftover.upload_id);
  const absl::Status status = RemoveObject(*store_, url);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::unique_ptr<Spool>> Spool::Create(const std::string& path) {
  const char* const directory = std::getenv("TMPDIR");
  const std::string folder = directory == nullptr || *directory == '\0' ? "/tmp" : directory;
  std::string name = JoinPath(folder, "shardkit-XXXXXX");
  const std::string shown = StrCat(path, ": its temporary file in ", folder, " (TMPDIR names another folder)");
  io::FileDescriptor descriptor(mkostemp(name.data(), O_CLOEXEC));
  if (!descriptor.valid()) return io::PosixError(shown, "create", errno);
  (void)unlink(name.c_str());
  const int number = descriptor.get();
  return std::unique_ptr<Spool>(new Spool(number, io::NewPosixWritableFile(shown, std::move(descriptor), 0)));
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> Spool::OpenForReading() const {
  io::FileDescriptor descriptor(fcntl(descriptor_, F_DUPFD_CLOEXEC, 0));
  if (!descriptor.valid()) return io::PosixError(file_->path(), "open", errno);
  return io::NewPosixRandomAccessFile(file_->path(), {std::move(descriptor), file_->size()}, "");
}

}  // namespace shardkit::remote
