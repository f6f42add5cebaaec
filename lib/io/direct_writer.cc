#include "io/direct_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/buffer.h"
#include "base/errors.h"
#include "base/exceptions.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "io/posix_error.h"

namespace shardkit::io {
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

}  // namespace

std::unique_ptr<WritableFile> NewDirectWritableFile(std::string path, FileDescriptor descriptor) {
  return std::make_unique<DirectWritableFile>(std::move(path), std::move(descriptor));
}

}  // namespace shardkit::io
