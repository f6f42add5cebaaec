#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "io/direct_file.h"
#include "io/mapped_file.h"
#include "io/posix_error.h"
#include "io/posix_file.h"
#include "io/spare_files.h"
#include "shardkit/filesystem.h"

namespace shardkit {
namespace io {
namespace {

constexpr size_t kStagingBytes = size_t{4} << 20;

class DirectWritableFile final : public WritableFile {
 public:
  DirectWritableFile(std::string path, FileDescriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  // Appended bytes reach the file even without Close.
  ~DirectWritableFile() override {
    (void)Guarded("writing", [this] { return BecomePlain(); });
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return plain_ ? plain_->size() : written_ + staging_.size(); }

  absl::Status Append(std::string_view bytes) override {
    if (!error_.ok()) return error_;
    if (plain_) return plain_->Append(bytes);
    while (!bytes.empty()) {
      const size_t taken = std::min(bytes.size(), kStagingBytes - staging_.size());
      staging_.Append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (staging_.size() == kStagingBytes) SHARDKIT_RETURN_IF_ERROR(Remember(StartWriting()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AppendShared(const RandomAccessFile& source, uint64_t offset, uint64_t length) override {
    if (!error_.ok()) return error_;
    if (plain_) return plain_->AppendShared(source, offset, length);
    SHARDKIT_RETURN_IF_ERROR(Remember(FinishWriting()));
    if (!ShareRange(descriptor_.get(), size(), source.descriptor(), offset, length)) return false;
    // What is staged lies before it, and ends with a block of the file system, else sharing had been refused.
    std::swap(staging_, flying_);
    staging_.clear();
    SHARDKIT_RETURN_IF_ERROR(Remember(Write(written_)));
    written_ += flying_.size() + length;
    flying_.clear();
    return true;
  }

  void StartWriteback() override {
    if (plain_) plain_->StartWriteback();
  }

  absl::Status Sync() override {
    SHARDKIT_RETURN_IF_ERROR(BecomePlain());
    return plain_->Sync();
  }

  absl::Status Close() override {
    SHARDKIT_RETURN_IF_ERROR(BecomePlain());
    return plain_->Close();
  }

 private:
  absl::Status Remember(absl::Status status) {
    if (!status.ok()) error_ = status;
    return status;
  }

  // Writes the full staging buffer in the background while the other one is filled.
  absl::Status StartWriting() {
    SHARDKIT_RETURN_IF_ERROR(FinishWriting());
    std::swap(staging_, flying_);
    staging_.clear();
    writing_ = Pending<absl::Status>::Run(writer_, "writing", [this, offset = written_] { return Write(offset); });
    written_ += flying_.size();
    return absl::OkStatus();
  }

  absl::Status FinishWriting() {
    if (!writing_) return absl::OkStatus();
    const absl::Status status = writing_->Take();
    writing_.reset();
    return status;
  }

  // On the writing thread.
  absl::Status Write(uint64_t offset) {
    size_t done = 0;
    while (done < flying_.size()) {
      const ssize_t got =
          pwrite(descriptor_.get(), flying_.data() + done, flying_.size() - done, static_cast<off_t>(offset + done));
      if (got > 0) done += static_cast<size_t>(got);
      // The file system refuses direct writes after all, or a write ended at a length where a direct write cannot
      // continue.
      if (direct_ && ((got < 0 && errno == EINVAL) || done % Buffer::kAlignment != 0)) {
        SHARDKIT_RETURN_IF_ERROR(ClearDirect());
      } else if (got == 0 || (got < 0 && errno != EINTR)) {
        return PosixError(path_, "write", got == 0 ? EIO : errno);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ClearDirect() {
    const int flags = fcntl(descriptor_.get(), F_GETFL);
    if (flags < 0 || fcntl(descriptor_.get(), F_SETFL, flags & ~O_DIRECT) < 0) {
      return PosixError(path_, "change the flags of", errno);
    }
    direct_ = false;
    return absl::OkStatus();
  }

  absl::Status BecomePlain() {
    if (!error_.ok()) return error_;
    return plain_ ? absl::OkStatus() : Remember(GoPlain());
  }

  // Switches to ordinary writes, and appends the staged bytes.
  absl::Status GoPlain() {
    SHARDKIT_RETURN_IF_ERROR(FinishWriting());
    SHARDKIT_RETURN_IF_ERROR(ClearDirect());
    plain_ = NewPosixWritableFile(path_, std::move(descriptor_), written_);
    const absl::Status status = plain_->Append(staging_.view());
    staging_ = Buffer();
    flying_ = Buffer();
    return status;
  }

  const std::string path_;
  FileDescriptor descriptor_;
  Buffer staging_;        // being filled
  Buffer flying_;         // being written
  bool direct_ = true;    // O_DIRECT is set; used by the writing thread while it writes
  uint64_t written_ = 0;  // bytes passed to the writing thread
  std::unique_ptr<WritableFile> plain_;
  absl::Status error_;
  std::optional<Pending<absl::Status>> writing_;
  ThreadPool writer_{1};  // last, so that it joins before the members that its task uses are destroyed
};

// Takes ownership of the descriptor of a new, empty file opened for writing with O_DIRECT. Gathers bytes and writes
// them in aligned pieces of some MiB. After Sync or Close, or when the file system refuses a direct write, the
// file is written like any other.
std::unique_ptr<WritableFile> NewDirectWritableFile(std::string path, FileDescriptor descriptor) {
  return std::make_unique<DirectWritableFile>(std::move(path), std::move(descriptor));
}

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  const FileDescriptor descriptor_;  // closing it releases the lock
};

struct CloseDirectory {
  void operator()(DIR* directory) const { (void)closedir(directory); }
};

FileType TypeOf(mode_t mode) {
  if (S_ISREG(mode)) return FileType::kRegular;
  if (S_ISDIR(mode)) return FileType::kDirectory;
  if (S_ISLNK(mode)) return FileType::kSymbolicLink;
  return FileType::kOther;
}

// For the system calls that take one path and return 0 or -1.
template <typename Call>
absl::Status OnPath(const std::string& path, std::string_view operation, Call call) {
  SHARDKIT_RETURN_IF_ERROR(CheckPath(path, operation));
  if (call(path.c_str()) != 0) return PosixError(path, operation, errno);
  return absl::OkStatus();
}

template <typename Call>
absl::Status OnTwoPaths(const std::string& from, const std::string& to, std::string_view verb, Call call) {
  const std::string operation = StrCat(verb, " to ", to.c_str());
  SHARDKIT_RETURN_IF_ERROR(CheckPath(from, operation));
  SHARDKIT_RETURN_IF_ERROR(CheckPath(to, verb));
  if (call(from.c_str(), to.c_str()) != 0) return PosixError(from, operation, errno);
  return absl::OkStatus();
}

// Thread-safe and without state.
class PosixFileSystemImplementation final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(const std::string& path, ReadMode mode,
                                                                   std::optional<uint64_t> size) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status RemoveFile(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path, bool follow) override;
  absl::Status ForEachEntry(const std::string& path, const TakeEntry& take) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path) override;
};

absl::StatusOr<std::unique_ptr<RandomAccessFile>> PosixFileSystemImplementation::OpenForReading(
    const std::string& path, ReadMode mode, std::optional<uint64_t> /*size*/) {
  switch (mode) {
    case ReadMode::kMapped:
      return OpenMappedFile(path);
    case ReadMode::kDirect:
      return OpenDirectFile(path);
    case ReadMode::kAuto:
    case ReadMode::kBuffered:
      break;
  }
  SHARDKIT_ASSIGN_OR_RETURN(OpenedFile file, OpenRegularFile(path, /*extra_flags=*/0));
  return NewPosixRandomAccessFile(path, std::move(file), /*fallback_reason=*/"");
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystemImplementation::Create(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(CheckPath(path, "create"));
  FileDescriptor descriptor = OpenDescriptor(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!descriptor.valid()) return PosixError(path, "create", errno);
  return NewPosixWritableFile(path, std::move(descriptor), 0);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystemImplementation::CreateForStreaming(
    const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(CheckPath(path, "create"));
  FileDescriptor descriptor = OpenDescriptor(path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT);
  if (descriptor.valid()) return NewDirectWritableFile(path, std::move(descriptor));
  // EINVAL: the file system has no direct I/O, but may have created the file before the error.
  if (errno != EINVAL) return PosixError(path, "create", errno);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return PosixError(path, "create", errno);
  return Create(path);
}

absl::Status PosixFileSystemImplementation::Rename(const std::string& from, const std::string& to) {
  return OnTwoPaths(from, to, "rename", [](const char* a, const char* b) { return rename(a, b); });
}

absl::Status PosixFileSystemImplementation::Link(const std::string& from, const std::string& to) {
  return OnTwoPaths(from, to, "link", [](const char* a, const char* b) { return link(a, b); });
}

absl::Status PosixFileSystemImplementation::RemoveFile(const std::string& path) {
  return OnPath(path, "remove", [](const char* name) { return unlink(name); });
}

absl::Status PosixFileSystemImplementation::RemoveDirectory(const std::string& path) {
  return OnPath(path, "remove directory", [](const char* name) { return rmdir(name); });
}

absl::Status PosixFileSystemImplementation::CreateDirectory(const std::string& path) {
  absl::Status status = OnPath(path, "create directory", [](const char* name) { return mkdir(name, 0777); });
  if (!absl::IsAlreadyExists(status)) return status;
  struct stat info;  // a link to a directory is accepted too
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) ? absl::OkStatus() : status;
}

absl::Status PosixFileSystemImplementation::SyncDirectory(const std::string& path) {
  constexpr std::string_view kOperation = "sync directory";
  SHARDKIT_RETURN_IF_ERROR(CheckPath(path, kOperation));
  const FileDescriptor descriptor = OpenDescriptor(path, O_RDONLY | O_DIRECTORY);
  if (!descriptor.valid()) return PosixError(path, kOperation, errno);
  int result;
  do {
    result = fsync(descriptor.get());
  } while (result != 0 && errno == EINTR);
  // EINVAL: some network and FUSE file systems do not support this request and give no stronger guarantee.
  if (result != 0 && errno != EINVAL) return PosixError(path, kOperation, errno);
  return absl::OkStatus();
}

absl::StatusOr<FileInfo> PosixFileSystemImplementation::Stat(const std::string& path, bool follow) {
  struct stat info;
  SHARDKIT_RETURN_IF_ERROR(OnPath(path, "stat", [&info, follow](const char* name) {
    return fstatat(AT_FDCWD, name, &info, follow ? 0 : AT_SYMLINK_NOFOLLOW);
  }));
  return FileInfo{.type = TypeOf(info.st_mode),
                  .size = static_cast<uint64_t>(info.st_size),
                  .device = info.st_dev,
                  .inode = info.st_ino};
}

absl::Status PosixFileSystemImplementation::ForEachEntry(const std::string& path, const TakeEntry& take) {
  constexpr std::string_view kOperation = "list directory";
  SHARDKIT_RETURN_IF_ERROR(CheckPath(path, kOperation));
  std::unique_ptr<DIR, CloseDirectory> directory;
  do {
    directory.reset(opendir(path.c_str()));
  } while (directory == nullptr && MadeRoom(errno));
  if (directory == nullptr) return PosixError(path, kOperation, errno);
  while (true) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    FileType type = FileType::kOther;
    if (entry->d_type != DT_UNKNOWN) {
      type = TypeOf(DTTOIF(entry->d_type));
    } else if (struct stat info; fstatat(dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
      type = TypeOf(info.st_mode);
    } else if (errno == ENOENT) {
      continue;  // removed after it was listed
    } else {
      return PosixError(JoinPath(path, name), "stat", errno);
    }
    SHARDKIT_RETURN_IF_ERROR(take({name, type, std::nullopt}));
  }
  if (errno != 0) return PosixError(path, kOperation, errno);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> PosixFileSystemImplementation::Lock(const std::string& path) {
  constexpr std::string_view kOperation = "lock";
  SHARDKIT_RETURN_IF_ERROR(CheckPath(path, kOperation));
  while (true) {
    FileDescriptor descriptor = OpenDescriptor(path, O_RDWR | O_CREAT);
    if (!descriptor.valid()) return PosixError(path, kOperation, errno);
    int result;
    do {
      result = flock(descriptor.get(), LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK) return LockIsHeld(path);
    if (result != 0) return PosixError(path, kOperation, errno);
    // The previous holder may have removed the file between open and flock. The lock is then on a file without a name
    // and protects nothing.
    struct stat locked;
    struct stat named;
    if (fstat(descriptor.get(), &locked) != 0) return PosixError(path, kOperation, errno);
    if (stat(path.c_str(), &named) == 0) {
      if (locked.st_dev == named.st_dev && locked.st_ino == named.st_ino) {
        return std::make_unique<PosixFileLock>(std::move(descriptor));
      }
    } else if (errno != ENOENT) {
      return PosixError(path, kOperation, errno);
    }
  }
}

}  // namespace
}  // namespace io

FileSystem* PosixFileSystem() {
  // Never destroyed: files opened through it may be used until the process ends.
  static FileSystem* const instance = new io::PosixFileSystemImplementation;
  return instance;
}

}  // namespace shardkit
