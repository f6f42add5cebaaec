#include "io/without_sync.h"

#include <utility>

#include "base/status_macros.h"

namespace shardkit::io {
namespace {

class UnsyncedFile final : public WritableFile {
 public:
  explicit UnsyncedFile(std::unique_ptr<WritableFile> base) : base_(std::move(base)) {}

  const std::string& path() const override { return base_->path(); }
  absl::Status Append(std::string_view bytes) override { return base_->Append(bytes); }
  absl::Status AppendPieces(std::span<const std::string_view> pieces) override { return base_->AppendPieces(pieces); }
  absl::StatusOr<bool> AppendShared(const RandomAccessFile& source, uint64_t offset, uint64_t length) override {
    return base_->AppendShared(source, offset, length);
  }
  uint64_t size() const override { return base_->size(); }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status Close() override { return base_->Close(); }

 private:
  const std::unique_ptr<WritableFile> base_;
};

class UnsyncedFiles final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override {
    return base().ReadFile(path, limit);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    SHARDKIT_ASSIGN_OR_RETURN(auto file, base().Create(path));
    return std::make_unique<UnsyncedFile>(std::move(file));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateForStreaming(const std::string& path) override {
    return IsUrl(path) ? base().CreateForStreaming(path) : Create(path);
  }
  absl::Status RenameIfAbsent(const std::string& from, const std::string& to) override {
    return base().RenameIfAbsent(from, to);
  }
  absl::Status SyncDirectory(const std::string& /*path*/) override { return absl::OkStatus(); }
};

}  // namespace

std::unique_ptr<FileSystem> WithoutSync(FileSystem& base) { return std::make_unique<UnsyncedFiles>(base); }

}  // namespace shardkit::io
