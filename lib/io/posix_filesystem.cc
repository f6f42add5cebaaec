#include "io/posix_filesystem.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/errors.h"
#include "base/status_macros.h"
#include "io/direct_file.h"
#include "io/direct_writer.h"
#include "io/mapped_file.h"
#include "io/posix_error.h"
#include "io/posix_file.h"
#include "io/spare_files.h"

namespace shardkit {
namespace {

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(io::FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  const io::FileDescriptor descriptor_;  // closing it releases the lock
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
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(path, operation));
  if (call(path.c_str()) != 0) return io::PosixError(path, operation, errno);
  return absl::OkStatus();
}

template <typename Call>
absl::Status OnTwoPaths(const std::string& from, const std::string& to, std::string_view verb, Call call) {
  const std::string operation = StrCat(verb, " to ", to.c_str());
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(from, operation));
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(to, verb));
  if (call(from.c_str(), to.c_str()) != 0) return io::PosixError(from, operation, errno);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> io::PosixFileSystemImplementation::OpenForReading(
    const std::string& path, ReadMode mode, std::optional<uint64_t> /*size*/) {
  switch (mode) {
    case ReadMode::kMapped:
      return io::OpenMappedFile(path);
    case ReadMode::kDirect:
      return io::OpenDirectFile(path);
    case ReadMode::kAuto:
    case ReadMode::kBuffered:
      break;
  }
  SHARDKIT_ASSIGN_OR_RETURN(io::OpenedFile file, io::OpenRegularFile(path, /*extra_flags=*/0));
  return io::NewPosixRandomAccessFile(path, std::move(file), /*fallback_reason=*/"");
}

absl::StatusOr<std::unique_ptr<WritableFile>> io::PosixFileSystemImplementation::Create(const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(path, "create"));
  io::FileDescriptor descriptor = io::OpenDescriptor(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!descriptor.valid()) return io::PosixError(path, "create", errno);
  return io::NewPosixWritableFile(path, std::move(descriptor), 0);
}

absl::StatusOr<std::unique_ptr<WritableFile>> io::PosixFileSystemImplementation::CreateForStreaming(
    const std::string& path) {
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(path, "create"));
  io::FileDescriptor descriptor = io::OpenDescriptor(path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT);
  if (descriptor.valid()) return io::NewDirectWritableFile(path, std::move(descriptor));
  // EINVAL: the file system has no direct I/O, but may have created the file before the error.
  if (errno != EINVAL) return io::PosixError(path, "create", errno);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return io::PosixError(path, "create", errno);
  return Create(path);
}

absl::Status io::PosixFileSystemImplementation::Rename(const std::string& from, const std::string& to) {
  return OnTwoPaths(from, to, "rename", [](const char* a, const char* b) { return rename(a, b); });
}

absl::Status io::PosixFileSystemImplementation::Link(const std::string& from, const std::string& to) {
  return OnTwoPaths(from, to, "link", [](const char* a, const char* b) { return link(a, b); });
}

absl::Status io::PosixFileSystemImplementation::RemoveFile(const std::string& path) {
  return OnPath(path, "remove", [](const char* name) { return unlink(name); });
}

absl::Status io::PosixFileSystemImplementation::RemoveDirectory(const std::string& path) {
  return OnPath(path, "remove directory", [](const char* name) { return rmdir(name); });
}

absl::Status io::PosixFileSystemImplementation::CreateDirectory(const std::string& path) {
  absl::Status status = OnPath(path, "create directory", [](const char* name) { return mkdir(name, 0777); });
  if (!absl::IsAlreadyExists(status)) return status;
  struct stat info;  // a link to a directory is accepted too
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) ? absl::OkStatus() : status;
}

absl::Status io::PosixFileSystemImplementation::SyncDirectory(const std::string& path) {
  constexpr std::string_view kOperation = "sync directory";
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(path, kOperation));
  const io::FileDescriptor descriptor = io::OpenDescriptor(path, O_RDONLY | O_DIRECTORY);
  if (!descriptor.valid()) return io::PosixError(path, kOperation, errno);
  int result;
  do {
    result = fsync(descriptor.get());
  } while (result != 0 && errno == EINTR);
  // EINVAL: some network and FUSE file systems do not support this request and give no stronger guarantee.
  if (result != 0 && errno != EINVAL) return io::PosixError(path, kOperation, errno);
  return absl::OkStatus();
}

absl::StatusOr<FileInfo> io::PosixFileSystemImplementation::Stat(const std::string& path, bool follow) {
  struct stat info;
  SHARDKIT_RETURN_IF_ERROR(OnPath(path, "stat", [&info, follow](const char* name) {
    return fstatat(AT_FDCWD, name, &info, follow ? 0 : AT_SYMLINK_NOFOLLOW);
  }));
  return FileInfo{.type = TypeOf(info.st_mode),
                  .size = static_cast<uint64_t>(info.st_size),
                  .device = info.st_dev,
                  .inode = info.st_ino};
}

absl::Status io::PosixFileSystemImplementation::ForEachEntry(const std::string& path, const TakeEntry& take) {
  constexpr std::string_view kOperation = "list directory";
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(path, kOperation));
  std::unique_ptr<DIR, CloseDirectory> directory;
  do {
    directory.reset(opendir(path.c_str()));
  } while (directory == nullptr && io::MadeRoom(errno));
  if (directory == nullptr) return io::PosixError(path, kOperation, errno);
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
      return io::PosixError(JoinPath(path, name), "stat", errno);
    }
    SHARDKIT_RETURN_IF_ERROR(take({name, type, std::nullopt}));
  }
  if (errno != 0) return io::PosixError(path, kOperation, errno);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> io::PosixFileSystemImplementation::Lock(const std::string& path) {
  constexpr std::string_view kOperation = "lock";
  SHARDKIT_RETURN_IF_ERROR(io::CheckPath(path, kOperation));
  while (true) {
    io::FileDescriptor descriptor = io::OpenDescriptor(path, O_RDWR | O_CREAT);
    if (!descriptor.valid()) return io::PosixError(path, kOperation, errno);
    int result;
    do {
      result = flock(descriptor.get(), LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK) return io::LockIsHeld(path);
    if (result != 0) return io::PosixError(path, kOperation, errno);
    // The previous holder may have removed the file between open and flock. The lock is then on a file without a name
    // and protects nothing.
    struct stat locked;
    struct stat named;
    if (fstat(descriptor.get(), &locked) != 0) return io::PosixError(path, kOperation, errno);
    if (stat(path.c_str(), &named) == 0) {
      if (locked.st_dev == named.st_dev && locked.st_ino == named.st_ino) {
        return std::make_unique<PosixFileLock>(std::move(descriptor));
      }
    } else if (errno != ENOENT) {
      return io::PosixError(path, kOperation, errno);
    }
  }
}

FileSystem* PosixFileSystem() {
  // Never destroyed: files opened through it may be used until the process ends.
  static FileSystem* const instance = new io::PosixFileSystemImplementation;
  return instance;
}

}  // namespace shardkit
