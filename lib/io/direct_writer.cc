#include "io/direct_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/status_macros.h"
#include "io/posix_error.h"

namespace shardkit {
namespace {

constexpr size_t kStagingBytes = size_t{4} << 20;

class DirectWritableFile final : public WritableFile {
 public:
  DirectWritableFile(std::string path, FileDescriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  // What was appended is in the file, closed or not.
  ~DirectWritableFile() override { (void)BecomePlain(); }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return plain_ ? plain_->size() : written_ + staging_.size(); }

  absl::Status Append(std::string_view bytes) override {
    if (!error_.ok()) return error_;
    while (!plain_ && !bytes.empty()) {
      const size_t taken = std::min(bytes.size(), kStagingBytes - staging_.size());
      staging_.Append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (staging_.size() == kStagingBytes) SHARDKIT_RETURN_IF_ERROR(Remember(WriteStaging()));
    }
    return bytes.empty() ? absl::OkStatus() : plain_->Append(bytes);
  }

  absl::Status WriteAt(uint64_t offset, std::string_view bytes) override {
    SHARDKIT_RETURN_IF_ERROR(BecomePlain());
    return plain_->WriteAt(offset, bytes);
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

  // Writes the full staging buffer, whose size is a multiple of any device's blocks.
  absl::Status WriteStaging() {
    size_t done = 0;
    while (done < staging_.size()) {
      const ssize_t got = pwrite(descriptor_.get(), staging_.data() + done, staging_.size() - done,
                                 static_cast<off_t>(written_ + done));
      if (got > 0) {
        done += static_cast<size_t>(got);
      } else if (got == 0 || errno == EINVAL) {
        // Refused, or cut short at a length that no direct write can go on from.
        return GoPlain(done);
      } else if (errno != EINTR) {
        return PosixError(path_, "write", errno);
      }
      if (done % Buffer::kAlignment != 0) return GoPlain(done);
    }
    written_ += staging_.size();
    staging_.clear();
    return absl::OkStatus();
  }

  absl::Status BecomePlain() {
    if (!error_.ok()) return error_;
    return plain_ ? absl::OkStatus() : Remember(GoPlain(0));
  }

  // Hands the file over to ordinary writes, with what is staged from `done` on still to be written.
  absl::Status GoPlain(size_t done) {
    const int flags = fcntl(descriptor_.get(), F_GETFL);
    if (flags < 0 || fcntl(descriptor_.get(), F_SETFL, flags & ~O_DIRECT) < 0) {
      return PosixError(path_, "change the flags of", errno);
    }
    plain_ = NewPosixWritableFile(path_, std::move(descriptor_), written_ + done);
    const absl::Status status = plain_->Append(staging_.view().substr(done));
    staging_ = Buffer();
    return status;
  }

  const std::string path_;
  FileDescriptor descriptor_;
  Buffer staging_;
  uint64_t written_ = 0;
  std::unique_ptr<WritableFile> plain_;
  absl::Status error_;
};

}  // namespace

std::unique_ptr<WritableFile> NewDirectWritableFile(std::string path, FileDescriptor descriptor) {
  return std::make_unique<DirectWritableFile>(std::move(path), std::move(descriptor));
}

}  // namespace shardkit
