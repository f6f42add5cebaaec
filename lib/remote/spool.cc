#include "remote/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/errors.h"
#include "io/posix_error.h"
#include "io/posix_file.h"

namespace shardkit::remote {

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
