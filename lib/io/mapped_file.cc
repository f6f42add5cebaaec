#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "io/posix_error.h"
#include "io/posix_file.h"

namespace shardkit {
namespace {

class MappedFile final : public RandomAccessFile {
 public:
  // Takes over a mapping of `bytes`; an empty file has none.
  MappedFile(std::string path, std::string_view bytes) : path_(std::move(path)), bytes_(bytes) {}

  ~MappedFile() override {
    if (!bytes_.empty()) (void)munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  std::optional<std::string_view> Mapped() const override { return bytes_; }

  absl::Status ReadAt(uint64_t offset, std::span<char> buffer) const override {
    if (!RangeWithin(offset, buffer.size(), bytes_.size())) {
      return ReadPastEnd(path_, bytes_.size(), buffer.size(), offset);
    }
    if (!buffer.empty()) std::memcpy(buffer.data(), bytes_.data() + offset, buffer.size());
    return absl::OkStatus();
  }

  absl::Status ReadBatch(std::span<const ReadRequest> requests, int depth) const override {
    // All hints go out before the first page fault waits.
    if (depth > 1) {
      for (const ReadRequest& request : requests) WillNeed(request.offset, request.buffer.size());
    }
    return RandomAccessFile::ReadBatch(requests, depth);
  }

  void WillNeed(uint64_t offset, uint64_t length) const override { Advise(offset, length, MADV_WILLNEED); }
  // The pages stay in the page cache, and come back without I/O.
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
  const std::string_view bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenMappedFile(const std::string& path) {
  SHARDKIT_ASSIGN_OR_RETURN(OpenedFile file, OpenRegularFile(path, /*extra_flags=*/0));
  if (file.size == 0) return std::make_unique<MappedFile>(path, std::string_view(""));
  void* address = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.descriptor.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    if (error != ENODEV) return PosixError(path, "map", error);
    return NewPosixRandomAccessFile(path, std::move(file),
                                    StrCat("memory map refused (", ErrorText(error), "): buffered reads"));
  }
  return std::make_unique<MappedFile>(path, std::string_view(static_cast<const char*>(address), file.size));
}

}  // namespace shardkit
