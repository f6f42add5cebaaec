#include "io/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/map_watch.h"
#include "io/posix_error.h"
#include "io/posix_file.h"

namespace shardkit::io {
namespace {

class MappedFile final : public RandomAccessFile {
 public:
  // Takes ownership of the mapping `bytes`; an empty file has none.
  MappedFile(std::string path, OpenedFile file, std::string_view bytes)
      : path_(std::move(path)), file_(std::move(file)), bytes_(bytes) {
    if (!bytes_.empty()) watch_.emplace(bytes_.data(), bytes_.size());
  }

  ~MappedFile() override {
    watch_.reset();
    if (!bytes_.empty()) (void)munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  std::string identity() const override { return file_.identity; }
  std::optional<std::string_view> Mapped() const override { return bytes_; }

  // Also compares the current length: in the last page of a cut file, the system delivers zeros without a signal.
  absl::Status CheckMapped() const override {
    if (bytes_.empty()) return absl::OkStatus();
    const std::optional<uint64_t> lost = watch_->lost();
    struct stat info;
    if (fstat(file_.descriptor.get(), &info) != 0) return PosixError(path_, "stat", errno);
    const uint64_t now = static_cast<uint64_t>(info.st_size);
    if (now < bytes_.size()) {
      return DataLoss(path_, ": the file was cut while it was mapped: it had ", bytes_.size(), " bytes, now it has ",
                      now, "; restore it and open it again");
    }
    if (!lost) return absl::OkStatus();
    return Internal(path_, ": cannot read at offset ", *lost,
                    " through its memory map: the device failed, or the file was cut and has grown again; see the "
                    "kernel log (dmesg)");
  }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), bytes_.size())) {
      return ReadPastEnd(path_, bytes_.size(), buffer.size(), offset);
    }
    if (buffer.empty()) return absl::OkStatus();
    std::memcpy(buffer.data(), bytes_.data() + offset, buffer.size());
    return CheckMapped();
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests) const override {
    // Gives all hints before the first page fault waits.
    for (const ReadRequest& request : requests) WillNeed(request.offset, request.buffer.size());
    return RandomAccessFile::ReadBatch(requests);
  }

  void WillNeed(uint64_t offset, uint64_t length) const override { Advise(offset, length, MADV_WILLNEED); }
  // The pages stay in the page cache, so reading them again needs no I/O.
  void WontNeed(uint64_t offset, uint64_t length) const override { Advise(offset, length, MADV_DONTNEED); }

 private:
  void Advise(uint64_t offset, uint64_t length, int advice) const {
    if (length == 0 || offset >= bytes_.size()) return;
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t begin = offset / page * page;
    const uint64_t end = offset + std::min(length, bytes_.size() - offset);
    (void)madvise(const_cast<char*>(bytes_.data()) + begin, end - begin, advice);
  }

  const std::string path_;
  const OpenedFile file_;
  const std::string_view bytes_;
  std::optional<MapWatch> watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenMappedFile(const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(OpenedFile file, OpenRegularFile(path, /*extra_flags=*/0));
  if (file.size == 0) return std::make_unique<MappedFile>(path, std::move(file), std::string_view(""));
  void* address = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.descriptor.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    if (error != ENODEV) return PosixError(path, "map", error);
    return NewPosixRandomAccessFile(path, std::move(file),
                                    StrCat("memory map refused (", ErrorText(error), "): buffered reads"));
  }
  const std::string_view bytes(static_cast<const char*>(address), file.size);
  return std::make_unique<MappedFile>(path, std::move(file), bytes);
}

}  // namespace shardkit::io
