#include "io/posix_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fs.h>
#include <sys/ioctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "io/posix_error.h"
#include "io/spare_files.h"

namespace shardkit::io {
namespace {

// Linux transfers at most 0x7ffff000 bytes per call and other systems fail above INT_MAX.
constexpr size_t kMaxTransfer = size_t{1} << 30;
constexpr uint64_t kMaxOffset = static_cast<uint64_t>(std::numeric_limits<off_t>::max());

[[maybe_unused]] constexpr size_t kMostCachedBuffers = 8;

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, OpenedFile file, std::string fallback_reason)
      : path_(std::move(path)), file_(std::move(file)), fallback_reason_(std::move(fallback_reason)) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return file_.size; }
  std::string identity() const override { return file_.identity; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), file_.size)) {
      return ReadPastEnd(path_, file_.size, buffer.size(), offset);
    }
    return ReadFully(file_.descriptor.get(), path_, offset, buffer);
  }

  bool ReadCached(uint64_t offset, std::span<const std::span<char>> buffers) const override {
#ifdef RWF_NOWAIT
    iovec vectors[kMostCachedBuffers];
    if (buffers.size() > std::size(vectors) || offset > kMaxOffset) return false;
    size_t total = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      vectors[i] = {buffers[i].data(), buffers[i].size()};
      total += buffers[i].size();
    }
    const ssize_t got = preadv2(file_.descriptor.get(), vectors, static_cast<int>(buffers.size()),
                                static_cast<off_t>(offset), RWF_NOWAIT);
    return got >= 0 && static_cast<size_t>(got) == total;
#else
    (void)offset;
    (void)buffers;
    return false;
#endif
  }

  // The reads wait one after the other; read-ahead keeps the device busy with the next ones.
  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    const size_t ahead =
        std::min<size_t>(static_cast<size_t>(hints().requests_in_flight), std::max<size_t>(requests.size(), 1)) - 1;
    for (size_t i = 0; i < ahead; ++i) WillNeed(requests[i].offset, requests[i].buffer.size());
    absl::Status first_error;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (ahead > 0 && i + ahead < requests.size()) {
        WillNeed(requests[i + ahead].offset, requests[i + ahead].buffer.size());
      }
      first_error.Update(ReadAt(requests[i].offset, requests[i].buffer));
    }
    return first_error;
  }

  void WillNeed(uint64_t offset, uint64_t length) const override {
    if (length == 0 || offset >= file_.size) return;  // for the system, length 0 means up to the end of the file
    const uint64_t within = std::min(length, file_.size - offset);
    (void)posix_fadvise(file_.descriptor.get(), static_cast<off_t>(offset), static_cast<off_t>(within),
                        POSIX_FADV_WILLNEED);
  }

  std::string fallback_reason() const override { return fallback_reason_; }
  int descriptor() const override { return file_.descriptor.get(); }

 private:
  const std::string path_;
  const OpenedFile file_;
  const std::string fallback_reason_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, FileDescriptor descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), size_(size), writeback_started_(size) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  // A failed write does not change size(), so a second attempt overwrites the partial data.
  absl::Status Append(std::string_view bytes) override {
    SHARDKIT_RETURN_IF_ERROR(CheckWritable(bytes.size()));
    const uint64_t end = size_ + bytes.size();
    while (!bytes.empty()) {
      const ssize_t written = pwrite(descriptor_.get(), bytes.data(), std::min(bytes.size(), kMaxTransfer),
                                     static_cast<off_t>(end - bytes.size()));
      SHARDKIT_RETURN_IF_ERROR(CheckProgress(written));
      if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    }
    size_ = end;
    return absl::OkStatus();
  }

  absl::Status AppendPieces(std::span<const std::string_view> pieces) override {
    uint64_t total = 0;
    for (const std::string_view piece : pieces) {
      if (!CheckedAdd(total, piece.size(), &total)) return PosixError(path_, "write", EFBIG);
    }
    SHARDKIT_RETURN_IF_ERROR(CheckWritable(total));
    uint64_t offset = size_;
    size_t next = 0;    // the next piece to write,
    size_t within = 0;  // starting at this byte
    std::vector<iovec> vectors;
    while (true) {
      while (next < pieces.size() && within == pieces[next].size()) {
        ++next;
        within = 0;
      }
      if (next == pieces.size()) break;
      FillVectors(pieces, next, within, vectors);
      const ssize_t written =
          pwritev(descriptor_.get(), vectors.data(), static_cast<int>(vectors.size()), static_cast<off_t>(offset));
      SHARDKIT_RETURN_IF_ERROR(CheckProgress(written));
      if (written <= 0) continue;
      offset += static_cast<uint64_t>(written);
      for (size_t left = static_cast<size_t>(written); left > 0;) {
        const size_t step = std::min(left, pieces[next].size() - within);
        left -= step;
        within += step;
        if (within == pieces[next].size()) {
          ++next;
          within = 0;
        }
      }
    }
    size_ = offset;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AppendShared(const RandomAccessFile& source, uint64_t offset, uint64_t length) override {
    SHARDKIT_RETURN_IF_ERROR(CheckWritable(length));
    if (!ShareRange(descriptor_.get(), size_, source.descriptor(), offset, length)) return false;
    size_ += length;
    return true;
  }

  void StartWriteback() override {
#ifdef __linux__
    if (!descriptor_.valid() || size_ == writeback_started_) return;
    (void)sync_file_range(descriptor_.get(), static_cast<off_t>(writeback_started_),
                          static_cast<off_t>(size_ - writeback_started_), SYNC_FILE_RANGE_WRITE);
    writeback_started_ = size_;
#endif
  }

  // An error is kept: after it the system marks the lost pages clean, and a second call would succeed although the
  // bytes never reached the device.
  absl::Status Sync() override {
    if (!descriptor_.valid()) return FileIsClosed(path_, "sync");
    if (!sync_error_.ok()) return sync_error_;
    int result;
    do {
      result = fdatasync(descriptor_.get());
    } while (result != 0 && errno == EINTR);
    if (result != 0) sync_error_ = PosixError(path_, "sync", errno);
    return sync_error_;
  }

  absl::Status Close() override {
    if (!descriptor_.valid()) return close_status_;
    const int error = descriptor_.Close();
    if (error != 0) close_status_ = PosixError(path_, "close", error);
    return close_status_;
  }

 private:
  absl::Status CheckWritable(uint64_t length) const {
    if (!descriptor_.valid()) return FileIsClosed(path_, "write");
    if (!RangeWithin(size_, length, kMaxOffset)) return PosixError(path_, "write", EFBIG);
    return absl::OkStatus();
  }

  // OK means: continue, and count `written` if it is positive.
  absl::Status CheckProgress(ssize_t written) const {
    if (written > 0 || (written < 0 && errno == EINTR)) return absl::OkStatus();
    return PosixError(path_, "write", written < 0 ? errno : EIO);
  }

  static void FillVectors(std::span<const std::string_view> pieces, size_t next, size_t within,
                          std::vector<iovec>& vectors) {
    vectors.clear();
    size_t total = 0;
    for (; next < pieces.size() && vectors.size() < IOV_MAX && total < kMaxTransfer; ++next, within = 0) {
      const std::string_view piece = pieces[next].substr(within, kMaxTransfer - total);
      if (piece.empty()) continue;
      vectors.push_back({const_cast<char*>(piece.data()), piece.size()});
      total += piece.size();
    }
  }

  const std::string path_;
  FileDescriptor descriptor_;
  uint64_t size_;
  uint64_t writeback_started_;  // end of the bytes whose writeback has been started
  absl::Status sync_error_;
  absl::Status close_status_;
};

}  // namespace

FileDescriptor::FileDescriptor(int number) : number_(number) {
  if (valid()) CountDescriptor(1);
}

FileDescriptor::~FileDescriptor() { Close(); }

int FileDescriptor::Close() {
  if (number_ < 0) return 0;
  CountDescriptor(-1);
  const int result = close(std::exchange(number_, -1));
  // Linux has released the descriptor even when a signal interrupted close, and the data will still be written. A
  // second close could close a descriptor that another thread has just opened.
  return result == 0 || errno == EINTR ? 0 : errno;
}

FileDescriptor OpenDescriptor(const std::string& path, int flags) {
  int number;
  do {
    // O_NONBLOCK for this call only: without it, opening a named pipe may wait forever.
    number = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  } while (number < 0 && (errno == EINTR || MadeRoom(errno)));
  FileDescriptor descriptor(number);
  // The flag has no effect on regular files read through the page cache. There it is not cleared, because two more
  // calls per file are measurable when millions of small files are packed.
  if (number >= 0 && (flags & (O_ACCMODE | O_DIRECT)) != O_RDONLY) {
    const int status_flags = fcntl(number, F_GETFL);
    if (status_flags >= 0) (void)fcntl(number, F_SETFL, status_flags & ~O_NONBLOCK);
  }
  return descriptor;
}

absl::Status CheckPath(const std::string& path, std::string_view operation) {
  if (IsUrl(path)) {
    return InvalidArgument(
        path.c_str(), ": is a URL, which cannot be used here (the verbs that read, and DefaultFileSystem in the ",
        "library, take them): copy the data to a local disk, or mount the store, and give that path");
  }
  if (path.find('\0') == std::string::npos) return absl::OkStatus();
  return InvalidArgument(path.c_str(), ": cannot ", operation, ": the path holds a NUL byte");
}

namespace {

std::string IdentityOf(const struct stat& info) {
#ifdef __APPLE__
  const timespec &modified = info.st_mtimespec, &changed = info.st_ctimespec;
#else
  const timespec &modified = info.st_mtim, &changed = info.st_ctim;
#endif
  return StrCat(info.st_dev, ":", info.st_ino, ":", info.st_size, ":", modified.tv_sec, ".", modified.tv_nsec, ":",
                changed.tv_sec, ".", changed.tv_nsec);
}

}  // namespace

absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path, int extra_flags) {
  constexpr std::string_view kOperation = "open for reading";
  SHARDKIT_RETURN_IF_ERROR(CheckPath(path, kOperation));
  OpenedFile file{OpenDescriptor(path, O_RDONLY | extra_flags)};
  if (!file.descriptor.valid()) return PosixError(path, kOperation, errno);
  struct stat info;
  if (fstat(file.descriptor.get(), &info) != 0) return PosixError(path, kOperation, errno);
  if (S_ISDIR(info.st_mode)) return PosixError(path, kOperation, EISDIR);
  if (!S_ISREG(info.st_mode)) return FailedPrecondition(path, ": cannot ", kOperation, ": not a regular file");
  file.size = static_cast<uint64_t>(info.st_size);
  file.identity = IdentityOf(info);
  return file;
}

absl::Status ReadOfShrunkFile(int descriptor, const std::string& path, uint64_t length, uint64_t offset) {
  struct stat info;
  if (fstat(descriptor, &info) != 0) return PosixError(path, "stat", errno);
  return ReadPastEnd(path, static_cast<uint64_t>(info.st_size), length, offset);
}

absl::Status ReadFully(int descriptor, const std::string& path, uint64_t offset, std::span<char> buffer) {
  if (!RangeWithin(offset, buffer.size(), kMaxOffset)) return PosixError(path, "read", EOVERFLOW);
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got = pread(descriptor, buffer.data() + done, std::min(buffer.size() - done, kMaxTransfer),
                              static_cast<off_t>(offset + done));
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0) {
      return ReadOfShrunkFile(descriptor, path, buffer.size(), offset);
    } else if (errno != EINTR) {
      return PosixError(path, StrCat("read at offset ", offset + done), errno);
    }
  }
  return absl::OkStatus();
}

bool ShareRange(int to, uint64_t position, int from, uint64_t offset, uint64_t length) {
#ifdef FICLONERANGE
  const file_clone_range range{.src_fd = from, .src_offset = offset, .src_length = length, .dest_offset = position};
  return from >= 0 && length > 0 && ioctl(to, FICLONERANGE, &range) == 0;
#else
  (void)to, (void)position, (void)from, (void)offset, (void)length;
  return false;
#endif
}

std::unique_ptr<RandomAccessFile> NewPosixRandomAccessFile(std::string path, OpenedFile file,
                                                           std::string fallback_reason) {
  return std::make_unique<PosixRandomAccessFile>(std::move(path), std::move(file), std::move(fallback_reason));
}

std::unique_ptr<WritableFile> NewPosixWritableFile(std::string path, FileDescriptor descriptor, uint64_t size) {
  return std::make_unique<PosixWritableFile>(std::move(path), std::move(descriptor), size);
}

}  // namespace shardkit::io
