#include "io/posix_error.h"

#include <cerrno>
#include <cstring>

#include "base/errors.h"
#include "base/strings.h"

namespace shardkit::io {
namespace {

absl::StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EFBIG:
    case EMLINK:
    case ENOLCK:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EXDEV:
    case ENOTEMPTY:
    case EISDIR:
    case ELOOP:
    case ETXTBSY:
      return absl::StatusCode::kFailedPrecondition;
    case EINVAL:
    case ENAMETOOLONG:
    case ESPIPE:
      return absl::StatusCode::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return absl::StatusCode::kUnimplemented;
    // Network and cluster file systems report these while a server is away.
    case EAGAIN:
    case EBUSY:
    case EINTR:
    case ESTALE:
    case ETIMEDOUT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENOTCONN:
    case ECONNRESET:
    case EREMOTEIO:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

// What the user can do, where the error's text does not say it.
std::string_view HintFor(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "; free some space or write to another device";
    case EDQUOT:
      return "; free some space or ask for a larger quota";
    case EMFILE:
      return "; raise the limit on open files (ulimit -n) or use fewer workers";
    case ENFILE:
      return "; the whole machine is out of open files (fs.file-max)";
    case EFBIG:
      return "; the file size limit (ulimit -f, or the file system's own) is too small";
    case EXDEV:
      return "; source and destination must be on one file system";
    case EROFS:
      return "; choose a place on a writable file system";
    case EIO:
      return "; the device or its connection failed: see the kernel log (dmesg)";
    case ENOMEM:
      return "; the kernel is out of memory or of memory maps (vm.max_map_count)";
    case ESTALE:
      return "; the file was replaced on the server: open it again";
    default:
      return {};
  }
}

}  // namespace

std::string ErrorText(int error_number) {
  char buffer[128];
  // The GNU variant: it may return static text instead of filling the buffer.
  return strerror_r(error_number, buffer, sizeof(buffer));
}

absl::Status PosixError(std::string_view path, std::string_view operation, int error_number) {
  return OfSystem(absl::Status(CodeOf(error_number), StrCat(path, ": cannot ", operation, ": ", ErrorText(error_number),
                                                            HintFor(error_number))),
                  error_number);
}

absl::Status ReadPastEnd(std::string_view path, uint64_t end, uint64_t length, uint64_t offset) {
  return OutOfRange(path, ": ends at byte ", end, "; cannot read ", length, " bytes at offset ", offset);
}

absl::Status FileIsClosed(std::string_view path, std::string_view operation) {
  return FailedPrecondition(path, ": cannot ", operation, ": the file is closed");
}

absl::Status LockIsHeld(std::string_view path) {
  return FailedPrecondition(path, ": cannot lock: another process or task holds it; wait until that ends");
}

}  // namespace shardkit::io
